"""A mixture of experts in flax Linen: the experts' weights are stacked by `nn.vmap`."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from models.linen.making import bound
from models.random_values import normal
from models.routing import gates


class Expert(nn.Module):
    """A small perceptron."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        hidden = nn.gelu(nn.Dense(2 * x.shape[-1], name="up")(x))
        return nn.Dense(x.shape[-1], name="down")(hidden)


class Mixture(nn.Module):
    """Every expert runs on every token; the router weights the best ones."""

    experts: int
    chosen: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        stacked = nn.vmap(
            Expert,
            in_axes=None,
            out_axes=-1,
            axis_size=self.experts,
            variable_axes={"params": 0},
            split_rngs={"params": True},
        )
        scores = nn.Dense(self.experts, use_bias=False, name="router")(x)
        results = stacked(name="experts")(x)
        return x + jnp.einsum("btde,bte->btd", results, gates(scores, self.chosen))


def moe(batch: int = 2, length: int = 6, width: int = 8) -> tuple[nn.Module, tuple[jax.Array]]:
    """Returns the layer and example tokens."""
    x = normal(batch, length, width)
    return bound(Mixture(4, 2), x), (x,)
