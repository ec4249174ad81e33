"""The search for weights that lose too much precision in few bits."""

import jax.numpy as jnp
import numpy as np
import pytest

from jax2onnx import quantize, to_onnx
from jax2onnx.errors import InvalidInputError

RNG = np.random.default_rng(0)


def matrix(*shape):
    return jnp.asarray(RNG.standard_normal(shape, dtype=np.float32) / np.sqrt(shape[0]))


# A few rows of the last one are far larger than the others, and hardly matter.
PARAMS = {
    "first": matrix(64, 64),
    "second": matrix(64, 64),
    "third": matrix(64, 64).at[::16].multiply(60.0),
}
MATTER = jnp.ones(64).at[::16].set(1e-3)
X = RNG.standard_normal((8, 64), dtype=np.float32)


def net(x):
    x = jnp.tanh(x @ PARAMS["first"])
    x = jnp.tanh(x @ PARAMS["second"])
    return (x * MATTER) @ PARAMS["third"]


def test_the_weights_that_lose_most_get_more_bits():
    found = quantize(net, [X], tolerance=0.3)
    assert found.error <= 0.3 < found.error_of_all
    assert found.weights["third"] == "int8"
    assert "int4" in found.weights.values()
    assert found.size_of_all < found.size < found.size_of_none
    assert [row.error for row in found.by_weight] == sorted(
        (row.error for row in found.by_weight), reverse=True
    )
    assert all("test_quantize.py:" in row.line and "net" in row.line for row in found.by_weight)
    model = to_onnx(net, [X], weights=found.weights)
    types = {t.name: t.data_type for t in model.graph.initializer}
    assert types["third"] == 3  # INT8


def test_nothing_is_kept_without_need():
    found = quantize(net, [X], tolerance=1.0)
    assert set(found.weights.values()) == {"int4"}
    assert found.error == found.error_of_all


def test_a_tolerance_that_cannot_be_reached():
    with pytest.raises(InvalidInputError, match="more than the tolerance"):
        quantize(net, [X], tolerance=1e-9)
    found = quantize(net, [X], tolerance=0, otherwise="keep")
    assert set(found.weights.values()) == {"keep"}
    assert found.error == 0


def test_a_model_without_matrices():
    with pytest.raises(InvalidInputError, match="`weights` changes nothing"):
        quantize(jnp.sin, [X], tolerance=0.1)


def test_flags_and_other_types_of_inputs():
    def looked_up(ids, *, twice):
        x = net(PARAMS["first"][ids])
        return 2 * jnp.tanh(x) if twice else jnp.tanh(x)

    ids = np.arange(8, dtype=np.int32)
    options = {"input_params": {"twice": True}, "input_dtypes": {"ids": "int64"}}
    found = quantize(looked_up, [ids], tolerance=0.5, **options)
    assert 0 < found.error <= 0.5
