"""A normalising flow in dm-haiku."""

from typing import Any

import haiku as hk
import jax

from models.coupling import log_density
from models.haiku.making import applied
from models.random_values import normal


def forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Affine couplings, each with its own network."""
    names = [f"networks_{index}" for index in range(3)]
    return log_density(x, [hk.nets.MLP([8, x.shape[-1]], name=name) for name in names])


def flow(batch: int = 2, width: int = 6) -> tuple[Any, tuple[jax.Array]]:
    """Returns the model and examples."""
    x = normal(batch, width)
    return applied(forward, x), (x,)
