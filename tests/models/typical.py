"""Typical models for tests in other runtimes: architectures of the catalogue and other programs
that people deploy, with a symbolic batch where the runtimes' users would have one.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from models import bert, catalogue
from models.random_values import integers, normal


class Typical:
    """A callable, its example arguments, and their types with symbolic sizes."""

    def __init__(self, fn: Any, args: tuple[Any, ...], *shapes: tuple[int | str, ...]) -> None:
        self.fn, self.args = fn, args
        leaves, tree = jax.tree.flatten(args)
        types = [
            jax.ShapeDtypeStruct(shape, leaf.dtype)
            for shape, leaf in zip(shapes, leaves, strict=True)
        ]
        self.types = jax.tree.unflatten(tree, types)


def of_catalogue(name: str, **sizes: int) -> Callable[[], Typical]:
    """Returns a model of the catalogue whose batch is symbolic."""

    def build() -> Typical:
        fn, args = catalogue.build(name, batch=3, **sizes)
        _, single = catalogue.build(name, batch=1, **sizes)
        shapes = [
            tuple("B" if a != b else a for a, b in zip(one.shape, three.shape, strict=True))
            for one, three in zip(jax.tree.leaves(single), jax.tree.leaves(args), strict=True)
        ]
        return Typical(fn, args, *shapes)

    return build


def any_bert() -> Typical:
    """Returns BERT with a symbolic batch and length."""
    ids, types = integers(2, 16, below=bert.WORDS), integers(2, 16, below=2)
    mask = jnp.asarray([[1] * 16, [1] * 11 + [0] * 5], jnp.int32)
    return Typical(bert.nnx(), (ids, types, mask), *[("B", "T")] * 3)


def gpt() -> Typical:
    """Returns GPT with a symbolic batch and length."""
    fn, args = catalogue.build("nnx/gpt")
    return Typical(fn, args, ("B", "T"))


def llama() -> Typical:
    """Grouped-query attention with rotary positions, RMS norms and a gated network."""
    width, heads, groups, size, length = 32, 4, 2, 8, 12
    weights = [
        0.2 * normal(*shape)
        for shape in [
            (width, heads * size),
            (width, groups * size),
            (width, groups * size),
            (heads * size, width),
            (width, 64),
            (width, 64),
            (64, width),
        ]
    ]
    table = normal(50, width)
    angles = jnp.arange(length)[:, None] * 1e4 ** (-jnp.arange(size // 2) / (size // 2))
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]

    def norm(x: jax.Array) -> jax.Array:
        return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)

    def rotate(x: jax.Array) -> jax.Array:
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def fn(tokens: jax.Array) -> jax.Array:
        q, k, v, out, gate, up, down = weights
        x = table[tokens]
        for _ in range(2):
            y = norm(x)
            q_, k_, v_ = ((y @ w).reshape(*y.shape[:2], -1, size) for w in (q, k, v))
            y = jax.nn.dot_product_attention(rotate(q_), rotate(k_), v_, is_causal=True)
            x = x + y.reshape(*x.shape[:2], -1) @ out
            y = norm(x)
            x = x + (jax.nn.silu(y @ gate) * (y @ up)) @ down
        return norm(x) @ table.T

    return Typical(fn, (integers(2, length, below=50),), ("B", length))


def spectrogram() -> Typical:
    """Log-mel features of a signal, by frames and a Fourier transform."""
    window, mel = jnp.hanning(64).astype(jnp.float32), jnp.abs(normal(33, 10))

    def fn(x: jax.Array) -> jax.Array:
        starts = jnp.arange(0, 512 - 64 + 1, 32)
        frames = x[:, starts[:, None] + jnp.arange(64)] * window
        power = jnp.abs(jnp.fft.rfft(frames)) ** 2
        return jnp.log(power @ mel + 1e-6)

    return Typical(fn, (normal(2, 512),), ("B", 512))


def convnext() -> Typical:
    """Depthwise convolutions, layer norms and pointwise networks."""
    stem, deep = 0.2 * normal(4, 4, 3, 16), 0.2 * normal(7, 7, 1, 16)
    up, down = 0.2 * normal(16, 64), 0.2 * normal(64, 16)
    layout = ("NHWC", "HWIO", "NHWC")

    def fn(x: jax.Array) -> jax.Array:
        x = lax.conv_general_dilated(x, stem, (4, 4), "VALID", dimension_numbers=layout)
        for _ in range(2):
            y = lax.conv_general_dilated(
                x, deep, (1, 1), "SAME", dimension_numbers=layout, feature_group_count=16
            )
            y = jax.nn.standardize(y, axis=-1, epsilon=1e-6)
            x = x + jax.nn.gelu(y @ up) @ down
        return x.mean(axis=(1, 2))

    return Typical(fn, (normal(2, 32, 32, 3),), ("B", 32, 32, 3))


def decoder_of_images() -> Typical:
    """Transposed convolutions with padding on one side, from a vector to an image."""
    enter = 0.2 * normal(8, 4 * 4 * 8)
    kernels = [0.2 * normal(3, 3, 8, 8), 0.2 * normal(3, 3, 8, 3)]

    def fn(z: jax.Array) -> jax.Array:
        x = jax.nn.relu(z @ enter).reshape(-1, 4, 4, 8)
        for kernel in kernels:
            x = lax.conv_transpose(jax.nn.leaky_relu(x), kernel, (2, 2), "SAME")
        return jnp.tanh(x)

    return Typical(fn, (normal(2, 8),), ("B", 8))


def pyramid() -> Typical:
    """Features at two scales, resized and added, then the best positions."""
    kernel, head = 0.2 * normal(3, 3, 3, 8), 0.2 * normal(8, 4)
    layout = ("NHWC", "HWIO", "NHWC")

    def fn(x: jax.Array) -> Any:
        fine = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layout)
        coarse = lax.reduce_window(fine, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = fine + jax.image.resize(coarse, fine.shape, "bilinear")
        scores = jax.nn.sigmoid(x @ head).reshape(x.shape[0], -1)
        return lax.top_k(scores, 5)

    return Typical(fn, (normal(2, 8, 8, 3),), (2, 8, 8, 3))


def state_space() -> Typical:
    """A selective state-space layer: a scan over time."""
    width, states = 8, 4
    decay = -jnp.exp(normal(width, states))
    enter, leave, rate = 0.3 * normal(width, states), 0.3 * normal(width, states), normal(width)

    def fn(x: jax.Array) -> jax.Array:
        step = jax.nn.softplus(x + rate)

        def advance(h: jax.Array, at: Any) -> Any:
            x, step, b, c = at
            h = jnp.exp(step[..., None] * decay) * h + (step * x)[..., None] * b[:, None]
            return h, (h * c[:, None]).sum(-1)

        start = jnp.zeros((x.shape[0], width, states))
        by_time = jax.tree.map(lambda a: a.swapaxes(0, 1), (x, step, x @ enter, x @ leave))
        return lax.scan(advance, start, by_time)[1].swapaxes(0, 1)

    return Typical(fn, (normal(2, 6, width),), ("B", 6, width))


def newton() -> Typical:
    """A loop that ends when the result is exact enough."""

    def fn(x: jax.Array) -> jax.Array:
        def not_yet(root: jax.Array) -> jax.Array:
            return jnp.any(jnp.abs(root * root - x) > 1e-4)

        return lax.while_loop(not_yet, lambda root: 0.5 * (root + x / root), x)

    return Typical(fn, (1 + jnp.abs(normal(5)),), (5,))


def half_precision() -> Typical:
    """A perceptron in float16."""
    up, down = (0.2 * normal(8, 16)).astype(jnp.float16), normal(16, 4).astype(jnp.float16)

    def fn(x: jax.Array) -> jax.Array:
        hidden = jax.nn.relu(x @ up + jnp.float16(0.5) * up[0])
        return jax.nn.softmax(hidden @ down + down[0])

    return Typical(fn, (normal(2, 8).astype(jnp.float16),), ("B", 8))


def statistics() -> Typical:
    """Features of a table with missing values."""

    def fn(x: jax.Array) -> jax.Array:
        mean, deviation = jnp.nanmean(x, axis=0), jnp.nanstd(x, axis=0)
        missing = jnp.isnan(x)
        z = jnp.where(missing, 0, (x - mean) / deviation)
        usable = ~missing.any(axis=1)
        return jnp.concatenate([z, usable[:, None] * jnp.cumsum(z, axis=1)], axis=1)

    return Typical(fn, (normal(6, 4).at[2, 1].set(jnp.nan),), ("B", 4))


def layer_backwards(cell: Callable[..., Any]) -> Callable[[], Typical]:
    """Returns a recurrent layer that reads its sequences from the end."""

    def build() -> Typical:
        layer = nnx.RNN(cell(4, 6, rngs=nnx.Rngs(0)), reverse=True, keep_order=True)
        return Typical(layer, (normal(2, 5, 4),), ("B", 5, 4))

    return build


def layers_in_both_directions() -> Typical:
    """Returns two recurrent layers, one of which reads its sequences from the end."""
    forward, backward = (nnx.RNN(nnx.LSTMCell(4, 6, rngs=nnx.Rngs(seed))) for seed in range(2))
    return Typical(nnx.Bidirectional(forward, backward), (normal(2, 5, 4),), ("B", 5, 4))


def scan_backwards() -> Typical:
    """A scan from the end of a sequence, which returns all of its states."""

    def fn(x: jax.Array) -> Any:
        def advance(h: jax.Array, row: jax.Array) -> Any:
            return 0.5 * jnp.sin(h) + row, h * row

        return lax.scan(advance, jnp.zeros_like(x[:, 0]), x.swapaxes(0, 1), reverse=True)

    return Typical(fn, (normal(2, 5, 4),), ("B", 5, 4))


def comparisons_of_nan() -> Typical:
    """All comparisons of two vectors, some of whose elements are NaN or infinite."""
    nan, inf = jnp.nan, jnp.inf
    a = jnp.asarray([nan, nan, 1, nan, inf, -inf, nan, 2, inf], jnp.float32)
    b = jnp.asarray([1, nan, nan, -inf, nan, nan, inf, 2, inf], jnp.float32)

    def fn(a: jax.Array, b: jax.Array) -> jax.Array:
        tests = [a > b, a >= b, a < b, a <= b, a == b, a != b, a > 0, a <= 0, jnp.isnan(a)]
        tests += [~jnp.isnan(a), jnp.isfinite(a)]
        rows = [jnp.where(jnp.isnan(a), b, a), jnp.where(a == a, a, 7), jnp.sort(a)]
        different = jnp.where(a == 2, 3.5, jnp.arange(9.0)[::-1])
        rows.append(jnp.argsort(different).astype(jnp.float32))
        return jnp.stack([test.astype(jnp.float32) for test in tests] + rows)

    return Typical(fn, (a, b), (9,), (9,))


def comparisons_of_numbers() -> Typical:
    """Comparisons of positive and negative numbers, with and without repeated axes."""

    def fn(a: jax.Array, b: jax.Array) -> jax.Array:
        pairs = [(a, a[::-1]), (a[:, None], b), (b, a[:, None]), (a, b[0])]
        tests = [jnp.stack([x > y, x >= y, x < y, x <= y]) for x, y in pairs]
        return jnp.concatenate([test.ravel().astype(jnp.float32) for test in tests])

    return Typical(fn, (normal(9), normal(7)), (9,), (7,))


MODELS: dict[str, Callable[[], Typical]] = {
    "MLP": of_catalogue("nnx/mlp"),
    "MLP in float16": half_precision,
    "CNN": of_catalogue("linen/cnn"),
    "ResNet-50": of_catalogue("haiku/resnet50", width=8, classes=10, size=64),
    "ConvNeXt": convnext,
    "ViT": of_catalogue("equinox/vit"),
    "BERT": any_bert,
    "GPT": gpt,
    "GPT, one step": of_catalogue("linen/gpt_step"),
    "Llama": llama,
    "mixture of experts": of_catalogue("nnx/moe"),
    "LSTM and GRU (NNX)": of_catalogue("nnx/rnn"),
    "LSTM and GRU (Equinox)": of_catalogue("equinox/rnn"),
    "state space": state_space,
    "U-Net": of_catalogue("nnx/unet"),
    "decoder of images": decoder_of_images,
    "denoiser": of_catalogue("nnx/denoiser"),
    "feature pyramid": pyramid,
    "differential equation": of_catalogue("nnx/ode"),
    "Newton's method": newton,
    "spectrogram": spectrogram,
    "statistics": statistics,
}
"""How to build each model."""


def updates_of_nodes() -> Typical:
    """A layer of graph attention: maxima and sums of edges."""

    def fn(x: jax.Array, start: jax.Array, end: jax.Array) -> tuple[jax.Array, ...]:
        count, edges = x.shape[0], x[start] + x[end]
        weights = jnp.exp(edges - jax.ops.segment_max(edges, end, count)[end])
        total = jax.ops.segment_sum(weights, end, count)
        mixed = jax.ops.segment_sum(weights * x[start], end, count) / (total + 1e-6)
        zeros = jnp.zeros(x.shape)
        return mixed, zeros, zeros.at[-start].add(x)

    args = (normal(12, 4), integers(12, below=5), integers(12, below=5)[::-1])
    return Typical(fn, args, ("N", 4), ("N",), ("N",))


def sorts_of_rows() -> Typical:
    """Sorts along axes of one size, with infinities."""

    def fn(x: jax.Array) -> tuple[jax.Array, ...]:
        def step(k: int, rows: jax.Array) -> jax.Array:
            order = jnp.argsort(-rows, axis=1)
            return jnp.take_along_axis(rows, order, 1) * (k - 1.5)

        number = (x * 3).astype(jnp.int32)
        top = [jax.lax.top_k(x, 6)[1], jax.lax.top_k(-x, 2)[1], jax.lax.top_k(number, 6)[1]]
        finite = jnp.nan_to_num(x, posinf=1, neginf=-1)
        return *top, jnp.argsort(x, axis=1), jax.lax.fori_loop(0, 3, step, finite)

    x = normal(5, 6).at[0, 1:3].set(jnp.inf).at[1, 3:5].set(-jnp.inf)
    return Typical(fn, (x,), ("B", 6))


BACKWARDS: dict[str, Callable[[], Typical]] = {
    "LSTM": layer_backwards(nnx.LSTMCell),
    "GRU": layer_backwards(nnx.GRUCell),
    "LSTM in both directions": layers_in_both_directions,
    "scan": scan_backwards,
}
"""How to build models that read sequences backwards, which some runtimes ignore."""

COMPARISONS: dict[str, Callable[[], Typical]] = {
    "comparisons of NaN": comparisons_of_nan,
    "comparisons of numbers": comparisons_of_numbers,
}
"""How to build models that compare numbers, which some runtimes do in other ways."""

REPEATED: dict[str, Callable[[], Typical]] = {
    "updates of nodes": updates_of_nodes,
    "sorts of rows": sorts_of_rows,
}
"""How to build models with several updates or sorts of the same symbolic size."""
