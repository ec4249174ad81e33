"""A multi-layer perceptron in dm-haiku."""

from collections.abc import Callable

import haiku as hk
import jax

from models.haiku.making import applied
from models.random_values import normal


def forward(x: jax.Array) -> jax.Array:
    """Haiku's own perceptron between two layers of ours."""
    x = jax.nn.gelu(hk.Linear(16, name="embed")(x))
    x = hk.LayerNorm(-1, create_scale=True, create_offset=True, name="norm")(x)
    return hk.Linear(3, name="head")(hk.nets.MLP([16, 16], name="body")(x))


def mlp(
    batch: int = 4, inputs: int = 8
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the model and an example batch."""
    x = normal(batch, inputs)
    return applied(forward, x), (x,)
