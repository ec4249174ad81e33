"""Sizes with constraints from `jax.export.symbolic_shape`: whatever JAX can export, we can."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

from harness.checking import assert_close, quick, run
from jax2onnx import to_onnx
from models.random_values import normal

KERNEL = jnp.asarray(np.random.default_rng(0).standard_normal((3, 4, 2)), jnp.float32)


def conv(padding: Any, stride: int = 1, dilation: int = 1) -> Callable[[jax.Array], jax.Array]:
    return lambda x: lax.conv_general_dilated(
        x[None],
        KERNEL,
        (stride,),
        padding,
        rhs_dilation=(dilation,),
        dimension_numbers=("NWC", "WIO", "NWC"),
    )


def max_pool(window: int, stride: int) -> Callable[[jax.Array], jax.Array]:
    return lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (window, 1), (stride, 1), "VALID")


def sum_pool(window: int, stride: int) -> Callable[[jax.Array], jax.Array]:
    return lambda x: lax.reduce_window(x, 0.0, lax.add, (window, 1), (stride, 1), "VALID")


def frames(x: jax.Array, window: int, step: int) -> jax.Array:
    starts = jnp.arange((x.shape[0] - window) // step + 1) * step
    return x[starts[:, None] + jnp.arange(window)]


def padded(mode: str) -> Callable[[jax.Array], jax.Array]:
    return lambda x: jnp.pad(x, ((2, 2), (0, 0)), mode=mode)


def strided_and_padded(start: int, interior: int) -> Callable[[jax.Array], jax.Array]:
    return lambda x: lax.pad(x[start::2], 0.0, ((1, 2, interior), (0, 0, 0)))


def squared(fn: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    return jax.grad(lambda x: (fn(x) ** 2).sum())


class Long(NamedTuple):
    """One input of shape `T, 4`, where `T` is at least four."""

    fn: Callable[..., Any]
    shapes: tuple[str, ...] = ("T, 4",)
    constraints: tuple[str, ...] = ("T >= 4",)
    sizes: tuple[dict[str, int], ...] = ({"T": 4}, {"T": 9})


class Short(NamedTuple):
    """One input of shape `T, 4`, where `T` is at most eight."""

    fn: Callable[..., Any]
    shapes: tuple[str, ...] = ("T, 4",)
    constraints: tuple[str, ...] = ("T <= 8",)
    sizes: tuple[dict[str, int], ...] = ({"T": 3}, {"T": 8})


class Even(NamedTuple):
    """One input of shape `T, 4`, where `T` is a multiple of four."""

    fn: Callable[..., Any]
    shapes: tuple[str, ...] = ("T, 4",)
    constraints: tuple[str, ...] = ("mod(T, 4) == 0",)
    sizes: tuple[dict[str, int], ...] = ({"T": 4}, {"T": 12})


class Image(NamedTuple):
    """One input of shape `H, W`, both at least two."""

    fn: Callable[..., Any]
    shapes: tuple[str, ...] = ("H, W",)
    constraints: tuple[str, ...] = ("H >= 2", "W >= 2")
    sizes: tuple[dict[str, int], ...] = ({"H": 2, "W": 3}, {"H": 5, "W": 4})


class Two(NamedTuple):
    """Two inputs, and the relation between their sizes."""

    fn: Callable[..., Any]
    constraints: tuple[str, ...]
    sizes: tuple[dict[str, int], ...]
    shapes: tuple[str, ...] = ("T, 4", "S, 4")


PROGRAMS: dict[str, Any] = {
    # indices
    "difference of slices": Long(lambda x: x[3:] - x[:-3]),
    "slice": Long(lambda x: lax.slice(x, (0, 0), (3, 4))),
    "first rows": Long(lambda x: x[:3] * 2),
    "last rows": Long(lambda x: x[-3:]),
    "one row": Long(lambda x: x[3] + x[-4]),
    "rows": Long(lambda x: x[jnp.array([0, 3])]),
    "reversed tail": Long(lambda x: jnp.flip(x[2:], 0)[:2]),
    "diff": Long(lambda x: jnp.diff(x, n=3, axis=0)),
    "moving average": Long(lambda x: (jnp.cumsum(x, 0)[3:] - jnp.cumsum(x, 0)[:-3]) / 3),
    "top_k": Long(lambda x: lax.top_k(x.T, 3)[0]),
    "median": Long(lambda x: jnp.median(x, axis=0)),
    "roll": Long(lambda x: jnp.roll(x, 3, 0)),
    "dynamic_slice": Long(lambda x: lax.dynamic_slice(x, (jnp.int32(x[0, 0] > 0), 0), (3, 4))),
    "frames": Long(lambda x: frames(x, 4, 2)),
    "corner": Image(lambda x: x[:2, :2].reshape(-1) + jnp.arange(4.0)),
    # windows
    "convolution": Long(conv("VALID")),
    "strided convolution": Long(conv("VALID", stride=2)),
    "dilated convolution": Long(
        conv("VALID", dilation=2), constraints=("T >= 5",), sizes=({"T": 5}, {"T": 9})
    ),
    "max pool": Long(max_pool(4, 1)),
    "strided max pool": Long(max_pool(3, 2)),
    "sum pool": Long(sum_pool(3, 3)),
    "gradient of slices": Long(squared(lambda x: x[3:] - x[:-3])),
    "gradient of a convolution": Long(squared(conv("VALID"))),
    "gradient of a pool": Long(squared(sum_pool(3, 1))),
    # padding
    "reflect": Long(padded("reflect")),
    "symmetric": Long(padded("symmetric")),
    "edge": Long(padded("edge")),
    "strided and padded": Long(strided_and_padded(0, 0)),
    "strided and padded inside": Long(strided_and_padded(0, 1)),
    "strided from one and padded inside": Long(
        strided_and_padded(1, 1), constraints=(), sizes=({"T": 1}, {"T": 2}, {"T": 9})
    ),
    "cut by padding": Long(lambda x: lax.pad(x, 0.0, ((-2, 1, 0), (0, 0, 0)))),
    "cut by padding at both ends": Long(lambda x: lax.pad(x, 0.0, ((-2, -2, 0), (0, 0, 0)))),
    # loops
    "scan over windows": Long(
        lambda x: lax.scan(
            lambda carry, i: (carry + lax.dynamic_slice_in_dim(x, i, 3, 0).sum(), carry),
            0.0,
            jnp.arange(x.shape[0] - 3),
        )
    ),
    "loop up to a size": Long(
        lambda x: lax.fori_loop(0, x.shape[0] - 2, lambda i, c: c + x[i + 2], jnp.zeros(4))
    ),
    # upper bounds
    "dynamic_update_slice": Short(lambda x: lax.dynamic_update_slice(jnp.zeros((8, 4)), x, (0, 0))),
    "dynamic_update_slice at an index": Short(
        lambda x: lax.dynamic_update_slice(jnp.zeros((8, 4)), x, (jnp.int32(x[0, 0] > 0), 0))
    ),
    "dynamic_update_slice in a batch": Short(
        lambda x: lax.dynamic_update_slice(jnp.zeros((x.shape[0], 8, 4)), x, (0, 0, 0)),
        shapes=("B, T, 4",),
        sizes=({"B": 2, "T": 3}, {"B": 3, "T": 8}),
    ),
    "set": Short(lambda x: jnp.zeros((8, 4)).at[: x.shape[0]].set(x)),
    "window of a table": Short(
        lambda x: lax.dynamic_slice_in_dim(jnp.arange(32.0).reshape(8, 4), 2, x.shape[0])
    ),
    "position embedding": Short(lambda x: x + jnp.arange(32.0).reshape(8, 4)[: x.shape[0]]),
    "mask": Short(lambda x: jnp.tril(jnp.ones((8, 8)))[: x.shape[0], : x.shape[0]] @ x),
    "pad to eight": Short(lambda x: jnp.pad(x, ((0, 8 - x.shape[0]), (0, 0)))),
    "between two bounds": Short(
        lambda x: jnp.pad(x[2:], ((0, 10 - x.shape[0]), (0, 0))),
        constraints=("T <= 10", "T >= 3"),
        sizes=({"T": 3}, {"T": 10}),
    ),
    # multiples
    "reshape": Even(lambda x: x.reshape(4, x.shape[0] // 4, 4).sum(0)),
    "split": Even(lambda x: jnp.stack(jnp.split(x, 4))),
    "halves": Even(
        lambda x: x[: x.shape[0] // 2] + x[x.shape[0] // 2 :], constraints=("mod(T, 2) == 0",)
    ),
    "glu": Even(lambda x: jax.nn.glu(x, axis=0), constraints=("mod(T, 2) == 0",)),
    "pool of pairs": Even(max_pool(2, 2)),
    "what is left of pairs": Long(lambda x: x[: x.shape[0] // 2 * 2].reshape(-1, 2, 4).mean(1)),
    # two variables
    "shorter": Two(
        lambda x, y: x[: y.shape[0]] + y, ("T >= S",), ({"T": 9, "S": 4}, {"T": 9, "S": 9})
    ),
    "tail": Two(
        lambda x, y: x[x.shape[0] - y.shape[0] :] + y,
        ("T >= S",),
        ({"T": 9, "S": 4}, {"T": 9, "S": 9}),
    ),
    "shorter by one": Two(
        lambda x, y: x[1:][: y.shape[0]] + y,
        ("T >= S + 1",),
        ({"T": 9, "S": 4}, {"T": 9, "S": 8}),
    ),
    "twice as long": Two(
        lambda x, y: jnp.concatenate([x, x]) + y,
        ("S == 2*T",),
        ({"T": 3, "S": 6}, {"T": 5, "S": 10}),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_constraints(name: str) -> None:
    program = PROGRAMS[name]
    scope = export.SymbolicScope(program.constraints)
    shapes = [export.symbolic_shape(shape, scope=scope) for shape in program.shapes]
    model = to_onnx(program.fn, [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes])
    for sizes in program.sizes:
        args = [normal(*(eval(axis, {}, sizes) for axis in s.split(","))) for s in program.shapes]
        expected = jax.tree.leaves(quick(program.fn)(*args))
        assert_close(run(model, args), expected)
