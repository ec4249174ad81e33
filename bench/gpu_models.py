"""Models of `gpu.py` that the tests' catalogue lacks: a decoder like Llama, a step of it, BERT.

Parameters are drawn in one type and computed with in another one: a model in float64 with rounded
parameters is the reference of one in half precision.
"""

import jax
import jax.numpy as jnp
import numpy as np


class Weights:
    """Random parameters that `stored` can hold, in the type `dtype`."""

    def __init__(self, stored, dtype):
        self.stored, self.dtype = jnp.dtype(stored), jnp.dtype(dtype)
        self.random = np.random.default_rng(0)

    def __call__(self, *shape, scale=None):
        drawn = self.random.standard_normal(shape, dtype=np.float32)
        drawn *= shape[0] ** -0.5 if scale is None else scale
        return jnp.asarray(drawn.astype(self.stored).astype(self.dtype))

    def scales(self, size):
        return 1 + self(size, scale=0.1)


def _rms_norm(x, scale):
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    norm = wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)
    return norm.astype(x.dtype) * scale


def _rotated(x, places):
    """Applies rotary position embeddings, with angles in the type of the activations."""
    half = x.shape[-1] // 2
    angles = places[:, None] / 10000 ** (jnp.arange(half) / half)
    cos, sin = (f(angles)[None, :, None].astype(x.dtype) for f in (jnp.cos, jnp.sin))
    one, other = jnp.split(x, 2, -1)
    return jnp.concatenate([one * cos - other * sin, other * cos + one * sin], -1)


class Decoder:
    """A decoder with grouped queries, RMS norms and gated networks."""

    def __init__(self, weights, *, layers, width, heads, groups, vocabulary):
        self.size = width // heads
        self.table, self.norm = weights(vocabulary, width, scale=1.0), weights.scales(width)
        self.head = weights(width, vocabulary)
        inner, shared = 3 * width, groups * self.size
        self.layers = [
            {
                "norms": (weights.scales(width), weights.scales(width)),
                "attention": [weights(width, n) for n in (width, shared, shared, width)],
                "network": [weights(width, inner), weights(width, inner), weights(inner, width)],
            }
            for _ in range(layers)
        ]

    def layer(self, layer, x, places, cache):
        query, key, value, out = layer["attention"]
        y = _rms_norm(x, layer["norms"][0])
        q, k, v = ((y @ w).reshape(*x.shape[:2], -1, self.size) for w in (query, key, value))
        q, k = _rotated(q, places), _rotated(k, places)
        if cache is None:
            y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        else:
            zero = jnp.zeros_like(places[0])
            place = (zero, places[0], zero, zero)
            k, v = (
                jax.lax.dynamic_update_slice(*pair, place)
                for pair in zip(cache, (k, v), strict=True)
            )
            visible = (jnp.arange(k.shape[1]) <= places[0])[None, None, None]
            y = jax.nn.dot_product_attention(q, k, v, mask=visible)
        x = x + y.reshape(x.shape) @ out
        gate, up, down = layer["network"]
        y = _rms_norm(x, layer["norms"][1])
        return x + (jax.nn.silu(y @ gate) * (y @ up)) @ down, (k, v)

    def __call__(self, tokens, place=None, caches=None):
        x = self.table[tokens]
        places = jnp.arange(tokens.shape[1]) if place is None else place[None]
        after = []
        for number, layer in enumerate(self.layers):
            x, cache = self.layer(layer, x, places, caches and caches[number])
            after.append(cache)
        logits = _rms_norm(x, self.norm) @ self.head
        return logits if caches is None else (logits, after)


SIZES = {"layers": 12, "width": 1024, "heads": 16, "groups": 4, "vocabulary": 8000}


def _tokens(below, *shape):
    return np.random.default_rng(1).integers(0, below, shape, dtype=np.int32)


def llama(weights, batch=4, length=512, **sizes):
    """Returns a decoder of whole sequences, and its tokens."""
    sizes = SIZES | sizes
    return Decoder(weights, **sizes), [_tokens(sizes["vocabulary"], batch, length)]


def llama_step(weights, batch=1, capacity=1024, **sizes):
    """Returns a step that extends caches by one token, and its arguments."""
    sizes = SIZES | sizes
    model = Decoder(weights, **sizes)
    shape = (batch, capacity, sizes["groups"], model.size)
    caches = [
        (weights(*shape, scale=1.0), weights(*shape, scale=1.0)) for _ in range(sizes["layers"])
    ]
    place = np.asarray(capacity // 2, np.int32)
    return model, [_tokens(sizes["vocabulary"], batch, 1), place, caches]


def bert(weights, batch=16, length=128, layers=12, width=768, heads=12, vocabulary=8000):
    """Returns an encoder with padded examples, and its arguments."""

    def dense(inputs, outputs):
        return weights(inputs, outputs), weights(outputs, scale=0.1)

    def norm():
        return weights.scales(width), weights(width, scale=0.1)

    embeddings = [weights(size, width, scale=1.0) for size in (vocabulary, length, 2)]
    first = norm()
    parts = [
        {
            "attention": [dense(width, width) for _ in range(4)],
            "network": (dense(width, 4 * width), dense(4 * width, width)),
            "norms": (norm(), norm()),
        }
        for _ in range(layers)
    ]

    def apply(layer, x):
        return x @ layer[0] + layer[1]

    def normalised(x, scale, bias):
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        centred = wide - wide.mean(-1, keepdims=True)
        spread = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-12)
        return (centred * spread).astype(x.dtype) * scale + bias

    def model(tokens, kinds, mask):
        x = embeddings[0][tokens] + embeddings[1][: tokens.shape[1]] + embeddings[2][kinds]
        x = normalised(x, *first)
        for part in parts:
            q, k, v = (
                apply(one, x).reshape(*x.shape[:2], heads, -1) for one in part["attention"][:3]
            )
            y = jax.nn.dot_product_attention(q, k, v, mask=(mask > 0)[:, None, None])
            x = normalised(x + apply(part["attention"][3], y.reshape(x.shape)), *part["norms"][0])
            up, down = part["network"]
            y = apply(down, jax.nn.gelu(apply(up, x), approximate=False))
            x = normalised(x + y, *part["norms"][1])
        return x

    mask = (np.arange(length) < length - 8 * (np.arange(batch)[:, None] % 2)).astype(np.int32)
    return model, [_tokens(vocabulary, batch, length), _tokens(2, batch, length), mask]


MODELS = {"llama": llama, "llama_step": llama_step, "bert": bert}


def build(name, stored, dtype):
    """Returns a model and its inputs by a name such as `bert:batch=1`; `None` for other names."""
    name, _, sizes = name.partition(":")
    if name not in MODELS:
        return None
    pairs = (size.split("=") for size in sizes.split(",") if size)
    return MODELS[name](Weights(stored, dtype), **{key: int(value) for key, value in pairs})
