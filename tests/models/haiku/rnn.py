"""A recurrent classifier in dm-haiku: an LSTM, then a GRU, over a sequence."""

from typing import Any

import haiku as hk
import jax

from models.haiku.making import applied
from models.random_values import normal


def rnn(batch: int = 2, length: int = 5, width: int = 6) -> tuple[Any, tuple[Any, ...]]:
    """Returns the model, an example sequence and an LSTM state, which is also returned."""

    def forward(x: jax.Array, state: Any) -> tuple[jax.Array, Any]:
        lstm, gru = hk.LSTM(width, name="lstm"), hk.GRU(width, name="gru")
        x, state = hk.dynamic_unroll(lstm, x, state, time_major=False)
        _, hidden = hk.dynamic_unroll(gru, x, gru.initial_state(x.shape[0]), time_major=False)
        return hk.Linear(3, name="head")(hidden), state

    state = hk.LSTMState(hidden=0.1 * normal(batch, width), cell=normal(batch, width))
    args = normal(batch, length, 4), state
    return applied(forward, *args), args
