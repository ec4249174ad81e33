"""A normalising flow in flax NNX."""

import jax
from flax import nnx

from models.coupling import log_density
from models.nnx.layer_list import LayerList
from models.nnx.making import made
from models.random_values import normal


class Flow(nnx.Module):
    """Affine couplings, each with its own network."""

    def __init__(self, width: int, hidden: int, layers: int, *, rngs: nnx.Rngs) -> None:
        def network() -> nnx.Sequential:
            first = nnx.Linear(width // 2, hidden, rngs=rngs)
            return nnx.Sequential(first, jax.nn.relu, nnx.Linear(hidden, width, rngs=rngs))

        self.networks = LayerList([network() for _ in range(layers)])

    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return log_density(x, self.networks)


def flow(batch: int = 2, width: int = 6) -> tuple[Flow, tuple[jax.Array]]:
    """Returns the model and examples."""
    return made(lambda rngs: Flow(width, 8, 3, rngs=rngs)), (normal(batch, width),)
