"""A multi-layer perceptron in Equinox."""

from collections.abc import Callable

import equinox as eqx
import jax

from models.equinox.making import made
from models.random_values import normal


class MLP(eqx.Module):
    """Equinox's own perceptron between two layers of ours."""

    embed: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    body: eqx.nn.MLP
    scale: jax.Array

    def __init__(self, inputs: int, width: int, outputs: int, key: jax.Array) -> None:
        first, second = jax.random.split(key)
        self.embed = eqx.nn.Linear(inputs, width, key=first)
        self.norm = eqx.nn.LayerNorm(width)
        self.body = eqx.nn.MLP(width, outputs, width, depth=2, key=second)
        self.scale = jax.random.normal(key, (outputs,))

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.scale * self.body(self.norm(jax.nn.gelu(self.embed(x))))


def mlp(
    batch: int = 4, inputs: int = 8, width: int = 16
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the model and an example batch."""
    return jax.vmap(made(MLP, inputs, width, 3)), (normal(batch, inputs),)
