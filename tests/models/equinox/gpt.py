"""A decoder-only transformer in Equinox."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from models.attention import Cache, attend, extended
from models.equinox.making import made
from models.random_values import integers


class Attention(eqx.Module):
    """Causal self-attention over several heads."""

    heads: int
    q: eqx.nn.Linear
    k: eqx.nn.Linear
    v: eqx.nn.Linear
    out: eqx.nn.Linear

    def __init__(self, width: int, heads: int, key: jax.Array) -> None:
        self.heads = heads
        self.q, self.k, self.v, self.out = (eqx.nn.Linear(width, width, key=key) for _ in range(4))

    def __call__(self, x: jax.Array, cache: Cache | None, first: Any) -> tuple[Any, Cache | None]:
        q, k, v = (jax.vmap(layer)(x) for layer in (self.q, self.k, self.v))
        if cache is not None:
            cache = extended(cache, k, v, first)
            k, v = cache["k"], cache["v"]
        return jax.vmap(self.out)(attend(q, k, v, self.heads, first)), cache


class Block(eqx.Module):
    """Attention and a feed-forward network, each behind a layer norm."""

    attn_norm: eqx.nn.LayerNorm
    attn: Attention
    mlp_norm: eqx.nn.LayerNorm
    mlp: eqx.nn.MLP

    def __init__(self, width: int, heads: int, key: jax.Array) -> None:
        self.attn_norm = eqx.nn.LayerNorm(width)
        self.attn = Attention(width, heads, key)
        self.mlp_norm = eqx.nn.LayerNorm(width)
        self.mlp = eqx.nn.MLP(width, width, 4 * width, depth=1, activation=jax.nn.gelu, key=key)

    def __call__(self, x: jax.Array, cache: Cache | None, first: Any) -> tuple[Any, Cache | None]:
        mixed, cache = self.attn(jax.vmap(self.attn_norm)(x), cache, first)
        x = x + mixed
        return x + jax.vmap(self.mlp)(jax.vmap(self.mlp_norm)(x)), cache


class GPT(eqx.Module):
    """Token and position embeddings, blocks, and a head, for one sequence."""

    tokens: eqx.nn.Embedding
    positions: eqx.nn.Embedding
    blocks: list[Block]
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(
        self, vocabulary: int, context: int, layers: int, width: int, heads: int, key: jax.Array
    ) -> None:
        self.tokens = eqx.nn.Embedding(vocabulary, width, key=key)
        self.positions = eqx.nn.Embedding(context, width, key=key)
        self.blocks = [Block(width, heads, key) for _ in range(layers)]
        self.norm = eqx.nn.LayerNorm(width)
        self.head = eqx.nn.Linear(width, vocabulary, use_bias=False, key=key)

    def step(
        self, tokens: jax.Array, cache: Sequence[Cache | None], first: Any
    ) -> tuple[jax.Array, list[Cache | None]]:
        """Returns the logits of `tokens`, which follow `first` others, and the new caches."""
        positions = first + jnp.arange(tokens.shape[0])
        x = jax.vmap(self.tokens)(tokens) + jax.vmap(self.positions)(positions)
        caches = []
        for block, before in zip(self.blocks, cache, strict=True):
            x, after = block(x, before, first)
            caches.append(after)
        return jax.vmap(self.head)(jax.vmap(self.norm)(x)), caches

    def __call__(self, tokens: jax.Array) -> jax.Array:
        return self.step(tokens, [None] * len(self.blocks), 0)[0]


def gpt(
    layers: int = 2, width: int = 32, heads: int = 4, length: int = 16, batch: int = 2
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the model and example tokens."""
    model = made(GPT, 96, 16, layers, width, heads)
    return jax.vmap(model), (integers(batch, length, below=96),)
