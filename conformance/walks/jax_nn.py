"""Calls to functions of `jax.nn`."""

import numpy as np

from conformance.walks.arguments import SPECIAL, Table, booleans, call, each, floats, integers

X, V, M = floats(3, 4), floats(4), booleans(3, 4)
HALF = X.astype(np.float16)
Q, K, BIAS = floats(2, 5, 4, 8), floats(2, 6, 4, 8, seed=1), floats(2, 4, 5, 6, seed=2)

TABLE = Table(
    {
        **each(
            """
            celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu
            log_sigmoid mish relu relu6 selu sigmoid silu soft_sign softplus sparse_plus
            sparse_sigmoid squareplus swish tanh
            """,
            call(X),
            call(SPECIAL),
            call(HALF),
        ),
        **each("softmax log_softmax", call(X), call(X, axis=0), call(HALF), call(X, where=M)),
        **each("logsumexp logmeanexp", call(X), call(X, axis=1), call(X, axis=0, keepdims=True)),
        "gelu": [call(X), call(X, approximate=False), call(SPECIAL), call(HALF)],
        "log1mexp": [call(np.abs(X)), call(SPECIAL)],
        "glu": [call(X), call(floats(4, 3), axis=0)],
        "standardize": [call(X), call(X, axis=0), call(X, mean=V, variance=V**2 + 1)],
        "one_hot": [call(integers(5, low=0, high=4), 4), call(integers(5), 6, axis=0)],
        "dot_product_attention": [
            call(Q, K, K),
            call(Q, K, K, bias=BIAS),
            call(Q, K, K, mask=BIAS > 0),
            call(K, K, K, is_causal=True),
            call(Q, K[:, :, :2], K[:, :, :2], scale=0.3),
            call(K, K, K, local_window_size=2),
            call(
                Q, K, K, query_seq_lengths=np.int32([3, 5]), key_value_seq_lengths=np.int32([6, 2])
            ),
        ],
    },
    # Block-scaled products need hardware support.
    without_arrays="get_scaled_dot_general_config scaled_dot_general scaled_matmul",
)
