"""A mixture of experts in Equinox: the experts' weights are stacked by `eqx.filter_vmap`."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from models.equinox.making import made
from models.random_values import normal
from models.routing import gates


class Mixture(eqx.Module):
    """Every expert runs on every token; the router weights the best ones."""

    chosen: int
    router: eqx.nn.Linear
    experts: eqx.nn.MLP

    def __init__(self, width: int, experts: int, chosen: int, key: jax.Array) -> None:
        self.chosen = chosen
        self.router = eqx.nn.Linear(width, experts, use_bias=False, key=key)
        make = eqx.filter_vmap(lambda key: eqx.nn.MLP(width, width, 2 * width, depth=1, key=key))
        self.experts = make(jax.random.split(key, experts))

    def __call__(self, x: jax.Array) -> jax.Array:
        run = eqx.filter_vmap(
            lambda expert, x: jax.vmap(expert)(x), in_axes=(eqx.if_array(0), None)
        )
        weights = gates(jax.vmap(self.router)(x), self.chosen)
        return x + jnp.einsum("etd,te->td", run(self.experts, x), weights)


def moe(
    batch: int = 2, length: int = 6, width: int = 8
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the layer and example tokens."""
    return jax.vmap(made(Mixture, width, 4, 2)), (normal(batch, length, width),)
