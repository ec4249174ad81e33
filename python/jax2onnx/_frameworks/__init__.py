"""The frameworks that modules are written in, and the queries that this package makes of them.

Each framework's undocumented API is in its own file. None is imported here: a framework matters
only after the user's program has loaded it.
"""

import functools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from jax2onnx._frameworks.equinox import Equinox
from jax2onnx._frameworks.framework import Framework, Isolated, Run
from jax2onnx._frameworks.haiku import Haiku
from jax2onnx._frameworks.keras import Keras
from jax2onnx._frameworks.linen import PARAMETERS, Linen
from jax2onnx._frameworks.nnx import NNX
from jax2onnx._python.objects import once_per_type
from jax2onnx.errors import invalid_option

ALL: tuple[Framework, ...] = (NNX(), Linen(), Equinox(), Haiku(), Keras())

#: Types that add nothing to a path, each with the attributes that are walked.
TRANSPARENT = {kind: names for framework in ALL for kind, names in framework.transparent.items()}

#: Attributes that are not walked.
IGNORED = frozenset[str]().union(*(framework.ignored for framework in ALL))

#: Attributes that add nothing to a path.
UNNAMED = frozenset[str]().union(*(framework.unnamed for framework in ALL))

#: Attributes that store the trace that may update an object, each with a function that returns its
#: value in the current trace.
TRACE_MARKS: dict[str, Callable[[Any], Any]] = {
    name: renew for framework in ALL for name, renew in framework.trace_marks.items()
}


@functools.lru_cache(maxsize=4096)
def advice(file: str) -> str:
    """Returns how to switch to inference in a source file's framework, or an empty string."""
    return next((framework.inference for framework in ALL if framework.contains(file)), "")


def advice_on_error(error: Exception) -> str:
    """Returns advice for an error that a framework raises, or an empty string."""
    kind = type(error)
    package = kind.__module__.partition(".")[0]
    return next(
        (
            advice
            for framework in ALL
            for key, advice in framework.errors.items()
            if (key == kind.__name__ and framework.module.startswith(package))
            or (" " in key and key in str(error))
        ),
        "",
    )


def advice_on_arguments(fn: Any, args: Sequence[Any]) -> str:
    """Returns advice for a model that fails on its arguments, or an empty string."""
    model = fn
    while isinstance(model, functools.partial):
        model = getattr(model, "__wrapped__", model.func)
    found = (framework.advice_on_arguments(model, args) for framework in ALL)
    return next((text for text in found if text), "")


def name_of(variable: Any) -> str | None:
    """Returns the name that a framework has for a variable or a layer, or None."""
    names = (framework.name_of(variable) for framework in ALL)
    return next((name for name in names if name), None)


def names_variables(kind: type) -> bool:
    """Returns `True` if instances of a class are variables with names of their own."""
    return any(framework.names_variables(kind) for framework in ALL)


def names_arrays(kind: type) -> bool:
    """Returns `True` if a class's instances give their name to the arrays in them."""
    return any(framework.names_arrays(kind) for framework in ALL)


@once_per_type
def names_scopes(kind: type) -> bool:
    """Returns `True` if calls of a class's instances already open a scope for each instance."""
    return any(framework.names_scopes and framework.owns(kind) for framework in ALL)


def bare(call: Any) -> Any:
    """Removes a scope that is named after the class from its `__call__`."""
    for framework in ALL:
        call = framework.bare(call)
    return call


def interceptions(run: Run) -> Iterator[AbstractContextManager[Any]]:
    """Yields context managers that redirect this thread's calls to `run`, where there are any."""
    for framework in ALL:
        context = framework.interception(run)
        if context is not None:
            yield context


def intercepts(kind: type) -> bool:
    """Returns `True` if the framework of a module has interceptors."""
    return any(
        type(framework).interception is not Framework.interception and framework.owns(kind)
        for framework in ALL
    )


def is_layer(kind: type) -> bool:
    """Returns `True` if instances of a class may be rebuilt while they are traced."""
    return any(
        framework.rebuilds
        and framework.owns(kind)
        and kind is not framework.modules()
        and not framework.is_internal(kind)
        for framework in ALL
    )


def is_own(module: str) -> bool:
    """Returns `True` if a Python module belongs to a framework."""
    package = module.partition(".")[0]
    return any(framework.module.partition(".")[0] == package for framework in ALL)


def is_method(value: Any) -> bool:
    """Returns `True` if an object is a bound method of a framework's own type."""
    return any(framework.is_method(value) for framework in ALL)


def has_parameters(root: Any) -> bool:
    """Returns `True` for a dictionary of variables with parameters, or a module bound to one."""
    found = [root, *(framework.variables(root) for framework in ALL)]
    # Some mappings, such as those of weak references, do not take every key.
    mappings = (v for v in found if isinstance(v, Mapping) and PARAMETERS in v)
    return any(isinstance(v[PARAMETERS], Mapping) for v in mappings)


def holding(fn: Any, params: Any, state: Any) -> Any:
    """Returns a callable that computes a model with these parameters and this state.

    A plain function takes the parameters as its first argument, and the state as its second.
    """
    if params is None and state is None:
        return fn
    bound = type(fn) is functools.partial and not any(fn.keywords.keys() & f.options for f in ALL)
    model = fn.func if bound else fn
    for framework in ALL:
        if (held := framework.holding(model, params, state)) is not None:
            return functools.partial(held, *fn.args, **fn.keywords) if bound else held
        base = framework.modules()
        if base is not None and isinstance(model, base):
            raise invalid_option(
                f"`{type(model).__name__}` holds its parameters itself",
                "export it without `params`, `variables` and `state`",
            )
    return functools.partial(fn, *(value for value in (params, state) if value is not None))


def with_variables(fn: Any, variables: Any) -> Any | None:
    """Returns a model like `fn`, or a method or a partial call of one, with other values of its
    variables. Returns None if these are not variables of its framework.
    """
    if isinstance(fn, functools.partial):
        model = with_variables(fn.func, variables)
        return None if model is None else functools.partial(model, *fn.args, **fn.keywords)
    if isinstance(fn, types.MethodType):
        model = with_variables(fn.__self__, variables)
        return None if model is None else getattr(model, fn.__name__)
    found = (framework.with_variables(fn, variables) for framework in ALL)
    return next((model for model in found if model is not None), None)


def unready(fn: Any) -> tuple[str, str] | None:
    """Returns the message and the help for a model that lacks its parameters."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    found = (framework.unready(fn) for framework in ALL)
    return next((problem for problem in found if problem is not None), None)


def isolated(fn: Any) -> tuple[Any, list[Isolated]]:
    """Replaces the objects that `fn` updates while it is traced by copies, as far as they can be
    copied. Returns the new callable and the frameworks' steps.
    """
    steps: list[Isolated] = []
    for framework in ALL:
        if (step := framework.isolated(fn)) is not None:
            steps.append(step)
            fn = step.fn
    return fn, steps
