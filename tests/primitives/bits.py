"""The bits of numbers."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from primitives.operands import N, Programs, X, bf16, bind, f32, f64, i32, of_lax, spec, u8, u32

LARGE = np.array([0xFFFFFFFF, 0x12345678, 0x80000001], np.uint32)


def bits_as(dtype: Any) -> Callable[..., Any]:
    return lambda x: lax.bitcast_convert_type(x, dtype)


found: Programs = {}
for name in ("eq_to", "le_to", "lt_to"):
    found[name] = (bind(name), f32(3), f32(3))
for name in ("shift_left", "shift_right_arithmetic", "shift_right_logical"):
    found[name] = (of_lax(name), N, N)
    found[f"{name}.unsigned"] = (of_lax(name), u32(3), u32(3))
PROGRAMS: Programs = found | {
    "clz": (lax.clz, i32(3)),
    "mulhi": (of_lax("mulhi"), LARGE, LARGE[::-1]),
    "population_count": (lax.population_count, i32(3)),
    "mulhi.signed": (of_lax("mulhi"), N, N),
    "population_count.bytes": (lax.population_count, u8(3)),
    "clz.bytes": (lax.clz, u8(3)),
    "bitcast_convert_type": (bits_as(jnp.int32), X),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 10), f32(3)),
    "reduce_precision.bfloat16": (lambda x: lax.reduce_precision(x, 8, 7), f32(3)),
    "reduce_precision.half": (lambda x: lax.reduce_precision(x, 4, 3), bf16(3)),
    "bitcast_convert_type.to_bytes": (bits_as(jnp.uint8), f32(2)),
    "bitcast_convert_type.from_bytes": (bits_as(jnp.float32), u8(2, 4)),
    "bitcast_convert_type.bfloat16": (bits_as(jnp.uint16), bf16(2)),
    "bitcast_convert_type.double": (bits_as(jnp.int64), f64(2)),
    "bitcast_convert_type.unsigned": (bits_as(jnp.int32), u32(2)),
    "bitcast_convert_type.half_to_float": (bits_as(jnp.float32), spec(jnp.float16, 3, 2)),
}
