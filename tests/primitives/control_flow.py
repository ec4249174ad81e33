"""Loops and branches."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from primitives.operands import BATCH, Programs, V, X, boolean, f32


def carried(x: Any) -> Any:
    return lax.scan(lambda c, row: (jnp.sin(c) + row, c), x[0], x, reverse=True)


def mapped(x: Any) -> Any:
    return lax.map(lambda row: jnp.sin(row).sum(), x)


def looped(n: Any, x: Any) -> Any:
    return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] * 2), (n, x))


BRANCHES = [jnp.sin, jnp.cos, lambda x: x]
PROGRAMS: Programs = {
    "cond": (lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), boolean(), X),
    "cond.switch": (lambda i, x: lax.switch(i, BRANCHES, x), np.int32(1), X),
    "scan": (carried, X),
    "closed_call.map": (mapped, X),
    "while": (looped, np.int32(3), X),
    "scan.counted": (lambda x: lax.fori_loop(0, 3, lambda i, x: x + i, x), f32(2)),
    "platform_index": (
        lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
        X,
    ),
    "scan.symbolic": (lambda x: lax.scan(lambda c, r: (c + r, c), jnp.zeros(3), x), BATCH),
    "scan.constants": (
        lambda w, x: lax.scan(lambda c, r: (c @ w + r, None), x[0], x)[0],
        f32(3, 3),
        f32(2, 3),
    ),
    "scan.unrolled": (lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x[:1]), X),
    "while.condition_constants": (
        lambda n, x: lax.while_loop(lambda s: s.sum() < n, lambda s: s * 2, x),
        np.float32(9),
        np.float32([0.25, -0.5, 1, 0.75]),
    ),
    "cond.results": (
        lambda p, x: lax.cond(p, lambda x: (x, x[0] + 1), lambda x: (-x, x[1]), x),
        boolean(),
        V,
    ),
}
