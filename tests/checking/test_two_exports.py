"""`verify` of two exports with different options: equal names mean different values."""

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

from harness.provenance_of import line_of
from jax2onnx import to_onnx, verify

X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)


def sums(x: jax.Array) -> jax.Array:
    y = jnp.sin(x) + jnp.cos(x) + 1
    z = jax.nn.gelu(y, approximate=False) + jax.nn.silu(x)
    w = jax.scipy.special.logsumexp(z, -1, keepdims=True)
    z = jnp.where(z > w, z - w, jnp.logaddexp(z, w))
    return z + jnp.tan(x)  # tangent


OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "opset 13": {"opset": 13},
    "native": {"operators": "native"},
}


@pytest.fixture(scope="module")
def exports() -> dict[str, onnx.ModelProto]:
    return {
        name: to_onnx(sums, [X.shape], stacktrace_metadata="sourcemap", **options)
        for name, options in OPTIONS.items()
    }


@pytest.mark.parametrize("reference", OPTIONS)
@pytest.mark.parametrize("model", OPTIONS)
def test_other_numbers_in_names_are_no_errors(
    exports: dict[str, onnx.ModelProto], reference: str, model: str
) -> None:
    found = verify(exports[reference], exports[model], [X])
    assert found, found


@pytest.mark.parametrize("reference", OPTIONS)
@pytest.mark.parametrize("model", OPTIONS)
def test_a_wrong_node_is_found(
    exports: dict[str, onnx.ModelProto], reference: str, model: str
) -> None:
    wrong = copy.deepcopy(exports[model])
    (node,) = (node for node in wrong.graph.node if node.op_type == "Tan")
    node.op_type = "Atan"
    found = verify(exports[reference], wrong, [X])
    assert f"test_two_exports.py:{line_of('tangent', sums)}:" in found.place, found.message
    assert found.node == node.name


def test_a_model_of_another_opset_agrees_with_jax(exports: dict[str, onnx.ModelProto]) -> None:
    for model in exports.values():
        assert verify(sums, model, [X])
