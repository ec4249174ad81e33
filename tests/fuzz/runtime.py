"""Exported programs in ONNX Runtime."""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime as ort

from fuzz.program import Program
from harness.checking import as_tensor
from jax2onnx import _core, to_onnx


@contextmanager
def optimizer(*, fuel: int | None) -> Iterator[None]:
    """Limits the optimiser to `fuel` changes."""
    convert = _core.convert

    def limited(jaxpr: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        return convert(jaxpr, replace(options, fuel=fuel), *args, **kwargs)

    with mock.patch.object(_core, "convert", limited):
        yield


def export(program: Program, outputs: Sequence[str], *, fuel: int | None) -> onnx.ModelProto:
    """Exports a program."""
    with optimizer(fuel=fuel):
        model = to_onnx(
            program.function(outputs), program.specs(), enable_double_precision=program.double
        )
    onnx.checker.check_model(model, full_check=True)
    return model


def session(model: onnx.ModelProto, *, optimize: bool) -> ort.InferenceSession:
    options = ort.SessionOptions()
    levels = ort.GraphOptimizationLevel
    level = levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def run(
    run_session: ort.InferenceSession, inputs: Sequence[np.ndarray], dtypes: Sequence[np.dtype]
) -> list[np.ndarray]:
    """Returns the outputs for flat inputs; `dtypes` determines which of them are complex."""
    feeds = {}
    for info, array in zip(run_session.get_inputs(), inputs, strict=True):
        feeds[info.name] = _to_runtime(as_tensor(array))
    names = [info.name for info in run_session.get_outputs()]
    found = dict(zip(names, run_session.run_with_ort_values(names, feeds), strict=True))
    return [_from_runtime(found[n], dtype) for n, dtype in zip(names, dtypes, strict=True)]


BFLOAT16 = np.dtype(jnp.bfloat16)


def _to_runtime(array: np.ndarray) -> ort.OrtValue:
    array = np.array(array, order="C")
    if array.dtype == BFLOAT16:
        code = onnx.TensorProto.BFLOAT16
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), code)
    return ort.OrtValue.ortvalue_from_numpy(array)


def _from_runtime(value: ort.OrtValue, dtype: np.dtype) -> np.ndarray:
    if value.data_type() == "tensor(bfloat16)":
        size = value.tensor_size_in_bytes()
        data = ctypes.string_at(value.data_ptr(), size) if size else b""
        array = np.frombuffer(data, BFLOAT16).reshape(value.shape())
    else:
        array = np.array(value.numpy())
    if dtype.kind != "c":
        return array
    return lax_complex(array[..., 0], array[..., 1], dtype)


def lax_complex(real: np.ndarray, imag: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Combines two parts into a complex array; `real + 1j * imag` would spread NaN."""
    found = np.empty(real.shape, dtype)
    found.real, found.imag = real, imag
    return found
