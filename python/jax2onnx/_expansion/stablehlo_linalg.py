"""Linear algebra of exported programs: StableHLO's operations, and calls of LAPACK."""

import re
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from jax2onnx import _jax


def cholesky(x: Any, *, lower: bool) -> Any:
    if not lower:
        x = jnp.conj(jnp.swapaxes(x, -1, -2))
    factor = lax.linalg.cholesky(x, symmetrize_input=False)
    return factor if lower else jnp.conj(jnp.swapaxes(factor, -1, -2))


def triangular_solve(
    a: Any, b: Any, *, left_side: bool, lower: bool, unit_diagonal: bool, transpose: str
) -> Any:
    return lax.linalg.triangular_solve(
        a,
        b,
        left_side=left_side,
        lower=lower,
        unit_diagonal=unit_diagonal,
        transpose_a=transpose in ("TRANSPOSE", "ADJOINT"),
        conjugate_a=transpose == "ADJOINT",
    )


def _letter(attributes: str, name: str) -> str:
    """Returns an option of LAPACK, which is the code of a letter."""
    found = re.search(rf"\b{name} = (\d+)", attributes)
    return chr(int(found[1])) if found else ""


def _succeeded(x: Any) -> Any:
    return jnp.zeros(x.shape[:-2], jnp.int32)


def _getrf(_: str, x: Any) -> Any:
    factors, pivots, _permutation = lax.linalg.lu(x)
    return [factors, pivots + 1, _succeeded(x)]


def _orgqr(_: str, x: Any, scales: Any) -> Any:
    return lax.linalg.householder_product(x, scales)


def _syevd(attributes: str, x: Any) -> Any:
    lower = _letter(attributes, "uplo") == "L"
    vectors, values = lax.linalg.eigh(x, lower=lower, symmetrize_input=False, sort_eigenvalues=True)
    return [vectors, values, _succeeded(x)]


def _gesdd(attributes: str, x: Any) -> Any:
    mode = _letter(attributes, "mode")
    if mode == "N":
        return [x, lax.linalg.svd(x, compute_uv=False), None, None, _succeeded(x)]
    u, s, v = lax.linalg.svd(x, full_matrices=mode == "A")
    return [x, s, u, v, _succeeded(x)]


def _trsm(attributes: str, a: Any, b: Any) -> Any:
    names = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}
    return triangular_solve(
        a,
        b,
        left_side=_letter(attributes, "side") == "L",
        lower=_letter(attributes, "uplo") == "L",
        unit_diagonal=_letter(attributes, "diag") == "U",
        transpose=names[_letter(attributes, "trans_x")],
    )


def _gees(attributes: str, x: Any) -> Any:
    with_vectors = _letter(attributes, "mode") == "V"
    triangle, *vectors = lax.linalg.schur(x, compute_schur_vectors=with_vectors)
    # Programs read no eigenvalues here. Those of real matrices have two parts.
    values = [None] * (2 if jnp.iscomplexobj(x) else 3)
    return [triangle, vectors[0] if vectors else None, *values, _succeeded(x)]


def _geev(attributes: str, x: Any) -> Any:
    left, right = (_letter(attributes, f"compute_{side}") == "V" for side in ("left", "right"))
    values, *vectors = lax.linalg.eig(
        x, compute_left_eigenvectors=left, compute_right_eigenvectors=right
    )
    found = [vectors.pop(0) if is_wanted else None for is_wanted in (left, right)]
    parts = [values] if jnp.iscomplexobj(x) else [lax.real(values), lax.imag(values)]
    return [*parts, *found, _succeeded(x)]


def _gtsv(_: str, below: Any, diagonal: Any, above: Any, b: Any) -> Any:
    solved = lax.linalg.tridiagonal_solve(below, diagonal, above, b)
    return [None, None, None, solved, _succeeded(b)]


def _sytrd(attributes: str, x: Any) -> Any:
    lower = _letter(attributes, "uplo") == "L"
    return [*lax.linalg.tridiagonal(x, lower=lower), _succeeded(x)]


RULES: dict[str, Callable[..., Any]] = {
    "gees": _gees,
    "geev": _geev,
    "gehrd": lambda _, x: [*lax.linalg.hessenberg(x), _succeeded(x)],
    "geqrf": lambda _, x: _jax.geqrf(x),
    "gesdd": _gesdd,
    "getrf": _getrf,
    "gtsv": _gtsv,
    "heevd": _syevd,
    "hetrd": _sytrd,
    "orgqr": _orgqr,
    "potrf": lambda given, x: [cholesky(x, lower=_letter(given, "uplo") == "L"), _succeeded(x)],
    "syevd": _syevd,
    "sytrd": _sytrd,
    "trsm": _trsm,
    "ungqr": _orgqr,
}

# The numbers of arrays that rules take, unless it is one.
OPERANDS = {_gtsv: 4, _orgqr: 2, _trsm: 2}
