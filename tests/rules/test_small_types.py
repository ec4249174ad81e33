"""Constants whose elements are smaller than a byte: packed as ONNX stores them."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

from harness.checking import assert_close, check_model, run
from jax2onnx import UnsupportedError, export, to_onnx
from models.random_values import normal

INTEGERS = {"int4": (-8, 8), "uint4": (0, 16), "int2": (-2, 2), "uint2": (0, 4)}


def every_number(dtype: str, *shape: int) -> jax.Array:
    """Returns all numbers of a type, repeated."""
    numbers = np.resize(np.arange(*INTEGERS[dtype]), shape)
    return jnp.asarray(numbers).astype(dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (3, 3), (5, 7), (0, 3)])
def test_every_number(dtype: str, shape: tuple[int, ...]) -> None:
    constant = every_number(dtype, *shape)
    check_model(lambda x: x + constant.astype(jnp.float32).sum(), [normal(2)])
    check_model(lambda x: (constant.astype(jnp.int32), x), [normal(2)])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_weights_are_packed(dtype: str) -> None:
    weight = every_number(dtype, 33, 31)
    model = check_model(lambda x: x @ weight.astype(jnp.float32), [normal(2, 33)])
    (tensor,) = [t for t in model.graph.initializer if t.dims == [33, 31]]
    each = 8 // int(dtype[-1])
    assert tensor.data_type == getattr(onnx.TensorProto, dtype.upper())
    assert len(tensor.raw_data) == -(-33 * 31 // each)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("shape", [(), (5,), (3, 7), (0, 3)])
def test_inputs_are_packed(dtype: str, shape: tuple[int, ...]) -> None:
    numbers = every_number(dtype, *shape)
    model = export(lambda x: (x, x.astype(jnp.int32)), numbers)
    for found in model(numbers):
        np.testing.assert_array_equal(found.astype(np.int32), numbers.astype(jnp.int32))
    assert model.verify(numbers)


# XLA cannot concatenate two-bit numbers.
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize(
    "use",
    [
        lambda w: w.T,
        lambda w: w[1:, ::2],
        lambda w: w.reshape(7, 5),
        lambda w: w[jnp.array([4, 0, 2])],
        lambda w: w + w,
        lambda w: w * w,
        lambda w: jnp.where(w > 1, w, 0),
        lambda w: jnp.concatenate([w, w[::-1]]),
        lambda w: jnp.sort(w, axis=1),
        lambda w: w == w[0],
    ],
)
def test_operations(dtype: str, use: Any) -> None:
    weight = every_number(dtype, 5, 7)
    check_model(lambda x: (x, use(weight).astype(jnp.int32)), [normal(2)])


def test_weights_beside_the_model(tmp_path: Path) -> None:
    weight = every_number("int4", 301, 101)

    def fn(x: jax.Array) -> jax.Array:
        return x @ weight.astype(jnp.float32)

    path = to_onnx(fn, [(2, 301)], return_mode="file", output_path=tmp_path / "m.onnx")
    x = normal(2, 301)
    assert_close(run(path, [x]), [fn(x)])


FLOATS = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]


@pytest.mark.parametrize("shape", [(), (3,), (5, 7), (0, 3)])
def test_floats_of_four_bits(shape: tuple[int, ...]) -> None:
    weight = jnp.asarray(np.resize(FLOATS, shape)).astype("float4_e2m1fn")
    check_model(lambda x: (weight.astype(jnp.float32), x), [normal(2)])
    check_model(lambda x: (weight.T.astype(jnp.float32), x), [normal(2)])


def test_rounding_to_floats_of_four_bits() -> None:
    near = np.concatenate([np.array(FLOATS) * k for k in (0.4, 0.9, 1, 1.1, 1.25, 1.3)])
    halves = np.arange(-32, 33) / 4
    x = np.concatenate([near, halves, [np.inf, -np.inf, np.nan, 1e9]]).astype(np.float32)

    def fn(x: jax.Array) -> Any:
        small = x.astype(jnp.float4_e2m1fn)
        kept = small.reshape(5, -1).T.astype(jnp.bfloat16).astype(jnp.float32)
        return small.astype(jnp.float32), kept, jnp.signbit(small.astype(jnp.float32))

    check_model(fn, [x])


@pytest.mark.parametrize("fn", [jnp.add, jnp.multiply, jnp.subtract, jnp.divide, jnp.maximum])
def test_arithmetic_rounds_to_four_bits(fn: Any) -> None:
    every = np.array(np.meshgrid(FLOATS, FLOATS), np.float32).reshape(2, -1)
    left, right = every if fn is not jnp.divide else every[:, every[1] != 0]

    def small(x: jax.Array, y: jax.Array) -> jax.Array:
        four = jnp.float4_e2m1fn
        return fn(x.astype(four), y.astype(four)).astype(jnp.float32)

    check_model(small, [left, right])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_constant_is_an_output(dtype: str) -> None:
    """onnxruntime has no `Identity` for these types."""
    weight = every_number(dtype, 3, 7)
    model = to_onnx(lambda x: weight, [(2,)], output_names=["weight"])
    # NumPy has no arrays of them either.
    wide = onnx.helper.make_tensor_value_info("wide", onnx.TensorProto.INT32, (3, 7))
    cast = onnx.helper.make_node("Cast", ["weight"], ["wide"], to=onnx.TensorProto.INT32)
    model.graph.node.append(cast)
    model.graph.output[0].CopyFrom(wide)
    assert_close(run(model, [normal(2)]), [weight.astype(jnp.int32)])


def test_a_model_has_no_inputs_of_four_bit_floats() -> None:
    """onnxruntime cannot read them."""
    small = jax.ShapeDtypeStruct((3,), "float4_e2m1fn")
    with pytest.raises(UnsupportedError, match="onnxruntime cannot compute `Cast` on f4e2m1fn"):
        to_onnx(lambda x: x.astype(jnp.float32), [small])


def test_products_of_scaled_blocks() -> None:
    """JAX has kernels only for accelerators, so the definition gives the numbers."""

    def stored(x: Any, dtype: Any) -> Any:
        return jnp.asarray(x).astype(dtype)

    a, b = normal(1, 4, 64), normal(1, 8, 64)
    scales = np.exp2(np.arange(24) % 5 - 2).astype(np.float32)
    a_scale, b_scale = scales[:8].reshape(1, 4, 2), scales[8:].reshape(1, 8, 2)

    def fn(a: jax.Array, b: jax.Array) -> jax.Array:
        eight, scale = jnp.float8_e4m3fn, jnp.float8_e8m0fnu
        return jax.nn.scaled_matmul(
            a.astype(eight), b.astype(eight), stored(a_scale, scale), stored(b_scale, scale)
        )

    (found,) = run(to_onnx(fn, [a, b]), [a, b])
    wide = [np.asarray(stored(x, jnp.float8_e4m3fn).astype(jnp.float32)) for x in (a, b)]
    left, right = (
        x * np.repeat(s, 32, axis=-1) for x, s in zip(wide, (a_scale, b_scale), strict=True)
    )
    np.testing.assert_allclose(found, left @ right.swapaxes(1, 2), rtol=1e-5, atol=1e-5)
