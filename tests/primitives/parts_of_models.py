"""Parts of models whose final graph is of interest: attention behind a norm, caches, sizes that are
known only at run time. By name: a function, the options of the export, and the operands.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from primitives.operands import Programs, boolean, c64, f32, i32, spec, symbolic, u8

WIDTH, HEADS, SIZE = 4, 2, 2


def weights(*shape: int, start: int = 0) -> Any:
    """Returns distinct small numbers with short decimal forms."""
    return jnp.asarray((np.arange(np.prod(shape)) + start).reshape(shape) / 64, jnp.float32)


# --- attention behind a norm, whose mask is added


def layer_norm(x: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weights(WIDTH) + 0.5


def rms_norm(x: Any) -> Any:
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weights(WIDTH)


def three_products(x: Any) -> Any:
    return tuple(x @ weights(WIDTH, WIDTH, start=n) + weights(WIDTH) for n in range(3))


def one_product(x: Any) -> Any:
    return jnp.split(x @ weights(WIDTH, 3 * WIDTH), 3, -1)


def stacked(x: Any) -> Any:
    """Takes queries, keys and values from one axis of a product."""
    q, k, v = jnp.moveaxis((x @ weights(WIDTH, 3 * WIDTH)).reshape(*x.shape[:2], 3, WIDTH), 2, 0)
    return q, k, v


def turned(x: Any) -> Any:
    """Applies rotary embeddings to queries and keys."""
    q, k, v = three_products(x)
    angles = jnp.arange(x.shape[1])[:, None] / 100 ** (jnp.arange(0, WIDTH, 2) / WIDTH)
    cos, sin = jnp.cos(angles), jnp.sin(angles)

    def rotated(y: Any) -> Any:
        a, b = jnp.split(y, 2, -1)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    return rotated(q), rotated(k), v


def masked(norm: Callable[..., Any], parts: Callable[..., Any], low: Any) -> Callable[..., Any]:
    def attention(x: Any) -> Any:
        batch, length, _ = x.shape
        heads = (y.reshape(batch, length, HEADS, SIZE) for y in parts(norm(x)))
        q, k, v = (y.transpose(0, 2, 1, 3) for y in heads)
        scores = q @ k.swapaxes(-1, -2) / 2.0
        causal = jnp.tril(jnp.ones((length, length), bool))
        scores = jax.nn.softmax(jnp.where(causal, scores, low))
        return x + (scores @ v).transpose(0, 2, 1, 3).reshape(x.shape)

    return attention


def padded(x: Any, mask: Any) -> Any:
    """Applies two masks: one of tokens, and a window."""
    q, k, v = three_products(rms_norm(x))
    places = jnp.arange(x.shape[1])
    near = jnp.abs(places[:, None] - places) < 2
    scores = jnp.where(near & mask[:, None, :], q @ k.swapaxes(-1, -2), -1e9)
    return jax.nn.softmax(scores) @ v


TOKENS = f32(2, 3, WIDTH)
LOWEST = jnp.finfo(jnp.float32).min

MASKED: Programs = {
    "select_n.mask_behind_layer_norm": (masked(layer_norm, three_products, -jnp.inf), {}, TOKENS),
    "select_n.mask_behind_rms_norm": (masked(rms_norm, one_product, LOWEST), {}, TOKENS),
    "select_n.mask_of_stacked_parts": (masked(layer_norm, stacked, -1e9), {}, TOKENS),
    "select_n.mask_of_turned_parts": (masked(rms_norm, turned, -jnp.inf), {}, TOKENS),
    "select_n.mask_without_norm": (masked(lambda x: x, three_products, -jnp.inf), {}, TOKENS),
    "select_n.mask_of_any_length": (
        masked(rms_norm, three_products, LOWEST),
        {},
        symbolic(f"b, t, {WIDTH}"),
    ),
    "select_n.two_masks": (padded, {}, TOKENS, boolean(2, 3)),
}


# --- caches

BUFFER, NEW = f32(2, 2, 8, 3), f32(2, 2, 1, 3)
SCATTERED: dict[str, Any] = {"opset": 24, "operators": {"TensorScatter": "native"}}
POSITION = jnp.asarray([1, 5], jnp.int32)


def written(buffer: Any, new: Any, position: Any) -> Any:
    return lax.dynamic_update_slice(buffer, new, (0, 0, position, 0))


def written_each(buffer: Any, new: Any, positions: Any) -> Any:
    def one(buffer: Any, new: Any, position: Any) -> Any:
        return lax.dynamic_update_slice(buffer, new, (0, position, 0))

    return jax.vmap(one)(buffer, new, positions)


def ring(buffer: Any, new: Any, position: Any) -> Any:
    return buffer.at[:, :, position % 8].set(new[:, :, 0])


def ring_of_two(buffer: Any, new: Any, position: Any) -> Any:
    places = (position + jnp.arange(2)) % 8
    return buffer.at[:, :, places].set(jnp.repeat(new, 2, 2))


CACHED: Programs = {
    "dynamic_update_slice.buffer": (written, {}, BUFFER, NEW, i32()),
    "dynamic_update_slice.native": (written, SCATTERED, BUFFER, NEW, i32()),
    "scatter.each": (written_each, {}, BUFFER, NEW, POSITION),
    "scatter.each_native": (written_each, SCATTERED, BUFFER, NEW, POSITION),
    "dynamic_update_slice.native_in_range": (
        written,
        {**SCATTERED, "assume": ["indices_in_range"]},
        BUFFER,
        NEW,
        jnp.asarray(3, jnp.int32),
    ),
    "dynamic_update_slice.of_any_length": (written, {}, symbolic("2, 2, t, 3"), NEW, i32()),
    "dynamic_update_slice.at_known_place": (
        lambda x, y: lax.dynamic_update_slice(x, y, (1, 2)),
        {},
        f32(4, 5),
        f32(2, 2),
    ),
    "dynamic_update_slice.along_two_axes": (
        lambda x, y, i, j: lax.dynamic_update_slice(x, y, (i, j)),
        {},
        f32(4, 5),
        f32(2, 2),
        i32(),
        i32(),
    ),
    "dynamic_update_slice.of_flags": (
        lambda x, y, i: lax.dynamic_update_slice(x, y, (i,)),
        {},
        boolean(5),
        boolean(2),
        i32(),
    ),
    "scatter.ring": (ring, SCATTERED, BUFFER, NEW, i32()),
    "scatter.ring_of_two": (ring_of_two, SCATTERED, BUFFER, NEW, i32()),
}


# --- places that are written and read

PLACES = jnp.asarray([[2], [0], [2]], jnp.int32)

PLACED: Programs = {
    "scatter-add.rows": (lambda x, y: x.at[PLACES[:, 0]].add(y), {}, f32(4, 2), f32(3, 2)),
    "scatter-mul.rows": (lambda x, y: x.at[PLACES[:, 0]].multiply(y), {}, f32(4, 2), f32(3, 2)),
    "scatter-min.elements": (lambda x, y: x.at[1, PLACES[:, 0]].min(y), {}, f32(2, 4), f32(3)),
    "scatter-max.columns": (lambda x, y: x.at[:, PLACES[:, 0]].max(y), {}, f32(2, 4), f32(2, 3)),
    "scatter-sub.rows": (lambda x, y: x.at[PLACES[:, 0]].subtract(y), {}, f32(4, 2), f32(3, 2)),
    "scatter-add.function": (lambda x: x.at[jnp.array([0, 2])].apply(jnp.sin), {}, f32(4, 2)),
    "scatter.windows": (
        lambda x, y, i: x.at[i, 1:3].set(y),
        {},
        f32(4, 5),
        f32(2, 2),
        jnp.asarray([1, -1], jnp.int32),
    ),
    "scatter.known_places": (lambda x: x.at[:, 1:].set(-jnp.inf), {}, f32(2, 3)),
    "gather.of_each": (lambda x, i: x[jnp.arange(2), i], {}, f32(2, 3, 4), i32(2)),
    "select_n.first_that_holds": (
        lambda x: jnp.select([x < -1, x < 0], [x * 2, x * 3], 0.0),
        {},
        f32(2, 3),
    ),
    "scatter.clipped": (lambda x, i: x.at[i].set(1.0, mode="clip"), {}, f32(4), i32(3)),
    "scatter.of_any_length": (lambda x, i: x.at[i].set(2.0), {}, symbolic("t, 2"), i32(3)),
    "gather.filled": (
        lambda x, i: x.at[i].get(mode="fill", fill_value=7.0),
        {},
        f32(4, 2),
        jnp.asarray([1, 9, -1], jnp.int32),
    ),
    "gather.filled_complex": (
        lambda x, i: x.at[i].get(mode="fill"),
        {},
        c64(4, 2),
        jnp.asarray([1, 9, -1], jnp.int32),
    ),
    "gather.pairs": (
        lambda x, i, j: x[i, :, j],
        {},
        f32(3, 2, 4),
        jnp.asarray([1, -1], jnp.int32),
        jnp.asarray([3, 0], jnp.int32),
    ),
    "gather.of_any_length": (lambda x, i: x[i], {}, symbolic("t, 2"), i32(3)),
}


# --- sizes that are known only at run time


def sizes(x: Any) -> Any:
    """Applies every operation on sizes."""
    t, b = x.shape
    counts = (t // 2, t % 3, t * b + 1, jnp.maximum(t, 3), jnp.minimum(b, 2), (t + b) // b, -t)
    return tuple(jnp.asarray(count, jnp.int32) for count in counts)


SIZED: Programs = {
    "dim_as_value.operations": (sizes, {}, symbolic("t, b")),
    "reshape.of_any_size": (lambda x: x.reshape(x.shape[0] * 2, -1), {}, symbolic("t, 4, b")),
    "pad.inside_any_size": (
        lambda x: lax.pad(x, 0.0, [(1, 2, 1), (0, -1, 0)]),
        {},
        symbolic("t, 3"),
    ),
    "pad.cut": (lambda x: lax.pad(x, 1.0, [(-1, 2, 2), (1, -2, 1)]), {}, f32(4, 3)),
    "concatenate.of_any_size": (
        lambda x: jnp.concatenate([x, x[1:]]),
        {},
        spec(jnp.float32, *jax.export.symbolic_shape("t, 2", constraints=["t >= 2"])),
    ),
    "cumsum.of_any_size": (lambda x: jnp.cumsum(x, 0), {}, symbolic("t, 2")),
    "cumprod.of_any_size": (lambda x: jnp.cumprod(x, 0), {}, symbolic("t, 2")),
    "reduce_prod.of_any_size": (lambda x: x.prod(0), {}, symbolic("t, 2", jnp.int32)),
    "iota.of_any_size": (lambda x: x * jnp.arange(x.shape[0])[:, None], {}, symbolic("t, 2")),
    "reduce_window_max.of_any_size": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 2), "SAME"),
        {},
        symbolic("b, 5"),
    ),
}


# --- convolutions and transforms

LAST = ("NHWC", "HWIO", "NHWC")


def convolved(**options: Any) -> Callable[..., Any]:
    options = {"window_strides": (1, 1), "padding": "SAME", **options}
    return lambda x, w: lax.conv_general_dilated(x, w, dimension_numbers=LAST, **options)


def dense_between(x: Any, before: Any, behind: Any) -> Any:
    """Applies a dense layer to the channels of each pixel, between two convolutions."""
    y = convolved()(x, before) @ weights(16, 16) + weights(16)
    return convolved()(jnp.tanh(y), behind)


CONVOLVED: Programs = {
    "dot_general.between_convolutions": (
        dense_between,
        {},
        symbolic("b, h, w, 2"),
        f32(3, 3, 2, 16),
        f32(3, 3, 16, 2),
    ),
    "conv_general_dilated.groups": (
        convolved(feature_group_count=2),
        {},
        f32(1, 4, 4, 4),
        f32(3, 3, 2, 6),
    ),
    "conv_general_dilated.groups_of_integers": (
        convolved(feature_group_count=2),
        {},
        i32(1, 4, 4, 4),
        i32(3, 3, 2, 2),
    ),
    "conv_general_dilated.groups_of_examples": (
        convolved(batch_group_count=2),
        {},
        f32(2, 4, 4, 3),
        f32(3, 3, 3, 4),
    ),
    "conv_general_dilated.transposed_groups": (
        convolved(lhs_dilation=(2, 2), padding=((1, 2), (1, 2)), feature_group_count=2),
        {},
        f32(1, 3, 3, 4),
        f32(3, 3, 2, 2),
    ),
    "conv_general_dilated.spread_and_strided": (
        convolved(
            lhs_dilation=(2, 3),
            window_strides=(2, 1),
            rhs_dilation=(1, 2),
            padding=((1, 0), (2, 1)),
        ),
        {},
        f32(1, 3, 3, 2),
        f32(2, 2, 2, 2),
    ),
    "conv_general_dilated.cut": (
        convolved(padding=((-1, 2), (0, -1))),
        {},
        f32(1, 5, 5, 2),
        f32(2, 2, 2, 2),
    ),
    "fft.inverse_of_real": (lambda x: jnp.fft.irfft(x, 6), {}, c64(2, 4)),
    "fft.inverse_of_odd_length": (lambda x: jnp.fft.irfft(x, 5), {}, c64(2, 3)),
    "fft.two_axes": (lambda x: jnp.fft.fft2(x), {}, c64(2, 4, 3)),
    "fft.older": (lambda x: jnp.fft.fft(x), {"opset": 17}, c64(2, 4)),
    "reduce_max.older_axes": (
        lambda x: (x.max((0, 2)), x.min(), jnp.split(x, 2, 1)),
        {"opset": 13},
        f32(2, 4, 3),
    ),
    "integer_pow.web": (lambda x: x**3 + x % 5, {"target": "onnxruntime-web"}, i32(3)),
    "cumsum.webgpu_reversed": (
        lambda x: lax.cumsum(x, 1, reverse=True),
        {"target": "webgpu"},
        i32(2, 3),
    ),
    "mul.bytes": (lambda x, y: (x * y) >> 3, {}, u8(3), u8(3)),
}


# --- weights that are integers already


def widened(zero: Any, blocks: bool) -> Callable[..., Any]:
    integers = jnp.asarray(np.arange(64 * 3).reshape(64, 3) % 15 - 7, jnp.int8)
    scale = weights(2, 3, start=1) if blocks else weights(3, start=1)

    def product(x: Any) -> Any:
        w = integers.astype(jnp.float32) - (0 if zero is None else zero)
        w = w * (jnp.repeat(scale, 32, 0) if blocks else scale)
        return x @ w

    return product


WIDENED: Programs = {
    "dot_general.integers": (widened(None, False), {"weights": "int8"}, f32(2, 64)),
    "dot_general.integers_in_blocks": (widened(None, True), {"weights": "int8"}, f32(2, 64)),
    "dot_general.integers_from_zero": (
        widened(jnp.asarray([1.0, -2.0, 3.0]), False),
        {"weights": "int8"},
        f32(2, 64),
    ),
}

PARTS: Programs = {**MASKED, **CACHED, **PLACED, **SIZED, **CONVOLVED, **WIDENED}
