"""One step of decoding with the transformer of `gpt.py`: keys and values are cached."""

from typing import Any

import jax.numpy as jnp

from models.attention import empty_caches
from models.linen.gpt import gpt
from models.random_values import integers


def gpt_step(batch: int = 2, capacity: int = 16, width: int = 32) -> tuple[Any, tuple[Any, ...]]:
    """Returns the model, a token, the caches and the token's position."""
    model, _ = gpt(width=width)
    token = integers(batch, 1, below=96)
    return model.step, (token, empty_caches(2, batch, capacity, width), jnp.int32(3))
