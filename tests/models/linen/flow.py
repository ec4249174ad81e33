"""A normalising flow in flax Linen."""

import flax.linen as nn
import jax

from models.coupling import log_density
from models.linen.making import bound
from models.random_values import normal


class Flow(nn.Module):
    """Affine couplings, each with its own network."""

    width: int
    hidden: int
    layers: int

    def setup(self) -> None:
        self.networks = [
            nn.Sequential([nn.Dense(self.hidden), nn.relu, nn.Dense(self.width)])
            for _ in range(self.layers)
        ]

    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return log_density(x, self.networks)


def flow(batch: int = 2, width: int = 6) -> tuple[nn.Module, tuple[jax.Array]]:
    """Returns the model and examples."""
    x = normal(batch, width)
    return bound(Flow(width, 8, 3), x), (x,)
