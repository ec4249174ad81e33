"""Data movement, and primitives that create an array or pass it on."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.layout import Layout, with_layout_constraint
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import NamedSharding, PartitionSpec

from primitives.operands import BATCH, B, N, Programs, V, X, bind, f32, i32


def placed(explicit: bool) -> Callable[..., Any]:
    kind = jax.sharding.AxisType.Explicit if explicit else jax.sharding.AxisType.Auto

    def function(x: Any) -> Any:
        mesh = jax.make_mesh((1,), ("d",), axis_types=(kind,))
        rows = NamedSharding(mesh, PartitionSpec("d"))
        return jax.sharding.reshard(x, rows) if explicit else lax.with_sharding_constraint(x, rows)

    return function


PROGRAMS: Programs = {
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (0, 2)), f32(2, 4)),
    "broadcast_in_dim.symbolic": (lambda x: jnp.broadcast_to(x, (2, *x.shape)), BATCH),
    "concatenate": (lambda x, y: lax.concatenate((x, y), 1), X, f32(2, 1)),
    "pad": (lambda x: lax.pad(x, 0.0, ((1, 2, 0), (0, 0, 0))), X),
    "pad.inside": (lambda x: lax.pad(x, 0.0, ((0, 0, 1), (-1, 0, 2))), X),
    "reshape": (lambda x: lax.reshape(x, (3, 2)), X),
    "reshape.symbolic": (lambda x: x.reshape(-1), BATCH),
    "rev": (lambda x: lax.rev(x, (1,)), X),
    "slice": (lambda x: lax.slice(x, (0, 1), (2, 3)), X),
    "slice.strided": (lambda x: lax.slice(x, (0,), (4,), (2,)), V),
    "split": (lambda x: lax.split(x, (1, 2), axis=1), X),
    "squeeze": (lambda x: lax.squeeze(x, (1,)), f32(2, 1, 3)),
    "stack": (bind("stack", axis=1), X, X),
    "unstack": (bind("unstack", axis=1), X),
    "tile": (bind("tile", reps=(2, 1)), X),
    "transpose": (lambda x: lax.transpose(x, (1, 0)), X),
    "pad.negative": (lambda x: lax.pad(x, 1.0, ((-1, 0, 0), (2, -1, 0))), X),
    "pad.integers": (lambda n, v: lax.pad(n, v, ((1, 0, 0), (0, 1, 0))), N, i32()),
    "pad.bools": (lambda x: lax.pad(x, False, ((0, 1, 0), (0, 0, 0))), B),
    "pad.symbolic": (lambda x: lax.pad(x, 0.0, ((1, 1, 0), (0, 0, 1))), BATCH),
    "broadcast_in_dim.scalar": (lambda x: lax.broadcast_in_dim(x, (2, 3), ()), f32()),
    "reshape.split": (lambda x: x.reshape(x.shape[0], 1, 3), BATCH),
    "split.symbolic": (lambda x: lax.split(x, (1, 2), axis=1), BATCH),
    "concatenate.symbolic": (lambda x: lax.concatenate((x, x), 0), BATCH),
    "transpose.symbolic": (lambda x: x.T, BATCH),
    "copy": (bind("copy"), X),
    "device_put": (jax.device_put, X),
    "stop_gradient": (bind("stop_gradient"), X),
    "name": (lambda x: checkpoint_name(x, "hidden"), X),
    "optimization_barrier": (lambda x, n: lax.optimization_barrier((x, n)), X, N),
    "sharding_constraint": (placed(explicit=False), X),
    "layout_constraint": (lambda x: with_layout_constraint(x, Layout((1, 0))), X),
    "xla_metadata_value": (lambda x: set_xla_metadata(x * 2, origin="test"), X),
    "reshard": (placed(explicit=True), X),
    "dim_as_value": (lambda x: x * x.shape[0], BATCH),
    "iota": (lambda: lax.broadcasted_iota(jnp.int32, (2, 3), 1),),
    "empty": (lambda: lax.empty((2, 3), jnp.float32),),
    "iota.columns": (lambda: lax.broadcasted_iota(jnp.float32, (2, 3), 0),),
    "iota.symbolic": (lambda x: lax.iota(jnp.int32, x.shape[0]), BATCH),
    "dim_as_value.sum": (lambda x: x * (2 * x.shape[0] + x.shape[0] // 2), BATCH),
}
