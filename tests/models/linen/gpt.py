"""A decoder-only transformer in flax Linen."""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from models.attention import Cache, attend, extended
from models.linen.making import bound
from models.random_values import integers


class Attention(nn.Module):
    """Causal self-attention over several heads."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array, cache: Cache | None, first: Any) -> tuple[Any, Cache | None]:
        q, k, v = (nn.Dense(x.shape[-1], name=name)(x) for name in "qkv")
        if cache is not None:
            cache = extended(cache, k, v, first)
            k, v = cache["k"], cache["v"]
        return nn.Dense(x.shape[-1], name="out")(attend(q, k, v, self.heads, first)), cache


class Block(nn.Module):
    """Attention and a feed-forward network, each behind a layer norm."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array, cache: Cache | None, first: Any) -> tuple[Any, Cache | None]:
        attn = Attention(self.heads, name="attn")
        mixed, cache = attn(nn.LayerNorm(name="attn_norm")(x), cache, first)
        x = x + mixed
        hidden = nn.Dense(4 * x.shape[-1], name="up")(nn.LayerNorm(name="mlp_norm")(x))
        return x + nn.Dense(x.shape[-1], name="down")(nn.gelu(hidden)), cache


class GPT(nn.Module):
    """Token and position embeddings, blocks, and a head that shares the token embedding."""

    vocabulary: int
    context: int
    layers: int
    width: int
    heads: int

    def setup(self) -> None:
        self.tokens = nn.Embed(self.vocabulary, self.width)
        self.positions = nn.Embed(self.context, self.width)
        self.blocks = [Block(self.heads) for _ in range(self.layers)]
        self.norm = nn.LayerNorm()

    def step(
        self, tokens: jax.Array, cache: Sequence[Cache | None], first: Any
    ) -> tuple[jax.Array, list[Cache | None]]:
        """Returns the logits of `tokens`, which follow `first` others, and the new caches."""
        x = self.tokens(tokens) + self.positions(first + jnp.arange(tokens.shape[1]))
        caches = []
        for block, before in zip(self.blocks, cache, strict=True):
            x, after = block(x, before, first)
            caches.append(after)
        return self.tokens.attend(self.norm(x)), caches

    def __call__(self, tokens: jax.Array) -> jax.Array:
        return self.step(tokens, [None] * self.layers, 0)[0]


def gpt(
    layers: int = 2, width: int = 32, heads: int = 4, length: int = 16, batch: int = 2
) -> tuple[GPT, tuple[jax.Array]]:
    """Returns the model and example tokens."""
    tokens = integers(batch, length, below=96)
    return bound(GPT(96, 16, layers, width, heads), tokens), (tokens,)
