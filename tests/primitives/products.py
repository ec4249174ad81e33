"""Matrix products."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from primitives.operands import BATCH, B, N, Programs, V, X, bf16, boolean, f32, i8, i32


def product(*numbers: Any) -> Callable[..., Any]:
    return lambda a, b: lax.dot_general(a, b, numbers)


PROGRAMS: Programs = {
    "dot_general": (jnp.matmul, X, f32(3, 4)),
    "dot_general.batch": (jnp.matmul, f32(5, 2, 3), f32(5, 3, 4)),
    "dot_general.inner": (jnp.dot, V, V),
    "dot_general.outer": (product(((), ()), ((), ())), f32(2), f32(3)),
    "dot_general.many_axes": (
        product(((0, 2), (1, 0)), ((1,), (2,))),
        f32(2, 5, 3),
        f32(3, 2, 5),
    ),
    "dot_general.integers": (
        lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32),
        i8(2, 3),
        i8(3, 4),
    ),
    "dot_general.symbolic": (jnp.matmul, BATCH, f32(3, 4)),
    "dot_general.bfloat16": (jnp.matmul, bf16(2, 3), bf16(3, 4)),
    "dot_general.bools": (lambda a, b: jnp.matmul(a, b), B, boolean(3, 4)),
    "dot_general.wide_integers": (jnp.matmul, N, i32(3, 4)),
    "dot_general.symbolic_inner": (lambda x: x.T @ x, BATCH),
}
