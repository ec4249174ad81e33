"""Compares the values of a model with JAX's."""

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jax2onnx._checking.runtime import is_float


@dataclass(frozen=True)
class Tolerance:
    """The largest permitted difference: `atol + scale * largest + rtol * |expected|`.

    `largest` is the largest finite number of the array. The difference of large numbers is only as
    accurate as they are.
    """

    rtol: float
    atol: float
    scale: float = 0.0


EXACT = Tolerance(0.0, 0.0)

# Tolerances by JAX's element type. Runtimes sum in a different order, and approximate functions
# such as `exp` differently.
BY_DTYPE = {
    "float64": Tolerance(1e-7, 1e-10, 1e-9),
    "float32": Tolerance(1e-3, 1e-6, 1e-4),
    "float16": Tolerance(2e-2, 1e-4, 1e-2),
    "bfloat16": Tolerance(1e-1, 1e-4, 5e-2),
    "int8": Tolerance(5e-2, 1e-4, 3e-2),
}

# From fine to coarse. A value that was computed in 8-bit integers is not one itself.
PRECISIONS = tuple(BY_DTYPE)


def within(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Returns an array whose finite numbers are within the range of a float. Infinities stay."""
    if not is_float(dtype) or not is_float(array.dtype):
        return array
    info: Any = jax.numpy.finfo
    limit = float(info(dtype).max)
    if limit >= float(info(array.dtype).max):
        return array
    return np.where(np.isinf(array), array, np.clip(array, -limit, limit)).astype(array.dtype)


def coarser(one: str, other: str) -> str:
    """Returns the coarser of two precisions. Types that are not listed count as bfloat16."""
    known = [name if name in PRECISIONS else "bfloat16" for name in (one, other)]
    return max(known, key=PRECISIONS.index)


def tolerance_of(precision: str, rtol: float | None, atol: float | None) -> Tolerance:
    """Returns the tolerance for floats. The user's values apply to all types except integers."""
    known = BY_DTYPE.get(precision, BY_DTYPE["bfloat16"])
    if rtol is None and atol is None:
        return known
    return Tolerance(known.rtol if rtol is None else rtol, known.atol if atol is None else atol)


def difference(
    expected: np.ndarray,
    found: np.ndarray,
    rtol: float | None = None,
    atol: float | None = None,
    *,
    precision: str | None = None,
    reference: str = "JAX",
    where: str = "in the model",
) -> str | None:
    """Describes the difference of two arrays. Returns None if they agree.

    With `precision`, floats may have different types: they were computed in that precision.
    `reference` and `where` tell the arrays apart in the description.
    """
    exact = expected.dtype.kind in "iub"
    if expected.dtype != found.dtype and (precision is None or exact or found.dtype.kind in "iub"):
        return f"element type: {expected.dtype} in {reference}, {found.dtype} {where}"
    if expected.shape != found.shape:
        return f"shape: {list(expected.shape)} in {reference}, {list(found.shape)} {where}"
    if precision is not None:
        # The lowest number of a type, as in masks, is that of another type after a conversion.
        expected = within(expected, found.dtype)
    tolerance = EXACT if exact else tolerance_of(precision or expected.dtype.name, rtol, atol)
    bad = _apart(expected, found, tolerance)
    count = int(np.count_nonzero(bad))
    if count == 0:
        return None
    share = 100 * count / bad.size
    worst = np.unravel_index(int(np.argmax(_distance(expected, found) * bad)), bad.shape)
    at = f" at [{', '.join(map(str, worst))}]" if worst else ""
    shown = f"{_number(expected[worst])} in {reference}, {_number(found[worst])} {where}"
    return f"{count} of {bad.size} elements ({share:.3g} %); largest difference{at}: {shown}"


@dataclass(frozen=True)
class Tolerances:
    """The user's tolerances, and the name of the reference in messages."""

    rtol: float | None = None
    atol: float | None = None
    reference: str = "JAX"

    def difference(
        self, expected: np.ndarray, found: np.ndarray, precision: str | None = None, **words: str
    ) -> str | None:
        """Describes the difference of two arrays, as the function of this name does."""
        words = {"reference": self.reference, **words}
        return difference(expected, found, self.rtol, self.atol, precision=precision, **words)


def unrounded(expected: np.ndarray, found: np.ndarray, reference: str = "JAX") -> str | None:
    """Describes the elements of a wider float that are not rounded to the type of the reference."""
    if not is_float(expected.dtype) or not is_float(found.dtype):
        return None
    if found.dtype.itemsize <= expected.dtype.itemsize or expected.shape != found.shape:
        return None
    inside = within(found, expected.dtype)
    count = int(np.count_nonzero(~_same(inside.astype(expected.dtype).astype(found.dtype), inside)))
    if count == 0:
        return None
    return (
        f"{count} of {found.size} elements are not rounded to {expected.dtype}, "
        f"as they are in {reference}"
    )


def _same(a: np.ndarray, b: np.ndarray) -> Any:
    return (a == b) | (np.isnan(a) & np.isnan(b))


@dataclass(frozen=True)
class Error:
    """The distance of a value from the expected one. Elements that are NaN or the same infinity in
    both do not count. One that is finite in only one of them is infinitely wrong.

    Attributes:
        largest: The largest absolute difference.
        total: The sum of all absolute differences.
        count: The number of elements.
        noise: The squared differences, relative to the squares of the right numbers.
    """

    largest: float
    total: float
    count: int
    noise: float


def error_of(expected: np.ndarray, found: np.ndarray) -> Error | None:
    """Returns the error of a float; None for other types and for a different shape."""
    if expected.shape != found.shape or expected.dtype.kind in "iubc" or not expected.size:
        return None
    a, b = _wide(expected), _wide(found)
    finite = np.isfinite(a) & np.isfinite(b)
    if (~finite & ~_same(a, b)).any():
        return Error(math.inf, math.inf, int(a.size), math.inf)
    a, b = np.where(finite, a, 0.0), np.where(finite, b, 0.0)
    off = np.abs(a - b)
    signal = float(np.sum(np.square(a)))
    squares = float(np.sum(np.square(off)))
    noise = squares / signal if signal else (0.0 if squares == 0.0 else math.inf)
    return Error(float(off.max()), float(off.sum()), int(finite.sum()), noise)


def same_nan(name: str, expected: np.ndarray) -> str | None:
    """Describes the NaN of two arrays that agree. Returns None if there are none."""
    count = not_numbers(expected)
    of = f"{count} of {expected.size} element{'s' * (expected.size != 1)}"
    return f"`{name}` is NaN on both sides in {of}" if count else None


def not_numbers(array: np.ndarray) -> int:
    """Counts the elements that are NaN."""
    return 0 if array.dtype.kind in "iub" else int(np.sum(np.isnan(_wide(array))))


def not_finite(expected: np.ndarray, found: np.ndarray) -> str | None:
    """Counts the elements that are NaN or infinite only in `found`. Returns None for zero."""
    if expected.shape != found.shape or found.dtype.kind in "iub":
        return None
    a, b = _wide(expected), _wide(found)
    nan = int(np.sum(np.isnan(b) & ~np.isnan(a)))
    infinite = int(np.sum(np.isinf(b) & np.isfinite(a)))
    parts = [f"{nan} NaN"] * bool(nan) + [f"{infinite} infinite"] * bool(infinite)
    return " and ".join(parts) or None


def _apart(expected: np.ndarray, found: np.ndarray, tolerance: Tolerance) -> Any:
    if tolerance == EXACT:
        return expected != found
    a, b = _wide(expected), _wide(found)
    finite = np.isfinite(a)
    largest = float(np.max(np.abs(a), where=finite, initial=0.0))
    with np.errstate(invalid="ignore"):
        allowed = tolerance.atol + tolerance.scale * largest + tolerance.rtol * np.abs(a)
        close = np.abs(a - b) <= allowed
    # Infinities and NaN must be at the same positions.
    return ~np.where(finite & np.isfinite(b), close, _same(a, b))


def _distance(expected: np.ndarray, found: np.ndarray) -> Any:
    a, b = _wide(expected), _wide(found)
    with np.errstate(invalid="ignore"):
        distance = np.abs(a - b)
    return np.where(np.isnan(distance) | np.isinf(distance), np.finfo(np.float64).max, distance)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def statistics(array: np.ndarray) -> str:
    """Summarises an array on one line: range, mean, spread, NaN and infinite elements."""
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
