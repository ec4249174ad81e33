"""A mixture of experts in dm-haiku: each expert is a separate module."""

from collections.abc import Callable

import haiku as hk
import jax
import jax.numpy as jnp

from models.haiku.making import applied
from models.random_values import normal
from models.routing import gates


class Mixture(hk.Module):
    """Every expert runs on every token; the router weights the best ones."""

    def __init__(self, experts: int, chosen: int) -> None:
        super().__init__(name="mixture")
        self.experts, self.chosen = experts, chosen

    def __call__(self, x: jax.Array) -> jax.Array:
        scores = hk.Linear(self.experts, with_bias=False, name="router")(x)
        widths = [2 * x.shape[-1], x.shape[-1]]
        experts = [
            hk.nets.MLP(widths, activation=jax.nn.gelu, name=f"experts_{index}")
            for index in range(self.experts)
        ]
        results = jnp.stack([expert(x) for expert in experts], axis=-1)
        return x + jnp.einsum("btde,bte->btd", results, gates(scores, self.chosen))


def moe(
    batch: int = 2, length: int = 6, width: int = 8
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the layer and example tokens."""
    x = normal(batch, length, width)
    return applied(lambda x: Mixture(4, 2)(x), x), (x,)
