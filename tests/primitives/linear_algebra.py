"""Matrix products, factorizations and solvers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import linalg

from primitives.operands import (
    BATCH,
    B,
    N,
    Programs,
    V,
    X,
    bf16,
    bind,
    boolean,
    c64,
    f32,
    i8,
    i32,
    symbolic,
)


def solved(a: Any, b: Any) -> Any:
    def solve(_: Any, b: Any) -> Any:
        return b / jnp.diag(a)

    return lax.custom_linear_solve(lambda x: a @ x, b, solve, solve)


def positive(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Returns Hermitian matrices with distinct positive eigenvalues."""
    size = shape[-1]
    drawn = np.random.default_rng(size).uniform(-1, 1, (*shape, 2)) @ np.array([1, 1j])
    matrix = drawn if np.issubdtype(dtype, np.complexfloating) else drawn.real
    diagonal = np.diag(np.arange(1, size + 1))
    return (matrix @ matrix.conj().swapaxes(-1, -2) + diagonal).astype(dtype)


def product(*numbers: Any) -> Callable[..., Any]:
    return lambda a, b: lax.dot_general(a, b, numbers)


SQUARE = f32(3, 3)

PROGRAMS: Programs = {
    "cholesky": (linalg.cholesky, positive(2, 2)),
    "cholesky_update": (linalg.cholesky_update, f32(2, 2), f32(2)),
    "custom_linear_solve": (solved, np.diag(np.float32([2, -1, 4])), f32(3)),
    "eig": (linalg.eig, f32(2, 2)),
    "eigh": (linalg.eigh, positive(2, 2)),
    "geqrf": (bind("geqrf"), f32(2, 2)),
    "hessenberg": (linalg.hessenberg, SQUARE),
    "householder_product": (linalg.householder_product, f32(3, 2), f32(2)),
    "lu": (linalg.lu, f32(2, 2)),
    "lu_pivots_to_permutation": (lambda p: linalg.lu_pivots_to_permutation(p, 3), np.int32([1, 2])),
    "ormqr": (bind("ormqr", left=True, transpose=False), f32(3, 2), f32(2), f32(3, 1)),
    "qr": (lambda x: linalg.qr(x, full_matrices=False), f32(2, 2)),
    "schur": (linalg.schur, c64(2, 2)),
    "schur.real": (linalg.schur, f32(2, 2)),
    "svd": (lambda x: linalg.svd(x, full_matrices=False), f32(2, 2)),
    "symmetric_product": (
        lambda a, c: linalg.symmetric_product(a, c, alpha=2.0, beta=0.5),
        f32(2, 3),
        f32(2, 2),
    ),
    "triangular_solve": (
        lambda a, b: linalg.triangular_solve(a, b, left_side=True, lower=True),
        SQUARE,
        f32(3, 2),
    ),
    "tridiagonal": (lambda a: linalg.tridiagonal(a, lower=True), SQUARE),
    "tridiagonal_solve": (linalg.tridiagonal_solve, f32(3), f32(3), f32(3), f32(3, 1)),
    "cholesky.batch": (linalg.cholesky, positive(2, 3, 3)),
    "eig.left": (lambda a: linalg.eig(a, compute_left_eigenvectors=True), f32(2, 2)),
    "eig.values": (
        lambda a: linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False),
        SQUARE,
    ),
    "eigh.batch": (linalg.eigh, positive(2, 3, 3)),
    "eigh.symbolic": (lambda x: linalg.eigh(x)[1], symbolic("b, b")),
    "geqrf.tall": (bind("geqrf"), f32(3, 2)),
    "lu.wide": (linalg.lu, f32(2, 3)),
    "lu.batch": (linalg.lu, f32(2, 3, 3)),
    "ormqr.right": (bind("ormqr", left=False, transpose=True), f32(3, 2), f32(2), f32(1, 3)),
    "qr.full": (lambda x: linalg.qr(x, full_matrices=True), f32(3, 2)),
    "qr.pivoting": (lambda x: linalg.qr(x, pivoting=True), f32(2, 2)),
    "svd.full": (lambda x: linalg.svd(x, full_matrices=True), f32(3, 2)),
    "svd.symbolic_values": (lambda x: linalg.svd(x, compute_uv=False), symbolic("b, 3")),
    "svd.values": (lambda x: linalg.svd(x, compute_uv=False), f32(2, 3)),
    "triangular_solve.right": (
        lambda a, b: linalg.triangular_solve(a, b, lower=False, transpose_a=True),
        SQUARE,
        f32(2, 3),
    ),
    "triangular_solve.unit": (
        lambda a, b: linalg.triangular_solve(a, b, left_side=True, unit_diagonal=True),
        SQUARE,
        f32(3, 1),
    ),
    "custom_linear_solve.transposed": (
        lambda a, b: jax.grad(lambda b: solved(a, b).sum())(b),
        np.diag(np.float32([2, -1, 4])),
        f32(3),
    ),
    "dot_general": (jnp.matmul, X, f32(3, 4)),
    "dot_general.batch": (jnp.matmul, f32(5, 2, 3), f32(5, 3, 4)),
    "dot_general.inner": (jnp.dot, V, V),
    "dot_general.outer": (product(((), ()), ((), ())), f32(2), f32(3)),
    "dot_general.many_axes": (
        product(((0, 2), (1, 0)), ((1,), (2,))),
        f32(2, 5, 3),
        f32(3, 2, 5),
    ),
    "dot_general.integers": (
        lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32),
        i8(2, 3),
        i8(3, 4),
    ),
    "dot_general.symbolic": (jnp.matmul, BATCH, f32(3, 4)),
    "dot_general.bfloat16": (jnp.matmul, bf16(2, 3), bf16(3, 4)),
    "dot_general.bools": (lambda a, b: jnp.matmul(a, b), B, boolean(3, 4)),
    "dot_general.wide_integers": (jnp.matmul, N, i32(3, 4)),
    "dot_general.symbolic_inner": (lambda x: x.T @ x, BATCH),
}
