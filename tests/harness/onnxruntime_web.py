"""onnxruntime-web in Node and in a headless Chromium, on WebAssembly or on a software WebGPU."""

import functools
import http.server
import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from harness import browser

SOFTWARE_GPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
BUNDLES = {"wasm": "ort.wasm.min.mjs", "webgpu": "ort.webgpu.min.mjs"}


def package() -> Path:
    """Returns the folder of the npm package; skips the test if it is not installed."""
    folder = Path(os.environ.get("ONNXRUNTIME_WEB", browser.NODE_MODULES / "onnxruntime-web"))
    if not (folder / "dist").is_dir():
        pytest.skip("onnxruntime-web is not here")
    return folder


def node() -> str:
    """Returns the path of Node; skips the test if it is missing."""
    path = shutil.which("node")
    if path is None:
        pytest.skip("node is not on PATH")
    return path


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves files of a folder, and an empty page."""

    extensions_map = {  # noqa: RUF012
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def do_GET(self) -> None:
        if self.path != "/page.html":
            return super().do_GET()
        text = b"<!doctype html><title>onnxruntime-web</title>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        return None

    def log_message(self, *args: Any) -> None:
        pass


class WebPage(browser.Page):
    """A page that has loaded onnxruntime-web, for the provider `wasm` or `webgpu`."""

    def __init__(self, folder: Path, where: Path, provider: str) -> None:
        handler = functools.partial(Files, directory=str(where / "dist"))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        super().__init__(folder, flags=SOFTWARE_GPU if provider == "webgpu" else ())
        self.open(f"http://127.0.0.1:{self._server.server_port}/page.html")
        self.evaluate((Path(__file__).parent / "onnxruntime_web.js").read_text())
        self.call("load", BUNDLES[provider], provider)

    def call(self, function: str, *arguments: Any) -> Any:
        """Calls a function of `onnxruntime_web.js`."""
        given = ", ".join(json.dumps(argument) for argument in arguments)
        text = self.evaluate(f"web.{function}({given}).then(JSON.stringify)")
        return None if text is None else json.loads(text)

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._server.shutdown()
        self._server.server_close()
