"""A normalising flow in Equinox."""

from typing import Any

import equinox as eqx
import jax

from models.coupling import log_density
from models.equinox.making import made
from models.random_values import normal


class Flow(eqx.Module):
    """Affine couplings, each with its own network."""

    networks: list[eqx.nn.MLP]

    def __init__(self, width: int, hidden: int, layers: int, key: jax.Array) -> None:
        self.networks = [
            eqx.nn.MLP(width // 2, width, hidden, depth=1, key=key) for _ in range(layers)
        ]

    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return log_density(x, self.networks)


def flow(batch: int = 2, width: int = 6) -> tuple[Any, tuple[jax.Array]]:
    """Returns the model and examples."""
    return jax.vmap(made(Flow, width, 8, 3)), (normal(batch, width),)
