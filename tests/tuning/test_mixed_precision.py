"""The search for lines that lose too much precision in small floats."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax2onnx import mixed_precision, to_onnx
from jax2onnx.errors import InvalidInputError

RNG = np.random.default_rng(0)


def matrix(*shape):
    return jnp.asarray(RNG.standard_normal(shape, dtype=np.float32) / np.sqrt(shape[0]))


FIRST, SECOND, THIRD = matrix(64, 64), matrix(64, 64), matrix(64, 8)
# Nearly equal rows, whose differences are lost in small floats.
ALIKE = jnp.asarray(100 + RNG.standard_normal((8, 64), dtype=np.float32) / 100)


def net(x):
    x = jnp.tanh(x @ FIRST)
    near = (x + 10) @ ALIKE.T
    x = x + jnp.tanh((near - near.mean(-1, keepdims=True)) @ SECOND[:8])
    x = jnp.tanh(x @ SECOND)
    return x @ THIRD


X = RNG.standard_normal((8, 64), dtype=np.float32)
WORST = f"test_mixed_precision.py:{net.__code__.co_firstlineno + 2} in net"


def run(model):
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {session.get_inputs()[0].name: X})[0]


def error(model):
    """Compared with the model in float32: the rows that are alike lose digits there, too, and JAX
    loses other ones on each CPU.
    """
    found, right = run(model), run(to_onnx(net, [X]))
    return np.sqrt(np.mean((found - right) ** 2) / np.mean(right**2))


def test_the_line_that_loses_most_stays_in_float32():
    tolerance = mixed_precision(net, [X], tolerance=1.0).error_of_all / 2
    found = mixed_precision(net, [X], tolerance=tolerance)
    assert found.error <= tolerance < found.error_of_all
    assert found.by_line[0].line == WORST
    assert found.compute == {WORST: "float32", "*": "float16"}
    assert [row.dtype for row in found.by_line].count("float32") == 1
    assert error(to_onnx(net, [X], compute=found.compute)) == pytest.approx(found.error, rel=0.05)
    assert WORST in str(found)


def test_nothing_is_kept_without_need():
    found = mixed_precision(net, [X], tolerance=1.0)
    assert found.compute == {"*": "float16"}
    assert found.error == found.error_of_all


def test_a_tolerance_that_cannot_be_reached():
    with pytest.raises(InvalidInputError, match="more than the tolerance"):
        mixed_precision(net, [X], tolerance=1e-9)


def test_lines_in_loops():
    def looped(x):
        return jax.lax.fori_loop(0, 3, lambda _, x: jnp.tanh(x @ FIRST), x) @ SECOND @ THIRD

    found = mixed_precision(looped, [X], tolerance=1.0)
    assert found.by_line
    assert found.error_of_all > 0


def test_one_line_alone():
    weight = jnp.ones((64, 64)) / 64

    def fn(x):
        for _ in range(3):
            x = jnp.tanh(x @ weight)
        return x @ weight

    found = mixed_precision(fn, [np.ones((2, 64), np.float32)], tolerance=0.1)
    assert found.compute


def test_lines_that_only_follow_others():
    """Activations use small floats only between products that do, so none may remain."""

    def fn(x):
        x = x @ FIRST
        x = jnp.maximum(x, 0.1)
        x = x @ SECOND
        return x @ THIRD

    found = mixed_precision(fn, [X], tolerance=1.0)
    activation = f"test_mixed_precision.py:{fn.__code__.co_firstlineno + 2} in {fn.__qualname__}"
    assert activation in [row.line for row in found.by_line]
    products = [row.line for row in found.by_line if row.line != activation]
    with pytest.raises(InvalidInputError, match="nothing in the model") as raised:
        to_onnx(fn, [X], compute={**dict.fromkeys(products, "float32"), "*": "float16"})
    assert raised.value.code == "nothing-computes"
    with pytest.raises(InvalidInputError, match="lines in float16, the error is"):
        mixed_precision(fn, [X], tolerance=1e-9)
