"""The model that the tests of the command line read: two blocks and a loop."""

import jax
import jax.numpy as jnp
from flax import nnx


class Block(nnx.Module):
    """A projection and a residual."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.up = nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the block."""
        return x + jnp.tanh(self.up(x))


class Layers(nnx.Module):
    """Blocks, then a running sum of projections."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.blocks = nnx.List([Block(rngs) for _ in range(2)])

    def __call__(self, x: jax.Array, scale: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Applies the layers."""
        for block in self.blocks:
            x = block(x)

        def step(total: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
            total = total + row @ scale
            return total, jnp.sum(total)

        total, sums = jax.lax.scan(step, jnp.zeros(3), x)
        return total, sums.reshape(5, 1)
