"""Elementwise functions, comparisons and conversions."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from primitives.operands import (
    BATCH,
    B,
    N,
    Programs,
    X,
    bf16,
    bind,
    boolean,
    f32,
    f64,
    i32,
    of_lax,
    u32,
)


def to(dtype: Any) -> Callable[..., Any]:
    return lambda x: lax.convert_element_type(x, dtype)


names = """abs acos acosh asin asinh atan atanh cbrt ceil cos cosh exp exp2 expm1 floor log
    log1p logistic neg rsqrt sign sin sinh sqrt square tan tanh"""
found: Programs = {name: (of_lax(name), X) for name in names.split()}
for name in ("add", "atan2", "div", "max", "min", "mul", "nextafter", "pow", "rem", "sub"):
    found[name] = (of_lax(name), X, X)
for name in ("abs", "neg", "sign"):
    found[f"{name}.integers"] = (of_lax(name), N)
for name in ("add", "div", "max", "mul", "rem", "sub"):
    found[f"{name}.integers"] = (of_lax(name), N, N)
for name in ("and", "or", "xor"):
    operator = of_lax(f"bitwise_{name}")
    found |= {name: (operator, B, B), f"{name}.integers": (operator, N, N)}
for name in ("eq", "ge", "gt", "le", "lt", "ne"):
    found |= {name: (of_lax(name), X, X), f"{name}.integers": (of_lax(name), N, N)}
PROGRAMS: Programs = found | {
    "add_any": (bind("add_any"), X, X),
    "add.bfloat16": (lax.add, bf16(3), bf16(3)),
    "add.symbolic": (lax.add, BATCH, BATCH),
    "clamp": (lambda x: lax.clamp(-1.0, x, 1.0), X),
    "clamp.arrays": (lax.clamp, X, X, X),
    "exp2.double": (lax.exp2, f64(3)),
    "integer_pow": (lambda x: lax.integer_pow(x, 3), X),
    "integer_pow.negative": (lambda x: lax.integer_pow(x, -2), X),
    "is_finite": (lax.is_finite, X),
    "not": (lax.bitwise_not, B),
    "not.integers": (lax.bitwise_not, N),
    "pow.integer_exponent": (lambda x, n: lax.pow(x, n), X, N),
    "round": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), X),
    "round.to_even": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), X),
    "select_n": (lax.select_n, B, X, X),
    "select_n.integers": (lax.select_n, i32(3), f32(3), f32(3), f32(3)),
    "select_n.scalar": (lambda p, x, y: lax.select_n(p, x, y), boolean(), X, X),
    "clamp.integers": (lambda n: lax.clamp(0, n, 7), N),
    "rem.unsigned": (lax.rem, u32(3), u32(3)),
    "div.unsigned": (lax.div, u32(3), u32(3)),
    "max.bools": (lax.max, B, B),
    "min.integers": (lax.min, N, N),
    "integer_pow.integers": (lambda n: lax.integer_pow(n, 4), N),
    "sign.unsigned": (lax.sign, u32(3)),
    "nextafter.bfloat16": (lax.nextafter, bf16(2), bf16(2)),
    "nextafter.double": (lax.nextafter, f64(2), f64(2)),
    "convert_element_type.double_to_integer": (to(jnp.int32), f64(3)),
    "convert_element_type.double_to_unsigned": (to(jnp.uint8), f64(3)),
    "convert_element_type.double_to_wide": (to(jnp.int64), f64(3)),
    "round.double": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), f64(3)),
    "eq.bools": (lax.eq, B, B),
    "convert_element_type": (to(jnp.int32), X),
    "convert_element_type.to_bool": (to(jnp.bool_), X),
    "convert_element_type.narrow": (to(jnp.int8), N),
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
}
