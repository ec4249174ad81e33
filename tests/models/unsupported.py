"""A model of unsupported operations. Expected messages contain lines of this file."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax.extend.core import Primitive


def _primitive(name: str) -> Callable[[jax.Array], jax.Array]:
    primitive = Primitive(name)
    primitive.def_abstract_eval(lambda x: x)
    return primitive.bind


mystery, riddle = _primitive("mystery"), _primitive("riddle")


class Whiten:
    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.sin(mystery(x))


class Encoder:
    def __init__(self) -> None:
        self.whiten = Whiten()

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.whiten(x) + riddle(x)


@jax.jit
def jitted(x: jax.Array) -> jax.Array:
    return mystery(x)


def calls_jitted(x: jax.Array) -> jax.Array:
    return jitted(x) * 2


def odd_element_type(x: jax.Array) -> jax.Array:
    return x.astype(jnp.float8_e3m4)


def two_inputs(x: jax.Array, y: jax.Array) -> jax.Array:
    return x + y


def returns_nothing(x: jax.Array) -> None:
    jnp.sin(x)


def half_bytes(x: jax.Array) -> jax.Array:
    return x.astype(jnp.float4_e2m1fn)


def flat(x: jax.Array) -> jax.Array:
    return x.reshape(-1)


def nested(x: jax.Array, limits: jax.Array, depth: int = 31) -> jax.Array:
    if depth == 0:
        return x + 1

    def inside(x: jax.Array) -> jax.Array:
        return nested(x, limits, depth - 1)

    return jax.lax.cond(limits[0] > depth, inside, lambda x: x * 2, x)


class Trained(nnx.Module):
    """A model that is still in training mode."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.norm = nnx.BatchNorm(3, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.drop(self.norm(x))


KEY = jax.random.key(0)


def noisy(x: jax.Array) -> jax.Array:
    return x + jax.random.normal(KEY, x.shape)
