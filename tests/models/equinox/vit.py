"""A vision transformer in Equinox, with Equinox's own attention."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from models.equinox.making import made
from models.random_values import normal


class EncoderBlock(eqx.Module):
    """Self-attention and a feed-forward network, each behind a layer norm."""

    norm1: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    norm2: eqx.nn.LayerNorm
    mlp: eqx.nn.MLP

    def __init__(self, width: int, heads: int, key: jax.Array) -> None:
        self.norm1 = eqx.nn.LayerNorm(width)
        self.attention = eqx.nn.MultiheadAttention(heads, width, use_query_bias=True, key=key)
        self.norm2 = eqx.nn.LayerNorm(width)
        self.mlp = eqx.nn.MLP(width, width, 4 * width, depth=1, activation=jax.nn.gelu, key=key)

    def __call__(self, x: jax.Array) -> jax.Array:
        normed = jax.vmap(self.norm1)(x)
        x = x + self.attention(normed, normed, normed)
        return x + jax.vmap(self.mlp)(jax.vmap(self.norm2)(x))


class ViT(eqx.Module):
    """Patches, a class token, positions, encoder blocks, and a head on the class token."""

    patches: eqx.nn.Conv2d
    token: jax.Array
    positions: jax.Array
    blocks: list[EncoderBlock]
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(
        self, size: int, patch: int, width: int, heads: int, layers: int, key: jax.Array
    ) -> None:
        self.patches = eqx.nn.Conv2d(3, width, patch, stride=patch, key=key)
        self.token = jax.random.normal(key, (1, width))
        self.positions = jax.random.normal(key, ((size // patch) ** 2 + 1, width))
        self.blocks = [EncoderBlock(width, heads, key) for _ in range(layers)]
        self.norm = eqx.nn.LayerNorm(width)
        self.head = eqx.nn.Linear(width, 10, key=key)

    def __call__(self, image: jax.Array) -> jax.Array:
        x = self.patches(image)
        x = x.reshape(x.shape[0], -1).T
        x = jnp.concatenate([self.token, x]) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[0]))


def vit(
    batch: int = 2, size: int = 16
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the model and example images, channels first."""
    return jax.vmap(made(ViT, size, 4, 32, 4, 2)), (normal(batch, 3, size, size),)
