"""Compares results with those of double precision."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jax2onnx import _jax
from jax2onnx._checking.compare import error_of
from jax2onnx._checking.runtime import as_tensor, is_float
from jax2onnx._reducing.case import Case
from jax2onnx._reducing.replay import Replay


def in_double_precision(case: Case) -> list[np.ndarray] | None:
    """Returns JAX's results with all floats in 64 bits; None if JAX refuses."""

    def widened(dtype: Any) -> Any:
        return np.dtype(np.float64) if is_float(dtype) else dtype

    def wide(array: Any) -> Any:
        array = jax.numpy.asarray(array)
        return array.astype(widened(array.dtype))

    try:
        with _jax.precision(double=True):
            consts, args = map(wide, case.closed.consts), map(wide, case.args)
            doubled = Replay(dtype=widened).case(case, list(args), list(consts))
            return [as_tensor(array) for array in doubled.expected]
    except Exception:  # an equation may need 32 bits
        return None


def distance(exact: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float:
    """Returns the largest error of some results; infinite if other elements are finite."""
    largest = 0.0
    for one, other in zip(exact, found, strict=True):
        if not is_float(one.dtype):
            largest = max(largest, float("inf") if (one != other).any() else 0.0)
            continue
        error = error_of(one, other.astype(np.float64))
        largest = max(largest, 0.0 if error is None else error.largest)
    return largest
