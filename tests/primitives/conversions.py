"""Programs whose final model is of interest: recognised operators, and changes for other opsets and
targets. By name: a function, the options of the export, and the operands.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import image, lax

from primitives.decoders import DECODERS
from primitives.of_targets import OF_TARGETS
from primitives.operands import Programs, f32, f64, i8, i32, spec, symbolic
from primitives.parts_of_models import PARTS

NATIVE: dict[str, Any] = {"operators": "native"}
OLDEST: dict[str, Any] = {"opset": 13}
WEB: dict[str, Any] = {"target": "onnxruntime-web"}
FEATURES, UNITS = 2, 3


def weights(*shape: int, start: int = 0) -> Any:
    """Returns distinct small numbers with short decimal forms."""
    return jnp.asarray((np.arange(np.prod(shape)) + start).reshape(shape) / 64, jnp.float32)


# --- recurrent layers


def lstm(reverse: bool = False) -> Callable[..., Any]:
    w, r, b = weights(FEATURES, 4 * UNITS), weights(UNITS, 4 * UNITS, start=24), weights(4 * UNITS)

    def step(state: Any, x: Any) -> Any:
        hidden, cell = state
        i, f, g, o = jnp.split(x @ w + hidden @ r + b, 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    return lambda h, c, x: lax.scan(step, (h, c), x, reverse=reverse)


def lstm_of_single_gates(x: Any) -> Any:
    """Computes a product for each gate and operand, with two biases."""
    gates = [
        (weights(FEATURES, UNITS, start=i), weights(UNITS, UNITS, start=2 * i), weights(UNITS))
        for i in range(4)
    ]

    def step(state: Any, x: Any) -> Any:
        hidden, cell = state
        i, f, g, o = ((x @ w + b) + (hidden @ r + 2 * b) for w, r, b in gates)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    zeros = jnp.zeros((x.shape[1], UNITS))
    return lax.scan(step, (zeros, zeros), x)


def lstm_of_vectors(xs: Any) -> Any:
    """Multiplies a matrix by a vector, for one sequence."""
    w, r, b = weights(4 * UNITS, FEATURES), weights(4 * UNITS, UNITS), weights(4 * UNITS)

    def step(state: Any, x: Any) -> Any:
        hidden, cell = state
        i, f, g, o = jnp.split(w @ x + r @ hidden + b, 4)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    return lax.scan(step, (jnp.zeros(UNITS), jnp.zeros(UNITS)), xs)


def lstm_that_stacks_cells(x: Any) -> Any:
    """Remains a scan, because ONNX's layer does not return the cells."""
    zeros = jnp.zeros((x.shape[1], UNITS))
    w, r = weights(FEATURES, 4 * UNITS), weights(UNITS, 4 * UNITS)

    def step(state: Any, x: Any) -> Any:
        hidden, cell = state
        i, f, g, o = jnp.split(x @ w + hidden @ r, 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), cell

    return lax.scan(step, (zeros, zeros), x)


def gru(reset_first: bool) -> Callable[..., Any]:
    w, r, b = weights(FEATURES, 3 * UNITS), weights(UNITS, 3 * UNITS), weights(3 * UNITS, start=5)

    def step(hidden: Any, x: Any) -> Any:
        wz, wr, wh = jnp.split(x @ w + b, 3, axis=-1)
        rz, rr, rh = jnp.split(r, 3, axis=-1)
        z = jax.nn.sigmoid(wz + hidden @ rz)
        reset = jax.nn.sigmoid(wr + hidden @ rr)
        inner = (reset * hidden) @ rh if reset_first else reset * (hidden @ rh)
        hidden = (1 - z) * jnp.tanh(wh + inner) + z * hidden
        return hidden, hidden

    return lambda h, x: lax.scan(step, h, x)


def rnn(activation: Callable[[Any], Any]) -> Callable[..., Any]:
    w, r, b = weights(FEATURES, UNITS), weights(UNITS, UNITS, start=3), weights(UNITS)

    def step(hidden: Any, x: Any) -> Any:
        hidden = activation(x @ w + b + hidden @ r)
        return hidden, hidden

    return lambda h, x: lax.scan(step, h, x)


