"""Runs models in ONNX Runtime, on all element types that it and JAX share."""

import ctypes
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnxruntime

# Types that ONNX Runtime's NumPy interface does not accept: their names there, and ONNX's type
# codes.
_RAW = {
    ml_dtypes.bfloat16: ("tensor(bfloat16)", 16),
    ml_dtypes.float8_e4m3fn: ("tensor(float8e4m3fn)", 17),
    ml_dtypes.float8_e4m3fnuz: ("tensor(float8e4m3fnuz)", 18),
    ml_dtypes.float8_e5m2: ("tensor(float8e5m2)", 19),
    ml_dtypes.float8_e5m2fnuz: ("tensor(float8e5m2fnuz)", 20),
}
_NUMBERS = {np.dtype(kind): number for kind, (_, number) in _RAW.items()}
_TYPES = {name: np.dtype(kind) for kind, (name, _) in _RAW.items()}


def load(model: bytes) -> onnxruntime.InferenceSession:
    """Creates a session with default optimisation on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run(session: onnxruntime.InferenceSession, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Runs a model on flat inputs in their order, and returns its outputs."""
    names = [value.name for value in session.get_inputs()]
    tensors = [np.array(as_tensor(array), order="C") for array in inputs]
    feeds = {name: _feed(t) for name, t in zip(names, tensors, strict=True)}
    outputs = [value.name for value in session.get_outputs()]
    return [_fetch(value) for value in session.run_with_ort_values(outputs, feeds)]


def as_array(value: Any) -> np.ndarray:
    """Converts a JAX value to an array; keys become their underlying integers."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def as_tensor(array: np.ndarray) -> np.ndarray:
    """Converts an array to its tensor in a model: complex numbers become a trailing axis of two."""
    return np.stack([array.real, array.imag], -1) if np.iscomplexobj(array) else array


def _feed(tensor: np.ndarray) -> onnxruntime.OrtValue:
    number = _NUMBERS.get(tensor.dtype)
    if number is None:
        return onnxruntime.OrtValue.ortvalue_from_numpy(tensor)
    bits = tensor.view(f"u{tensor.dtype.itemsize}")
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, number)


def _fetch(value: onnxruntime.OrtValue) -> np.ndarray:
    dtype = _TYPES.get(value.data_type())
    if dtype is None:
        return np.array(value.numpy())
    size = value.tensor_size_in_bytes()
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    return np.frombuffer(data, dtype).reshape(value.shape())
