"""Elementwise functions."""

import numpy as np
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
    u8,
    u32,
)

LARGE = np.array([0xFFFFFFFF, 0x12345678, 0x80000001], np.uint32)

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
for name in ("shift_left", "shift_right_arithmetic", "shift_right_logical"):
    found[name] = (of_lax(name), N, N)
    found[f"{name}.unsigned"] = (of_lax(name), u32(3), u32(3))
PROGRAMS: Programs = found | {
    "add_any": (bind("add_any"), X, X),
    "add.bfloat16": (lax.add, bf16(3), bf16(3)),
    "add.symbolic": (lax.add, BATCH, BATCH),
    "clamp": (lambda x: lax.clamp(-1.0, x, 1.0), X),
    "clamp.arrays": (lax.clamp, X, X, X),
    "clz": (lax.clz, i32(3)),
    "exp2.double": (lax.exp2, f64(3)),
    "integer_pow": (lambda x: lax.integer_pow(x, 3), X),
    "integer_pow.negative": (lambda x: lax.integer_pow(x, -2), X),
    "is_finite": (lax.is_finite, X),
    "mulhi": (of_lax("mulhi"), LARGE, LARGE[::-1]),
    "not": (lax.bitwise_not, B),
    "not.integers": (lax.bitwise_not, N),
    "population_count": (lax.population_count, i32(3)),
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
    "mulhi.signed": (of_lax("mulhi"), N, N),
    "nextafter.bfloat16": (lax.nextafter, bf16(2), bf16(2)),
    "population_count.bytes": (lax.population_count, u8(3)),
    "clz.bytes": (lax.clz, u8(3)),
    "round.double": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), f64(3)),
}
