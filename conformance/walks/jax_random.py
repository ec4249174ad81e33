"""Calls to functions of `jax.random`."""

import jax
import numpy as np

from conformance.walks.arguments import Table, call, each, floats, integers, positive_definite

KEY = jax.random.key(7)
RAW = jax.random.PRNGKey(7)
SHAPE = (3, 5)
A, B = floats(3, 5, low=0.3, high=4), floats(3, 5, low=0.3, high=4, seed=1)
P = floats(3, 5, low=0.1, high=0.9)

TABLE = Table(
    {
        **each(
            """
            cauchy double_sided_maxwell exponential gumbel laplace logistic lognormal maxwell normal
            rademacher uniform bits
            """,
            call(KEY, shape=SHAPE),
            call(RAW, shape=SHAPE),
        ),
        **each("normal uniform gumbel", call(KEY, SHAPE), call(RAW, SHAPE, np.float16)),
        **each("gamma loggamma chisquare t", call(KEY, A), call(KEY, 2.5, shape=SHAPE)),
        **each("pareto wald", call(KEY, A), call(KEY, 2.5, shape=SHAPE)),
        "ball": [call(KEY, 3, shape=(4,))],
        "bernoulli": [call(KEY), call(KEY, P), call(KEY, 0.3, SHAPE)],
        "beta": [call(KEY, A, B)],
        "binomial": [call(KEY, 10, P), call(KEY, 40, P)],
        "bits": [call(KEY, SHAPE), call(KEY, SHAPE, np.uint8), call(RAW, SHAPE, np.uint16)],
        "categorical": [
            call(KEY, A),
            call(KEY, A, axis=0),
            call(KEY, A, shape=(2, 3)),
            call(KEY, A, shape=(2, 3), replace=False),
        ],
        "choice": [
            call(KEY, 10, SHAPE),
            call(KEY, A, (2,)),
            call(KEY, 10, (4,), replace=False),
            call(KEY, A, (2,), replace=False, axis=1),
            call(KEY, 5, (4,), p=np.float32([0.1, 0.2, 0.3, 0.2, 0.2])),
            call(KEY, 5, (3,), p=np.float32([0.1, 0.2, 0.3, 0.2, 0.2]), replace=False),
        ],
        "clone": [call(KEY)],
        "dirichlet": [call(KEY, A)],
        "double_sided_maxwell": [call(KEY, 0.5, 2.0, SHAPE)],
        "f": [call(KEY, A, B)],
        "fold_in": [call(KEY, 3), call(RAW, np.int32(5))],
        "generalized_normal": [call(KEY, 1.5, SHAPE)],
        "geometric": [call(KEY, P)],
        "key": [call(np.int32(3)), call(np.int32(3), impl="rbg")],
        "PRNGKey": [call(np.int32(3))],
        "key_data": [call(KEY)],
        "wrap_key_data": [call(RAW)],
        "multinomial": [call(KEY, np.float32(10), P[0] / P[0].sum())],
        # The other methods depend on the phases of vectors, which are arbitrary.
        "multivariate_normal": [call(KEY, A[0], positive_definite(5, 5))],
        "orthogonal": [call(KEY, 4), call(KEY, 4, shape=(2,))],
        "permutation": [
            call(KEY, 7),
            call(KEY, A),
            call(KEY, A, axis=1),
            call(KEY, A, independent=True),
        ],
        "poisson": [call(KEY, A), call(KEY, 30.0, SHAPE)],
        "randint": [
            call(KEY, SHAPE, -3, 9),
            call(RAW, SHAPE, integers(5, low=-9, high=0), 7),
            call(KEY, SHAPE, 0, 200, np.uint8),
        ],
        "rayleigh": [call(KEY, 1.5, SHAPE)],
        "split": [call(KEY), call(RAW, 5), call(KEY, (2, 3))],
        "triangular": [call(KEY, -1.0, 0.5, 2.0, SHAPE)],
        "truncated_normal": [call(KEY, -1.0, 2.0, SHAPE)],
        "uniform": [
            call(KEY, SHAPE),
            call(KEY, SHAPE, np.float16),
            call(KEY, SHAPE, minval=-3, maxval=9),
        ],
        "weibull_min": [call(KEY, 2.0, 1.5, SHAPE)],
    },
    without_arrays="key_dtype key_impl Key",
)
