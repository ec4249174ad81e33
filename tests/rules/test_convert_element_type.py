"""Conversions between all types, of values in and out of range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from harness.checking import run
from harness.every_number import INF, NAN, precision
from jax2onnx import to_onnx

INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, np.float32, np.float64]
# Types that NumPy arrays at the model's boundary cannot have.
INNER = [
    jnp.bfloat16,
    jnp.float8_e4m3fn,
    jnp.float8_e4m3fnuz,
    jnp.float8_e5m2,
    jnp.float8_e5m2fnuz,
    jnp.int4,
    jnp.uint4,
]


def samples(dtype):
    """Returns the limits of all types and their neighbours, as far as the type represents them."""
    powers = np.exp2([3, 4, 7, 8, 15, 16, 31, 32, 63, 64])
    ends = np.concatenate([powers + step for step in (-1.5, -1, -0.5, 0, 0.5, 1, 1.5)])
    small = np.linspace(-20, 20, 81)
    eighths = [
        447,
        448,
        463,
        464,
        464.5,
        479,
        480,
        496,
        57344,
        61439,
        61440,
        65504,
        65536,
        239,
        248,
    ]
    values = np.concatenate([ends, -ends, small, eighths, [1e-3, 1e-8, 1e30]])
    if dtype == np.bool_:
        return np.array([True, False])
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        inside = values[(values >= float(info.min)) & (values < float(info.max))]
        return np.concatenate([inside.astype(dtype), np.array([info.min, info.max], dtype)])
    with np.errstate(over="ignore"):
        return np.concatenate([values, [INF, -INF, NAN, 3e38, -0.0]]).astype(dtype)


def same(found, expected):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("source", [np.bool_, *INTEGERS, *FLOATS])
def test_between_all_types(source):
    x, targets = samples(source), [np.bool_, *INTEGERS, *FLOATS]

    def convert(x):
        return [lax.convert_element_type(x, target) for target in targets]

    with precision(np.float64):
        model = to_onnx(convert, [x], enable_double_precision=True)
        for found, expected in zip(run(model, [x]), jax.jit(convert)(x), strict=True):
            same(found, np.asarray(expected))


@pytest.mark.usual_xla
@pytest.mark.parametrize("source", [np.int32, np.uint8, *FLOATS])
@pytest.mark.parametrize("inner", INNER)
def test_through_other_types(inner, source):
    x = samples(source)
    x = x[~((np.abs(x.astype(np.float64)) < 1e-6) & (x != 0))]
    if jax.__version_info__ < (0, 8) and "e5m2" in np.dtype(inner).name:
        x = x[np.abs(x.astype(np.float64)) < 50_000]  # XLA misrounds larger ones

    def there(x):
        return lax.convert_element_type(x, inner)

    def convert(x):
        return [there(x).astype(target) for target in (source, np.float32, np.int8, np.bool_)]

    with precision(np.float64):
        model = to_onnx(convert, [x], enable_double_precision=True)
        for found, expected in zip(run(model, [x]), jax.jit(convert)(x), strict=True):
            same(found, np.asarray(expected))


def test_doubles_are_rounded_twice():
    """JAX rounds via 32 bits, unless the processor converts at once."""
    halves = np.arange(0x0400, 0x7C00, 7, dtype=np.uint16).view(np.float16).astype(np.float64)
    brains = np.arange(0x0080, 0x7F00, 7, dtype=np.uint16).view(jnp.bfloat16).astype(np.float64)
    near = 2.0**-40
    x = np.concatenate([halves * (1 + 2.0**-11 + near), brains * (1 + 2.0**-8 + near)])
    x = x[(np.abs(x) > 1e-4) & (np.abs(x) < 1e38)]

    def convert(x):
        return [x.astype(np.float16), x.astype(jnp.bfloat16).astype(np.float32)]

    with precision(np.float64), np.errstate(over="ignore"):
        model = to_onnx(convert, [x], enable_double_precision=True)
        found, by_jax = run(model, [x]), jax.jit(convert)(x)
        once, twice = convert(x), convert(x.astype(np.float32))
    assert np.any(once[0] != twice[0])
    for ours, expected, first, second in zip(found, by_jax, once, twice, strict=True):
        same(ours, second)
        assert np.all((expected == first) | (expected == second))
