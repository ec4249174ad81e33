"""Linear algebra of exported programs: StableHLO's operations, and calls of LAPACK."""

import re
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from jax2onnx import _jax


def cholesky(x: Any, *, lower: bool) -> Any:
    """Returns a triangular factor."""
    if not lower:
        x = jnp.conj(jnp.swapaxes(x, -1, -2))
    factor = lax.linalg.cholesky(x, symmetrize_input=False)
    return factor if lower else jnp.conj(jnp.swapaxes(factor, -1, -2))


def triangular_solve(
    a: Any, b: Any, *, left_side: bool, lower: bool, unit_diagonal: bool, transpose: str
) -> Any:
    """Solves a triangular system."""
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


def _potrf(attributes: str, x: Any) -> Any:
    return [cholesky(x, lower=_letter(attributes, "uplo") == "L"), _succeeded(x)]


def _getrf(_: str, x: Any) -> Any:
    factors, pivots, _permutation = lax.linalg.lu(x)
    return [factors, pivots + 1, _succeeded(x)]


def _geqrf(_: str, x: Any) -> Any:
    return _jax.geqrf(x)


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


RULES: dict[str, Callable[..., Any]] = {
    "geqrf": _geqrf,
    "gesdd": _gesdd,
    "getrf": _getrf,
    "heevd": _syevd,
    "orgqr": _orgqr,
    "potrf": _potrf,
    "syevd": _syevd,
    "trsm": _trsm,
    "ungqr": _orgqr,
}

# Rules of two matrices.
OF_TWO = (_orgqr, _trsm)
