"""A multi-layer perceptron in flax NNX."""

import jax
from flax import nnx

from models.nnx.making import made
from models.random_values import normal


class MLP(nnx.Module):
    """Two hidden layers."""

    def __init__(self, inputs: int, width: int, outputs: int, *, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(inputs, width, rngs=rngs)
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.second = nnx.Linear(width, width, rngs=rngs)
        self.last = nnx.Linear(width, outputs, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = jax.nn.relu(self.first(x))
        x = jax.nn.silu(self.second(self.norm(x)))
        return jax.nn.softmax(self.last(x))


def mlp(batch: int = 4, inputs: int = 8, width: int = 16) -> tuple[MLP, tuple[jax.Array]]:
    """Returns the model and an example batch."""
    return made(lambda rngs: MLP(inputs, width, 3, rngs=rngs)), (normal(batch, inputs),)
