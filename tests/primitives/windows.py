"""Reductions over windows, and convolutions."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from primitives.operands import Programs, f32, i32, symbolic


def window(init: Any, function: Any, padding: str = "VALID") -> Callable[..., Any]:
    return lambda x: lax.reduce_window(x, init, function, (1, 2, 2, 1), (1, 2, 2, 1), padding)


def gathered(x: Any) -> Any:
    return jax.jvp(window(-jnp.inf, lax.max), (x,), (x,))[1]


def scattered(x: Any) -> Any:
    return jax.grad(lambda x: window(-jnp.inf, lax.max)(x).sum())(x)


CHANNELS_FIRST = ("NCH", "OIH", "NCH")
convolution = functools.partial(
    lax.conv_general_dilated,
    window_strides=(1,),
    padding="SAME",
    dimension_numbers=CHANNELS_FIRST,
)
windowed = functools.partial(lax.reduce_window, window_dimensions=(1, 3), window_strides=(1, 1))

IMAGE, ROWS = f32(1, 4, 4, 1), f32(1, 2, 4, 1)
LOWEST, LARGEST = np.iinfo(np.int32).min, np.iinfo(np.int32).max

PROGRAMS: Programs = {
    "reduce_window_max.dilated_integers": (
        lambda x: windowed(x, LOWEST, lax.max, padding="VALID", window_dilation=(1, 2)),
        i32(2, 9),
    ),
    "reduce_window_min.long_dilated": (
        lambda x: lax.reduce_window(
            x, LARGEST, lax.min, (1, 11), (1, 2), "VALID", window_dilation=(1, 2)
        ),
        i32(2, 30),
    ),
    "reduce_window_max": (window(-jnp.inf, lax.max), IMAGE),
    "reduce_window_max.same": (window(-jnp.inf, lax.max, "SAME"), f32(1, 5, 5, 1)),
    "reduce_window_min": (window(jnp.inf, lax.min), IMAGE),
    "reduce_window_sum": (window(0.0, lax.add), IMAGE),
    "reduce_window": (window(1.0, lax.mul), ROWS),
    "select_and_gather_add": (gathered, ROWS),
    "select_and_scatter_add": (scattered, ROWS),
    "conv_general_dilated": (
        lambda x, k: lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        f32(1, 5, 5, 2),
        f32(3, 3, 2, 4),
    ),
    "conv_general_dilated.strided": (
        lambda x, k: lax.conv_general_dilated(
            x, k, (2,), [(1, 0)], rhs_dilation=(2,), dimension_numbers=CHANNELS_FIRST
        ),
        f32(1, 2, 8),
        f32(4, 2, 3),
    ),
    "conv_general_dilated.grouped": (
        lambda x, k: lax.conv_general_dilated(
            x,
            k,
            (1, 1),
            "SAME",
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
            feature_group_count=2,
        ),
        f32(1, 4, 5, 5),
        f32(4, 2, 3, 3),
    ),
    "conv_general_dilated.transposed": (
        lambda x, k: lax.conv_transpose(
            x, k, (2,), "SAME", dimension_numbers=("NHC", "HIO", "NHC")
        ),
        f32(1, 4, 2),
        f32(3, 2, 5),
    ),
    "conv_general_dilated.two_groups_of_batches": (
        lambda x, k: convolution(x, k, batch_group_count=2),
        f32(4, 2, 5),
        f32(4, 2, 3),
    ),
    "conv_general_dilated.dilated_input": (
        lambda x, k: lax.conv_general_dilated(
            x, k, (1,), [(1, 2)], lhs_dilation=(2,), dimension_numbers=CHANNELS_FIRST
        ),
        f32(1, 2, 4),
        f32(3, 2, 3),
    ),
    "conv_general_dilated.pointwise": (
        convolution,
        f32(1, 2, 4),
        f32(3, 2, 1),
    ),
    "conv_general_dilated.integers": (
        convolution,
        i32(1, 2, 4),
        i32(3, 2, 3),
    ),
    "conv_general_dilated.negative_padding": (
        lambda x, k: convolution(x, k, padding=[(-1, 1)]),
        f32(1, 2, 5),
        f32(3, 2, 3),
    ),
    "conv_general_dilated.three_axes": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 2, 1), "VALID"),
        f32(1, 1, 3, 3, 3),
        f32(1, 1, 2, 2, 2),
    ),
    "conv_general_dilated.symbolic": (
        convolution,
        symbolic("b, 2, 8"),
        f32(3, 2, 3),
    ),
    "reduce_window_sum.dilated": (
        lambda x: windowed(x, 0.0, lax.add, padding="SAME", window_dilation=(1, 2)),
        f32(2, 6),
    ),
    "reduce_window_sum.integers": (
        lambda x: windowed(x, 0, lax.add, padding="VALID"),
        i32(2, 6),
    ),
    "reduce_window_max.base_dilated": (
        lambda x: windowed(x, -jnp.inf, lax.max, padding="SAME", base_dilation=(1, 2)),
        f32(2, 4),
    ),
    "reduce_window_max.integers": (
        lambda x: windowed(x, LOWEST, lax.max, padding="SAME"),
        i32(2, 4),
    ),
    "reduce_window_min.negative_padding": (
        lambda x: windowed(x, jnp.inf, lax.min, padding=((0, 0), (-1, 1))),
        f32(2, 6),
    ),
    "reduce_window_max.long": (
        lambda x: lax.reduce_window(x, LOWEST, lax.max, (21,), (1,), "VALID", window_dilation=(2,)),
        i32(50),
    ),
    "reduce_window.long": (
        lambda x: lax.reduce_window(x, 1.0, lax.mul, (13,), (1,), "SAME"),
        f32(20),
    ),
}
