"""Calls to functions of `jax.scipy.fft`."""

from conformance.walks.arguments import Table, call, each, floats

X = floats(4, 6)

TABLE = Table(
    {
        **each("dct idct", call(X), call(X, axis=0, norm="ortho"), call(X, n=5)),
        **each("dctn idctn", call(X), call(X, norm="ortho")),
    }
)
