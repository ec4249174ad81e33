"""Compares the values of a model with JAX's."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Tolerance:
    """How far apart two numbers may be: `atol + scale * largest + rtol * |expected|`.

    `largest` is the largest finite number of the array. The difference of large numbers is only as
    accurate as they are.
    """

    rtol: float
    atol: float
    scale: float = 0.0


EXACT = Tolerance(0.0, 0.0)

# By the element type that JAX computes in. Runtimes sum in a different order, and approximate
# functions such as `exp` differently.
BY_DTYPE = {
    "float64": Tolerance(1e-7, 1e-10, 1e-9),
    "float32": Tolerance(1e-3, 1e-6, 1e-4),
    "float16": Tolerance(2e-2, 1e-4, 1e-2),
    "bfloat16": Tolerance(1e-1, 1e-4, 5e-2),
}


def tolerance_of(dtype: np.dtype[Any], rtol: float | None, atol: float | None) -> Tolerance:
    """The tolerance for an element type. The user's values apply to all types except integers."""
    if dtype.kind in "iub":
        return EXACT
    known = BY_DTYPE.get(dtype.name, BY_DTYPE["bfloat16"])
    if rtol is None and atol is None:
        return known
    return Tolerance(known.rtol if rtol is None else rtol, known.atol if atol is None else atol)


def difference(
    expected: np.ndarray, found: np.ndarray, rtol: float | None = None, atol: float | None = None
) -> str | None:
    """A description of how two arrays differ; None if they are the same."""
    if expected.dtype != found.dtype:
        return f"element type: {expected.dtype} in JAX, {found.dtype} in the model"
    if expected.shape != found.shape:
        return f"shape: {list(expected.shape)} in JAX, {list(found.shape)} in the model"
    tolerance = tolerance_of(expected.dtype, rtol, atol)
    bad = _apart(expected, found, tolerance)
    count = int(np.count_nonzero(bad))
    if count == 0:
        return None
    share = 100 * count / bad.size
    worst = np.unravel_index(int(np.argmax(_distance(expected, found) * bad)), bad.shape)
    at = f" at [{', '.join(map(str, worst))}]" if worst else ""
    shown = f"{_number(expected[worst])} in JAX, {_number(found[worst])} in the model"
    return f"{count} of {bad.size} elements ({share:.3g} %); largest difference{at}: {shown}"


def _apart(expected: np.ndarray, found: np.ndarray, tolerance: Tolerance) -> Any:
    if tolerance == EXACT:
        return expected != found
    a, b = _wide(expected), _wide(found)
    finite = np.isfinite(a)
    largest = float(np.max(np.abs(a), where=finite, initial=0.0))
    with np.errstate(invalid="ignore"):
        allowed = tolerance.atol + tolerance.scale * largest + tolerance.rtol * np.abs(a)
        close = np.abs(a - b) <= allowed
    # Infinities and NaN must be in the same places.
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return ~np.where(finite & np.isfinite(b), close, same)


def _distance(expected: np.ndarray, found: np.ndarray) -> Any:
    a, b = _wide(expected), _wide(found)
    with np.errstate(invalid="ignore"):
        distance = np.abs(a - b)
    return np.where(np.isnan(distance) | np.isinf(distance), np.finfo(np.float64).max, distance)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def statistics(array: np.ndarray) -> str:
    """An array on one line: its range, mean and spread, and how many of its elements are NaN."""
    if array.size == 0:
        return "no elements"
    if array.dtype.kind == "b":
        return f"{np.count_nonzero(array)} of {array.size} are true"
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    parts = []
    if finite.size:
        parts = [
            f"min {_number(finite.min())}",
            f"max {_number(finite.max())}",
            f"mean {_number(finite.mean())}",
            f"std {_number(finite.std())}",
        ]
    nan, infinite = int(np.isnan(wide).sum()), int(np.isinf(wide).sum())
    parts += [f"{nan} NaN"] if nan else []
    parts += [f"{infinite} infinite"] if infinite else []
    return ", ".join(parts)


def _number(value: Any) -> str:
    return f"{value:.6g}" if np.asarray(value).dtype.kind not in "iub" else str(value)
