"""Computations on parameters alone are folded into the file: layouts and types."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx
import pytest
from flax import nnx
from onnx import numpy_helper

from harness.checking import assert_close, run
from harness.checkpoints import flat, write
from jax2onnx import to_onnx

SMALL = [jnp.bfloat16, jnp.float16]


def on_constants(model):
    """Returns the operators whose operands are all known before the model runs."""
    known, found = {tensor.name for tensor in model.graph.initializer}, []
    for node in model.graph.node:
        if node.op_type == "Constant" or (
            node.input and known.issuperset(filter(None, node.input))
        ):
            known.update(node.output)
            found += [] if node.op_type == "Constant" else [node.op_type]
    return found


def values(model):
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


class Encoder(nnx.Module):
    """Parameters in 32 bits and products in 16: a convolution, norms, heads and a table."""

    def __init__(self, dtype):
        settings = {"dtype": dtype, "param_dtype": jnp.float32, "rngs": nnx.Rngs(0)}
        self.table = nnx.Embed(500, 64, **settings)
        self.conv = nnx.Conv(64, 64, (3,), **settings)
        self.average = nnx.BatchNorm(64, use_running_average=True, **settings)
        self.norm = nnx.LayerNorm(64, **settings)
        self.heads = nnx.LinearGeneral(64, (4, 80), **settings)
        self.back = nnx.LinearGeneral((4, 80), 64, axis=(-2, -1), **settings)

    def __call__(self, ids):
        x = self.average(self.conv(self.table(ids)))
        x = x + self.back(nnx.gelu(self.heads(self.norm(x))))
        return x.astype(jnp.float32)


IDS = jnp.arange(14).reshape(2, 7) * 31


@pytest.mark.slow
@pytest.mark.parametrize("dtype", SMALL)
def test_nothing_is_computed_from_parameters_alone(dtype):
    module = Encoder(dtype)
    model = to_onnx(module, [IDS])
    assert on_constants(model) == []
    large = {name for name, value in values(model).items() if value.nbytes > 4096}
    assert large == {"table.embedding", "conv.kernel", "heads.kernel", "back.kernel"}
    parameters = sum(leaf.nbytes for leaf in jax.tree.leaves(nnx.state(module)))
    assert sum(value.nbytes for value in values(model).values()) <= parameters
    np.testing.assert_allclose(run(model, [IDS])[0], module(IDS), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("dtype", SMALL)
def test_rounding_is_that_of_jax(dtype):
    special = [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        65519.9,
        65520.0,
        3.39e38,
        3.4e38,
        1e-40,
        6e-8,
        3e-8,
    ]
    ties = 1 + np.arange(1, 12, 2) / np.array([256, 2048])[:, None]
    odd = np.random.default_rng(0).normal(size=64 - len(special) - ties.size)
    w = jnp.asarray(np.concatenate([special, ties.ravel(), odd]).reshape(8, 8), jnp.float32)
    w = jnp.tile(w, (8, 8))
    model = to_onnx(lambda x: x * w.astype(dtype).T, [jnp.ones((64, 64), dtype)])
    assert on_constants(model) == []
    (stored,) = (value for value in values(model).values() if value.size == w.size)
    np.testing.assert_array_equal(
        stored.astype(np.float32), np.asarray(w.astype(dtype).T, np.float32)
    )


def test_a_weight_that_is_read_in_two_types_is_stored_once():
    w = jax.random.normal(jax.random.key(0), (200, 200))

    def fn(x):
        return x @ w, x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)

    model = to_onnx(fn, [jnp.ones((3, 200))])
    assert sum(value.size == w.size for value in values(model).values()) == 1


@pytest.mark.parametrize("weights", [None, "float16", "int8"])
def test_weights_of_a_checkpoint_are_rounded_while_they_are_written(tmp_path, weights):
    params = {"w": jax.random.normal(jax.random.key(0), (96, 64)), "b": jnp.arange(64.0) / 7}

    def apply(params, x):
        w, b = (params[name].astype(jnp.bfloat16) for name in "wb")
        return (x.astype(jnp.bfloat16) @ w + b).astype(jnp.float32)

    path = write(tmp_path / "weights.safetensors", flat(params))
    shapes = jax.eval_shape(lambda: params)
    x = jax.random.normal(jax.random.key(1), (5, 96))
    there = to_onnx(lambda x: apply(shapes, x), [x], checkpoint=path, weights=weights)
    here = to_onnx(lambda x: apply(params, x), [x], weights=weights)
    assert_close(run(there, [x]), run(here, [x]))
    np.testing.assert_allclose(run(here, [x])[0], apply(params, x), rtol=0.1, atol=0.3)
    if weights is None:
        assert on_constants(there) == on_constants(here) == []
        found = numpy_helper.to_array(next(t for t in there.graph.initializer if t.name == "w"))
        np.testing.assert_array_equal(found, np.asarray(params["w"]).astype(ml_dtypes.bfloat16))
    onnx.checker.check_model(there)
