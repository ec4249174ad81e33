"""Takes the screenshots of the documentation: `docs/images/view*.png` and `docs/images/netron.png`.

Run it from the root of the repository, with a browser and the packages of the test group.
"""

import socket
import tempfile
from pathlib import Path

import netron
import onnx
from profiled_model import export, gpt_page, page_of

# profiled_model makes the modules of the tests importable.
from harness.browser import browser  # isort: skip
from models.nnx.gpt import gpt
from models.nnx.mlp import mlp

IMAGES = Path("docs/images")
SIZE = (1280, 800)


def take_view(folder: Path) -> None:
    page = gpt_page(folder, layers=12, width=256, heads=8, vocabulary=2048, length=128)
    with browser(folder, *SIZE) as tab:
        tab.open(page.as_uri())
        tab.evaluate("setAll(false); setTheme('light')")
        node = "/blocks.4/attn/MatMul_1"
        tab.evaluate(f"jump(nodes.findIndex((node) => node.name === {node!r}))")
        tab.frame()
        tab.evaluate("scroll.scrollTop -= 60; code.scrollTop = 250")
        tab.screenshot(IMAGES / "view.png")
        tab.evaluate("keepNode(null); showView('flame')")
        tab.screenshot(IMAGES / "view-flame.png")
        tab.evaluate("showView('parameters')")
        tab.screenshot(IMAGES / "view-parameters.png")


def take_against(folder: Path) -> None:
    """Takes the picture of a comparison: the same model with another activation."""
    old = export(folder / "before.onnx", gpt(layers=4), stacktrace_metadata="sourcemap")
    new = folder / "after.onnx"
    proto = onnx.load(old)
    for node in proto.graph.node:
        if node.op_type == "Gelu":
            node.op_type = "Relu"
            del node.attribute[:]
    onnx.save(proto, new)
    page = page_of(old, "--against", str(new))
    with browser(folder, *SIZE) as tab:
        tab.open(page.as_uri())
        tab.evaluate("setTheme('light'); showChange(raw.against.groups[0][2][0][5])")
        tab.evaluate("new Promise((done) => setTimeout(done, 300))")
        tab.screenshot(IMAGES / "view-against.png")


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
        tab.wait("document.querySelectorAll('.node-item-type').length >= 8")
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
    for take in (take_view, take_against, take_netron):
        with tempfile.TemporaryDirectory() as temporary:
            take(Path(temporary))
