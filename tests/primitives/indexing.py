"""Slices, gathers and scatters at computed indices."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from primitives.operands import BATCH, B, N, Programs, V, X, boolean, f32, i32, u32


def at(name: str) -> Callable[..., Any]:
    return lambda x, i, u: getattr(x.at[i], name)(u)


OPERANDS = (f32(4, 3), i32(2), f32(2, 3))
PROGRAMS: Programs = {
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 0), (1, 2)), X, i32()),
    "dynamic_update_slice": (
        lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 1)),
        X,
        f32(1, 2),
        i32(),
    ),
    "gather": (lambda x, i: x[i], f32(4, 3), i32(2)),
    "gather.columns": (lambda x, i: x[:, i], f32(4, 3), i32(2)),
    "gather.points": (lambda x, i, j: x[i, j], f32(4, 3), i32(2), i32(2)),
    "gather.along_axis": (lambda x, i: jnp.take_along_axis(x, i, 1), f32(4, 3), i32(4, 2)),
    "gather.fill": (lambda x, i: x.at[i].get(mode="fill", fill_value=7.0), f32(4), i32(2)),
    "scatter": (at("set"), *OPERANDS),
    "scatter-add": (at("add"), *OPERANDS),
    "scatter-max": (at("max"), *OPERANDS),
    "scatter-min": (at("min"), *OPERANDS),
    "scatter-mul": (at("multiply"), *OPERANDS),
    "scatter-sub": (at("subtract"), *OPERANDS),
    "scatter-add.points": (
        lambda x, i, j, u: x.at[i, j].add(u),
        f32(4, 3),
        i32(2),
        i32(2),
        f32(2),
    ),
    "dynamic_slice.many": (
        lambda x, i, j: lax.dynamic_slice(x, (i, j), (1, 2)),
        X,
        i32(),
        i32(),
    ),
    "dynamic_slice.known": (lambda x: lax.dynamic_slice(x, (1, 1), (1, 2)), X),
    "dynamic_slice.unsigned": (lambda x, i: lax.dynamic_slice(x, (i,), (2,)), V, u32()),
    "dynamic_slice.symbolic": (lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, 1), BATCH, i32()),
    "scatter.row": (lambda x, u, i: x.at[i].set(u), X, f32(3), i32()),
    "dynamic_update_slice.all": (
        lambda x, u, i, j: lax.dynamic_update_slice(x, u, (i, j)),
        X,
        f32(1, 2),
        i32(),
        i32(),
    ),
    "dynamic_update_slice.long_column": (
        lambda x, u, i: lax.dynamic_update_slice(x, u, (0, i)),
        f32(5000, 3),
        f32(5000, 1),
        i32(),
    ),
    "dynamic_update_slice.long_columns": (
        lambda x, u, i: lax.dynamic_update_slice(x, u, (0, i)),
        f32(5000, 3),
        f32(5000, 2),
        i32(),
    ),
    "scatter-add.apply": (lambda x, i: x.at[i].apply(jnp.exp), V, np.int32([2, 0])),
    "gather.clip": (lambda x, i: x.at[i].get(mode="clip"), f32(4, 3), i32(2)),
    "gather.promise": (
        lambda x, i: x.at[i].get(mode="promise_in_bounds"),
        f32(4, 3),
        np.int32([3, 1]),
    ),
    "gather.batch": (jax.vmap(lambda x, i: x[i]), f32(2, 4), i32(2, 3)),
    "gather.windows": (
        jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,)), (None, 0)),
        V,
        i32(3),
    ),
    "gather.bools": (lambda x, i: x[i], B, i32(2)),
    "gather.integers_fill": (lambda x, i: x.at[i].get(mode="fill"), N, i32(2)),
    "gather.symbolic": (lambda x, i: x[i], BATCH, i32(2)),
    "scatter.drop": (lambda x, i, u: x.at[i].set(u, mode="drop"), V, i32(2), f32(2)),
    "scatter.clip": (lambda x, i, u: x.at[i].set(u, mode="clip"), V, i32(2), f32(2)),
    "scatter.unique": (lambda x, i, u: x.at[i].set(u, unique_indices=True), V, i32(2), f32(2)),
    "scatter.columns": (lambda x, i, u: x.at[:, i].set(u), X, i32(2), f32(2, 2)),
    "scatter.batch": (jax.vmap(lambda x, i, u: x.at[i].set(u)), X, i32(2, 1), f32(2, 1)),
    "scatter.bools": (lambda x, i, u: x.at[i].set(u), boolean(4), i32(2), boolean(2)),
    "scatter-add.integers": (lambda x, i, u: x.at[i].add(u), i32(4), i32(2), i32(2)),
    "scatter-add.batch": (jax.vmap(lambda x, i, u: x.at[i].add(u)), X, i32(2, 2), f32(2, 2)),
    "scatter-add.windows": (
        lambda x, i, u: x.at[jnp.stack([i, i + 1])].add(u),
        V,
        i32(),
        f32(2),
    ),
    "scatter-mul.integers": (lambda x, i, u: x.at[i].multiply(u), i32(4), i32(2), i32(2)),
}
