"""Layers that are the same in all families.

Parameters have the names and shapes of the checkpoint: a linear layer is a dictionary with a
`weight` of [outputs, inputs] and possibly a `bias`. Caches grow, and hold keys and values of
[batch, key and value heads, tokens so far, head size].

Layers compute in the type of the parameters. With parameters in half precision, norms and softmax
compute in float32.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jax2onnx.families.config import Sizes


def array(*shape: int) -> jax.ShapeDtypeStruct:
    """Returns the type of a parameter."""
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def linear_parameters(inputs: int, outputs: int, *, bias: bool = False) -> dict[str, Any]:
    """Returns the parameters of a linear layer."""
    weight = {"weight": array(outputs, inputs)}
    return weight | {"bias": array(outputs)} if bias else weight


def linear(p: Any, x: jax.Array) -> jax.Array:
    """Applies a linear layer."""
    product: jax.Array = x @ p["weight"].T
    return product + p["bias"] if "bias" in p else product


def rms_norm(p: Any, x: jax.Array, epsilon: float) -> jax.Array:
    """Divides by the root mean square, and scales."""
    scale: jax.Array = p["weight"]
    wide = x.astype(jnp.float32)
    wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + epsilon)
    return wide.astype(x.dtype) * scale


def gated_parameters(sizes: Sizes, *, bias: bool = False) -> dict[str, Any]:
    """Returns the parameters of a gated feed-forward block."""
    return {
        "gate_proj": linear_parameters(sizes.width, sizes.inner, bias=bias),
        "up_proj": linear_parameters(sizes.width, sizes.inner, bias=bias),
        "down_proj": linear_parameters(sizes.inner, sizes.width, bias=bias),
    }


def attention_parameters(
    sizes: Sizes, *, bias: bool = False, last_bias: bool = False
) -> dict[str, Any]:
    """Returns the parameters of the projections to queries, keys and values, and back."""
    inner, few = sizes.heads * sizes.head_size, sizes.key_value_heads * sizes.head_size
    return {
        "q_proj": linear_parameters(sizes.width, inner, bias=bias),
        "k_proj": linear_parameters(sizes.width, few, bias=bias),
        "v_proj": linear_parameters(sizes.width, few, bias=bias),
        "o_proj": linear_parameters(inner, sizes.width, bias=last_bias),
    }


def split_heads(x: jax.Array, count: int) -> jax.Array:
    """Returns [batch, sequence, features] as [batch, heads, sequence, head size]."""
    batch, length, features = x.shape
    return x.reshape(batch, length, count, features // count).transpose(0, 2, 1, 3)


def merge_heads(x: jax.Array) -> jax.Array:
    """Returns [batch, heads, sequence, head size] as [batch, sequence, features]."""
    batch, heads, length, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)


def visible(position_ids: jax.Array, length: int, window: int | None = None) -> jax.Array:
    """Returns the mask of attention, [batch, 1, 1, sequence, length]: a token sees itself and
    those before it, or the last ones up to the size of the window.
    """
    own, others = position_ids[:, None, None, :, None], jnp.arange(length)
    mask = others <= own
    return mask if window is None else mask & (others > own - window)


def update(cache: dict[str, jax.Array], key: jax.Array, value: jax.Array) -> dict[str, jax.Array]:
    """Appends the keys and values of new tokens."""
    return {
        "key": jnp.concatenate([cache["key"], key], 2),
        "value": jnp.concatenate([cache["value"], value], 2),
    }


def attention(
    query: jax.Array,
    cache: dict[str, jax.Array],
    mask: jax.Array,
    scale: float,
    *,
    soft_cap: float | None = None,
    sinks: jax.Array | None = None,
) -> jax.Array:
    """Attends to the visible keys and values. Several heads share each key and value head.

    A soft cap limits the scores. A sink is one more score of each head, without a value.
    """
    key, value = cache["key"], cache["value"]
    batch, heads, length, size = query.shape
    groups = key.shape[1]
    query = query.reshape(batch, groups, heads // groups, length, size)
    scores = jnp.einsum("bghqd,bgkd->bghqk", query, key).astype(jnp.float32) * scale
    if soft_cap is not None:
        scores = soft_cap * jnp.tanh(scores / soft_cap)
    scores = jnp.where(mask, scores, -1e9)
    if sinks is None:
        shares = jax.nn.softmax(scores, -1)
    else:
        sink = sinks.astype(jnp.float32).reshape(1, groups, heads // groups, 1, 1)
        sink = jnp.broadcast_to(sink, (*scores.shape[:-1], 1))
        shares = jax.nn.softmax(jnp.concatenate([scores, sink], -1), -1)[..., :-1]
    mixed = jnp.einsum("bghqk,bgkd->bghqd", shares.astype(value.dtype), value)
    return mixed.reshape(batch, heads, length, size)


def model_parameters(sizes: Sizes, layer: Any) -> dict[str, Any]:
    """Returns the parameters of a model, from those of one layer."""
    model = {
        "embed_tokens": {"weight": array(sizes.vocabulary, sizes.width)},
        "layers": [layer] * sizes.layers,
        "norm": {"weight": array(sizes.width)},
    }
    head = {} if sizes.tied else {"lm_head": linear_parameters(sizes.width, sizes.vocabulary)}
    # Every parameter has its own object. One that occurs twice would be one parameter.
    whole: dict[str, Any] = {"model": model, **head}
    return dict(jax.tree.map(lambda p: array(*p.shape), whole))


def logits(
    p: Any,
    x: jax.Array,
    epsilon: float,
    *,
    last: jax.Array | None,
    norm: Callable[[Any, jax.Array, float], jax.Array] = rms_norm,
) -> jax.Array:
    """Normalises, and returns a score for each token of the vocabulary: those of all positions, or
    of one position in each text.
    """
    x = norm(p["model"]["norm"], x, epsilon)
    if last is not None:
        x = x[jnp.arange(x.shape[0])[:, None], last[:, None]]
    return linear(p["lm_head"] if "lm_head" in p else p["model"]["embed_tokens"], x)
