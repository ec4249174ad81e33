"""Calls to functions of `jax.image`."""

import numpy as np

from conformance.walks.arguments import Table, call, floats, integers

PICTURE, BATCH = floats(6, 8, 3), floats(2, 5, 4, 3)
METHODS = ("nearest", "linear", "cubic", "lanczos3", "lanczos5")

TABLE = Table(
    {
        "resize": [
            *(call(PICTURE, (12, 11, 3), method) for method in METHODS),
            *(call(PICTURE, (3, 5, 3), method) for method in METHODS),
            call(PICTURE, (3, 5, 3), "linear", antialias=False),
            call(BATCH, (2, 7, 7, 3), "bicubic"),
            call(BATCH.astype(np.float16), (2, 7, 3, 3), "bilinear"),
            call(integers(6, 8, low=0, high=256).astype(np.uint8), (3, 5), "nearest"),
        ],
        "scale_and_translate": [
            call(
                PICTURE,
                (7, 9, 3),
                (0, 1),
                np.float32([1.3, 0.7]),
                np.float32([0.5, -1.2]),
                method,
            )
            for method in METHODS[1:]
        ],
    }
)
