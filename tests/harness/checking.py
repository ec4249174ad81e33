"""Compares an exported model, run by ONNX Runtime, with JAX."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime

from jax2onnx import to_onnx
from jax2onnx._checking.runtime import as_tensor

# Relative and absolute tolerance by the type that JAX computes in.
TOLERANCE = {
    "float16": (1e-2, 1e-3),
    "float32": (1e-4, 1e-5),
    "float64": (1e-8, 1e-10),
}


def check_model(fn: Callable[..., Any], args: Sequence[Any], **options: Any) -> onnx.ModelProto:
    """Exports `fn`, runs the model on `args`, compares the results and returns the model."""
    model = to_onnx(fn, list(args), **options)
    onnx.checker.check_model(model, full_check=True)
    inputs = jax.tree_util.tree_leaves(args)  # before `fn` can change them
    expected = jax.tree_util.tree_leaves(fn(*args))
    assert_close(run(model, inputs), expected)
    return model


def check_sizes(
    fn: Callable[..., Any], specs: Sequence[Any], *runs: Sequence[Any], **options: Any
) -> None:
    """Exports `fn` once for symbolic sizes, and compares runs with different sizes."""
    model = to_onnx(fn, list(specs), **options)
    onnx.checker.check_model(model, full_check=True)
    for args in runs:
        assert_close(run(model, args), jax.tree_util.tree_leaves(fn(*args)))


def quick(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles `fn` as a whole with little optimisation, which is faster than single operations."""
    options = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    if (nnx := sys.modules.get("flax.nnx")) is not None and isinstance(fn, nnx.Module):
        graph, state = nnx.split(fn)  # some modules work only where they were created
        merged = jax.jit(lambda s, *args: nnx.merge(graph, s)(*args), compiler_options=options)
        return lambda *args: merged(state, *args)
    return jax.jit(lambda *args: fn(*args), compiler_options=options)


def op_types(model: onnx.ModelProto) -> list[str]:
    """Returns the operators of the main graph, in order."""
    return [node.op_type for node in model.graph.node]


def run(model: onnx.ModelProto | str, inputs: Sequence[Any]) -> list[np.ndarray]:
    """Returns the outputs of a model or a model file for flat inputs in their order."""
    source = model if isinstance(model, str) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    feeds = {name: as_tensor(value) for name, value in zip(names, inputs, strict=True)}
    return session.run(None, feeds)


def assert_close(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Checks that types and shapes are equal and numbers are within the tolerance of their type."""
    assert len(found) == len(expected)
    for one, other in zip(found, map(as_tensor, expected), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        rtol, atol = TOLERANCE.get(other.dtype.name, (0, 0))
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


def scopes(jaxpr: Any) -> list[str]:
    """Returns the distinct name stacks of a jaxpr's equations in order, including inner jaxprs."""
    return list(dict.fromkeys(_scopes(jaxpr, "")))


def _scopes(jaxpr: Any, outer: str) -> list[str]:
    found = []
    for eqn in jaxpr.eqns:
        parts = (part.name for part in eqn.source_info.name_stack.stack)
        scope = "/".join(filter(None, [outer, *(p for p in parts if p not in ("vmap", "jit"))]))
        inner = eqn.params.get("jaxpr")
        found += [scope] if inner is None else _scopes(inner, scope)
    return found
