"""A neural differential equation in Equinox."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from models.equinox.making import made
from models.integration import integrate
from models.random_values import normal


class Field(eqx.Module):
    """Integrates a learnt vector field; the time is an input of the model."""

    network: eqx.nn.MLP

    def __init__(self, width: int, hidden: int, key: jax.Array) -> None:
        self.network = eqx.nn.MLP(width + 1, width, hidden, depth=1, activation=jnp.tanh, key=key)

    def __call__(self, x: jax.Array, time: jax.Array) -> jax.Array:
        def slope(t: jax.Array, x: jax.Array) -> jax.Array:
            return self.network(jnp.append(x, t))

        return integrate(slope, x, time, steps=4)


def ode(batch: int = 2, width: int = 3) -> tuple[Any, tuple[jax.Array, jax.Array]]:
    """Returns the model, initial values and the time."""
    field = jax.vmap(made(Field, width, 8), in_axes=(0, None))
    return field, (normal(batch, width), jnp.float32(0.5))
