"""Reductions and cumulative sums."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from primitives.operands import BATCH, B, N, Programs, X, bf16, f32, of_lax, symbolic, u32


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
}
