"""Conversions, and primitives that create an array or pass it on."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.layout import Layout, with_layout_constraint
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import NamedSharding, PartitionSpec

from primitives.operands import BATCH, B, N, Programs, X, bf16, bind, f32, f64, spec, u8, u32


def to(dtype: Any) -> Callable[..., Any]:
    return lambda x: lax.convert_element_type(x, dtype)


def bits_as(dtype: Any) -> Callable[..., Any]:
    return lambda x: lax.bitcast_convert_type(x, dtype)


def placed(explicit: bool) -> Callable[..., Any]:
    kind = jax.sharding.AxisType.Explicit if explicit else jax.sharding.AxisType.Auto

    def function(x: Any) -> Any:
        mesh = jax.make_mesh((1,), ("d",), axis_types=(kind,))
        rows = NamedSharding(mesh, PartitionSpec("d"))
        return jax.sharding.reshard(x, rows) if explicit else lax.with_sharding_constraint(x, rows)

    return function


PROGRAMS: Programs = {
    "bitcast_convert_type": (bits_as(jnp.int32), X),
    "convert_element_type": (to(jnp.int32), X),
    "convert_element_type.to_bool": (to(jnp.bool_), X),
    "convert_element_type.narrow": (to(jnp.int8), N),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 10), f32(3)),
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
    "reduce_precision.bfloat16": (lambda x: lax.reduce_precision(x, 8, 7), f32(3)),
    "reduce_precision.half": (lambda x: lax.reduce_precision(x, 4, 3), bf16(3)),
    "dim_as_value.sum": (lambda x: x * (2 * x.shape[0] + x.shape[0] // 2), BATCH),
    "convert_element_type.bool_to_float": (to(jnp.float32), B),
    "convert_element_type.float_to_unsigned": (to(jnp.uint8), X),
    "convert_element_type.float_to_bfloat16": (to(jnp.bfloat16), X),
    "convert_element_type.bfloat16_to_float": (to(jnp.float32), bf16(3)),
    "convert_element_type.integer_to_float": (to(jnp.float32), N),
    "convert_element_type.integer_to_bool": (to(jnp.bool_), N),
    "convert_element_type.unsigned_to_signed": (to(jnp.int8), u32(3)),
    "convert_element_type.float_to_half": (to(jnp.float16), X),
    "convert_element_type.float_to_float8": (to(jnp.float8_e4m3fn), X),
    "convert_element_type.integer_to_complex": (to(jnp.complex64), N),
    "bitcast_convert_type.to_bytes": (bits_as(jnp.uint8), f32(2)),
    "bitcast_convert_type.from_bytes": (bits_as(jnp.float32), u8(2, 4)),
    "bitcast_convert_type.bfloat16": (bits_as(jnp.uint16), bf16(2)),
    "bitcast_convert_type.double": (bits_as(jnp.int64), f64(2)),
    "bitcast_convert_type.unsigned": (bits_as(jnp.int32), u32(2)),
    "bitcast_convert_type.half_to_float": (bits_as(jnp.float32), spec(jnp.float16, 3, 2)),
}
