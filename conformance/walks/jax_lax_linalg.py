"""Calls to functions of `jax.lax.linalg`."""

import jax.numpy as jnp
import numpy as np
from jax.lax import linalg

from conformance.walks.arguments import Table, call, complexes, floats, positive_definite, via

A, TALL, BATCH, Z = floats(4, 4), floats(5, 3), floats(2, 3, 3), complexes(3, 3)
P, RIGHT = positive_definite(4, 4), floats(4, 2, seed=1)
HERMITIAN = Z + Z.conj().T

TABLE = Table(
    {
        "cholesky": [
            call(P),
            call(positive_definite(2, 3, 3)),
            call(HERMITIAN + 9 * np.eye(3, dtype=np.complex64)),
        ],
        "cholesky_update": [
            via(lambda p, w: linalg.cholesky_update(jnp.linalg.cholesky(p).T, w), P, RIGHT[:, 0])
        ],
        "eig": [via(lambda x: jnp.sort(jnp.abs(linalg.eig(x)[0])), a) for a in (A, BATCH, Z)],
        "eigh": [via(lambda x: [abs(part) for part in linalg.eigh(x)], a) for a in (P, HERMITIAN)],
        "hessenberg": [call(A), call(BATCH), call(Z)],
        "householder_product": [call(TALL, floats(3, seed=1)), call(Z, complexes(2, seed=2))],
        "lu": [call(A), call(TALL), call(BATCH), call(Z)],
        "lu_pivots_to_permutation": [
            call(np.int32([2, 2, 2, 3]), 4),
            call(np.int32([[1, 2], [0, 1]]), 3),
        ],
        "ormqr": [call(TALL, floats(3, seed=1), floats(5, 2), left=True, transpose=False)],
        "qdwh": [via(lambda x: linalg.qdwh(x)[:2], a) for a in (A, TALL, Z)],
        "qr": [
            call(A),
            call(TALL),
            call(TALL.T),
            call(TALL, full_matrices=False),
            call(A, pivoting=True),
            call(TALL, pivoting=True, full_matrices=False),
            call(Z, pivoting=True),
        ],
        "schur": [
            via(lambda a: from_schur(*linalg.schur(a), block=2), A),
            via(lambda a: from_schur(*linalg.schur(a), block=2), P),
            via(lambda z: from_schur(*linalg.schur(z)), Z),
        ],
        "svd": [
            *(
                via(lambda x: [abs(p) for p in linalg.svd(x, full_matrices=False)], a)
                for a in (A, TALL, Z)
            ),
            *(call(a, compute_uv=False) for a in (A, TALL, TALL.T, Z)),
        ],
        "symmetric_product": [call(TALL, positive_definite(5, 5)), call(A, P, alpha=2.0, beta=0.5)],
        "triangular_solve": [
            call(A, RIGHT, left_side=True, lower=True),
            call(A, RIGHT.T, transpose_a=True),
            call(Z, complexes(3, 2), left_side=True, conjugate_a=True, transpose_a=True),
            call(A, RIGHT, left_side=True, unit_diagonal=True),
        ],
        "tridiagonal": [call(A + A.T), call(HERMITIAN)],
        "tridiagonal_solve": [call(floats(4), floats(4, seed=1) + 9, floats(4, seed=2), RIGHT)],
    }
)


def from_schur(triangle: jnp.ndarray, basis: jnp.ndarray, block: int = 1) -> list[jnp.ndarray]:
    """Returns invariants under the order of the eigenvalues and the phases, which are arbitrary.

    The real form has blocks of two rows.
    """
    adjoint = basis.conj().T
    return [basis @ triangle @ adjoint, basis @ adjoint, jnp.tril(triangle, -block)]
