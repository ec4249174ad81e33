"""The sample that the demonstration shows, line numbers included."""

import runpy
from pathlib import Path

import onnx
import pytest

from jax2onnx.testing import expect_golden
from provenance_of import CALLSITE, PLUGIN, all_nodes, metadata

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "examples" / "stacktrace_sample.py"
GOLDEN = Path(__file__).parent / "snapshots" / "sandbox_stacktrace_sample.txt"


RULES = ROOT / "crates" / "lower" / "src" / "rules" / "mod.rs"


def _check_rule(node: onnx.NodeProto) -> None:
    """The rule's line is that of its entry in the table. It moves with every new rule, so it is
    compared with the table and left out of the stored expectation.
    """
    (entry,) = (entry for entry in node.metadata_props if entry.key == PLUGIN)
    rule, line = entry.value.split(":")
    text = RULES.read_text().split("\n")[int(line) - 1]
    assert text.strip().startswith(f'"{rule.removesuffix(".lower")}" => ')
    entry.value = rule


def test_the_sample_is_as_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert "onnxruntime" in capsys.readouterr().out
    model = onnx.load(tmp_path / "build" / "sandbox_stacktrace_sample.onnx")
    for node in all_nodes(model):
        _check_rule(node)
    expect_golden(model, GOLDEN)
    text = SCRIPT.read_text().split("\n")
    line = text.index("    return jnp.sin(x) * 2.0") + 1
    assert {metadata(node)[CALLSITE] for node in all_nodes(model)} == {f"fn:{line}"}
