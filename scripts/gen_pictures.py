"""Takes the screenshots of the documentation: `docs/images/*.png`.

Run it from the root of the repository, with a browser and the packages of the test group. Names,
such as `functions`, choose pictures.
"""

import importlib
import socket
import sys
import tempfile
from pathlib import Path

import netron
import onnx
import onnxruntime
from profiled_model import export, gpt_page, page_of

# profiled_model makes the modules of the tests importable.
from harness.browser import browser  # isort: skip
from models.nnx.gpt import gpt
from models.nnx.gpt_step import gpt_step
from models.nnx.mlp import mlp

IMAGES = Path("docs/images")
SIZE = (1280, 800)
SMALL = (1000, 520)


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


def take_small(folder: Path, name: str, model: Path, node: str, *options: str) -> None:
    """Takes a small picture of a page with a selected node, which must exist."""
    page = page_of(model, *options)
    with browser(folder, *SMALL) as tab:
        tab.open(page.as_uri())
        tab.evaluate("setTheme('light')")
        index = tab.evaluate(f"nodes.findIndex((node) => node.name === {node!r})")
        if index < 0:
            names = tab.evaluate("nodes.map((node) => node.name).join(' ')")
            raise SystemExit(f"{name}: there is no node {node}, but {names}")
        tab.evaluate(f"jump({index})")
        tab.frame()
        tab.screenshot(IMAGES / f"{name}.png")


def take_functions(folder: Path) -> None:
    path = export(
        folder / "gpt.onnx", gpt(layers=4), stacktrace_metadata="sourcemap", functions="modules"
    )
    take_small(folder, "functions", path, "/blocks.1/Block")


def take_control_flow(folder: Path) -> None:
    """Takes the picture of a loop, and a node of its body."""
    (folder / "newton.py").write_text(NEWTON)
    sys.path.insert(0, str(folder))
    module = importlib.import_module("newton")
    path = export(folder / "newton.onnx", (module.root, ((3,),)), stacktrace_metadata="sourcemap")
    take_small(folder, "control-flow", path, "/Div", "--source", str(folder))


def take_source_map(folder: Path) -> None:
    """Takes the picture of a model that onnxruntime optimised: one node stands for two lines."""
    path = export(folder / "mlp.onnx", mlp(), stacktrace_metadata="sourcemap")
    optimised = folder / "optimised.onnx"
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(optimised)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(optimised).graph.node
    fused = next(node.name for node in nodes if node.op_type == "QuickGelu")
    take_small(folder, "source-map", optimised, fused)


def take_language_model(folder: Path) -> None:
    path = export(folder / "step.onnx", gpt_step(), stacktrace_metadata="sourcemap")
    nodes = onnx.load(path).graph.node
    update = next(node.name for node in nodes if node.op_type == "ScatterND")
    take_small(folder, "language-model", path, update)


NEWTON = """import jax
import jax.numpy as jnp


def root(a):
    \"\"\"Newton's method for the square root.\"\"\"

    def unfinished(x):
        return jnp.any(jnp.abs(x * x - a) > 1e-4)

    def step(x):
        better = (x + a / x) / 2
        return better

    return jax.lax.while_loop(unfinished, step, jnp.ones_like(a))
"""


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    every = {
        "view": take_view,
        "against": take_against,
        "netron": take_netron,
        "functions": take_functions,
        "control-flow": take_control_flow,
        "source-map": take_source_map,
        "language-model": take_language_model,
    }
    for take in (every[name] for name in sys.argv[1:] or every):
        with tempfile.TemporaryDirectory() as temporary:
            take(Path(temporary))
