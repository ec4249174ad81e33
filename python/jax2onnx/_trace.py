"""Traces the user's function with JAX."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import jax

from jax2onnx import _jax
from jax2onnx._parameters import Tree
from jax2onnx._scopes import Scopes
from jax2onnx._state import Snapshot


@dataclass
class Traced:
    """A traced function: JAX's `ClosedJaxpr` and the pytree of its results."""

    jaxpr: Any
    outputs: Any


def trace(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    tree: Tree,
    double: bool,
) -> Traced:
    """Traces a call of `fn`. What `fn` changes in its own state is undone."""
    snapshot = Snapshot(tree.objects)
    scopes = Scopes(tree.modules)

    # A new function each time: JAX remembers what it traced by the function's identity, and the
    # parameters that `fn` holds may have changed since.
    def call(*args: Any, **kwargs: Any) -> Any:
        snapshot.adopt()
        return fn(*args, **kwargs)

    with ExitStack() as stack:
        if double:
            stack.enter_context(_jax.x64(True))
        if scopes:
            stack.enter_context(_jax.tracing_key(tree.key))
        stack.enter_context(scopes.open())
        stack.callback(snapshot.restore)
        jaxpr, outputs = jax.make_jaxpr(call, return_shape=True)(*args, **kwargs)
    return Traced(jaxpr, outputs)
