"""Quotients and remainders of integers, where ONNX leaves JAX's behaviour undefined."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from harness.checking import check_model, op_types
from harness.every_number import assert_near, results

INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


def pairs(dtype):
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    ends = np.array([0, 1, 2, 3, info.max, info.min, info.max - 1, info.min + 1, 7], dtype)
    if info.min < 0:
        ends = np.concatenate([ends, np.array([-1, -2, -7], dtype)])
    more = rng.integers(info.min, info.max, (2, 200), dtype, endpoint=True)
    more[1, ::2] //= 1 << (info.bits // 2)
    sides = zip(np.meshgrid(ends, ends), more, strict=True)
    return [np.concatenate([side.ravel(), some]) for side, some in sides]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_everything_is_divided(dtype):
    functions = {
        "div": lax.div,
        "rem": lax.rem,
        "floor_divide": jnp.floor_divide,
        "remainder": jnp.remainder,
        "fmod": jnp.fmod,
    }
    for result in results(functions, pairs(dtype)):
        assert_near(*result, rtol=0)


@pytest.mark.parametrize("divisor", [2, 7, -3])
def test_constants_that_are_safe_need_no_care(divisor):
    x = np.array([-8, -7, 0, 5, 2**31 - 1, -(2**31)], np.int32)
    ops = op_types(check_model(lambda x: lax.div(x, np.int32(divisor)), [x]))
    assert ops == ["Div"]
    check_model(lambda x: (x // divisor, x % divisor), [x])


@pytest.mark.parametrize("divisor", [0, -1])
def test_constants_that_are_not(divisor):
    x = np.array([-8, 0, 5, 2**31 - 1, -(2**31)], np.int32)
    by = np.full_like(x, divisor)
    check_model(lambda x: (lax.div(x, by), lax.rem(x, by)), [x])


def test_floats_divide_by_zero():
    x = np.array([-1.0, 0.0, 1.0], np.float32)
    assert op_types(check_model(lambda x: lax.div(x, jnp.zeros_like(x)), [x])) == ["Div"]