def both_directions(layer: Callable[..., Any], states: int) -> Callable[..., Any]:
    """Scans a sequence in both directions, with all results."""

    def fn(x: Any) -> Any:
        zeros = [jnp.zeros((x.shape[1], UNITS))] * states
        ahead = layer(*zeros, x)[1]
        back = layer(*zeros, x[::-1])[1][::-1]
        return jnp.concatenate([ahead, back], -1)

    return fn


def last_of_both(x: Any) -> Any:
    zeros = [jnp.zeros((x.shape[1], UNITS))] * 2
    (ahead, _), _ = lstm()(*zeros, x)
    (back, _), _ = lstm(reverse=True)(*zeros, x)
    return jnp.concatenate([ahead, back], -1)


SEQUENCE, STATE = f32(4, 1, FEATURES), f32(1, UNITS)

RECURRENT: Programs = {
    "scan.lstm": (lstm(), {}, STATE, STATE, SEQUENCE),
    "scan.lstm_backwards": (lstm(reverse=True), {}, STATE, STATE, SEQUENCE),
    "scan.lstm_of_any_size": (
        lambda x: lstm()(*[jnp.zeros((x.shape[1], UNITS))] * 2, x),
        {},
        symbolic(f"t, b, {FEATURES}"),
    ),
    "scan.lstm_of_single_gates": (lstm_of_single_gates, {}, SEQUENCE),
    "scan.lstm_of_vectors": (lstm_of_vectors, {}, f32(4, FEATURES)),
    "scan.lstm_of_batches": (jax.vmap(lstm_of_vectors), {}, f32(2, 4, FEATURES)),
    "scan.lstm_that_stacks_cells": (lstm_that_stacks_cells, NATIVE, SEQUENCE),
    "scan.gru": (gru(reset_first=False), NATIVE, STATE, SEQUENCE),
    "scan.gru_with_guard": (gru(reset_first=False), {}, STATE, SEQUENCE),
    "scan.gru_of_any_length_with_guard": (
        lambda x: gru(reset_first=False)(jnp.zeros((2, UNITS)), x),
        {},
        symbolic(f"t, 2, {FEATURES}"),
    ),
    "scan.gru_with_reset_first": (gru(reset_first=True), NATIVE, STATE, SEQUENCE),
    "scan.lstm_in_both_directions": (both_directions(lstm(), 2), {}, SEQUENCE),
    "scan.last_of_both_directions": (last_of_both, {}, SEQUENCE),
    "scan.gru_in_both_directions": (both_directions(gru(reset_first=False), 1), NATIVE, SEQUENCE),
    "scan.rnn_in_both_directions": (both_directions(rnn(jnp.tanh), 1), NATIVE, SEQUENCE),
    "scan.rnn": (rnn(jnp.tanh), NATIVE, STATE, SEQUENCE),
    "scan.rnn_of_relu": (rnn(jax.nn.relu), NATIVE, STATE, SEQUENCE),
}


# --- resized images


def resized(*size: Any, method: str = "linear", antialias: bool = True) -> Callable[..., Any]:
    return lambda x: image.resize(x, (x.shape[0], *size), method, antialias=antialias)


def doubled(method: str = "linear", antialias: bool = True) -> Callable[..., Any]:
    """Doubles all axes but the first and that of channels."""

    def fn(x: Any) -> Any:
        size = (x.shape[0], *(2 * n for n in x.shape[1:3]), *x.shape[3:])
        return image.resize(x, size, method, antialias=antialias)

    return fn


def shifted(x: Any) -> Any:
    """Remains products, because the pixels are not at the positions of `Resize`."""
    scale, translation = jnp.array([2.0, 2.0]), jnp.array([0.5, 0.25])
    return image.scale_and_translate(x, (1, 6, 8, 2), (1, 2), scale, translation, "linear")


NHWC, NCHW = f32(1, 3, 4, 2), f32(1, 2, 3, 4)
RESIZE: dict[str, Any] = {"operators": {"Resize": "native"}}

