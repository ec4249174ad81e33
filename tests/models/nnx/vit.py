"""A vision transformer in flax NNX, with NNX's own attention."""

import jax
import jax.numpy as jnp
from flax import nnx

from models.nnx.layer_list import LayerList
from models.nnx.making import made
from models.random_values import normal


class EncoderBlock(nnx.Module):
    """Self-attention and a feed-forward network, each behind a layer norm."""

    def __init__(self, width: int, heads: int, *, rngs: nnx.Rngs) -> None:
        self.norm1 = nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(
            num_heads=heads, in_features=width, decode=False, rngs=rngs
        )
        self.norm2 = nnx.LayerNorm(width, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attention(self.norm1(x))
        return x + self.down(jax.nn.gelu(self.up(self.norm2(x)), approximate=False))


class ViT(nnx.Module):
    """Patches, a class token, positions, encoder blocks, and a head on the class token."""

    def __init__(
        self,
        size: int,
        patch: int,
        width: int,
        heads: int,
        layers: int,
        classes: int,
        *,
        rngs: nnx.Rngs,
    ) -> None:
        self.patches = nnx.Conv(
            3, width, kernel_size=(patch, patch), strides=patch, padding="VALID", rngs=rngs
        )
        count = (size // patch) ** 2 + 1
        self.token = nnx.Param(jax.random.normal(rngs.params(), (1, 1, width)))
        self.positions = nnx.Param(0.02 * jax.random.normal(rngs.params(), (1, count, width)))
        self.blocks = LayerList([EncoderBlock(width, heads, rngs=rngs) for _ in range(layers)])
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.head = nnx.Linear(width, classes, rngs=rngs)

    def __call__(self, image: jax.Array) -> jax.Array:
        x = self.patches(image)
        x = x.reshape(x.shape[0], -1, x.shape[-1])
        token = jnp.broadcast_to(self.token[...], (x.shape[0], 1, x.shape[-1]))
        x = jnp.concatenate([token, x], axis=1) + self.positions[...]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def vit(
    batch: int = 2,
    size: int = 16,
    patch: int = 4,
    width: int = 32,
    heads: int = 4,
    layers: int = 2,
    classes: int = 10,
) -> tuple[ViT, tuple[jax.Array]]:
    """Returns the model and example images."""
    model = made(lambda rngs: ViT(size, patch, width, heads, layers, classes, rngs=rngs))
    return model, (normal(batch, size, size, 3),)
