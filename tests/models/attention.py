"""Attention over several heads, with and without a cache of keys and values."""

import jax
import jax.numpy as jnp

Cache = dict[str, jax.Array]


def attend(
    q: jax.Array, k: jax.Array, v: jax.Array, heads: int, first: jax.Array | int | None = None
) -> jax.Array:
    """Scaled dot-product attention. With `first`, the position of the first query among the keys,
    a query sees no later keys.
    """
    q, k, v = (x.reshape(*x.shape[:-1], heads, -1) for x in (q, k, v))
    scores = jnp.einsum("...qhd,...khd->...hqk", q, k) * q.shape[-1] ** -0.5
    if first is not None:
        seen = jnp.arange(k.shape[-3]) <= first + jnp.arange(q.shape[-3])[:, None]
        scores = jnp.where(seen, scores, jnp.finfo(scores.dtype).min)
    mixed = jnp.einsum("...hqk,...khd->...qhd", jax.nn.softmax(scores), v)
    return mixed.reshape(*mixed.shape[:-2], -1)


def extended(cache: Cache, k: jax.Array, v: jax.Array, first: jax.Array) -> Cache:
    """Returns the cache with new keys and values from position `first`."""
    new = {"k": k, "v": v}
    axis = k.ndim - 2
    return {
        name: jax.lax.dynamic_update_slice_in_dim(cache[name], new[name], first, axis)
        for name in ("k", "v")
    }


def empty_caches(layers: int, *shape: int) -> list[Cache]:
    """Returns one empty cache per layer."""
    return [{"k": jnp.zeros(shape), "v": jnp.zeros(shape)} for _ in range(layers)]
