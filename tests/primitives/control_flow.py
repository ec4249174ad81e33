"""Loops, branches and calls."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax2onnx import onnx_function
from primitives.operands import BATCH, Programs, V, X, boolean, f32


def carried(x: Any) -> Any:
    return lax.scan(lambda c, row: (jnp.sin(c) + row, c), x[0], x, reverse=True)


def mapped(x: Any) -> Any:
    return lax.map(lambda row: jnp.sin(row).sum(), x)


def looped(n: Any, x: Any) -> Any:
    return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] * 2), (n, x))


@jax.custom_jvp
def own_jvp(x: Any) -> Any:
    return jnp.sin(x)


own_jvp.defjvp(lambda primals, tangents: (own_jvp(*primals), tangents[0]))


@jax.custom_vjp
def own_vjp(x: Any) -> Any:
    return jnp.sin(x)


own_vjp.defvjp(lambda x: (own_vjp(x), None), lambda _, g: (g,))


@jax.custom_batching.custom_vmap
def own_vmap(x: Any) -> Any:
    return jnp.sin(x)


own_vmap.def_vmap(lambda size, batched, x: (jnp.sin(x), batched[0]))


def composite(x: Any) -> Any:
    return lax.composite(lambda x: jnp.sin(x) * 2, name="library.sine")(x)


def linear(x: Any, y: Any) -> Any:
    """A linear function of `y` with an explicit transpose."""
    return jax.custom_derivatives.linear_call(jnp.multiply, jnp.multiply, x, y)


@onnx_function
def layer(x: Any) -> Any:
    return jnp.sin(x) * 2


@onnx_function
def product(x: Any, w: Any) -> Any:
    return jnp.sin(x) @ w


def layers(x: Any) -> Any:
    first, second = np.arange(50, dtype=np.float32).reshape(2, 5, 5)
    return product(product(x, jnp.asarray(first)), jnp.asarray(second))


@onnx_function
def block(x: Any, w: Any) -> Any:
    return product(x, w) + product(x, w * 2)


def nested(x: Any) -> Any:
    w = np.arange(25, dtype=np.float32).reshape(5, 5)
    return block(block(x, jnp.asarray(w)), jnp.asarray(w + 1))


def twice(x: Any) -> Any:
    """A function that is a primitive."""
    from jax.experimental.hijax import VJPHiPrimitive

    class Twice(VJPHiPrimitive):
        def __init__(self, aval: Any) -> None:
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        def expand(self, x: Any) -> Any:
            return x * 2

    return Twice(jax.typeof(x))(x)


def printing(x: Any) -> Any:
    jax.debug.print("x is {}", x)
    jax.debug.callback(lambda _: None, x)
    return x + 1


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
    "jit": (lambda x: jax.jit(jnp.sin)(x), X),
    "remat2": (jax.checkpoint(lambda x: jnp.sin(x) * 2), X),
    "composite": (composite, X),
    "custom_jvp_call": (own_jvp, X),
    "custom_vjp_call": (own_vjp, X),
    "custom_vmap_call": (own_vmap, X),
    "linear_call": (linear, X, X),
    "call_hi_primitive": (twice, X),
    "onnx_function": (lambda x: layer(layer(x)), X),
    "debug_print": (printing, X),
    "debug_callback": (printing, X),
    "onnx_function.constants": (layers, f32(2, 5)),
    "onnx_function.nested": (nested, f32(2, 5)),
}