RESIZED: Programs = {
    "gather.nearest_of_any_size": (
        lambda x: jax.image.resize(x, (*x.shape[:1], 5, 7, 2), "nearest"),
        RESIZE,
        symbolic("b, h, w, 2"),
    ),
    "gather.nearest_in_any_ratio": (
        lambda x: jax.image.resize(x, (*x.shape[:1], 5, 7, 2), "nearest"),
        {},
        symbolic("b, h, w, 2"),
    ),
    "dot_general.resized_image": (resized(6, 8, 2), RESIZE, NHWC),
    "dot_general.resized_channels_first": (resized(2, 6, 10), RESIZE, NCHW),
    "dot_general.resized_by_cubes": (resized(6, 8, 2, method="cubic"), RESIZE, NHWC),
    "dot_general.shrunk_image": (resized(2, 3, 2), RESIZE, NHWC),
    "dot_general.shrunk_without_smoothing": (resized(2, 3, 2, antialias=False), RESIZE, NHWC),
    "dot_general.resized_along_one_axis": (resized(3, 8, 2), RESIZE, NHWC),
    "dot_general.resized_batches": (resized(6, 8, 2), RESIZE, symbolic("b, 3, 4, 2")),
    "dot_general.resized_by_lanczos": (resized(6, 4, 2, method="lanczos3"), RESIZE, NHWC),
    "dot_general.shifted_image": (shifted, RESIZE, NHWC),
    "dot_general.resized_images_of_any_size": (doubled(), RESIZE, symbolic("b, h, w, 2")),
    "dot_general.weights_of_any_size": (resized(6, 8, 2), {}, symbolic("b, h, w, 2")),
    "dot_general.weights_that_double": (doubled(), {}, symbolic("b, h, w, 2")),
    "dot_general.weights_of_rows": (resized(8), {}, symbolic("b, n")),
    "dot_general.weights_of_rows_by_cubes": (doubled("cubic"), {}, symbolic("b, n")),
}


# --- rotary embeddings

HEAD = 8


def tables(positions: Any, features: int = HEAD, double: bool = False) -> Any:
    angles = positions[..., None] / 100 ** (jnp.arange(0, features, 2) / features)
    angles = jnp.concatenate([angles, angles], -1) if double else angles
    return jnp.cos(angles)[..., None, :], jnp.sin(angles)[..., None, :]


def turned(a: Any, b: Any, cos: Any, sin: Any) -> Any:
    return a * cos - b * sin, b * cos + a * sin


def halves(x: Any, positions: Any) -> Any:
    return jnp.concatenate(turned(*jnp.split(x, 2, -1), *tables(positions)), -1)


def rotated_halves(x: Any, positions: Any) -> Any:
    cos, sin = tables(positions, double=True)
    n = x.shape[-1] // 2
    return x * cos + jnp.concatenate([-x[..., n:], x[..., :n]], -1) * sin


def neighbours(x: Any, positions: Any) -> Any:
    pair = turned(x[..., ::2], x[..., 1::2], *tables(positions))
    return jnp.stack(pair, -1).reshape(x.shape)


def pairs(x: Any, positions: Any) -> Any:
    y = x.reshape(*x.shape[:-1], HEAD // 2, 2)
    return jnp.stack(turned(y[..., 0], y[..., 1], *tables(positions)), -1).reshape(x.shape)


def repeated(x: Any, positions: Any) -> Any:
    cos, sin = (table.repeat(2, -1) for table in tables(positions))
    return x * cos + jnp.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape) * sin


def partly(x: Any, positions: Any) -> Any:
    n = HEAD // 2
    front = turned(*jnp.split(x[..., :n], 2, -1), *tables(positions, n))
    return jnp.concatenate([*front, x[..., n:]], -1)


