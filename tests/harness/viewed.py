"""Pages of `jax2onnx view`, and the positions of their elements."""

from pathlib import Path
from typing import Any

from harness.browser import Page
from jax2onnx import _core, to_onnx

SEEN = "[...document.querySelectorAll('.r.lit')].map((row) => row.item.name)"
LIT = "[...state.strong].map((index) => nodes[index].name)"
PICKED = "document.querySelector('.r.pick')?.item.name ?? null"
STRONG = "[...document.querySelectorAll('.l.lit')].map((line) => Number(line.dataset.line))"
INSPECTOR = "document.getElementById('inspector').innerText"


def line(text: str) -> str:
    """Returns an expression for the line of the source that contains `text`."""
    return f"[...document.querySelectorAll('.l')].find((l) => l.textContent.includes({text!r}))"


def row(name: str) -> str:
    """Returns an expression for the row of a node, by the end of its name."""
    return f"[...document.querySelectorAll('.r')].find((r) => r.item.name?.endsWith({name!r}))"


def module(label: str) -> str:
    """Returns an expression for the row of a module."""
    return f"[...document.querySelectorAll('.r.module')].find((r) => r.item.label === {label!r})"


def pick(page: Page, name: str) -> None:
    """Clicks on the row of a node, by the end of its name, after scrolling to it."""
    page.evaluate(f"reveal(nodes.find((node) => node.name.endsWith({name!r})).index)")
    page.frame()
    page.click(row(name))


def export(path: Path, fn: Any, args: Any, **options: Any) -> Path:
    """Exports a model with its source."""
    options = {"stacktrace_metadata": "sourcemap", "source_text": True, **options}
    to_onnx(fn, list(args), return_mode="file", output_path=str(path), **options)
    return path


def view(model: Path, *options: str | Path, page: Path | None = None) -> Path:
    """Writes the page of a model."""
    page = page or model.with_suffix(".html")
    assert _core.main(["view", str(model), "-o", str(page), *map(str, options)]) == 0
    return page


def make(folder: Path, fn: Any, args: Any, **options: Any) -> Path:
    """Writes the page of a function."""
    return view(export(folder / "model.onnx", fn, args, **options))


def show(tab: Page, page: Path, fragment: str = "") -> None:
    """Opens a page and waits until it is drawn."""
    tab.leave()
    tab.open(page.as_uri() + fragment)
    tab.wait("document.querySelector('.r')")
    tab.frame()


def source_line(path: str, text: str) -> int:
    """Returns the number of the line that contains `text`."""
    lines = Path(path).read_text().splitlines()
    return next(number for number, content in enumerate(lines, 1) if text in content)
