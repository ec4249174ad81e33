"""Factorizations, solvers and Fourier transforms."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import linalg

from primitives.operands import Programs, V, bind, c64, f32, spec, symbolic


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


def fft(kind: str, *sizes: int) -> Callable[..., Any]:
    return lambda x: lax.fft(x, kind, sizes)


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
    "fft": (fft("RFFT", 4), V),
    "fft.inverse": (fft("IFFT", 4), c64(4)),
    "fft.symbolic": (jnp.fft.fft, symbolic("b", jnp.complex64)),
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
    "fft.odd": (fft("FFT", 3), c64(3)),
    "fft.long": (fft("FFT", 128), c64(128)),
    "fft.long_real": (fft("RFFT", 128), f32(128)),
    "fft.prime": (fft("FFT", 7), c64(2, 7)),
    "fft.long_prime": (fft("FFT", 131), c64(131)),
    "fft.factors": (fft("FFT", 2 * 67), c64(2 * 67)),
    "fft.two_axes": (fft("FFT", 2, 4), c64(2, 4)),
    "fft.real_odd": (fft("RFFT", 5), f32(5)),
    "fft.real_inverse": (fft("IRFFT", 6), c64(4)),
    "fft.real_two_axes": (fft("RFFT", 2, 4), f32(2, 4)),
    "fft.inverse_two_axes": (fft("IRFFT", 2, 4), c64(2, 3)),
    "fft.double": (fft("FFT", 2), spec(jnp.complex128, 2)),
}
