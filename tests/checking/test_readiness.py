"""Reports on models that are to be deployed."""

import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import onnx
import onnx.parser
import pytest

from harness.onnxruntime_web import node, package
from jax2onnx import InvalidInputError, readiness, to_onnx
from jax2onnx._checking.readiness import RELEASES


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


def test_older_releases_limit_the_opset_and_the_ir_version(path: Path) -> None:
    assert readiness(path, "onnxruntime>=1.17").ready
    newest = to_onnx(jnp.tanh, [("B", 4)], opset=23)
    assert readiness(newest, "onnxruntime>=1.23").ready
    report = readiness(newest, "onnxruntime>=1.22")
    assert [check.ok for check in report.checks] == [True, False, True]
    assert "opset 23 is newer than 22" in str(report)
    newest = to_onnx(jnp.tanh, [("B", 4)], opset=20)
    newest.ir_version = 10
    assert "IR version 10 is newer than 9" in str(readiness(newest, "onnxruntime>=1.17"))


@pytest.mark.parametrize(("release", "limits"), RELEASES.items())
def test_limits_of_releases_are_those_of_exports(
    release: Any, limits: tuple[int, int], path: Path
) -> None:
    to_onnx(jnp.tanh, [("B", 4)], target=release, opset=limits[0])
    with pytest.raises(InvalidInputError):
        to_onnx(jnp.tanh, [("B", 4)], target=release, opset=limits[0] + 1)


def test_a_runtime_that_is_not_installed_is_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tract", None)
    with pytest.raises(InvalidInputError, match="tract is not installed"):
        readiness(path, "tract")


def test_other_runtimes_are_an_error(path: Path) -> None:
    with pytest.raises(InvalidInputError, match="choose one of: onnxruntime, onnxruntime-web"):
        readiness(path, "toaster")  # type: ignore[arg-type]
