"""The first example of a page produces the output that the page shows."""

import re
import runpy
from pathlib import Path

import pytest

from jax2onnx import _core

TOP = Path(__file__).parents[2]
PAGES = {"README.md": "mlp", "docs/debugging.md": "ranker", "docs/functions.md": "net"}


def _lines(table: str) -> list[str]:
    """Returns the lines of a table without the line numbers of rules, which change often."""
    return [re.sub(r"(\.lower|\.rewrite):\d+", r"\1", line).rstrip() for line in table.splitlines()]


@pytest.mark.parametrize("page", PAGES)
def test_the_example(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    name, text = PAGES[page], (TOP / page).read_text()
    pattern = rf"```python\n(.*?)```.*?```\n\$ jax2onnx show {name}\.onnx\n(.*?)```"
    code, shown = re.findall(pattern, text, re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    Path(f"{name}.py").write_text(code)
    runpy.run_path(f"{name}.py")
    capfd.readouterr()
    assert _core.main(["show", f"{name}.onnx"]) == 0
    assert _lines(capfd.readouterr().out) == _lines(shown)
