"""Reports on models that are to be deployed."""

from pathlib import Path

import jax.numpy as jnp
import onnx
import onnx.parser
import pytest

from harness.onnxruntime_web import node, package
from jax2onnx import InvalidInputError, readiness, to_onnx


@pytest.fixture
def path(tmp_path: Path) -> Path:
    weights = jnp.ones((4, 3000))
    file = tmp_path / "model.onnx"
    to_onnx(lambda x: jnp.tanh(x @ weights), [("B", 4)], return_mode="file", output_path=file)
    return file


def test_a_model_that_runs_is_ready(path: Path) -> None:
    report = readiness(path)
    assert report.ready
    assert str(report).startswith("ready for onnxruntime\n  yes  the model is valid\n")
    assert report.facts["inputs"] == "x: float32[B, 4]"
    assert report.facts["sizes that are known at run time"] == "B"
    assert report.facts["bytes"] > 4 * 3000 * 4


def test_what_a_runtime_lacks_is_named(path: Path) -> None:
    model = onnx.load(path)
    model.graph.node[-1].op_type = "Tangle"
    report = readiness(model)
    assert not report.ready
    assert [check.ok for check in report.checks] == [False, False]
    assert "Tangle" in report.checks[0].message
    assert str(report).startswith("not ready for onnxruntime\n  NO   the model is valid: ")


def test_onnxruntime_web_runs_the_model(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node()
    monkeypatch.setenv("ONNXRUNTIME_WEB", str(package()))
    assert readiness(path, "onnxruntime-web").ready
    # There is no such kernel.
    text = (
        '<ir_version: 8, opset_import: ["": 18]> g (double[3] x) => (double[3] y) { y = Cosh(x) }'
    )
    double = onnx.parser.parse_model(text)
    report = readiness(double, "onnxruntime-web")
    assert [check.ok for check in report.checks] == [True, False]


def test_other_runtimes_are_an_error(path: Path) -> None:
    with pytest.raises(InvalidInputError, match="choose one of: onnxruntime, onnxruntime-web"):
        readiness(path, "toaster")  # type: ignore[arg-type]
