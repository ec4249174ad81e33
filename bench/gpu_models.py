"""Models of `gpu.py` that the tests' catalogue lacks, of the sizes that run on GPUs.

Parameters are drawn in one type and computed with in another one: a model in float64 with rounded
parameters is the reference of one in half precision.
"""

import itertools

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


def _dense(weights, inputs, outputs):
    return weights(inputs, outputs), weights(outputs, scale=0.1)


def _apply(layer, x):
    return x @ layer[0] + layer[1]


def _normalised(x, scale=1, bias=0, axes=-1, epsilon=1e-6):
    """Normalises to mean 0 and variance 1, in `float32` at least."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    centred = wide - wide.mean(axes, keepdims=True)
    spread = jax.lax.rsqrt((centred * centred).mean(axes, keepdims=True) + epsilon)
    return (centred * spread).astype(x.dtype) * scale + bias


def _attended(layers, x, heads):
    """Returns self-attention; `layers` project to queries, keys, values and the output."""
    q, k, v = (_apply(one, x).reshape(*x.shape[:2], heads, -1) for one in layers[:3])
    return _apply(layers[3], jax.nn.dot_product_attention(q, k, v).reshape(x.shape))


def _convolved(layer, x, stride=1, groups=1):
    """Applies a convolution to channels-last images or sequences."""
    names = {3: ("NHC", "HIO", "NHC"), 4: ("NHWC", "HWIO", "NHWC")}[x.ndim]
    strides = (stride,) * (x.ndim - 2)
    kernel, bias = layer
    y = jax.lax.conv_general_dilated(
        x, kernel, strides, "SAME", dimension_numbers=names, feature_group_count=groups
    )
    return y + bias


def _kernel(weights, *shape):
    fan = int(np.prod(shape[:-1]))
    return weights(*shape, scale=fan**-0.5), weights(shape[-1], scale=0.1)


def bert(weights, batch=16, length=128, layers=12, width=768, heads=12, vocabulary=8000):
    """Returns an encoder with padded examples, and its arguments."""

    def norm():
        return weights.scales(width), weights(width, scale=0.1)

    embeddings = [weights(size, width, scale=1.0) for size in (vocabulary, length, 2)]
    first = norm()
    parts = [
        {
            "attention": [_dense(weights, width, width) for _ in range(4)],
            "network": (_dense(weights, width, 4 * width), _dense(weights, 4 * width, width)),
            "norms": (norm(), norm()),
        }
        for _ in range(layers)
    ]

    def model(tokens, kinds, mask):
        x = embeddings[0][tokens] + embeddings[1][: tokens.shape[1]] + embeddings[2][kinds]
        x = _normalised(x, *first)
        for part in parts:
            q, k, v = (
                _apply(one, x).reshape(*x.shape[:2], heads, -1) for one in part["attention"][:3]
            )
            y = jax.nn.dot_product_attention(q, k, v, mask=(mask > 0)[:, None, None])
            x = _normalised(x + _apply(part["attention"][3], y.reshape(x.shape)), *part["norms"][0])
            up, down = part["network"]
            y = _apply(down, jax.nn.gelu(_apply(up, x), approximate=False))
            x = _normalised(x + y, *part["norms"][1])
        return x

    mask = (np.arange(length) < length - 8 * (np.arange(batch)[:, None] % 2)).astype(np.int32)
    return model, [_tokens(vocabulary, batch, length), _tokens(2, batch, length), mask]


def dit(weights, batch=8, tokens=256, layers=12, width=768, heads=12, channels=16):
    """Returns a diffusion transformer, whose norms depend on the time step, and its arguments."""
    blocks = [
        {
            "condition": _dense(weights, width, 6 * width),
            "attention": [_dense(weights, width, width) for _ in range(4)],
            "network": (_dense(weights, width, 4 * width), _dense(weights, 4 * width, width)),
        }
        for _ in range(layers)
    ]
    first, last = _dense(weights, channels, width), _dense(weights, width, channels)
    places, final = weights(tokens, width, scale=0.1), _dense(weights, width, 2 * width)
    time = (_dense(weights, 256, width), _dense(weights, width, width))

    def model(x, step):
        angles = step[:, None] / 10000 ** (jnp.arange(128) / 128)
        waves = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], -1).astype(x.dtype)
        condition = jax.nn.silu(_apply(time[1], jax.nn.silu(_apply(time[0], waves))))
        x = _apply(first, x) + places
        for block in blocks:
            parts = jnp.split(_apply(block["condition"], condition)[:, None], 6, -1)
            y = _normalised(x) * (1 + parts[1]) + parts[0]
            x = x + parts[2] * _attended(block["attention"], y, heads)
            y = _normalised(x) * (1 + parts[4]) + parts[3]
            up, down = block["network"]
            x = x + parts[5] * _apply(down, jax.nn.gelu(_apply(up, y)))
        shift, scale = jnp.split(_apply(final, condition)[:, None], 2, -1)
        return _apply(last, _normalised(x) * (1 + scale) + shift)

    return model, [weights(batch, tokens, channels, scale=1.0), np.arange(batch, dtype=np.int32)]


def convnext(weights, batch=16, size=224, depths=(3, 3, 9, 3), widths=(96, 192, 384, 768)):
    """Returns a ConvNeXt with inverted bottlenecks and layer scales, and an image batch."""

    def norm(width):
        return weights.scales(width), weights(width, scale=0.1)

    stem, first = _kernel(weights, 4, 4, 3, widths[0]), norm(widths[0])
    stages = [
        [
            {
                "depthwise": _kernel(weights, 7, 7, 1, width),
                "norm": norm(width),
                "network": (_dense(weights, width, 4 * width), _dense(weights, 4 * width, width)),
                "scale": weights(width, scale=0.1),
            }
            for _ in range(depth)
        ]
        for depth, width in zip(depths, widths, strict=True)
    ]
    between = [
        (norm(one), _kernel(weights, 2, 2, one, other)) for one, other in itertools.pairwise(widths)
    ]
    head_norm, head = norm(widths[-1]), _dense(weights, widths[-1], 1000)

    def model(x):
        x = _normalised(_convolved(stem, x, 4), *first)
        for number, stage in enumerate(stages):
            if number:
                scales, kernel = between[number - 1]
                x = _convolved(kernel, _normalised(x, *scales), 2)
            for block in stage:
                y = _convolved(block["depthwise"], x, groups=x.shape[-1])
                up, down = block["network"]
                y = jax.nn.gelu(_apply(up, _normalised(y, *block["norm"])), approximate=False)
                x = x + block["scale"] * _apply(down, y)
        return _apply(head, _normalised(x.mean((1, 2)), *head_norm))

    return model, [weights(batch, size, size, 3, scale=1.0)]


def whisper(weights, batch=4, frames=3000, layers=6, width=512, heads=8):
    """Returns an encoder of spectrograms like Whisper's, and a batch of them."""
    convolutions = _kernel(weights, 3, 80, width), _kernel(weights, 3, width, width)
    places = weights(frames // 2, width, scale=0.1)
    blocks = [
        {
            "norms": [(weights.scales(width), weights(width, scale=0.1)) for _ in range(2)],
            "attention": [_dense(weights, width, width) for _ in range(4)],
            "network": (_dense(weights, width, 4 * width), _dense(weights, 4 * width, width)),
        }
        for _ in range(layers)
    ]
    last = weights.scales(width), weights(width, scale=0.1)

    def model(x):
        for stride, layer in enumerate(convolutions, 1):
            x = jax.nn.gelu(_convolved(layer, x, stride), approximate=False)
        x = x + places
        for block in blocks:
            x = x + _attended(block["attention"], _normalised(x, *block["norms"][0]), heads)
            up, down = block["network"]
            y = jax.nn.gelu(_apply(up, _normalised(x, *block["norms"][1])), approximate=False)
            x = x + _apply(down, y)
        return _normalised(x, *last)

    return model, [weights(batch, frames, 80, scale=1.0)]


def unet(weights, batch=4, size=64, channels=4, widths=(128, 256, 512)):
    """Returns a diffusion model's U-Net with group norms and attention, and its arguments."""
    time = _dense(weights, 256, widths[-1])

    def block(inputs, outputs):
        return {
            "norms": [(weights.scales(n), weights(n, scale=0.1)) for n in (inputs, outputs)],
            "kernels": [
                _kernel(weights, 3, 3, inputs, outputs),
                _kernel(weights, 3, 3, outputs, outputs),
            ],
            "time": _dense(weights, widths[-1], outputs),
            "shortcut": None if inputs == outputs else _kernel(weights, 1, 1, inputs, outputs),
        }

    def grouped(x, scale, bias):
        parts = x.reshape(*x.shape[:3], 32, -1)
        return _normalised(parts, axes=(1, 2, 4)).reshape(x.shape) * scale + bias

    def run(block, x, condition):
        y = _convolved(block["kernels"][0], jax.nn.silu(grouped(x, *block["norms"][0])))
        y = y + _apply(block["time"], condition)[:, None, None]
        y = _convolved(block["kernels"][1], jax.nn.silu(grouped(y, *block["norms"][1])))
        return y + (x if block["shortcut"] is None else _convolved(block["shortcut"], x))

    pairs = list(zip((widths[0], *widths), widths, strict=False))
    stem, last = (
        _kernel(weights, 3, 3, channels, widths[0]),
        _kernel(weights, 3, 3, widths[0], channels),
    )
    down = [(block(one, other), _kernel(weights, 3, 3, other, other)) for one, other in pairs]
    middle = block(widths[-1], widths[-1])
    attention = [_dense(weights, widths[-1], widths[-1]) for _ in range(4)]
    up = [(block(2 * other, one), _kernel(weights, 3, 3, one, one)) for one, other in pairs[::-1]]

    def model(x, step):
        angles = step[:, None] / 10000 ** (jnp.arange(128) / 128)
        waves = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], -1).astype(x.dtype)
        condition = jax.nn.silu(_apply(time, waves))
        x, kept = _convolved(stem, x), []
        for part, kernel in down:
            x = run(part, x, condition)
            kept.append(x)
            x = _convolved(kernel, x, 2)
        x = run(middle, x, condition)
        y = x.reshape(x.shape[0], -1, x.shape[-1])
        x = x + _attended(attention, _normalised(y), 8).reshape(x.shape)
        for part, kernel in up:
            x = jax.image.resize(
                x, (x.shape[0], *(2 * n for n in x.shape[1:3]), x.shape[3]), "nearest"
            )
            x = run(part, jnp.concatenate([x, kept.pop()], -1), condition)
            x = _convolved(kernel, x)
        return _convolved(last, jax.nn.silu(x))

    return model, [
        weights(batch, size, size, channels, scale=1.0),
        np.arange(batch, dtype=np.int32),
    ]


