"""How far outputs are off, and how few exceptions keep them within a tolerance."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def floats(outputs: Sequence[Any]) -> list["np.ndarray[Any, Any]"]:
    """The outputs that are floats, in double precision."""
    arrays = (np.asarray(output) for output in outputs)
    return [array.astype(np.float64) for array in arrays if array.dtype.kind in "fV"]


def relative_error(found: Sequence[Any], right: Sequence[Any]) -> float:
    """The root of the mean square of all differences, divided by that of the right numbers."""
    pairs = list(zip(found, right, strict=True))
    differences = sum(float(np.sum((one - other) ** 2)) for one, other in pairs)
    size = sum(float(np.sum(other**2)) for _, other in pairs)
    return float(np.sqrt(differences / size)) if size else float(differences > 0)


def fewest(most: int, error: Callable[[int], float], tolerance: float) -> int:
    """A small number of exceptions, up to `most`, with which the error is within the tolerance.

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
