"""A recurrent classifier in flax Linen: an LSTM, then a GRU, over a sequence."""

from typing import Any

import flax.linen as nn
import jax

from models.linen.making import bound
from models.random_values import normal


class Classifier(nn.Module):
    """The first state is an input and an output; the second layer starts from zero."""

    width: int

    @nn.compact
    def __call__(self, x: jax.Array, state: Any) -> tuple[jax.Array, Any]:
        lstm = nn.RNN(nn.OptimizedLSTMCell(self.width, name="lstm"), return_carry=True)
        state, x = lstm(x, initial_carry=state)
        x = nn.RNN(nn.GRUCell(self.width, name="gru"))(x)
        return nn.Dense(3, name="head")(x[:, -1]), state


def rnn(batch: int = 2, length: int = 5, width: int = 6) -> tuple[nn.Module, tuple[Any, ...]]:
    """Returns the model, an example sequence and an LSTM state."""
    args = normal(batch, length, 4), (0.1 * normal(batch, width), normal(batch, width))
    return bound(Classifier(width), *args), args
