"""Small decoders in several styles, and greedy generation with JAX."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from harness.checking import quick
from jax2onnx import generation

LAYERS, WIDTH, HEADS, GROUPS, VOCABULARY, LENGTH = 2, 32, 4, 2, 50, 48
SIZE = WIDTH // HEADS
ABOUT = generation.Description(
    layers=LAYERS,
    heads=HEADS,
    key_value_heads=GROUPS,
    head_size=SIZE,
    vocabulary=VOCABULARY,
    context_length=LENGTH,
    eos=VOCABULARY - 1,
)


@dataclass(frozen=True)
class Style:
    """The differences between a decoder and a Llama.

    Attributes:
        cache: "grows", "buffer" or "buffer, heads last": the storage of keys and values.
        one_plus: Norms scale by one plus their weights, as in Gemma.
        soft_cap: The soft limit of scores.
        window: The number of tokens that a token attends to, in all layers or in each.
        experts: The number of experts. Each token uses two.
        encoder: The decoder attends to the results of an encoder.
        sinks: Each head has a score without a value, as in GPT-OSS.
    """

    cache: str = "grows"
    one_plus: bool = False
    soft_cap: float | None = None
    window: int | tuple[int, ...] | None = None
    experts: int = 0
    encoder: bool = False
    sinks: bool = False


def parameters(style: Style) -> dict[str, Any]:
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> jax.Array:
        return jnp.asarray(rng.standard_normal(shape, np.float32) / np.sqrt(shape[-2]))

    def norm() -> jax.Array:
        return jnp.asarray(rng.uniform(0.5, 1.5, WIDTH).astype(np.float32) - style.one_plus)

    def layer() -> dict[str, Any]:
        width = (style.experts,) if style.experts else ()
        found = {
            "norm1": norm(),
            "norm2": norm(),
            "q": weight(WIDTH, WIDTH),
            "k": weight(WIDTH, GROUPS * SIZE),
            "v": weight(WIDTH, GROUPS * SIZE),
            "o": weight(WIDTH, WIDTH),
            "gate": weight(*width, WIDTH, 64),
            "up": weight(*width, WIDTH, 64),
            "down": weight(*width, 64, WIDTH),
        }
        if style.experts:
            found["router"] = weight(WIDTH, style.experts)
        if style.encoder:
            found |= {
                "norm3": norm(),
                "q2": weight(WIDTH, WIDTH),
                "k2": weight(WIDTH, WIDTH),
                "v2": weight(WIDTH, WIDTH),
                "o2": weight(WIDTH, WIDTH),
            }
        if style.sinks:
            found["sinks"] = jnp.asarray(rng.standard_normal(HEADS, np.float32))
        return found

    return {
        "embedding": weight(VOCABULARY, WIDTH) * 5,
        "norm": norm(),
        "head": weight(WIDTH, VOCABULARY),
        "layers": [layer() for _ in range(LAYERS)],
    }


def decoder(style: Style, params: Any = None) -> Any:
    """Returns a function of token ids, positions, the cache and an encoder's results."""
    params = params or parameters(style)

    def rms(x: Any, scale: Any) -> Any:
        x = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
        return x * (1 + scale) if style.one_plus else x * scale

    def heads(x: Any, count: int) -> Any:
        return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)

    def rope(x: Any, positions: Any) -> Any:
        rates = 10000.0 ** (-jnp.arange(0, SIZE, 2) / SIZE)
        angles = positions[:, None, :, None] * rates
        one, two = jnp.split(x, 2, -1)
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        return jnp.concatenate([one * cos - two * sin, two * cos + one * sin], -1)

    def attend(q: Any, k: Any, v: Any, mask: Any, sinks: Any = None) -> Any:
        k, v = (jnp.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(SIZE)
        if style.soft_cap:
            scores = style.soft_cap * jnp.tanh(scores / style.soft_cap)
        if mask is not None:
            scores = jnp.where(mask, scores, -1e9)
        if sinks is not None:
            column = jnp.broadcast_to(sinks[:, None, None], (*scores.shape[:3], 1))
            scores = jnp.concatenate([scores, column], -1)
        weights = jax.nn.softmax(scores, -1)[..., : k.shape[2]]
        mixed = jnp.einsum("bhqk,bhkd->bhqd", weights, v)
        return mixed.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], WIDTH)

    def feed_forward(p: Any, x: Any) -> Any:
        if not style.experts:
            return (jax.nn.silu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]
        share, chosen = jax.lax.top_k(jax.nn.softmax(x @ p["router"], -1), 2)
        gate, up, down = p["gate"][chosen], p["up"][chosen], p["down"][chosen]
        inner = jax.nn.silu(jnp.einsum("bsd,bsedf->bsef", x, gate))
        inner = inner * jnp.einsum("bsd,bsedf->bsef", x, up)
        return jnp.einsum("bsef,bsefd,bse->bsd", inner, down, share)

    def updated(old: Any, new: Any, positions: Any) -> tuple[Any, Any, Any]:
        """Returns the new leaf, its content as [batch, heads, length, size], and its positions."""
        if style.cache == "grows":
            whole = jnp.concatenate([old, new], 2)
            return whole, whole, jnp.arange(whole.shape[2])
        axis = 2 if style.cache == "buffer" else 1
        new = new if axis == 2 else new.transpose(0, 2, 1, 3)
        whole = jax.lax.dynamic_update_slice_in_dim(old, new, positions[0, 0], axis)
        return whole, whole if axis == 2 else whole.transpose(0, 2, 1, 3), jnp.arange(LENGTH)

    def run(input_ids: Any, position_ids: Any, cache: Any, encoded: Any = None) -> Any:
        x = params["embedding"][input_ids]
        if style.one_plus:
            x = x * np.sqrt(WIDTH).astype(np.float32)
        new_cache = []
        windows = style.window if isinstance(style.window, tuple) else (style.window,) * LAYERS
        for p, (old_k, old_v), window in zip(params["layers"], cache, windows, strict=True):
            y = rms(x, p["norm1"])
            q = rope(heads(y @ p["q"], HEADS), position_ids)
            k = rope(heads(y @ p["k"], GROUPS), position_ids)
            new_k, k, places = updated(old_k, k, position_ids)
            new_v, v, _ = updated(old_v, heads(y @ p["v"], GROUPS), position_ids)
            new_cache.append((new_k, new_v))
            mask = places <= position_ids[:, None, :, None]
            if window:
                mask &= places > position_ids[:, None, :, None] - window
            x = x + attend(q, k, v, mask, p.get("sinks")) @ p["o"]
            if style.encoder:
                y = rms(x, p["norm3"])
                k2, v2 = heads(encoded @ p["k2"], HEADS), heads(encoded @ p["v2"], HEADS)
                x = x + attend(heads(y @ p["q2"], HEADS), k2, v2, None) @ p["o2"]
            x = x + feed_forward(p, rms(x, p["norm2"]))
        logits = rms(x, params["norm"]) @ params["head"]
        if style.soft_cap:
            logits = style.soft_cap * jnp.tanh(logits / style.soft_cap)
        return logits, new_cache

    if style.encoder:
        return lambda input_ids, position_ids, cache, encoded: run(
            input_ids, position_ids, cache, encoded
        )
    return lambda input_ids, position_ids, cache: run(input_ids, position_ids, cache)


def cache_shape(style: Style, *, batch: Any = "batch", past: Any = "past") -> tuple[Any, ...]:
    length = past if style.cache == "grows" else LENGTH
    if style.cache == "buffer, heads last":
        return (batch, length, GROUPS, SIZE)
    return (batch, GROUPS, length, SIZE)


def greedy(decode: Any, cache: Any, prompt: list[int], count: int, *extra: Any) -> list[int]:
    """Returns the prompt and JAX's most likely tokens after it, starting from an empty cache.

    JAX computes the whole text for each token. No position attends to later ones, so their values
    do not matter, and all steps have the same shapes: XLA compiles one program instead of many.
    """
    whole = quick(decode)
    length = len(prompt) + count
    tokens = np.array([[*prompt, *[0] * count]], np.int32)
    for place in range(len(prompt), length):
        logits, _ = whole(tokens, np.arange(length)[None], cache, *extra)
        tokens[0, place] = np.argmax(logits[0, place - 1])
    return tokens[0].tolist()
