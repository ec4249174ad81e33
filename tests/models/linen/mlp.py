"""A multi-layer perceptron in flax Linen."""

import flax.linen as nn
import jax

from models.linen.making import bound
from models.random_values import normal


class MLP(nn.Module):
    """Dense layers of the given widths."""

    widths: tuple[int, ...]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in self.widths:
            x = nn.gelu(nn.Dense(width)(x))
        return nn.Dense(3, name="head")(x)


def mlp(batch: int = 4, inputs: int = 8) -> tuple[nn.Module, tuple[jax.Array]]:
    """Returns the model and an example batch."""
    x = normal(batch, inputs)
    return bound(MLP((16, 16)), x), (x,)