def lstm(weights, batch=16, length=128, layers=2, width=512):
    """Returns stacked LSTM layers as scans, and a batch of sequences."""
    cells = [
        (weights(width, 4 * width), weights(width, 4 * width), weights(4 * width, scale=0.1))
        for _ in range(layers)
    ]

    def model(x):
        for inputs, recurrent, bias in cells:

            def step(state, x, recurrent=recurrent, bias=bias):
                hidden, cell = state
                i, f, g, o = jnp.split(x + hidden @ recurrent + bias, 4, -1)
                cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
                hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
                return (hidden, cell), hidden

            zero = jnp.zeros((x.shape[0], width), x.dtype)
            _, x = jax.lax.scan(step, (zero, zero), jnp.moveaxis(x @ inputs, 1, 0))
            x = jnp.moveaxis(x, 0, 1)
        return x

    return model, [weights(batch, length, width, scale=1.0)]


MODELS = {
    one.__name__: one for one in (llama, llama_step, bert, dit, convnext, whisper, unet, lstm)
}


def build(name, stored, dtype):
    """Returns a model and its inputs by a name such as `bert:batch=1`; `None` for other names."""
    name, _, sizes = name.partition(":")
    if name not in MODELS:
        return None
    pairs = (size.split("=") for size in sizes.split(",") if size)
    return MODELS[name](Weights(stored, dtype), **{key: int(value) for key, value in pairs})
