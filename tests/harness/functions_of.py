"""Helpers for the tests of ONNX functions."""

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.inliner

from harness.provenance_of import all_nodes
from jax2onnx import (
    onnx_function,
)

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
WEIGHTS = [np.random.default_rng(i).standard_normal((4, 4), np.float32) for i in range(3)]


@onnx_function
def layer(weight: Any, x: Any) -> Any:
    return x + jax.nn.gelu(jnp.tanh(x @ weight))


def layers(x: Any) -> Any:
    for weight in WEIGHTS:
        x = layer(weight, x)
    return x


def domains(model: onnx.ModelProto) -> list[str]:
    return [function.domain for function in model.functions]


def calls(model: onnx.ModelProto) -> Counter[str]:
    """Counts the calls to each function, by its domain."""
    return Counter(node.domain for node in all_nodes(model) if node.domain)
