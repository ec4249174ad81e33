"""The appearance of an export in Netron."""

import contextlib
import io
import socket
from collections.abc import Iterator
from pathlib import Path

import netron
import pytest

from harness.browser import browser, find_browser
from jax2onnx import to_onnx
from models.nnx.mlp import mlp

SIDEBAR = "document.getElementById('sidebar')?.innerText ?? ''"
VALUES = (
    "[...document.querySelectorAll('.sidebar-item')].map((item) =>"
    " [item.querySelector('input')?.value ?? '', item.innerText])"
)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    find_browser()
    fn, args = mlp()
    path = tmp_path / "mlp.onnx"
    to_onnx(
        fn, list(args), return_mode="file", output_path=str(path), stacktrace_metadata="minimal"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = free.getsockname()
    with contextlib.redirect_stdout(io.StringIO()):
        netron.start(str(path), place, browse=False)
    yield "http://{}:{}".format(*place)
    with contextlib.redirect_stdout(io.StringIO()):
        netron.stop(place)


def test_a_node_shows_its_line_and_rule(address: str, tmp_path: Path) -> None:
    with browser(tmp_path) as page:
        page.open(address)
        page.wait("document.body.classList.contains('notification')")
        page.evaluate("document.getElementById('message-button').click()")
        page.wait("document.body.className === 'default'")
        page.wait("document.querySelectorAll('.node-item-type').length >= 8")
        page.click(
            "[...document.querySelectorAll('.node-item-type')]"
            ".find((item) => item.querySelector('title').textContent === '/second/Gemm')"
        )
        page.wait(f"({SIDEBAR}).toUpperCase().includes('METADATA')")
        shown = dict(page.evaluate(VALUES))
    source = Path("tests/models/nnx/mlp.py").read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if "silu" in text)
    assert shown["pkg.jax2onnx.callsite"].strip() == f"MLP.__call__:{line}"
    assert shown["pkg.jax2onnx.plugin"].strip().startswith("matmul_add_to_gemm.rewrite:")
