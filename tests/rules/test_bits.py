"""Bit operations on integers and floats: shifts, counts, conversions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from harness.checking import assert_close, check_model, op_types, run
from jax2onnx import to_onnx

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def double():
    return jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64()


def check(fn, *args, **options):
    """Like `check_model`, with 64-bit types; results must be bit-identical."""
    with double():
        model = to_onnx(fn, list(args), enable_double_precision=True, **options)
        expected = list(map(np.asarray, jax.tree_util.tree_leaves(fn(*args))))
    found = run(model, args)
    assert [x.dtype for x in found] == [x.dtype for x in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    return model


def integers(dtype, count=60, seed=0):
    """Returns random bits and the ends of the range."""
    rng = np.random.default_rng(seed)
    limits = np.iinfo(dtype)
    some = rng.bytes(count * np.dtype(dtype).itemsize)
    ends = np.array([limits.min, limits.min + 1, 0, limits.max - 1, limits.max, 1], dtype)
    return np.concatenate([np.frombuffer(some, dtype), ends])


def floats(dtype, count=3000, seed=0):
    """Returns random bits, ordinary numbers and special values."""
    rng = np.random.default_rng(seed)
    some = np.frombuffer(rng.bytes(count * np.dtype(dtype).itemsize), dtype)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1.5], dtype)
    with np.errstate(over="ignore"):
        return np.concatenate([some, special, (10 ** rng.uniform(-9, 9, count)).astype(dtype)])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_counting(dtype):
    check(lambda x: (lax.population_count(x), lax.clz(x)), integers(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts(dtype):
    x, wild = integers(dtype), integers(dtype, seed=1)
    width = np.dtype(dtype).itemsize * 8
    inside = np.arange(len(x)).astype(dtype) % (width + 2)
    known = [0, 1, width - 1, width, 100]

    def shift(x, inside, wild):
        for function in (lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic):
            yield from (function(x, amount) for amount in (inside, wild))
            yield from (function(x, np.array(amount, dtype)) for amount in known)

    check(lambda *args: list(shift(*args)), x, inside, wild)


@pytest.mark.skipif(not hasattr(lax, "mulhi"), reason="this version of JAX does not have it")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_upper_half_of_products(dtype):
    check(lambda x, y: lax.mulhi(x, y), integers(dtype), integers(dtype, seed=1))


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "bool"])
def test_bitwise_reductions(dtype):
    x = integers("uint8", 29).astype(dtype).reshape(5, 7)

    def reduce(x):
        for primitive in (lax.reduce_and_p, lax.reduce_or_p, lax.reduce_xor_p):
            yield from (primitive.bind(x, axes=axes) for axes in [(0,), (1,), (0, 1), ()])
            yield primitive.bind(x[:0], axes=(0,))

    check(lambda x: list(reduce(x)), x)


@pytest.mark.parametrize("old", INTEGERS + FLOATS)
def test_other_types_of_the_same_bits(old):
    x = (floats if old in FLOATS else integers)(old)
    width = np.dtype(old).itemsize

    def cast(x):
        for new in INTEGERS + FLOATS:
            ratio = np.dtype(new).itemsize // width
            groups = x[: len(x) // max(ratio, 1) * max(ratio, 1)]
            yield lax.bitcast_convert_type(groups.reshape(-1, ratio) if ratio > 1 else groups, new)

    model = check(lambda x: list(cast(x)), x)
    assert model.opset_import[0].version == 26


def test_integers_need_no_new_opset():
    model = check(lambda x: lax.bitcast_convert_type(x, jnp.uint16), integers("int64"))
    assert model.opset_import[0].version <= 20


@pytest.mark.parametrize(
    ("old", "new"), [("float16", "uint16"), ("float32", "int32"), ("float32", "uint32")]
)
def test_bits_at_older_opsets(old, new):
    # At this opset, all NaN have the same bits.
    x = np.nan_to_num(floats(old), nan=2, posinf=np.inf, neginf=-np.inf)
    check(lambda x: lax.bitcast_convert_type(x, new), x, opset=23)
    with double():
        model = to_onnx(
            lambda x: lax.bitcast_convert_type(x, old), [floats(old).view(new)], opset=23
        )
    assert_close(run(model, [floats(old).view(new)]), [floats(old)])


FORMATS = [(8, 7), (5, 10), (4, 3), (5, 2), (2, 1), (8, 23), (11, 52), (3, 0), (1, 5), (10, 30)]


@pytest.mark.usual_xla
@pytest.mark.skipif(jax.__version_info__ < (0, 8), reason="the XLA of this JAX makes NaN infinite")
@pytest.mark.parametrize("dtype", FLOATS)
def test_reduced_precision(dtype):
    x = floats(dtype)
    check(lambda x: [lax.reduce_precision(x, *bits) for bits in FORMATS], x)


def test_brain_floats_need_no_new_opset():
    model = check(lambda x: lax.reduce_precision(x, 8, 7), floats("float32"))
    assert op_types(model) == ["Cast", "Cast"]


def largest(x):
    return [lax.top_k(x, k) for k in (1, 7, x.shape[-1])]


def opset(model):
    return model.opset_import[0].version


@pytest.mark.parametrize("dtype", FLOATS)
def test_largest_in_total_order(dtype):
    rng = np.random.default_rng(0)
    values = np.array([np.inf, -np.inf, np.nan, 0, -0.0, 1, -1, 2], dtype)
    x = values[rng.integers(0, len(values), (5, 30))]
    x[::2] = -x[::2]
    assert np.signbit(x[np.isnan(x)]).any()
    check(largest, x, opset=26)


@pytest.mark.parametrize("dtype", FLOATS)
def test_largest_at_the_default_opset(dtype):
    """Both zeros, infinity and NaN are distinguished there as well."""
    rng = np.random.default_rng(0)
    limits = jnp.finfo(dtype)
    ends = [limits.smallest_subnormal, limits.max, -limits.smallest_subnormal, limits.min]
    values = np.array([np.inf, -np.inf, np.nan, 0, -0.0, *ends, 1, -1, 2], dtype)
    x = values[rng.integers(0, len(values), (5, 40))]
    model = check(largest, x)
    assert opset(model) <= 20
    is_nan = "LessOrEqual" if dtype == "float32" else "IsNaN"
    keys = ["Cast", "Reciprocal", "Clip", "Add", is_nan, "Clip", "Where"]
    each = ["TopK", "GatherElements", "Cast"]
    if dtype == "float64":  # there is no wider type, so a second key is sorted first
        keys = ["Reciprocal", "Clip", "IsNaN", "Where", "Where", "TopK", "GatherElements"]
        each.append("GatherElements")
    assert sorted(op_types(model)) == sorted(keys + 3 * each)
    check(lambda x: lax.top_k(x, 3, axis=0), x)


def test_the_sign_of_nan_counts_from_opset_26_on():
    """As documented in `docs/assumptions.md`."""
    x = np.array([1, -np.nan, np.inf, np.nan, -np.inf, -np.nan], np.float32)
    assert np.signbit(x).tolist() == [False, True, False, False, True, True]
    (_, places), (_, exact) = (
        run(to_onnx(lambda x: lax.top_k(x, 6), [x], opset=o), [x]) for o in (25, 26)
    )
    assert places.tolist() == [1, 3, 5, 2, 0, 4], "every NaN is the greatest"
    assert exact.tolist() == [3, 2, 0, 4, 1, 5], "one with a sign is the least"
    assert exact.tolist() == lax.top_k(x, 6)[1].tolist()
    assert run(to_onnx(lambda x: lax.top_k(x, 6), [x]), [x])[1].tolist() == places.tolist()


def test_a_model_that_needs_opset_26_anyway_knows_the_sign_of_nan():
    def fn(x):
        return lax.top_k(x, 4), lax.bitcast_convert_type(x, jnp.int32)

    model = check(fn, np.array([-np.nan, 1, -np.inf, np.nan], np.float32))
    assert opset(model) == 26
    assert op_types(model).count("BitCast") == 1


@pytest.mark.parametrize("largest", [True, False])
def test_approximately_largest(largest):
    x = np.random.default_rng(0).permutation(60).reshape(3, 20).astype(np.float32)
    find = lax.approx_max_k if largest else lax.approx_min_k
    check_model(lambda x: find(x, 4), [x])
    check_model(lambda x: find(x, 2, reduction_dimension=0), [x])
