"""Takes the screenshots of the documentation: `docs/images/view.png` and `docs/images/netron.png`.

Run it from the root of the repository, with a browser and the packages of the test group.
"""

import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import netron
import numpy as np
import onnxruntime

from jax2onnx import _core, to_onnx

sys.path.insert(0, "tests")

from browser import browser
from models.nnx.gpt import gpt
from models.nnx.mlp import mlp

IMAGES = Path("docs/images")
SIZE = (1280, 800)


def export(path: Path, model: tuple[Any, tuple[Any, ...]], **options: Any) -> Path:
    fn, args = model
    to_onnx(fn, list(args), return_mode="file", output_path=str(path), **options)
    return path


def profile(model: Path, args: tuple[Any, ...]) -> Path:
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(model)
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = {i.name: np.asarray(arg) for i, arg in zip(session.get_inputs(), args, strict=True)}
    for _ in range(20):
        session.run(None, feeds)
    return Path(session.end_profiling())


def take_view(folder: Path) -> None:
    model = gpt(layers=12, width=256, heads=8, vocabulary=2048, length=128)
    path = export(folder / "gpt.onnx", model, stacktrace_metadata="sourcemap")
    page = folder / "gpt.html"
    options = ["--profile", str(profile(path, model[1])), "--skip", "5"]
    if _core.main(["view", str(path), "-o", str(page), *options]):
        raise SystemExit("the browser shows no page")
    with browser(folder, *SIZE) as tab:
        tab.open(page.as_uri())
        tab.evaluate("setAll(false); setTheme('light')")
        node = "/blocks.4/attn/bhqk,bkhd->bqhd/MatMul"
        tab.evaluate(f"jump(nodes.findIndex((node) => node.name === {node!r}))")
        tab.frame()
        tab.evaluate("scroll.scrollTop -= 60; code.scrollTop = 250")
        tab.screenshot(IMAGES / "view.png")


def take_netron(folder: Path) -> None:
    path = export(folder / "mlp.onnx", mlp(), stacktrace_metadata="minimal")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = free.getsockname()
    netron.start(str(path), place, browse=False)
    with browser(folder, *SIZE) as tab:
        tab.open("http://{}:{}".format(*place))
        tab.wait("document.body.classList.contains('notification')")
        tab.click("document.getElementById('message-button')")
        tab.wait("document.body.className === 'default'")
        tab.wait("document.querySelectorAll('.node-item-type').length > 20")
        tab.click(
            "[...document.querySelectorAll('.node-item-type')]"
            ".find((item) => item.querySelector('title').textContent === '/first/Gemm')"
        )
        tab.wait("document.querySelectorAll('.sidebar-item').length > 5")
        tab.evaluate("new Promise((done) => setTimeout(done, 600))")
        tab.screenshot(IMAGES / "netron.png")
    netron.stop(place)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    for take in (take_view, take_netron):
        with tempfile.TemporaryDirectory() as temporary:
            take(Path(temporary))
