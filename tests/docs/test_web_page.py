"""The page of `docs/deployment.md` shows in a browser what JAX computes."""

import functools
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.browser import browser, find_browser
from harness.onnxruntime_web import Files, package

PAGE = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text()

pytestmark = pytest.mark.slow


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Serves a folder."""
    handler = functools.partial(Files, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_page(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find_browser()
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "documented"}
    for code in blocks("python"):
        if "class Classifier" in code or "web.save" in code:
            file = tmp_path / "exported.py"
            file.write_text(code)
            exec(compile(code, str(file), "exec"), names)
    for file in (package() / "dist").glob("ort*"):
        if file.suffix in (".mjs", ".wasm"):
            (tmp_path / file.name).symlink_to(file)
    (text,) = blocks("html")
    (tmp_path / "index.html").write_text(text)
    expected = names["classifier"](names["image"])[0]
    (tmp_path / "browser").mkdir()
    with browser(tmp_path / "browser") as tab:
        tab.open(f"{address}/index.html")
        tab.wait("document.getElementById('result').textContent.split('\\n').length === 10")
        shown = tab.evaluate("document.getElementById('result').textContent")
    np.testing.assert_allclose(np.array(shown.split(), float), expected, rtol=1e-4)
