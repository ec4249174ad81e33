"""Calls to functions of `jax.numpy.linalg`."""

import jax.numpy as jnp
import numpy as np

from conformance.walks.arguments import (
    Table,
    call,
    complexes,
    each,
    floats,
    positive_definite,
    via,
)

A, TALL, BATCH, Z = floats(4, 4), floats(5, 3), floats(2, 3, 3), complexes(3, 3)
P, RIGHT, V, W = positive_definite(4, 4), floats(4, 2, seed=1), floats(4, seed=2), floats(4, seed=3)
HERMITIAN = Z + Z.conj().T

TABLE = Table(
    {
        **each("det inv slogdet", call(A), call(BATCH), call(Z)),
        **each("pinv matrix_rank cond svdvals", call(A), call(TALL), call(Z)),
        **each("matrix_transpose diagonal trace", call(A), call(BATCH), call(Z)),
        **each("cholesky", call(P), call(positive_definite(2, 3, 3)), call(P, upper=True)),
        **each("eigvalsh", call(P), call(A + A.T), call(HERMITIAN)),
        "eigh": [via(lambda x: _abs_last(jnp.linalg.eigh(x)), a) for a in (P, A + A.T, HERMITIAN)],
        "eig": [via(lambda x: jnp.sort(jnp.abs(jnp.linalg.eig(x)[0])), a) for a in (A, BATCH, Z)],
        "eigvals": [via(lambda x: jnp.sort(jnp.abs(jnp.linalg.eigvals(x))), a) for a in (A, Z)],
        "svd": [
            via(lambda x: [abs(part) for part in jnp.linalg.svd(x, full_matrices=False)], a)
            for a in (A, TALL, Z)
        ],
        "qr": [
            *(call(a, mode=mode) for a in (A, TALL, Z) for mode in ("reduced", "r")),
            call(TALL, mode="complete"),
            call(TALL.T),
        ],
        "lstsq": [call(TALL, floats(5, seed=1)), call(TALL, floats(5, 2, seed=1))],
        "solve": [call(A, RIGHT), call(BATCH, floats(2, 3, 1)), call(Z, complexes(3, 2))],
        "matrix_norm": [call(A), *(call(TALL, ord=o) for o in (1, 2, -2, np.inf, "nuc"))],
        "vector_norm": [call(V), *(call(A, axis=1, ord=o) for o in (0, 1, 3, np.inf, -np.inf))],
        "norm": [call(A), call(V, 3), call(BATCH, 2, axis=(1, 2)), call(Z, 1), call(A, axis=0)],
        "matrix_power": [*(call(A, n) for n in (0, 3, -2)), call(BATCH, 5)],
        "multi_dot": [call([TALL, floats(3, 4), RIGHT])],
        "cross": [call(floats(4, 3), floats(4, 3, seed=1))],
        "matmul": [call(A, RIGHT)],
        "outer": [call(V, W)],
        "vecdot": [call(V, W), call(A, W)],
        "tensordot": [call(A, P, axes=1)],
        "tensorinv": [call(floats(4, 2, 2), ind=1)],
        "tensorsolve": [call(floats(2, 2, 4), floats(2, 2))],
    }
)


def _abs_last(parts: tuple[jnp.ndarray, jnp.ndarray]) -> tuple[jnp.ndarray, jnp.ndarray]:
    """Removes the phases of the eigenvectors, which are arbitrary."""
    return parts[0], abs(parts[1])
