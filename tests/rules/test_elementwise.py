"""Elementwise functions and reductions at the limits of their types."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from harness.checking import assert_close, check_model, check_sizes, op_types, run
from harness.every_number import FLOATS, INF, NAN, assert_near, floats, precision, results
from jax2onnx import to_onnx

UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "is_finite",
    "log",
    "log1p",
    "neg",
    "rsqrt",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
]
# Units in the last place; JAX's own error is larger for some.
ULPS = {"cosh": 32, "sinh": 32, "exp2": 128}
ULPS_OF_DOUBLES = {
    "atanh": 200,
    "cbrt": 200,  # the error of older versions of JAX
    "cosh": 1000,
    "exp2": 1000,
    "log1p": 200,
    "sinh": 1000,
    "tan": 64,
}


@pytest.mark.parametrize("dtype", FLOATS)
def test_unary(dtype):
    x, eps = floats(dtype), float(np.finfo(dtype).eps)
    for name, found, expected in results({name: getattr(lax, name) for name in UNARY}, [x]):
        ulps = (ULPS_OF_DOUBLES if dtype == np.float64 else ULPS).get(name, 8)
        # Near the zeros of trigonometric functions, onnxruntime's error in doubles is absolute.
        absolute = 4 * eps if name in ("sin", "cos", "tan") and dtype == np.float64 else 0
        near = np.abs(expected) < 1e3 if name == "tan" else slice(None)
        assert_near(name, found[near], expected[near], ulps * eps, absolute)


def test_logistic_is_absolutely_precise():
    for name, found, expected in results({"logistic": lax.logistic}, [floats(np.float32)]):
        assert_near(name, found, expected, 0, 2e-7)


def test_small_numbers_stay():
    x = np.array([1e-30, -1e-20, 1e-8, -1e-8, 3e-5], np.float32)
    functions = {"expm1": lax.expm1, "log1p": lax.log1p}
    for name, found, _ in results(functions, [x]):
        np.testing.assert_allclose(found, getattr(np, name)(x.astype(np.float64)), rtol=3e-7)


def pairs(dtype):
    ends = np.array([0.0, -0.0, 1, -1, 2.5, -0.5, INF, -INF, NAN, np.finfo(dtype).max], dtype)
    some = floats(dtype)[np.random.default_rng(1).integers(0, 400, (2, 500))]
    sides = zip(np.meshgrid(ends, ends), some, strict=True)
    return [np.concatenate([side.ravel(), more]) for side, more in sides]


@pytest.mark.parametrize("dtype", FLOATS)
def test_binary(dtype):
    names = [
        "max",
        "min",
        "add",
        "sub",
        "mul",
        "div",
        "rem",
        "pow",
        "atan2",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    ]
    functions = {name: getattr(lax, name) for name in names}
    functions["clamp"] = lambda x, low: lax.clamp(low, x, low + 1)
    functions["clamp to constants"] = lambda x, _: lax.clamp(dtype(-1), x, dtype(2))
    for name, found, expected in results(functions, pairs(dtype)):
        assert_near(name, found, expected, 8 * float(np.finfo(dtype).eps))


def neighbours(dtype):
    info = np.finfo(dtype)
    ends = [0.0, info.smallest_subnormal, info.smallest_normal, info.max, INF, 1, NAN]
    ends = np.array([*ends, *(-x for x in ends)], dtype)
    powers = np.exp2(np.arange(info.minexp, info.maxexp)).astype(dtype)
    x, y = (side.ravel() for side in np.meshgrid(ends, ends))
    rest = np.concatenate([powers, -powers, np.nextafter(powers, dtype(0))])
    return np.concatenate([x, rest, rest]), np.concatenate([y, rest * 0, rest * dtype(INF)])


@pytest.mark.parametrize("dtype", FLOATS)
def test_nextafter_is_exact(dtype):
    x, y = neighbours(dtype)
    model = to_onnx(lax.nextafter, [x, y], enable_double_precision=True)
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(run(model, [x, y])[0], np.nextafter(x, y))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("end", [INF, -INF])
def test_nextafter_in_one_direction(dtype, end):
    x, _ = neighbours(dtype)
    step = lambda x: lax.nextafter(x, jnp.full_like(x, end))  # noqa: E731
    model = to_onnx(step, [x], enable_double_precision=True)
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(run(model, [x])[0], np.nextafter(x, dtype(end)))
    if dtype == np.float32:
        assert len(model.graph.node) == 7


def test_nextafter_of_bfloat16():
    bits = np.arange(0, 0x7F80, dtype=np.uint16)
    x, after = (b.view(jnp.bfloat16).astype(np.float32) for b in (bits, bits + 1))

    def next_up(x):
        narrow = x.astype(jnp.bfloat16)
        return lax.nextafter(narrow, jnp.full_like(narrow, INF)).astype(np.float32)

    np.testing.assert_array_equal(run(to_onnx(next_up, [x]), [x])[0], after)


@pytest.mark.parametrize("exponent", [np.int8, np.uint32, np.uint64])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_pow_of_whole_exponents(dtype, exponent):
    x, y = np.meshgrid([0, -0.0, 1, -1, 2, -2, 0.5, -1.5, INF, -INF], [0, 1, 2, 3, 6])
    with precision(exponent):
        double = exponent == np.uint64
        args = [x.astype(dtype), y.astype(exponent)]
        check_model(lax.pow, args, enable_double_precision=double)


def test_integer_pow():
    exponents = [-3, -2, -1, 0, 1, 2, 3, 7, 16]
    powers = {str(n): lambda x, n=n: lax.integer_pow(x, n) for n in exponents}
    for name, found, expected in results(powers, [np.linspace(-2, 3, 12, dtype=np.float32)]):
        assert_near(name, found, expected, 1e-6)
    whole = {name: fn for name, fn in powers.items() if int(name) >= 0}
    for dtype in (np.int8, np.uint8, np.int32, np.uint32):
        for result in results(whole, [np.array([0, 1, 2, 3, 100, np.iinfo(dtype).max], dtype)]):
            assert_near(*result, rtol=0)


def test_round():
    x = np.concatenate([np.arange(-6, 6.25, 0.25), [0.49999997, 2049, INF, -INF, NAN]])
    methods = {m.name: lambda x, m=m: lax.round(x, m) for m in lax.RoundingMethod}
    for dtype in FLOATS:
        for result in results(methods, [x.astype(dtype)]):
            assert_near(*result, rtol=0)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_wins_every_reduction(dtype, axes):
    """Compared with NumPy, because JAX on a CPU loses NaN in long rows."""
    x = np.random.default_rng(0).normal(size=(7, 40)).astype(dtype)

    def both(x):
        return lax.reduce_max(x, axes), lax.reduce_min(x, axes)

    model = to_onnx(both, [x], enable_double_precision=True)
    for place in range(0, x.size, 39):
        holed = x.copy()
        holed[np.unravel_index(place, x.shape)] = NAN
        most, least = run(model, [holed])
        np.testing.assert_array_equal(most, holed.max(axes))
        np.testing.assert_array_equal(least, holed.min(axes))


def test_nan_spreads_through_a_softmax():
    x = np.random.default_rng(0).normal(size=(3, 40)).astype(np.float32)
    x[1, 17] = NAN
    model = to_onnx(jax.nn.softmax, [x])
    assert "IsNaN" not in op_types(model)
    rows = np.isnan(run(model, [x])[0]).all(1)
    np.testing.assert_array_equal(rows, np.isnan(x).any(1))


def test_reductions_of_ends():
    x = np.array([[INF, INF], [-INF, -INF], [NAN, NAN], [-INF, 1]], np.float32)
    check_model(lambda x: (lax.reduce_max(x, (1,)), lax.reduce_min(x, (1,))), [x])


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int16, np.uint32, np.bool_])
def test_reductions_of_nothing(dtype):
    x = np.zeros((3, 0), dtype)
    check_model(lambda x: (lax.reduce_max(x, (1,)), lax.reduce_min(x, (1,))), [x])
    if dtype != np.bool_:
        check_model(lambda x: (jnp.sum(x, 1, dtype=dtype), jnp.prod(x, 1, dtype=dtype)), [x])


def test_square_is_a_product():
    assert op_types(check_model(lax.square, [np.ones(3, np.float32)])) == ["Mul"]


def test_maps_of_loops_stop_one_by_one():
    def halve(n, x):
        return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] / 2), (n, x))

    n, x = np.array([0, 3, 1, 5], np.int32), np.ones((4, 2), np.float32)
    check_model(jax.vmap(halve), [n, x])
    check_model(jax.vmap(jax.vmap(halve, (None, 0))), [n, x])
    check_model(jax.vmap(halve), [n[:0], x[:0]])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_zero_keeps_its_sign(dtype):
    # A consumer may divide by it.
    functions = {fn.__name__: fn for fn in (lax.log1p, lax.expm1, lax.cbrt, lax.asinh, lax.neg)}
    for name, found, expected in results(functions, [np.array([-0.0, 0.0], dtype)]):
        assert np.signbit(found).tolist() == np.signbit(expected).tolist(), name


def test_angles_of_zeros():
    zeros = np.float32([0.0, 0.0, -0.0, -0.0]), np.float32([0.0, -0.0, 0.0, -0.0])
    ((_, found, _),) = results({"atan2": lax.atan2}, zeros)
    np.testing.assert_array_equal(found, np.arctan2(*zeros))
    assert np.signbit(found).tolist() == [False, False, True, True]


@pytest.mark.parametrize(
    "choose",
    [
        lambda x: jnp.select([x < -1, x < 0, x < 1], [x * 2, x * 3, x * 4], 7.0),
        lambda x: jnp.select([x > 0, x > -1, x < 0], [1, 2, 3]),
        lambda x: jnp.select([x[:1] < 0, x > 0.5], [x, -x], x * 9),
        lambda x: lax.select_n(jnp.stack([x > 0, x < 1], 1).argmax(1), x, x * 2),
        lambda x: lax.select_n(jnp.stack([x > 0, x < 1]).argmax(0), x, x * 2, x * 3),
    ],
)
def test_the_first_true_condition_chooses(choose):
    x = jnp.array([[-2, -1, -0.5], [-0.0, 0, 0.7], [1, 2, jnp.nan], [jnp.inf, -jnp.inf, 3]])
    check_model(choose, [x])
    check_sizes(choose, [("B", 3)], [x], [x[1:2]])


def test_choices_between_equals():
    """`jnp.piecewise` selects the operand of every function from the operand itself."""

    def fn(x):
        return jnp.piecewise(x, [x < 0, x >= 1], [lambda x: -x, lambda x: x * x, lambda x: x + 1])

    model = to_onnx(fn, [("b", 3)])
    assert len(op_types(model)) <= 19
    x = np.array([[-1, 0, 0.5], [1, 2, np.nan], [-np.inf, np.inf, -0.0]], np.float32)
    assert_close(run(model, [x]), [fn(x)])


UNSIGNED = [
    lambda x: jnp.minimum(x.astype(jnp.float32), 1e19),
    lambda x: jnp.clip(x.astype(jnp.float64), 0.0, 1e19),
    lambda x: jnp.where(x.astype(jnp.float64) > 9.5e18, 1.0, 2.0),
]


@pytest.mark.parametrize("fn", UNSIGNED)
def test_guards_of_the_largest_integers_stay(fn):
    with jax.enable_x64(True):
        check_model(fn, [np.array([2**64 - 1, 2**63, 5], np.uint64)], enable_double_precision=True)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
@pytest.mark.parametrize("bound", [17.0, 127.0])
def test_guards_of_rounded_bounds_stay(dtype, bound):
    def fn(x):
        y = jnp.clip(x, bound, 128.0).astype(dtype).astype(jnp.float32)
        return jnp.maximum(y, bound), jnp.minimum(y, bound)

    check_model(fn, [np.array([0.0, 18.0, 200.0], np.float32)])


def test_guards_of_multiples_of_a_length_stay():
    model = to_onnx(lambda x: jnp.minimum(jnp.float32(x.shape[0] * 64), 2.2e9), [("n",)])
    assert "Min" in op_types(model)


def test_the_larger_one_may_be_a_negative_zero():
    x = np.array([-1.0, -0.0, 2.0], np.float32)
    check_model(lambda x: 1 / jnp.maximum(x, -0.0), [x])


def test_equal_numbers_are_found_in_half_precision():
    x = np.array([0.0, -30000.0, 1234.0], np.float16)
    check_model(lambda x: jnp.searchsorted(jnp.sort(x), x), [x])