def looked_up(x: Any, positions: Any) -> Any:
    angles = np.arange(6)[:, None] / 100 ** (np.arange(HEAD // 2) / (HEAD // 2))
    table = jnp.asarray(np.concatenate([np.sin(angles), np.cos(angles)], -1), jnp.float32)
    sin, cos = jnp.split(table[positions][..., None, :], 2, -1)
    return jnp.concatenate(turned(*jnp.split(x, 2, -1), cos, sin), -1)


def counted(x: Any) -> Any:
    return halves(x, jnp.arange(x.shape[1])[None])


QUERIES, POSITIONS = f32(2, 3, 2, HEAD), i32(2, 3)

ROTARY: Programs = {
    f"mul.rotary_{spelling.__name__}": (spelling, NATIVE, QUERIES, POSITIONS)
    for spelling in (halves, rotated_halves, neighbours, pairs, repeated, partly, looked_up)
}
ROTARY |= {
    "mul.rotary_without_positions": (counted, NATIVE, QUERIES),
    "mul.rotary_of_any_length": (
        counted,
        NATIVE,
        symbolic(f"b, t, 2, {HEAD}"),
    ),
    "mul.rotary_after_a_transpose": (
        lambda x, p: halves(x, p).transpose(0, 2, 1, 3),
        NATIVE,
        QUERIES,
        POSITIONS,
    ),
}


# --- attention and normalisation


def attention(q: Any, k: Any, v: Any, *mask: Any, causal: bool = False) -> Any:
    """Attends; queries, keys and values are (batch, positions, heads, features)."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if causal:
        allowed = jnp.tril(jnp.ones((q.shape[1], k.shape[1]), bool))
        scores = jnp.where(allowed, scores, -1e30)
    if mask:
        scores = jnp.where(mask[0], scores, jnp.finfo(scores.dtype).min)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def grouped(q: Any, k: Any, v: Any) -> Any:
    repeat = q.shape[2] // k.shape[2]
    return attention(q, jnp.repeat(k, repeat, 2), jnp.repeat(v, repeat, 2), causal=True)


def normalised(x: Any, axes: Any, epsilon: float = 1e-5) -> Any:
    mean = x.mean(axes, keepdims=True)
    variance = jnp.square(x - mean).mean(axes, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + epsilon)


def group_norm(x: Any) -> Any:
    n, h, w, c = x.shape
    y = normalised(x.reshape(n, h, w, 2, c // 2), (1, 2, 4)).reshape(x.shape)
    return y * weights(c, start=1) + weights(c)


def rms_norm(x: Any) -> Any:
    return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * weights(4, start=1)


HEADS = f32(2, 3, 2, 4)

NORMALISED: Programs = {
    "dot_general.attention": (attention, NATIVE, HEADS, HEADS, HEADS),
    "dot_general.causal_attention": (
        lambda *x: attention(*x, causal=True),
        NATIVE,
        HEADS,
        HEADS,
        HEADS,
    ),
    "dot_general.masked_attention": (
        attention,
        NATIVE,
        HEADS,
        HEADS,
        HEADS,
        spec(jnp.bool_, 2, 1, 3, 3),
    ),
    "dot_general.attention_with_lengths": (
        lambda *x: attention(*x[:3], (jnp.arange(3) < 1 + x[3] % 3)[None, None, None]),
        {**NATIVE, "opset": 24},
        HEADS,
        HEADS,
        HEADS,
        i32(),
    ),
    "dot_general.attention_with_a_length_for_each_example": (
        lambda *x: attention(*x[:3], (jnp.arange(3) <= abs(x[3][:, None]) % 3)[:, None, None]),
        {**NATIVE, "opset": 24},
        HEADS,
        HEADS,
        HEADS,
        i32(2),
    ),
    "dot_general.grouped_attention": (grouped, NATIVE, f32(2, 3, 4, 4), HEADS, HEADS),
    "rsqrt.layer_norm": (
        lambda x: normalised(x, -1) * weights(4, start=1) + weights(4),
        NATIVE,
        f32(2, 3, 4),
    ),
    "rsqrt.layer_norm_of_two_axes": (
        lambda x: normalised(x, (1, 2)) * weights(3, 4, start=1),
        NATIVE,
        f32(2, 3, 4),
    ),
    "rsqrt.rms_norm": (rms_norm, NATIVE, f32(2, 3, 4)),
    "rsqrt.instance_norm": (
        lambda x: normalised(x, (1, 2)) * weights(4, start=1) + weights(4),
        NATIVE,
        f32(2, 3, 3, 4),
    ),
    "rsqrt.group_norm": (group_norm, NATIVE, f32(2, 3, 3, 4)),
    "rsqrt.group_norm_of_any_size": (group_norm, NATIVE, symbolic("b, 3, 3, 4")),
    "rsqrt.group_norm_of_channels_second": (
        lambda x: (
            normalised(x.reshape(2, 2, 2, 9), (2, 3)).reshape(x.shape) * weights(4, 1, 1, start=1)
            + weights(4, 1, 1)
        ),
        NATIVE,
        f32(2, 4, 3, 3),
    ),
    "rsqrt.instance_norm_of_channels_second": (
        lambda x: normalised(x, (2, 3)) * weights(4, 1, 1, start=1) + weights(4, 1, 1),
        NATIVE,
        f32(2, 4, 3, 3),
    ),
    "rsqrt.layer_norm_without_scale": (lambda x: normalised(x, -1), NATIVE, f32(2, 3, 4)),
    "rsqrt.layer_norm_of_the_first_axis": (
        lambda x: normalised(x, 0) * weights(2, 1, 1, start=1),
        NATIVE,
        f32(2, 3, 4),
    ),
}


# --- types that a runtime lacks, older opsets and other targets


def pooled(x: Any, padding: str = "SAME") -> Any:
    def windows(x: Any) -> Any:
        return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), padding)

    return windows(x) / windows(jnp.ones_like(x))


def upsampled(x: Any, k: Any) -> Any:
    return lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def convolved(x: Any, k: Any) -> Any:
    return lax.conv_general_dilated(
        x, k, (2, 1), "SAME", rhs_dilation=(1, 2), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def bits_of(dtype: Any) -> Callable[..., Any]:
    return lambda x: lax.bitcast_convert_type(x, dtype)


IMAGE = f64(1, 5, 5, 2)

TARGETED: Programs = {
    "reduce_window_sum.average_of_doubles": (pooled, {}, IMAGE),
    "reduce_window_sum.average": (pooled, {}, f32(1, 5, 5, 2)),
    "conv_general_dilated.upsampled_doubles": (upsampled, {}, IMAGE, f64(3, 3, 2, 2)),
    "conv_general_dilated.upsampled": (upsampled, {}, f32(1, 5, 5, 2), f32(3, 3, 2, 2)),
    "conv_general_dilated.doubles": (convolved, {}, IMAGE, f64(3, 3, 2, 2)),
    "conv_general_dilated.bytes": (convolved, {}, i8(1, 5, 5, 2), i8(3, 3, 2, 2)),
    "bitcast_convert_type.oldest": (bits_of(jnp.int32), OLDEST, f32(3)),
    "bitcast_convert_type.oldest_to_float": (bits_of(jnp.float32), OLDEST, i32(3)),
    "and.oldest": (lambda x, y: (x & y) ^ (x | ~y), OLDEST, i32(3), i32(3)),
    "reduce_max.oldest": (lambda x: x.max(1) + x.mean(1) + jnp.prod(x, 1), OLDEST, f32(2, 3)),
    "pad.oldest": (lambda x: jnp.pad(x, ((0, 0), (1, 2))), OLDEST, f32(2, 3)),
    "split.oldest": (lambda x: jnp.split(x, 3, 1), OLDEST, f32(2, 6)),
    "iota.oldest_triangle": (
        lambda x: jnp.tril(x) + jnp.triu(x, 1),
        OLDEST,
        symbolic("b, b"),
    ),
    "logistic.oldest": (lambda x: (jax.nn.silu(x), jax.nn.hard_swish(x)), OLDEST, f32(3)),
    "sort.oldest": (lambda x: jnp.sort(x, -1), OLDEST, f32(2, 3)),
    "dot_general.rows_of_integers": (
        lambda x, y: jnp.einsum("bd,bd->b", x, y),
        {},
        i32(2, 3),
        i32(2, 3),
    ),
    "dot_general.batches_of_rows": (
        lambda x, y: jnp.einsum("bd,bdn->bn", x, y),
        {},
        f32(2, 3),
        f32(2, 3, 4),
    ),
    "scan.backwards_on_iree": (
        lambda x, y: lax.scan(
            lambda c, p: (c + p[0] * 2 - p[1], c * p[1]), x[0], (x, y), reverse=True
        ),
        {"target": "iree"},
        f32(3, 2),
        f32(3, 2),
    ),
    "max.web": (lambda x, y: (jnp.maximum(x, y), x.min(), x.max()), WEB, i32(2, 3), i32(2, 3)),
    "reduce_sum.web": (lambda x: (x.sum(1), jnp.prod(x, 1)), WEB, i32(2, 3)),
    "rem.web": (lambda x, y: lax.rem(x, y), WEB, i32(3), i32(3)),
    "conv_general_dilated.web": (convolved, WEB, f32(1, 5, 5, 2), f32(3, 3, 2, 2)),
    "gather.web": (lambda x, i: x[i], WEB, f32(4, 3), i32(2)),
}


# --- promises, and weights in fewer bits


def dense() -> Callable[..., Any]:
    kernel, bias = weights(32, 4), weights(4)
    return lambda x: jnp.tanh(x @ kernel + bias)


def embedded() -> Callable[..., Any]:
    table, kernel = weights(8, 4), weights(4, 2)
    return lambda tokens: table[tokens] @ kernel


ASSUMED: Programs = {
    "gather.in_range": (lambda x, i: x[i], {"assume": ["indices_in_range"]}, f32(4, 3), i32(2)),
    "dynamic_slice.in_range": (
        lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 3)),
        {"assume": ["indices_in_range"]},
        f32(4, 3),
        np.asarray(1, np.int32),
    ),
    "scatter.in_range": (
        lambda x, i, u: x.at[i].set(u),
        {"assume": ["indices_in_range"]},
        f32(4, 3),
        np.asarray([0, 2], np.int32),
        f32(2, 3),
    ),
    "sort.without_nan": (lambda x: jnp.sort(x, -1), {"assume": ["no_nan"]}, f32(2, 3)),
    "argmax.without_nan": (lambda x: (x.argmax(-1), x.max(-1)), {"assume": ["no_nan"]}, f32(2, 3)),
    "max.without_nan": (lambda x, y: jnp.maximum(x, y), {"assume": ["no_nan"]}, f32(3), f32(3)),
    "convert_element_type.in_range": (
        lambda x: x.astype(jnp.int32),
        {"assume": ["casts_in_range"]},
        f32(3),
    ),
}

STORED: Programs = {
    "dot_general.int8": (dense(), {"weights": {"kernel": "int8"}}, f32(2, 32)),
    "dot_general.int4": (dense(), {"weights": {"kernel": "int4"}}, f32(2, 32)),
    "dot_general.float16": (dense(), {"weights": {"kernel": "float16"}}, f32(2, 32)),
    "gather.bfloat16": (embedded(), {"weights": {"table": "bfloat16"}}, i32(3)),
}

ANY: dict[str, Any] = {"target": "any"}

STANDARD: Programs = {
    "max.any_integers": (lambda x, y: jnp.maximum(x, y) % 7, ANY, i8(3), i8(3)),
    "reduce_max.any": (lambda x: (x.max(), x.argmax(-1)), ANY, spec(jnp.bool_, 2, 3)),
    "erf.any_doubles": (lambda x: lax.erf(x), ANY, f64(3)),
    "conv_general_dilated.any": (convolved, ANY, i32(1, 5, 5, 2), i32(3, 3, 2, 2)),
    "sin.webgpu": (lambda x: jnp.sin(x) * 2, {"target": "webgpu"}, f32(3)),
    "cumsum.webgpu": (lambda x: jnp.cumsum(x, 0), {"target": "webgpu"}, i32(3)),
    "sinh.doubles": (
        lambda x: (jnp.sinh(x), jnp.arctan(x), jnp.arcsinh(x), jax.nn.softplus(x)),
        {},
        f64(3),
    ),
}

# --- choices that are known


def switched(x: Any) -> Any:
    """Computes the index from constants; a branch contains another choice."""

    def inner(x: Any) -> Any:
        return lax.cond(jnp.arange(4).sum() > 7, jnp.sin, lambda x: x + 1, x)

    return lax.switch(jnp.arange(3)[1], [jnp.cos, inner, jnp.tanh], x)


def chosen_in_a_loop(x: Any) -> Any:
    def step(x: Any, row: Any) -> Any:
        return lax.cond(True, lambda x: x * 2 + row, lambda x: jnp.exp(x) - row, x), x

    return lax.scan(step, x[0], x)


CHOSEN: Programs = {
    "cond.known": (
        lambda x: lax.cond(True, lambda x: (x, x[0]), lambda x: (-x, x[1]), x),
        {},
        f32(2),
    ),
    "cond.known_index": (switched, {}, f32(2)),
    "cond.known_in_a_loop": (chosen_in_a_loop, {}, f32(3, 2)),
}

PROGRAMS: Programs = {
    **RECURRENT,
    **RESIZED,
    **ROTARY,
    **NORMALISED,
    **TARGETED,
    **ASSUMED,
    **STORED,
    **STANDARD,
    **CHOSEN,
    **PARTS,
    **DECODERS,
    **OF_TARGETS,
}
