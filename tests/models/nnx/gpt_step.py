"""One step of decoding with the transformer of `gpt.py`: keys and values are cached."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from models.attention import Cache, attend, empty_caches, extended
from models.nnx.gpt import GPT, Attention, Block
from models.nnx.layer_list import LayerList
from models.nnx.making import made
from models.random_values import integers


class CachedAttention(Attention):
    """Attention of new tokens to those in the cache and to each other."""

    def __call__(  # type: ignore[override]
        self, x: jax.Array, cache: Cache, first: jax.Array
    ) -> tuple[jax.Array, Cache]:
        cache = extended(cache, self.k(x), self.v(x), first)
        return self.out(attend(self.q(x), cache["k"], cache["v"], self.heads, first)), cache


class CachedBlock(Block):
    """A block whose attention has a cache."""

    def __init__(self, width: int, heads: int, *, rngs: nnx.Rngs) -> None:
        super().__init__(width, heads, rngs=rngs)
        self.attn = CachedAttention(width, heads, rngs=rngs)

    def __call__(  # type: ignore[override]
        self, x: jax.Array, cache: Cache, first: jax.Array
    ) -> tuple[jax.Array, Cache]:
        mixed, cache = self.attn(self.attn_norm(x), cache, first)
        x = x + mixed
        return x + self.down(jax.nn.gelu(self.up(self.mlp_norm(x)))), cache


class Decoder(GPT):
    """A decoder that returns the logits of tokens after `first` others, and the new caches."""

    def __init__(
        self, layers: int, width: int, heads: int, *, rngs: nnx.Rngs, **kwargs: Any
    ) -> None:
        super().__init__(layers=0, width=width, heads=heads, tied=True, rngs=rngs, **kwargs)
        self.blocks = LayerList([CachedBlock(width, heads, rngs=rngs) for _ in range(layers)])

    def __call__(  # type: ignore[override]
        self, tokens: jax.Array, cache: Sequence[Cache], first: jax.Array
    ) -> tuple[jax.Array, list[Cache]]:
        x = self.tokens(tokens) + self.positions(first + jnp.arange(tokens.shape[1]))
        caches = []
        for block, before in zip(self.blocks, cache, strict=True):
            x, after = block(x, before, first)
            caches.append(after)
        return self.tokens.attend(self.norm(x)), caches


def gpt_step(
    batch: int = 2, capacity: int = 16, width: int = 32
) -> tuple[Decoder, tuple[Any, ...]]:
    """Returns the model, a token, the caches and the token's position."""
    model = made(lambda rngs: Decoder(2, width, 4, vocabulary=96, context=capacity, rngs=rngs))
    token = integers(batch, 1, below=96)
    return model, (token, empty_caches(2, batch, capacity, width), jnp.int32(3))
