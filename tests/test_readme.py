"""The README's example gives what the README shows."""

import re
import runpy
from pathlib import Path

import pytest

from jax2onnx import _core

README = (Path(__file__).parent.parent / "README.md").read_text()


def _lines(table: str) -> list[str]:
    """The lines of a table, less the lines of rules, which move with every new rule."""
    return [re.sub(r"(\.lower|\.rewrite):\d+", r"\1", line).rstrip() for line in table.splitlines()]


def test_the_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, shown = re.findall(
        r"```python\n(.*?)```.*?```\n\$ jax2onnx show mlp.onnx\n(.*?)```", README, re.DOTALL
    )[0]
    monkeypatch.chdir(tmp_path)
    Path("mlp.py").write_text(code)
    runpy.run_path("mlp.py")
    assert _core.main(["show", "mlp.onnx"]) == 0
    assert _lines(capfd.readouterr().out) == _lines(shown)
