"""Calls to functions of `jax.ops`."""

from conformance.walks.arguments import Table, call, each, floats, integers

X, PLACES = floats(6, 3), integers(6, low=-1, high=5)

TABLE = Table(
    each(
        "segment_max segment_min segment_prod segment_sum",
        call(X, PLACES, 4),
        call(integers(6), PLACES, 4, mode="clip"),
        call(X, PLACES, 4, bucket_size=2),
    )
)
