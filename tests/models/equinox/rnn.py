"""A recurrent classifier in Equinox: an LSTM, then a GRU, over a sequence."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from models.equinox.making import made
from models.random_values import normal


class Classifier(eqx.Module):
    """The first state is an input and an output; the second layer starts from zero."""

    lstm: eqx.nn.LSTMCell
    gru: eqx.nn.GRUCell
    head: eqx.nn.Linear

    def __init__(self, inputs: int, width: int, key: jax.Array) -> None:
        self.lstm = eqx.nn.LSTMCell(inputs, width, key=key)
        self.gru = eqx.nn.GRUCell(width, width, key=key)
        self.head = eqx.nn.Linear(width, 3, key=key)

    def __call__(self, x: jax.Array, state: Any) -> tuple[jax.Array, Any]:
        def step(carry: Any, x: jax.Array) -> tuple[Any, None]:
            state, hidden = carry
            state = self.lstm(x, state)
            return (state, self.gru(state[0], hidden)), None

        start = jnp.zeros(self.gru.hidden_size)
        (state, hidden), _ = jax.lax.scan(step, (state, start), x)
        return self.head(hidden), state


def rnn(batch: int = 2, length: int = 5, width: int = 6) -> tuple[Any, tuple[Any, ...]]:
    """Returns the model, an example sequence and an LSTM state."""
    state = (0.1 * normal(batch, width), normal(batch, width))
    return jax.vmap(made(Classifier, 4, width)), (normal(batch, length, 4), state)
