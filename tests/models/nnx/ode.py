"""A neural differential equation in flax NNX."""

import jax
import jax.numpy as jnp
from flax import nnx

from models.integration import integrate
from models.nnx.making import made
from models.random_values import normal


class Field(nnx.Module):
    """Integrates a learnt vector field; the time is an input of the model."""

    def __init__(self, width: int, hidden: int, *, rngs: nnx.Rngs) -> None:
        self.up = nnx.Linear(width + 1, hidden, rngs=rngs)
        self.down = nnx.Linear(hidden, width, rngs=rngs)

    def __call__(self, x: jax.Array, time: jax.Array) -> jax.Array:
        def slope(t: jax.Array, x: jax.Array) -> jax.Array:
            clock = jnp.broadcast_to(t, (*x.shape[:-1], 1))
            return self.down(jnp.tanh(self.up(jnp.concatenate([x, clock], axis=-1))))

        return integrate(slope, x, time, steps=4)


def ode(batch: int = 2, width: int = 3) -> tuple[Field, tuple[jax.Array, jax.Array]]:
    """Returns the model, initial values and the time."""
    return made(lambda rngs: Field(width, 8, rngs=rngs)), (normal(batch, width), jnp.float32(0.5))
