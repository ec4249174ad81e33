"""Calls to functions of `jax.scipy.ndimage`."""

from conformance.walks.arguments import Table, call, floats

X, PLACES = floats(5, 6), floats(2, 7, low=-2, high=7)

TABLE = Table(
    {
        "map_coordinates": [
            call(X, list(PLACES), order, mode=mode)
            for order in (0, 1)
            for mode in ("constant", "nearest", "wrap", "mirror", "reflect")
        ]
    }
)
