"""A vision transformer in dm-haiku, with Haiku's own attention."""

from collections.abc import Callable

import haiku as hk
import jax
import jax.numpy as jnp

from models.haiku.making import applied
from models.random_values import normal


def norm(name: str) -> hk.LayerNorm:
    """Returns a layer norm over the last axis."""
    return hk.LayerNorm(-1, create_scale=True, create_offset=True, name=name)


class EncoderBlock(hk.Module):
    """Self-attention and a feed-forward network, each behind a layer norm."""

    def __init__(self, heads: int, name: str) -> None:
        super().__init__(name=name)
        self.heads = heads

    def __call__(self, x: jax.Array) -> jax.Array:
        width = x.shape[-1]
        attention = hk.MultiHeadAttention(
            self.heads, width // self.heads, w_init=hk.initializers.RandomNormal(), name="attention"
        )
        normed = norm("norm1")(x)
        x = x + attention(normed, normed, normed)
        hidden = hk.Linear(4 * width, name="up")(norm("norm2")(x))
        return x + hk.Linear(width, name="down")(jax.nn.gelu(hidden, approximate=False))


class ViT(hk.Module):
    """Patches, a class token, positions, encoder blocks, and a head on the class token."""

    def __init__(self, patch: int, width: int, heads: int, layers: int) -> None:
        super().__init__(name="vit")
        self.patch, self.width, self.heads, self.layers = patch, width, heads, layers

    def __call__(self, image: jax.Array) -> jax.Array:
        patches = hk.Conv2D(self.width, self.patch, self.patch, padding="VALID", name="patches")
        x = patches(image)
        x = x.reshape(x.shape[0], -1, self.width)
        random = hk.initializers.RandomNormal()
        token = hk.get_parameter("token", (1, 1, self.width), init=random)
        token = jnp.broadcast_to(token, (x.shape[0], 1, self.width))
        x = jnp.concatenate([token, x], axis=1)
        x = x + hk.get_parameter("positions", (1, *x.shape[1:]), init=random)
        for index in range(self.layers):
            x = EncoderBlock(self.heads, name=f"blocks_{index}")(x)
        return hk.Linear(10, name="head")(norm("norm")(x)[:, 0])


def vit(
    batch: int = 2, size: int = 16
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the model and example images."""
    x = normal(batch, size, size, 3)
    return applied(lambda image: ViT(patch=4, width=32, heads=4, layers=2)(image), x), (x,)
