"""Comparisons and sorting."""

import jax.numpy as jnp
from jax import lax

from primitives.operands import (
    BATCH,
    B,
    N,
    Programs,
    V,
    X,
    bind,
    boolean,
    f32,
    f64,
    i32,
    of_lax,
    u32,
)

found: Programs = {}
for name in ("eq", "ge", "gt", "le", "lt", "ne"):
    found |= {name: (of_lax(name), X, X), f"{name}.integers": (of_lax(name), N, N)}
for name in ("eq_to", "le_to", "lt_to"):
    found[name] = (bind(name), f32(3), f32(3))
PROGRAMS: Programs = found | {
    "eq.bools": (lax.eq, B, B),
    "argmax": (lambda x: lax.argmax(x, 1, jnp.int32), X),
    "argmin": (lambda x: lax.argmin(x, 0, jnp.int32), X),
    "sort": (lambda x: lax.sort(x, dimension=1), X),
    "sort.pairs": (lambda k, v: lax.sort((k, v), dimension=0, num_keys=1), i32(3), f32(3)),
    "top_k": (lambda x: lax.top_k(x, 2), X),
    "approx_top_k": (lambda x: lax.approx_max_k(x, 2), V),
    "argmax.integers": (lambda n: lax.argmax(n, 0, jnp.int32), N),
    "argmax.bools": (lambda n: lax.argmax(n, 1, jnp.int32), B),
    "argmin.double": (lambda x: lax.argmin(x, 0, jnp.int64), f64(3)),
    "argmax.symbolic": (lambda x: lax.argmax(x, 1, jnp.int32), BATCH),
    "sort.descending": (lambda x: -lax.sort(-x), V),
    "sort.two_keys": (lambda k, v: lax.sort((k, v), num_keys=2), i32(3), f32(3)),
    "sort.bools": (lambda x: lax.sort(x), boolean(3)),
    "sort.stable_integers": (lambda x: lax.sort(x, is_stable=False), u32(3)),
    "sort.double": (lax.sort, f64(3)),
    "top_k.integers": (lambda n: lax.top_k(n, 1), N),
}
