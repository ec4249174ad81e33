"""Each part of a stacked array is one node, and tables of constants need none."""

import jax.numpy as jnp
import numpy as np
import pytest

from harness.checking import check_model, op_types, run
from jax2onnx import to_onnx

X = jnp.arange(3 * 2 * 5 * 4, dtype=jnp.float32).reshape(3, 2, 5, 4)


def unpacked(x):
    q, k, v = x
    return q * 2, k - 1, v + 3


def indexed(x):
    return x[0] * 2, x[1] - 1, x[-1] + 3


def along_the_last_axis(x):
    return x[..., 0] * 2, x[..., 1] - 1, x[..., -1] + 3


def unstacked(x):
    a, b = jnp.unstack(x, axis=1)
    return a * 2, b - 1


def split(x):
    parts = jnp.split(x, 3)
    return tuple(jnp.squeeze(part, 0) + i for i, part in enumerate(parts, 1))


@pytest.mark.parametrize("fn", [unpacked, indexed, along_the_last_axis, unstacked, split])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_a_part_is_one_node(fn, dtype):
    model = check_model(fn, [X.astype(dtype)])
    assert set(op_types(model)) <= {"Add", "Gather", "Mul", "Sub"}
    assert len(model.graph.node) == 2 * len(model.graph.output)


def test_parts_that_keep_their_axis_are_split():
    model = check_model(lambda x: [part * 2 for part in jnp.split(x, 3)], [X])
    assert op_types(model) == ["Split", "Mul", "Mul", "Mul"]


def test_the_last_of_any_number():
    model = to_onnx(lambda x: x[:, -1] * 2, [("B", "T", 4)])
    assert op_types(model) == ["Gather", "Mul"]
    check_model(lambda x: x[:, -1] * 2, [np.ones((2, 3, 4), np.float32)])


def test_tables_are_part_of_the_file():
    def rotated(x):
        angles = jnp.arange(256)[:, None] / 10000 ** (jnp.arange(0, 64, 2) / 64)
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.exp(a) * jnp.cos(angles) + jnp.exp(b) * jnp.sin(angles)

    x = jnp.ones((2, 256, 64))
    model = to_onnx(rotated, [x])
    # The last digit of a frequency is multiplied by up to two hundred.
    np.testing.assert_allclose(run(model, [x])[0], rotated(x), rtol=1e-3, atol=1e-3)
    assert not {"Range", "Cos", "Sin", "Pow", "Div"} & set(op_types(model))
    assert model.ByteSize() < 2 * 256 * 32 * 4 + 10_000


def test_a_table_of_megabytes_is_computed():
    model = to_onnx(lambda x: x * jnp.sin(jnp.arange(1 << 20)), [jnp.ones(1 << 20)])
    assert model.ByteSize() < 1 << 20
