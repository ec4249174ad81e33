"""Errors of outputs, and the search for the fewest exceptions within a tolerance."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jax2onnx._checking.allclose import arguments
from jax2onnx._checking.runtime import as_tensor


def feeds_of(args: Sequence[Any], options: Mapping[str, Any]) -> list["np.ndarray[Any, Any]"]:
    """Returns the inputs of a model for the arguments of a function, given options of `to_onnx`."""
    double = bool(options.get("enable_double_precision"))
    given = jax.tree.leaves(arguments(args, options.get("input_params"), double=double))
    return [as_tensor(leaf) for leaf in given]


def floats(outputs: Sequence[Any]) -> list["np.ndarray[Any, Any]"]:
    """Returns the outputs that are floats, in double precision."""
    arrays = (np.asarray(output) for output in outputs)
    return [array.astype(np.float64) for array in arrays if array.dtype.kind in "fV"]


def relative_error(found: Sequence[Any], right: Sequence[Any]) -> float:
    """Returns the root mean square of all differences, divided by that of the right numbers."""
    pairs = list(zip(found, right, strict=True))
    differences = sum(float(np.sum((one - other) ** 2)) for one, other in pairs)
    size = sum(float(np.sum(other**2)) for _, other in pairs)
    return float(np.sqrt(differences / size)) if size else float(differences > 0)


def fewest(most: int, error: Callable[[int], float], tolerance: float) -> int:
    """Searches for a small number of exceptions, up to `most`, that keeps the error within the
    tolerance.

    `most` has to be enough. More exceptions should not make the error larger.
    """
    least = 0
    while least < most:
        middle = (least + most) // 2
        if error(middle) <= tolerance:
            most = middle
        else:
            least = middle + 1
    return least
