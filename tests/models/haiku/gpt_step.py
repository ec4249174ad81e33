"""One step of decoding with the transformer of `gpt.py`: keys and values are cached."""

from typing import Any

import jax
import jax.numpy as jnp

from models.attention import Cache, empty_caches
from models.haiku.gpt import forward
from models.haiku.making import applied
from models.random_values import integers


def gpt_step(batch: int = 2, capacity: int = 16, width: int = 32) -> tuple[Any, tuple[Any, ...]]:
    """Returns the model, a token, the caches and the token's position."""

    def step(token: jax.Array, cache: list[Cache], first: jax.Array) -> Any:
        return forward(token, cache, first, width=width, heads=4)

    token = integers(batch, 1, below=96)
    args = token, empty_caches(2, batch, capacity, width), jnp.int32(3)
    return applied(step, *args), args
