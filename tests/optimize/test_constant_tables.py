"""Tables of constants are computed at export: no node has only constant operands."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

import jax2onnx


def positions(x: jax.Array) -> jax.Array:
    angles = jnp.arange(16)[:, None] * jnp.exp(jnp.arange(0, 32, 2) * (-jnp.log(1e4) / 32))
    table = jnp.zeros((16, 32)).at[:, 0::2].set(jnp.sin(angles)).at[:, 1::2].set(jnp.cos(angles))
    return x[:16, :32] + table


def relative_places(x: jax.Array) -> jax.Array:
    table = jnp.arange(25.0) ** 2
    at = jnp.stack(jnp.meshgrid(jnp.arange(3), jnp.arange(3), indexing="ij")).reshape(2, -1)
    apart = (at[:, :, None] - at[:, None, :]).transpose(1, 2, 0) + 2
    return x[:9, :9] + table[apart.at[:, :, 0].multiply(5).sum(-1)]


def schedule(x: jax.Array) -> jax.Array:
    return x[:1, :30] * jnp.sqrt(jnp.cumprod(1 - jnp.linspace(1e-4, 0.02, 30)))


def normalized(x: jax.Array) -> jax.Array:
    kernel = jnp.exp(-(jnp.linspace(-2, 2, 5) ** 2) / 2)
    kernel = jnp.outer(kernel / kernel.sum(), kernel / kernel.sum())
    return jax.scipy.signal.convolve2d(x, kernel, mode="same")


def sorted_and_counted(x: jax.Array) -> jax.Array:
    order = jnp.argsort(jnp.array([3, 1, 2, 0]))
    return x[order] * jnp.cumsum(jnp.ones(40)) // 7 % 5


def infinite(x: jax.Array) -> jax.Array:
    return x[:8, :8] + jnp.zeros((8, 8)).at[2:5, 1:7].set(-jnp.inf).sum(0)


def resized(method: str) -> Callable[[jax.Array], jax.Array]:
    return lambda x: jax.image.resize(x, (13, 21), method)


@pytest.mark.parametrize(
    "function",
    [
        positions,
        relative_places,
        schedule,
        normalized,
        sorted_and_counted,
        infinite,
        resized("linear"),
        resized("cubic"),
        resized("lanczos3"),
    ],
)
def test_no_node_works_on_constants_alone(function: Callable[[jax.Array], jax.Array]) -> None:
    x = np.random.default_rng(0).normal(size=(32, 40)).astype(np.float32)
    x[0, 0] = np.nan
    model = jax2onnx.to_onnx(function, [x])
    constants = {value.name for value in model.graph.initializer}
    nodes = [node for node in model.graph.node if constants.issuperset(filter(None, node.input))]
    assert [node.op_type for node in nodes] == []
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (actual,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(actual, function(x), rtol=1e-5, atol=1e-5)
    onnx.checker.check_model(model)


def test_large_integers_are_not_sizes(double: dict[str, bool]) -> None:
    """onnxruntime sums 64-bit integers in double precision, which is exact only for sizes."""
    numbers = jnp.array([2**63 - 1, 2**62, 2**53 + 1, 7, -(2**63), 1 - 2**63], jnp.int64)

    def fn(x: jax.Array) -> tuple[jax.Array, ...]:
        bound = jnp.clip(x, numbers[1], numbers[0])
        return x + jnp.sum(numbers), x + jnp.cumsum(numbers), jnp.maximum(x, numbers), bound

    x = np.array([2**53 + 3], np.int64)
    model = jax2onnx.to_onnx(fn, [x], **double)
    found = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    for one, other in zip(found, jax.jit(fn)(x), strict=True):
        np.testing.assert_array_equal(one, other)
