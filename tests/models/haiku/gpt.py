"""A decoder-only transformer in dm-haiku."""

from collections.abc import Callable, Sequence
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from models.attention import Cache, attend, extended
from models.haiku.making import applied
from models.random_values import integers


def norm(name: str) -> hk.LayerNorm:
    """Returns a layer norm over the last axis."""
    return hk.LayerNorm(-1, create_scale=True, create_offset=True, name=name)


class Attention(hk.Module):
    """Causal self-attention over several heads."""

    def __init__(self, heads: int, name: str) -> None:
        super().__init__(name=name)
        self.heads = heads

    def __call__(self, x: jax.Array, cache: Cache | None, first: Any) -> tuple[Any, Cache | None]:
        q, k, v = (hk.Linear(x.shape[-1], name=name)(x) for name in "qkv")
        if cache is not None:
            cache = extended(cache, k, v, first)
            k, v = cache["k"], cache["v"]
        return hk.Linear(x.shape[-1], name="out")(attend(q, k, v, self.heads, first)), cache


class Block(hk.Module):
    """Attention and a feed-forward network, each behind a layer norm."""

    def __init__(self, heads: int, name: str) -> None:
        super().__init__(name=name)
        self.heads = heads

    def __call__(self, x: jax.Array, cache: Cache | None, first: Any) -> tuple[Any, Cache | None]:
        mixed, cache = Attention(self.heads, name="attn")(norm("attn_norm")(x), cache, first)
        x = x + mixed
        hidden = hk.Linear(4 * x.shape[-1], name="up")(norm("mlp_norm")(x))
        return x + hk.Linear(x.shape[-1], name="down")(jax.nn.gelu(hidden)), cache


def forward(
    tokens: jax.Array, cache: Sequence[Cache | None], first: Any, *, width: int, heads: int
) -> tuple[jax.Array, list[Cache | None]]:
    """Returns the logits of `tokens`, which follow `first` others, and the new caches."""
    x = hk.Embed(96, width, name="tokens")(tokens)
    x = x + hk.Embed(16, width, name="positions")(first + jnp.arange(tokens.shape[1]))
    caches = []
    for index, before in enumerate(cache):
        x, after = Block(heads, name=f"blocks_{index}")(x, before, first)
        caches.append(after)
    return hk.Linear(96, with_bias=False, name="head")(norm("norm")(x)), caches


def gpt(
    layers: int = 2, width: int = 32, heads: int = 4, length: int = 16, batch: int = 2
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the model and example tokens."""

    def whole(tokens: jax.Array) -> jax.Array:
        return forward(tokens, [None] * layers, 0, width=width, heads=heads)[0]

    tokens = integers(batch, length, below=96)
    return applied(whole, tokens), (tokens,)
