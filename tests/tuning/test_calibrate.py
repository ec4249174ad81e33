"""Calibrated rounding: errors, exact export, and what cannot be calibrated."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

from jax2onnx import InvalidInputError, calibrate, to_onnx

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
# Inputs whose elements are correlated, as activations are.
MIX = RNG.standard_normal((8, 64), np.float32)
WEIGHTS = {
    "table": RNG.standard_normal((600, 64), np.float32) / 4,
    "up": RNG.standard_normal((64, 128), np.float32) / 8,
    # Heads in the middle, contracted along two axes.
    "down": RNG.standard_normal((64, 4, 32), np.float32) / 8,
}


def model(weights, ids, x):
    x = x + weights["table"][ids]
    inner = jax.nn.silu(x @ weights["up"]).reshape(*ids.shape, 4, 32)
    x = x + jnp.einsum("bhk,dhk->bd", inner, weights["down"])
    return x @ weights["table"].T


def samples(count):
    x = RNG.standard_normal((count, 8), np.float32) @ MIX
    return [RNG.integers(0, 600, count).astype(np.int32), x]


def run(made, inputs):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    names = [i.name for i in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))[0]


@pytest.fixture(scope="module")
def held():
    return {name: jnp.asarray(w) for name, w in WEIGHTS.items()}


def test_errors_on_other_inputs_are_smaller(held):
    def fn(ids, x):
        return model(held, ids, x)

    found = calibrate(fn, samples(512), weights="int4")
    assert [row.name for row in found.by_weight] == ["up", "down", "table"]
    assert all(row.calibrated <= row.nearest for row in found.by_weight)
    given = samples(100)
    right = np.asarray(fn(*given))
    errors = []
    for weights in ("int4", found):
        made = to_onnx(fn, given, weights=weights)
        errors.append(np.linalg.norm(run(made, given) - right))
    assert errors[1] < 0.8 * errors[0]
    assert "calibrated  weight" in str(found)


def test_the_model_holds_the_calibrated_numbers(held):
    def fn(ids, x):
        return model(held, ids, x)

    given = samples(512)
    found = calibrate(fn, given, weights={"*": "int4"})
    made = to_onnx(fn, given, weights=found)
    types = {t.name: onnx.TensorProto.DataType.Name(t.data_type) for t in made.graph.initializer}
    assert types["up"] == "INT4"
    assert types["table"] == "UINT8"
    small = {name: jnp.asarray(array) for name, array in found.arrays.items()}
    np.testing.assert_allclose(run(made, given), model(small, *given), rtol=1e-4, atol=1e-4)


def test_weights_of_loops_are_rounded_to_nearest():
    first, stack = (
        jnp.asarray(RNG.standard_normal(s, np.float32)) for s in ((64, 64), (3, 64, 64))
    )

    def fn(x):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x @ first, stack)[0]

    given = [RNG.standard_normal((512, 64), np.float32)]
    found = calibrate(fn, given)
    assert list(found.arrays) == ["first"]
    to_onnx(fn, given, weights=found)


def test_useless_calibration_is_an_error(held):
    def fn(ids, x):
        return model(held, ids, x)

    with pytest.raises(InvalidInputError, match="no weight can be calibrated"):
        calibrate(fn, samples(8), weights="int8")
    found = calibrate(fn, samples(512))
    other = jnp.ones((64, 64))
    with pytest.raises(InvalidInputError, match="calibrated for another function: it has no"):
        to_onnx(lambda x: x @ other, [(1, 64)], weights=found)


@pytest.mark.parametrize(
    ("ids", "x", "message"),
    [
        (np.zeros(2, np.int32), np.full((2, 64), np.nan, np.float32), "reads NaN or infinity"),
        (np.zeros(2, np.int32), jax.ShapeDtypeStruct((2, 64), np.float32), r"`args\[1\]` has"),
        (np.zeros(0, np.int32), np.zeros((0, 64), np.float32), r"`args\[0\]` has no elements"),
    ],
)
def test_samples_have_to_be_numbers(held, ids, x, message):
    with pytest.raises(InvalidInputError, match=message):
        calibrate(lambda ids, x: model(held, ids, x), [ids, x])


def test_a_cache_may_be_empty():
    w = jnp.asarray(np.random.default_rng(0).normal(size=(64, 64)), jnp.float32)

    def decode(x, cache):
        return jnp.concatenate([cache, x @ w])

    x, cache = np.ones((32, 64), np.float32), np.zeros((0, 64), np.float32)
    (row,) = calibrate(decode, [x, cache], weights="int4").by_weight
    assert row.name


def test_samples_are_a_list(held):
    with pytest.raises(InvalidInputError, match="the samples are not a list"):
        calibrate(lambda x: x @ held["up"], np.zeros((2, 64), np.float32))


def test_tokens_are_integers(held):
    _, x = samples(2)
    with pytest.raises(TypeError) as caught:
        calibrate(lambda ids, x: model(held, ids, x), [np.zeros(2, np.float32), x])
    assert "used as an index has to be an integer" in caught.value.__notes__[-1]
