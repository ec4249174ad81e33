"""Reductions, cumulative sums and sorting."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from primitives.operands import (
    BATCH,
    B,
    N,
    Programs,
    V,
    X,
    bf16,
    boolean,
    f32,
    f64,
    i32,
    of_lax,
    symbolic,
    u32,
)


def over_rows(collective: Any) -> Callable[..., Any]:
    return jax.vmap(lambda x: collective(x, "rows"), axis_name="rows", out_axes=None)


def sum_and_product(a: Any, b: Any) -> Any:
    return a[0] + b[0], a[1] * b[1]


of_numbers = ("reduce_max", "reduce_min", "reduce_prod", "reduce_sum")
found: Programs = {}
for name in of_numbers:
    found[name] = (of_lax(name, axes=(1,)), X)
    found[f"{name}.integers"] = (of_lax(name, axes=(0, 1)), N)
for name in ("reduce_and", "reduce_or", "reduce_xor"):
    found[name] = (of_lax(name, axes=(1,)), B)
    found[f"{name}.integers"] = (of_lax(name, axes=(1,)), N)
for name in ("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"):
    found[name] = (of_lax(name, axis=1), X)
    found[f"{name}.reverse"] = (of_lax(name, axis=0, reverse=True), X)
PROGRAMS: Programs = found | {
    "reduce_xor.symbolic": (lambda n: lax.reduce_xor(n, (0,)), symbolic("b", jnp.int32)),
    "reduce": (lambda x: lax.reduce(x, 1.0, lax.add, (1,)), X),
    "closed_call.reduce": (
        lambda x: lax.reduce((x, x), (0.0, 1.0), sum_and_product, (1,)),
        f32(2, 2),
    ),
    "cumsum.integers": (lambda n: lax.cumsum(n, 1), N),
    "cumsum.symbolic": (lambda x: lax.cumsum(x, 0), BATCH),
    "cumprod.integers": (lambda n: lax.cumprod(n, 1), N),
    "cummax.integers": (lambda n: lax.cummax(n, 0, reverse=True), N),
    "cummin.symbolic": (lambda x: lax.cummin(x, 0), BATCH),
    "cumlogsumexp.symbolic": (lambda x: lax.cumlogsumexp(x, 0), BATCH),
    "reduce_max.bools": (lambda x: lax.reduce_max(x, (1,)), B),
    "reduce_max.symbolic": (lambda x: lax.reduce_max(x, (0,)), BATCH),
    "reduce_sum.bfloat16": (lambda x: lax.reduce_sum(x, (0,)), bf16(4)),
    "reduce_sum.unsigned": (lambda x: lax.reduce_sum(x, (0,)), u32(4)),
    "reduce_prod.symbolic": (lambda x: lax.reduce_prod(x, (0, 1)), BATCH),
    "reduce_and.unsigned": (lambda x: lax.reduce_and(x, (0,)), u32(5)),
    "psum": (over_rows(lax.psum), X),
    "pmax": (over_rows(lax.pmax), X),
    "pmin": (over_rows(lax.pmin), X),
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
