"""Other tools that change an exported model."""

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx.version_converter
import onnxruntime
import pytest

from jax2onnx import to_onnx


def export(fn: Callable[..., Any], args: Any, **options: Any) -> Any:
    return to_onnx(fn, list(args), **{"stacktrace_metadata": "sourcemap", **options})


def by_shape_inference(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(model)


def by_version_converter(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    return onnx.version_converter.convert_version(model, 24)


def by_onnxslim(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    onnxslim = pytest.importorskip("onnxslim")
    with contextlib.redirect_stdout(io.StringIO()):
        return onnxslim.slim(onnx.ModelProto.FromString(model.SerializeToString()))


def by_runtime(level: str) -> Callable[[onnx.ModelProto, Path], onnx.ModelProto]:
    def optimise(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.optimized_model_filepath = str(folder / "optimised.onnx")
        options.log_severity_level = 3
        bytes_ = model.SerializeToString()
        onnxruntime.InferenceSession(bytes_, options, providers=["CPUExecutionProvider"])
        return onnx.load(folder / "optimised.onnx")

    return optimise


TOOLS = {
    "onnx.shape_inference": by_shape_inference,
    "onnx.version_converter": by_version_converter,
    "onnxslim": by_onnxslim,
    "onnxruntime, basic": by_runtime("ORT_ENABLE_BASIC"),
    "onnxruntime, extended": by_runtime("ORT_ENABLE_EXTENDED"),
}
