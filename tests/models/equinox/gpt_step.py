"""One step of decoding with the transformer of `gpt.py`: keys and values are cached."""

from typing import Any

import jax
import jax.numpy as jnp

from models.attention import empty_caches
from models.equinox.gpt import GPT
from models.equinox.making import made
from models.random_values import integers


def gpt_step(batch: int = 2, capacity: int = 16, width: int = 32) -> tuple[Any, tuple[Any, ...]]:
    """Returns the model, a token, the caches and the token's position."""
    model = made(GPT, 96, capacity, 2, width, 4)
    token = integers(batch, 1, below=96)
    step = jax.vmap(model.step, in_axes=(0, 0, None))
    return step, (token, empty_caches(2, batch, capacity, width), jnp.int32(3))
