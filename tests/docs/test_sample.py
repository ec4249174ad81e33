"""The sample in the demonstration, including line numbers."""

import runpy
from pathlib import Path

import onnx
import pytest

from harness.provenance_of import CALLSITE, all_nodes, metadata
from jax2onnx.testing import expect_golden

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "stacktrace_sample.py"
GOLDEN = Path(__file__).parents[1] / "snapshots" / "sandbox_stacktrace_sample.txt"


def test_the_sample_is_as_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert "onnxruntime" in capsys.readouterr().out
    model = onnx.load(tmp_path / "build" / "sandbox_stacktrace_sample.onnx")
    expect_golden(model, GOLDEN)
    text = SCRIPT.read_text().split("\n")
    line = text.index("    return jnp.sin(x) * 2.0") + 1
    assert {metadata(node)[CALLSITE] for node in all_nodes(model)} == {f"fn:{line}"}
