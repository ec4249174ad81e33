"""Comparison of numbers with JAX's."""

from collections.abc import Sequence

import numpy as np

from conformance.runtime import as_tensor

Arrays = Sequence[np.ndarray]

# Relative and absolute tolerance by JAX's result type; whole numbers are exact.
_TOLERANCE = {
    "float64": (1e-6, 1e-8),
    "float32": (1e-4, 1e-5),
    "float16": (2e-2, 5e-3),
    "bfloat16": (5e-2, 2e-2),
}
_EIGHT_BITS = (2.5e-1, 6e-2)


def tolerance(dtype: np.dtype) -> tuple[float, float]:
    """Returns the relative and the absolute tolerance of an element type."""
    if dtype.kind in "biu":
        return 0.0, 0.0
    if dtype.kind == "c":
        dtype = dtype.type(0).real.dtype
    return _TOLERANCE.get(dtype.name, _EIGHT_BITS)


def difference(found: Arrays, expected: Arrays, *, exact: bool = False) -> str:
    """Describes differences from JAX's outputs in type, shape or numbers; empty if none."""
    if len(found) != len(expected):
        return f"{len(found)} results, JAX has {len(expected)}"
    texts = (_difference(one, other, exact) for one, other in zip(found, expected, strict=True))
    return "; ".join(f"result {i}: {text}" for i, text in enumerate(texts) if text)


def _difference(found: np.ndarray, expected: np.ndarray, exact: bool) -> str:
    rtol, atol = (0.0, 0.0) if exact else tolerance(expected.dtype)
    tensor = as_tensor(expected)
    if found.dtype != tensor.dtype:
        return f"type {found.dtype}, JAX has {tensor.dtype}"
    if found.shape != tensor.shape:
        return f"shape {found.shape}, JAX has {tensor.shape}"
    close = _close(found, tensor, rtol, atol)
    if np.iscomplexobj(expected):
        # A component that is tiny compared with the other has no correct digits.
        close |= _whole_close(found, tensor, rtol, atol)
    if close.all():
        return ""
    wrong = np.argwhere(~close)
    at = tuple(wrong[0])
    return (
        f"{len(wrong)} of {close.size} numbers differ, "
        f"at {[int(i) for i in at]} {found[at]}, JAX has {tensor[at]}"
    )


def _close(found: np.ndarray, expected: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    if expected.dtype.kind in "biu":
        return np.asarray(found == expected)
    with np.errstate(all="ignore"):
        one, other = found.astype(np.float64), expected.astype(np.float64)
        return np.isclose(one, other, rtol, atol, equal_nan=True)


def _whole_close(found: np.ndarray, expected: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """Compares complex numbers by their distance, for both components of a trailing axis."""
    with np.errstate(all="ignore"):
        distance = np.linalg.norm(found.astype(np.float64) - expected, axis=-1, keepdims=True)
        size = np.linalg.norm(expected.astype(np.float64), axis=-1, keepdims=True)
        return np.isfinite(size) & (distance <= atol + rtol * size)
