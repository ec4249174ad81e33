"""A decoder-only transformer in flax NNX."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from models.nnx.layer_list import LayerList
from models.nnx.making import made
from models.random_values import integers


class Attention(nnx.Module):
    """Causal self-attention over several heads."""

    def __init__(self, width: int, heads: int, *, rngs: nnx.Rngs) -> None:
        self.heads = heads
        self.q = nnx.Linear(width, width, rngs=rngs)
        self.k = nnx.Linear(width, width, rngs=rngs)
        self.v = nnx.Linear(width, width, rngs=rngs)
        self.out = nnx.Linear(width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        batch, length, width = x.shape
        size = width // self.heads
        q, k, v = (
            layer(x).reshape(batch, length, self.heads, size) for layer in (self.q, self.k, self.v)
        )
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(size).astype(x.dtype)
        causal = jnp.tril(jnp.ones((length, length), dtype=bool))
        scores = jnp.where(causal, scores, jnp.finfo(x.dtype).min)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)
        return self.out(mixed.reshape(batch, length, width))


class Block(nnx.Module):
    """Attention and a feed-forward network, each behind a layer norm."""

    def __init__(self, width: int, heads: int, *, rngs: nnx.Rngs) -> None:
        self.attn_norm = nnx.LayerNorm(width, rngs=rngs)
        self.attn = Attention(width, heads, rngs=rngs)
        self.mlp_norm = nnx.LayerNorm(width, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attn(self.attn_norm(x))
        return x + self.down(jax.nn.gelu(self.up(self.mlp_norm(x))))


class GPT(nnx.Module):
    """Token and position embeddings, blocks, and a head that may share the token embedding."""

    def __init__(
        self,
        *,
        vocabulary: int,
        context: int,
        layers: int,
        width: int,
        heads: int,
        tied: bool,
        rngs: nnx.Rngs,
    ) -> None:
        self.tokens = nnx.Embed(vocabulary, width, rngs=rngs)
        self.positions = nnx.Embed(context, width, rngs=rngs)
        self.blocks = LayerList([Block(width, heads, rngs=rngs) for _ in range(layers)])
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.head = None if tied else nnx.Linear(width, vocabulary, use_bias=False, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.tokens(tokens) + self.positions(jnp.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.tokens.attend(x) if self.head is None else self.head(x)


def gpt(
    layers: int = 2,
    width: int = 32,
    heads: int = 4,
    vocabulary: int = 96,
    length: int = 16,
    batch: int = 2,
    tied: bool = False,
    context: int | None = None,
) -> tuple[GPT, tuple[Any, ...]]:
    """Returns the model and example tokens."""
    model = made(
        lambda rngs: GPT(
            vocabulary=vocabulary,
            context=length if context is None else context,
            layers=layers,
            width=width,
            heads=heads,
            tied=tied,
            rngs=rngs,
        )
    )
    return model, (integers(batch, length, below=vocabulary),)
