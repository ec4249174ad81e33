"""Calls to functions of `jax.scipy.linalg`."""

import jax.numpy as jnp
import jax.scipy.linalg as jsp
import numpy as np

from conformance.walks.arguments import Table, call, complexes, each, floats, positive_definite, via
from conformance.walks.jax_lax_linalg import from_schur

A, TALL, BATCH, Z = floats(4, 4), floats(5, 3), floats(2, 3, 3), complexes(3, 3)
P, RIGHT, V, W = positive_definite(4, 4), floats(4, 2, seed=1), floats(4), floats(4, seed=1)

TABLE = Table(
    {
        **each("det inv expm", call(A), call(BATCH), call(Z)),
        **each("hadamard helmert hilbert invhilbert invpascal pascal dft", call(4)),
        **each("circulant companion fiedler fiedler_companion", call(V)),
        **each("hankel toeplitz", call(V), call(V, W)),
        "block_diag": [call(A, TALL), call(V, W)],
        "cho_factor": [call(P), call(P, lower=True)],
        "cho_solve": [via(lambda p, b: jsp.cho_solve(jsp.cho_factor(p), b), P, RIGHT)],
        "cholesky": [call(P), call(P, lower=True)],
        "convolution_matrix": [call(V, 3), call(V, 3, mode="same")],
        "eigh": [call(P, eigvals_only=True), via(lambda p: [abs(x) for x in jsp.eigh(p)], P)],
        "eigh_tridiagonal": [call(V, W[:3], eigvals_only=True)],
        "expm_frechet": [call(A, P)],
        "funm": [via(lambda p: jnp.abs(jsp.funm(p, jnp.exp, disp=False)[0]), P)],
        "hessenberg": [call(A), call(A, calc_q=True)],
        "leslie": [call(V, W[:3])],
        "lu": [call(A), call(TALL), call(A, permute_l=True)],
        "lu_factor": [call(A), call(BATCH)],
        "lu_solve": [via(lambda a, b: jsp.lu_solve(jsp.lu_factor(a), b, trans=1), A, RIGHT)],
        "polar": [call(A), call(TALL, side="right"), call(A, method="svd")],
        "qr": [
            call(A),
            call(TALL, mode="economic"),
            call(TALL, mode="r"),
            call(TALL, pivoting=True),
        ],
        "qr_multiply": [call(TALL, floats(2, 5), mode="right")],
        "rsf2csf": [call(np.triu(A), np.eye(4, dtype=np.float32))],
        "schur": [
            via(lambda a: from_schur(*jsp.schur(a), block=2), A),
            via(lambda a: from_schur(*jsp.schur(a), block=2), P),
            via(lambda a: from_schur(*jsp.schur(a, "complex")), A),
        ],
        "solve": [call(A, RIGHT), call(P, RIGHT, assume_a="pos")],
        "solve_sylvester": [call(A, P, floats(4, 4, seed=1))],
        "solve_triangular": [call(A, RIGHT), call(A, RIGHT, lower=True, trans="T")],
        "sqrtm": [call(P)],
        "svd": [call(A, compute_uv=False), call(TALL, compute_uv=False)],
    }
)
