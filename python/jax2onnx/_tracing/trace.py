"""Traces the user's function with JAX."""

import functools
import inspect
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from jax2onnx import _frameworks, _jax
from jax2onnx._frameworks.framework import Isolated
from jax2onnx._python.garbage import collected_rarely
from jax2onnx._tracing.abstract_parameters import (
    AbstractParameters,
    as_constants,
    check_values,
    explained,
)
from jax2onnx._tracing.checkpoint import Weights
from jax2onnx._tracing.flags import traced_with_flags
from jax2onnx._tracing.functions import Functions
from jax2onnx._tracing.parameters import Tree, tree_of
from jax2onnx._tracing.scopes import Scopes
from jax2onnx._tracing.state import Snapshot

# Numbers of calls with abstract parameters.
_numbers = itertools.count()

# Tracing temporarily writes into the user's model.
_one_at_a_time = threading.RLock()


@dataclass
class Traced:
    """A traced function: JAX's `ClosedJaxpr`, the pytree of its results, and its objects."""

    jaxpr: Any
    outputs: Any
    tree: Tree


def trace(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    double: bool,
    functions: Functions | None = None,
    flags: Mapping[int, bool] | None = None,
    names: Sequence[str] = (),
    checkpoint: Any = None,
    weights: Weights | None = None,
) -> Traced:
    """Traces a call of `fn`. Changes of `fn` to its own state are undone.

    `flags` are the user's booleans, by their position among all leaves, and `names` the names of
    the leaves in messages. `checkpoint` has the values of abstract parameters; `weights` are those
    that were found before.
    """

    # A new function each time: JAX caches traces by the function's identity, and the parameters
    # that `fn` holds may have changed since.
    def call(*args: Any, **kwargs: Any) -> Any:
        snapshot.adopt()
        for step in isolation:
            step.adopt()
        if abstract is None:
            return own(*args, **kwargs)
        values, args = args[0], args[1:]
        # Jitted functions that JAX traced before would return the parameters of that trace.
        with _jax.tracing_key(f"{key} {next(_numbers)}"), abstract.filled(values, own) as filled:
            return filled(*args, **kwargs)

    # JAX's own messages mention the wrapped function. For a callable object, JAX would print all
    # the weights to find a name.
    named = isinstance(fn, functools.partial) or hasattr(inspect.unwrap(fn), "__code__")
    target: Any = fn
    call.__wrapped__ = target if named else target.__call__  # type: ignore[attr-defined]

    functions = functions or Functions(modules=False)
    with _one_at_a_time, ExitStack() as stack:
        stack.enter_context(collected_rarely())
        own, tree, isolation = _isolated(fn, abstract=checkpoint is not None)
        abstract = None if checkpoint is None else AbstractParameters(tree)
        stack.enter_context(explained(own))
        objects = tree.objects
        if not flags:  # with them, the function is traced several times on the same copies
            for step in isolation:
                objects = step.copies.others(objects)
        snapshot = Snapshot(objects, tree.loose)
        scopes = Scopes(tree, functions)
        stack.enter_context(_jax.precision(double=double))
        key = tree.key + functions.key
        if scopes or functions:
            stack.enter_context(_jax.tracing_key(key))
        stack.enter_context(functions.open())
        stack.enter_context(scopes.open())
        stack.callback(snapshot.restore)
        if abstract is not None:
            args, count = (abstract.types, *args), len(abstract.parameters)
            flags = {count + i: flag for i, flag in (flags or {}).items()}
            names = [*(parameter.name for parameter in abstract.parameters), *names]
        jaxpr, outputs = traced_with_flags(call, args, kwargs, flags or {}, names, snapshot.restore)
        jaxpr = _jax.without_references(jaxpr)
        if abstract is None:
            check_values(jaxpr, own)
        else:
            jaxpr = _with_weights(jaxpr, abstract, checkpoint, tree, weights or Weights())
    return Traced(jaxpr, outputs, tree)


def _with_weights(
    closed: Any, abstract: AbstractParameters, checkpoint: Any, tree: Tree, known: Weights
) -> Any:
    """Replaces the first arguments of a jaxpr by weights of the checkpoint."""
    jaxpr, kept = as_constants(closed, len(abstract.parameters))
    parameters = [abstract.parameters[i] for i in kept]
    weights = known.of(checkpoint, parameters)
    names = [parameter.name for parameter in parameters]
    tree.replace(abstract.structs, zip(names, weights, strict=True))
    return type(closed)(jaxpr, [*weights, *closed.consts])


def _isolated(fn: Any, *, abstract: bool) -> tuple[Any, Tree, list[Isolated]]:
    """Returns `fn` on private copies of what it updates, its objects, and the frameworks' steps."""
    own, steps = _frameworks.isolated(fn)
    tree = tree_of(own, abstract=abstract)
    # An object that occurs as itself and as a copy would be updated in one of them only.
    if any(step.copies.has_copied(tree.objects) for step in steps):
        return fn, tree_of(fn, abstract=abstract), []
    return own, tree, steps


@contextmanager
def restored(fn: Callable[..., Any]) -> Iterator[None]:
    """Undoes the changes of `fn` to its own state inside the block."""
    with _one_at_a_time:
        tree = tree_of(fn)
        snapshot = Snapshot(tree.objects, tree.loose)
        try:
            with explained(fn):
                yield
        finally:
            snapshot.restore()
