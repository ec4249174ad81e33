"""The frameworks that people write their modules in, and what the package asks of them.

All that is known of one beyond its documented API is in its own file. None is imported here: a
framework matters once the user's program has loaded it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from jax2onnx._frameworks.equinox import Equinox
from jax2onnx._frameworks.framework import Framework, Isolated, Run
from jax2onnx._frameworks.haiku import Haiku
from jax2onnx._frameworks.keras import Keras
from jax2onnx._frameworks.linen import PARAMETERS, Linen
from jax2onnx._frameworks.nnx import NNX
from jax2onnx._python.objects import once_per_type

__all__ = [
    "BOOKS",
    "CONTENT",
    "HOLDERS",
    "PARAMETERS",
    "TRACE_MARKS",
    "Isolated",
    "bare",
    "has_parameters",
    "interceptions",
    "intercepts",
    "is_layer",
    "is_method",
    "is_own",
    "isolated",
    "name_of",
    "names_arrays",
    "names_scopes",
    "names_variables",
]

ALL: tuple[Framework, ...] = (NNX(), Linen(), Equinox(), Haiku(), Keras())

#: Types of which only some attributes are walked.
HOLDERS = {kind: names for framework in ALL for kind, names in framework.holders.items()}

#: Attributes that are not walked.
BOOKS = frozenset[str]().union(*(framework.books for framework in ALL))

#: Attributes that add nothing to a path.
CONTENT = frozenset[str]().union(*(framework.content for framework in ALL))

#: Attributes that say which trace may update an object, and what they are in the current one.
TRACE_MARKS: dict[str, Callable[[Any], Any]] = {
    name: renew for framework in ALL for name, renew in framework.trace_marks.items()
}


def name_of(variable: Any) -> str | None:
    """The name that a framework has for a variable or a layer, whatever holds it."""
    names = (framework.name_of(variable) for framework in ALL)
    return next((name for name in names if name), None)


def names_variables(kind: type) -> bool:
    """Whether a class is that of variables with names of their own."""
    return any(framework.names_variables(kind) for framework in ALL)


def names_arrays(kind: type) -> bool:
    """Whether arrays in a class's instances, beside variables, are named after the instance."""
    return any(framework.names_arrays(kind) for framework in ALL)


@once_per_type
def names_scopes(kind: type) -> bool:
    """Whether calls of a class's instances open a scope for each instance already."""
    return any(framework.names_scopes and framework.owns(kind) for framework in ALL)


def bare(call: Any) -> Any:
    """The `__call__` of a class without a scope that is named after the class."""
    for framework in ALL:
        call = framework.bare(call)
    return call


def interceptions(run: Run) -> Iterator[AbstractContextManager[Any]]:
    """Has calls in this thread run by `run`, in the frameworks that let others do that."""
    for framework in ALL:
        context = framework.interception(run)
        if context is not None:
            yield context


def intercepts(kind: type) -> bool:
    """Whether the framework of a module lets others run its calls."""
    return any(
        type(framework).interception is not Framework.interception and framework.owns(kind)
        for framework in ALL
    )


def is_layer(kind: type) -> bool:
    """Whether instances of a class may be rebuilt while they are traced."""
    return any(
        framework.rebuilds
        and framework.owns(kind)
        and kind is not framework.modules()
        and not framework.is_internal(kind)
        for framework in ALL
    )


def is_own(module: str) -> bool:
    """Whether a Python module belongs to a framework."""
    package = module.partition(".")[0]
    return any(framework.module.partition(".")[0] == package for framework in ALL)


def is_method(value: Any) -> bool:
    """Whether an object is a bound method of a framework's own kind."""
    return any(framework.is_method(value) for framework in ALL)


def has_parameters(root: Any) -> bool:
    """Whether it is a dictionary of variables with parameters, or a module bound to one."""
    found = [root, *(framework.variables(root) for framework in ALL)]
    # Some mappings, such as those of weak references, do not take every key.
    mappings = (v for v in found if isinstance(v, Mapping) and PARAMETERS in v)
    return any(isinstance(v[PARAMETERS], Mapping) for v in mappings)


def isolated(fn: Any) -> tuple[Any, list[Isolated]]:
    """`fn` with copies in place of the objects that it updates while it is traced, as far as these
    can be copied, and the steps to it.
    """
    steps: list[Isolated] = []
    for framework in ALL:
        if (step := framework.isolated(fn)) is not None:
            steps.append(step)
            fn = step.fn
    return fn, steps
