"""A mixture of experts in flax NNX: the experts' weights are stacked by `nnx.vmap`."""

import jax
import jax.numpy as jnp
from flax import nnx

from models.nnx.making import made
from models.random_values import normal
from models.routing import gates


class Expert(nnx.Module):
    """A small perceptron."""

    def __init__(self, width: int, *, rngs: nnx.Rngs) -> None:
        self.up = nnx.Linear(width, 2 * width, rngs=rngs)
        self.down = nnx.Linear(2 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.down(jax.nn.gelu(self.up(x)))


class Mixture(nnx.Module):
    """Every expert runs on every token; the router weights the best ones."""

    def __init__(self, width: int, experts: int, chosen: int, *, rngs: nnx.Rngs) -> None:
        self.chosen = chosen
        self.router = nnx.Linear(width, experts, use_bias=False, rngs=rngs)

        @nnx.split_rngs(splits=experts)
        @nnx.vmap(in_axes=0, out_axes=0)
        def make(rngs: nnx.Rngs) -> Expert:
            return Expert(width, rngs=rngs)

        self.experts = make(rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        run = nnx.vmap(lambda expert, x: expert(x), in_axes=(0, None), out_axes=-1)
        weights = gates(self.router(x), self.chosen)
        return x + jnp.einsum("btde,bte->btd", run(self.experts, x), weights)


def moe(batch: int = 2, length: int = 6, width: int = 8) -> tuple[Mixture, tuple[jax.Array]]:
    """Returns the layer and example tokens."""
    return made(lambda rngs: Mixture(width, 4, 2, rngs=rngs)), (normal(batch, length, width),)
