"""Reports on models that are to be deployed."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import onnx
import onnx.parser
import pytest

from harness.onnxruntime_web import node, package
from jax2onnx import InvalidInputError, _core, allclose, export, readiness, to_onnx


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


def test_sizes_without_a_name_are_unknown() -> None:
    graph = "g (float[?, 3] x) => (float[?, 3] y) { y = Cosh(x) }"
    text = f'<ir_version: 8, opset_import: ["": 18]> {graph}'
    report = readiness(onnx.parser.parse_model(text))
    assert report.ready
    assert report.facts["inputs"] == "x: float32[?, 3]"


def test_an_unknown_operator_is_named(path: Path) -> None:
    model = onnx.load(path)
    model.graph.node[-1].op_type = "Tangle"
    report = readiness(model)
    assert not report.ready
    assert [check.ok for check in report.checks] == [False, True, False]
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
    assert [check.ok for check in report.checks] == [True, True, False]


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


@pytest.mark.parametrize("target", _core.targets())
def test_limits_of_targets_are_those_of_exports(target: Any) -> None:
    newest = _core.targets()[target].newest_opset
    to_onnx(jnp.tanh, [("B", 4)], target=target, opset=newest)
    with pytest.raises(InvalidInputError):
        to_onnx(jnp.tanh, [("B", 4)], target=target, opset=newest + 1)


@pytest.mark.parametrize("target", ["any", "cuda", "rten", "tensorrt", "webgpu"])
def test_onnxruntime_stands_for_targets_that_cannot_be_run(target: Any, path: Path) -> None:
    report = readiness(path, target)
    assert report.ready, report
    assert report.checks[-1].name == "onnxruntime loads and runs it"
    assert report.facts.get("not run in") == (None if target == "any" else target)


def test_iree_limits_the_opset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jax2onnx._checking.readiness._try", lambda runnable, name: None)
    model = to_onnx(jnp.tanh, [("B", 4)], opset=23)
    report = readiness(model, "iree")
    assert not report.ready
    assert report.checks[1].message == "opset 23 is newer than 22; export it with target='iree'"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["iree", "openvino", "tract"])
def test_other_runtimes_run_the_model(target: Any, path: Path) -> None:
    package = Path(__file__).parents[2] / "build" / "runtimes" / target
    if not package.is_dir():
        pytest.skip(f"{target} is not in build/runtimes")
    code = f"import jax2onnx; print(jax2onnx.readiness({str(path)!r}, {target!r}))"
    environment = os.environ | {"PYTHONPATH": str(package)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"ready for {target}\n"), done.stdout


def test_a_runtime_that_is_not_installed_is_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tract", None)
    with pytest.raises(InvalidInputError, match="tract is not installed"):
        readiness(path, "tract")


def test_other_runtimes_are_an_error(path: Path) -> None:
    with pytest.raises(InvalidInputError, match="choose one of: any, cuda, "):
        readiness(path, "toaster")  # type: ignore[arg-type]


def test_a_missing_data_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    weights = jnp.ones((4, 900))
    export(lambda x: x @ weights, "f32[B,4]", output_path=file, external_data=True)
    (tmp_path / "model.onnx.data").rename(tmp_path / "other.data")
    for check in (readiness, lambda path: allclose(jnp.tanh, path, [(2, 4)])):
        with pytest.raises(
            InvalidInputError, match=r"(?s)no-weights.*model\.onnx\.data`.*together"
        ):
            check(file)
