"""Runs a JavaScript module in a headless Chrome. The page fetches its data from a local server."""

import http.server
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

from jax2onnx.errors import InvalidInputError

NAMES = ("google-chrome", "google-chrome-stable", "chromium", "chromium-browser", "chrome")

# The environment variable with the path of the browser, if it is not on PATH.
CHROME = "CHROME"

# The number of seconds that the browser may take.
PATIENCE = 120.0

_PAGE = """<!doctype html><script type="module">
const post = (path, body) => fetch(path, { method: 'POST', body });
try {
  const [{ run }, ort] = await Promise.all([import('/module.mjs'), import('/BUNDLE')]);
  const model = new Uint8Array(await (await fetch('/model')).arrayBuffer());
  const results = await run(ort, model, await (await fetch('/inputs')).json());
  await post('/results', JSON.stringify(results));
} catch (error) {
  await post('/error', `${error}`.includes('Error') ? `${error}` : `Error: ${error}`);
}
</script>"""


def run_module(
    module: str, folder: Path, bundle: str, model: bytes, inputs: str
) -> tuple[str, str]:
    """Calls `run` of a module on a model. Returns the results as JSON, and an error or nothing."""
    browser = find()
    pages = {
        "/": ("text/html", _PAGE.replace("BUNDLE", bundle).encode()),
        "/module.mjs": ("text/javascript", Path(module).read_bytes()),
        "/model": ("application/octet-stream", model),
        "/inputs": ("application/json", inputs.encode()),
    }
    answers: dict[str, str] = {}
    answered = threading.Event()

    class Handler(http.server.SimpleHTTPRequestHandler):
        extensions_map = {  # noqa: RUF012
            **http.server.SimpleHTTPRequestHandler.extensions_map,
            ".mjs": "text/javascript",
            ".wasm": "application/wasm",
        }

        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def do_GET(self) -> None:
            if self.path not in pages:
                return super().do_GET()
            return self._answer(*pages[self.path])

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answers[self.path] = body.decode()
            self._answer("text/plain", b"")
            answered.set()

        def _answer(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # The browser may still write to its folder while it is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                browser,
                "--headless=new",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                *_sandbox(),
                f"--user-data-dir={profile}",
                f"http://127.0.0.1:{server.server_port}/",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            if not answered.wait(PATIENCE):
                return "", f"Error: {browser} has not answered for {PATIENCE:g} s"
        finally:
            process.terminate()
            process.wait()
            server.shutdown()
            server.server_close()
    return answers.get("/results", ""), answers.get("/error", "")


def _sandbox() -> list[str]:
    """Returns the option without which the browser refuses to run as root."""
    return ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []


def find() -> str:
    for name in (os.environ.get(CHROME), *NAMES):
        path = shutil.which(name) if name else None
        if path:
            return path
    raise InvalidInputError(
        "no-chrome",
        "no Chrome or Chromium is on PATH",
        help=f"install one of {', '.join(NAMES)}, or set {CHROME} to its path",
    )
