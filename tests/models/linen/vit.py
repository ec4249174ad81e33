"""A vision transformer in flax Linen, with Linen's own attention."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from models.linen.making import bound
from models.random_values import normal


class EncoderBlock(nn.Module):
    """Self-attention and a feed-forward network, each behind a layer norm."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        attention = nn.MultiHeadDotProductAttention(self.heads, name="attention")
        x = x + attention(nn.LayerNorm(name="norm1")(x))
        hidden = nn.Dense(4 * x.shape[-1], name="up")(nn.LayerNorm(name="norm2")(x))
        return x + nn.Dense(x.shape[-1], name="down")(nn.gelu(hidden, approximate=False))


class ViT(nn.Module):
    """Patches, a class token, positions, encoder blocks, and a head on the class token."""

    patch: int
    width: int
    heads: int
    layers: int

    @nn.compact
    def __call__(self, image: jax.Array) -> jax.Array:
        patch = (self.patch, self.patch)
        x = nn.Conv(self.width, patch, strides=patch, padding="VALID", name="patches")(image)
        x = x.reshape(x.shape[0], -1, self.width)
        random = nn.initializers.normal()
        token = self.param("token", random, (1, 1, self.width))
        token = jnp.broadcast_to(token, (x.shape[0], 1, self.width))
        x = jnp.concatenate([token, x], axis=1)
        x = x + self.param("positions", random, (1, *x.shape[1:]))
        for index in range(self.layers):
            x = EncoderBlock(self.heads, name=f"blocks_{index}")(x)
        return nn.Dense(10, name="head")(nn.LayerNorm(name="norm")(x)[:, 0])


def vit(batch: int = 2, size: int = 16) -> tuple[nn.Module, tuple[jax.Array]]:
    """Returns the model and example images."""
    x = normal(batch, size, size, 3)
    return bound(ViT(patch=4, width=32, heads=4, layers=2), x), (x,)
