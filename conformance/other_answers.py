"""Answers that differ from JAX's and are just as correct.

Eigenvectors, singular vectors and the columns of an orthogonal factor have arbitrary phases, a
factorisation may leave half of a matrix undefined, and an unstable sort may swap equal elements.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.numbers import Arrays, tolerance


def are_right(group: str, params: dict[str, Any], args: Arrays, found: Arrays, jax: Arrays) -> bool:
    """Returns `True` if results that differ from JAX's solve the same problem."""
    check = _CHECKS.get(group)
    if check is None or len(found) != len(jax):
        return False
    found = [_from_parts(one, other) for one, other in zip(found, jax, strict=True)]
    if any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(found, jax, strict=True)):
        return False
    if not all(np.isfinite(array).all() for array in found):
        return False
    return check(params, args, found, jax)


def _from_parts(tensor: np.ndarray, expected: np.ndarray) -> np.ndarray:
    if not np.iscomplexobj(expected) or tensor.shape != (*expected.shape, 2):
        return tensor
    return (tensor[..., 0] + 1j * tensor[..., 1]).astype(expected.dtype)


def _same(one: np.ndarray, other: np.ndarray, like: np.ndarray) -> bool:
    """Returns `True` if two matrices agree, with errors relative to the largest element."""
    scale = max(1.0, np.abs(other).max(initial=0.0))
    return bool(np.abs(one - other).max(initial=0.0) <= 10 * tolerance(like.dtype)[0] * scale)


def _adjoint(matrix: np.ndarray) -> np.ndarray:
    return matrix.swapaxes(-1, -2).conj()


def _orthonormal(columns: np.ndarray) -> bool:
    return _same(_adjoint(columns) @ columns, np.eye(columns.shape[-1]), columns)


def _cholesky(_: dict[str, Any], args: Arrays, found: Arrays, jax: Arrays) -> bool:
    lower = np.tril(found[0])
    if _same(lower, np.tril(jax[0]), lower):
        return True
    positive = (np.diagonal(lower, 0, -2, -1).real > 0).all()
    return bool(positive) and _same(lower @ _adjoint(lower), args[0], lower)


def _qr(_: dict[str, Any], args: Arrays, found: Arrays, jax: Arrays) -> bool:
    q, r = found[0], found[1]
    matrix = args[0]
    if len(found) == 3:
        if not np.array_equal(found[2], jax[2]):
            return False
        matrix = np.take_along_axis(matrix, found[2][..., None, :], -1)
    return _same(q @ r, matrix, r) and _orthonormal(q) and _same(np.triu(r), r, r)


def _svd(_: dict[str, Any], args: Arrays, found: Arrays, jax: Arrays) -> bool:
    values = found[0]
    if not _same(values, jax[0], values):
        return False
    if len(found) == 1:
        return True
    left, right = found[1:]
    size = values.shape[-1]
    product = (left[..., :size] * values[..., None, :]) @ right[..., :size, :]
    return _same(product, args[0], left) and _orthonormal(left) and _orthonormal(_adjoint(right))


def _eigh(_: dict[str, Any], args: Arrays, found: Arrays, jax: Arrays) -> bool:
    vectors = max(found, key=np.ndim)
    values, expected = min(found, key=np.ndim), min(jax, key=np.ndim)
    product = args[0] @ vectors
    return (
        _same(values, expected, vectors)
        and _same(product, vectors * values[..., None, :], vectors)
        and _orthonormal(vectors)
    )


def _eig(params: dict[str, Any], args: Arrays, found: Arrays, jax: Arrays) -> bool:
    values, *vectors = found
    matrix = args[0].astype(values.dtype)
    if not all(map(_same_in_any_order, _rows(values), _rows(jax[0]))):
        return False
    sides = []
    if params.get("compute_left_eigenvectors"):
        sides.append((_adjoint(matrix), values.conj()))
    if params.get("compute_right_eigenvectors"):
        sides.append((matrix, values))
    for (side, roots), columns in zip(sides, vectors, strict=True):
        if not _same(side @ columns, columns * roots[..., None, :], columns):
            return False
        if not _same(np.linalg.norm(columns, axis=-2), np.ones(roots.shape), columns):
            return False
    return True


def _rows(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, array.shape[-1])


def _same_in_any_order(found: np.ndarray, expected: np.ndarray) -> bool:
    left = list(expected)
    for number in found:
        nearest = left.pop(int(np.argmin(np.abs(np.array(left) - number))))
        if not _same(number, nearest, expected):
            return False
    return True


def _sort(params: dict[str, Any], _: Arrays, found: Arrays, jax: Arrays) -> bool:
    if params.get("is_stable") or any(array.ndim != 1 for array in found):
        return False
    keys = params.get("num_keys", 1)
    if not all(np.array_equal(a, b) for a, b in zip(found[:keys], jax[:keys], strict=True)):
        return False
    rows = [sorted(zip(*(array.tolist() for array in side), strict=True)) for side in (found, jax)]
    return rows[0] == rows[1]


def _top_k(_: dict[str, Any], args: Arrays, found: Arrays, jax: Arrays) -> bool:
    values, places = found
    if values.ndim != 1 and args[0].ndim != values.ndim:
        return False
    if not ((places >= 0) & (places < args[0].shape[-1])).all():
        return False
    picked = np.take_along_axis(args[0], places.astype(np.int64), -1)
    return np.array_equal(values, jax[0]) and np.array_equal(picked, jax[0])


_CHECKS: dict[str, Callable[[dict[str, Any], Arrays, Arrays, Arrays], bool]] = {
    "approx_top_k": _top_k,
    "cholesky": _cholesky,
    "eig": _eig,
    "eigh": _eigh,
    "qr": _qr,
    "sort": _sort,
    "svd": _svd,
}
