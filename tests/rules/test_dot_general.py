"""Products of arrays, in every element type."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from harness.checking import assert_close, check_model, op_types, run
from jax2onnx import to_onnx

INTEGERS = [np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32]
PLAIN = (((1,), (0,)), ((), ()))


def numbers(*shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return rng.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_around(dtype):
    x, y = numbers(4, 7, dtype=dtype), numbers(7, 3, dtype=dtype, seed=1)
    check_model(lambda x, y: lax.dot_general(x, y, PLAIN), [x, y])
    wide = jnp.int32 if np.issubdtype(dtype, np.signedinteger) else jnp.uint32
    check_model(lambda x, y: lax.dot_general(x, y, PLAIN, preferred_element_type=wide), [x, y])


def test_booleans():
    x, y = numbers(4, 3) > 0.5, numbers(3, 5, seed=1) > 0.5
    check_model(lambda x, y: lax.dot_general(x, y, PLAIN), [x, y])


@pytest.mark.parametrize("left", [np.int32, np.uint8, np.float16])
@pytest.mark.parametrize("right", [np.float16, np.float32])
def test_mixed_types(left, right):
    x = numbers(4, 3, dtype=np.float32, seed=2) * 3
    y = numbers(3, 5, dtype=right)
    check_model(lambda x, y: lax.dot_general(x, y, PLAIN), [np.abs(x).astype(left), y])


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float8_e4m3fn, jnp.float8_e5m2])
@pytest.mark.parametrize("result", [None, jnp.float32])
def test_narrow_floats(dtype, result):
    x, y = numbers(4, 8), numbers(8, 3, seed=1)

    def product(x, y):
        x, y = x.astype(dtype), y.astype(dtype)
        return lax.dot_general(x, y, PLAIN, preferred_element_type=result).astype(jnp.float32)

    model = to_onnx(product, [x, y])
    found, expected = run(model, [x, y])[0], np.asarray(product(x, y))
    np.testing.assert_allclose(found, expected, rtol=2e-2 if result is None else 1e-4, atol=1e-2)


@pytest.mark.parametrize(
    ("shapes", "dimensions"),
    [
        (((3, 4), (4,)), (((1,), (0,)), ((), ()))),
        (((4,), (4,)), (((0,), (0,)), ((), ()))),
        (((2, 3, 4), (2, 4, 5)), (((2,), (1,)), ((0,), (0,)))),
        (((4, 3, 2), (5, 2, 4)), (((0,), (2,)), ((2,), (1,)))),
        (((2, 3, 4, 5), (5, 3, 6)), (((1, 3), (1, 0)), ((), ()))),
        (((3, 2), (4,)), (((), ()), ((), ()))),
        (((0, 4), (4, 3)), (((1,), (0,)), ((), ()))),
        (((3, 0), (0, 2)), (((1,), (0,)), ((), ()))),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_axes(shapes, dimensions, dtype):
    x, y = (numbers(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes))
    check_model(lambda x, y: lax.dot_general(x, y, dimensions), [x, y])


def test_double_precision():
    x, y = numbers(4, 8, dtype=np.float64), numbers(8, 3, dtype=np.float64, seed=1)
    model = to_onnx(jnp.matmul, [x, y], enable_double_precision=True)
    assert_close(run(model, [x, y]), [x @ y])


def test_batches_by_vmap():
    x, y = numbers(5, 3, 4), numbers(5, 4, 2, seed=1)
    check_model(jax.vmap(jnp.matmul), [x, y])
    check_model(jax.vmap(jnp.matmul, in_axes=(0, None)), [x, y[0]])


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint32", "float32", "float16"])
def test_sums_of_nothing(dtype):
    x, y = np.zeros((2, 0), dtype), np.zeros((0, 3), dtype)
    check_model(lambda x, y: x @ y, [x, y])


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16, np.int8])
@pytest.mark.parametrize("side", [0, 1])
def test_turned_operands_that_are_cast(dtype, side):
    """onnxruntime's optimiser crashes if it sees these in another order."""
    x, w = numbers(4, 3, 2).astype(dtype), numbers(4).astype(dtype)

    def fn(x, w):
        x, w = x.astype(dtype), w.astype(dtype)
        product = jnp.tensordot(x, w, (0, 0)) if side == 0 else jnp.tensordot(w, x, (0, 0))
        turned = jnp.transpose(x, (1, 2, 0)).astype("float32") @ w.astype("float32")
        return product.astype("float32"), turned

    args = [jnp.asarray(a, np.float32) for a in (x, w)]
    found = run(to_onnx(fn, args), args)
    np.testing.assert_allclose(found[0], fn(*args)[0], rtol=2e-2, atol=2e-2)
    np.testing.assert_allclose(found[1], fn(*args)[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("equation", "shapes", "nodes"),
    [
        ("btd,btd->bt", [("b", "t", "d"), ("b", "t", "d")], ["Mul", "ReduceSum"]),
        ("btd,bdt->bt", [("b", "t", "d"), ("b", "d", "t")], ["Transpose", "Mul", "ReduceSum"]),
        ("bij,bij->b", [("b", 2, 3), ("b", 2, 3)], ["Mul", "ReduceSum"]),
        ("bt,bt->bt", [("b", "t"), ("b", "t")], ["Mul"]),
        ("d,d->", [("d",), ("d",)], ["MatMul"]),
    ],
)
def test_rows_that_belong_together(equation, shapes, nodes):
    """Multiplied and summed, because a matrix product per row is slow."""

    def fn(a, b):
        return jnp.einsum(equation, a, b)

    model = to_onnx(fn, shapes)
    assert [op for op in op_types(model) if op not in ("Reshape", "Squeeze")] == nodes
    for sizes in ({"b": 2, "t": 3, "d": 5}, {"b": 1, "t": 1, "d": 1}, {"b": 0, "t": 2, "d": 4}):
        rng = np.random.default_rng(0)
        arrays = [
            rng.normal(size=[sizes.get(n, n) for n in shape]).astype(np.float32) for shape in shapes
        ]
        if sizes["b"] == 2:
            arrays[0].flat[0] = np.nan
        assert_close(run(model, arrays), [fn(*arrays)])
