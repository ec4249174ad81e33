"""A recurrent classifier in flax NNX: an LSTM, then a GRU, over a sequence."""

from typing import Any

import jax
from flax import nnx

from models.nnx.making import made
from models.random_values import normal


class Classifier(nnx.Module):
    """The first state is an input and an output; the second layer starts from zero."""

    def __init__(self, inputs: int, width: int, *, rngs: nnx.Rngs) -> None:
        self.lstm = nnx.RNN(nnx.LSTMCell(inputs, width, rngs=rngs), rngs=rngs)
        self.gru = nnx.RNN(nnx.GRUCell(width, width, rngs=rngs), rngs=rngs)
        self.head = nnx.Linear(width, 3, rngs=rngs)

    def __call__(self, x: jax.Array, state: Any) -> tuple[jax.Array, Any]:
        state, x = self.lstm(x, initial_carry=state, return_carry=True)
        return self.head(self.gru(x)[:, -1]), state


def rnn(batch: int = 2, length: int = 5, width: int = 6) -> tuple[Classifier, tuple[Any, ...]]:
    """Returns the model, an example sequence and an LSTM state."""
    model = made(lambda rngs: Classifier(4, width, rngs=rngs))
    state = (0.1 * normal(batch, width), normal(batch, width))
    return model, (normal(batch, length, 4), state)
