"""A model with a function that is called twice, and a norm that stays in pieces."""

import jax
import jax.numpy as jnp
from flax import nnx

import jax2onnx


@jax2onnx.onnx_function
class Embed(nnx.Module):
    """A projection that two inputs share."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.up = nnx.Linear(4, 6, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the projection."""
        return jnp.tanh(self.up(x)) * 2.0


class Shared(nnx.Module):
    """Compares two inputs."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.embed = Embed(rngs)

    def __call__(self, one: jax.Array, other: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Compares the inputs."""
        left = self.embed(one)
        both = left + self.embed(other)
        mean = both.mean(-1, keepdims=True)
        variance = jnp.square(both - mean).mean(-1, keepdims=True)
        return (both - mean) * jax.lax.rsqrt(variance + 1e-5), variance.reshape(-1)
