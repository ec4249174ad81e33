"""The classes of layers that a callable may instantiate while it is traced.

A model may be rebuilt from parameters that are arguments. The callable then holds no instance of
its layers, but its code mentions their classes, directly or through other functions and classes.
"""

import functools
import types
from collections.abc import Iterable, Iterator
from typing import Any

from jax2onnx import _frameworks
from jax2onnx._python.objects import global_names, held, instance_dict
from jax2onnx._tracing.parameters import Tree
from jax2onnx._tracing.walk import is_opaque, is_opaque_module


def layers_of(tree: Tree) -> list[type]:
    """Returns the classes of layers that a callable mentions, in its objects or in its code."""
    todo: list[Any] = []
    seen: set[Any] = set()

    def add(values: Iterable[Any]) -> None:
        """Adds the classes and the functions among some values."""
        for value in map(_underlying, values):
            if isinstance(value, type | types.FunctionType) and value not in seen:
                seen.add(value)
                todo.append(value)

    add(tree.functions)
    add(tree.classes)
    add(obj if isinstance(obj, types.FunctionType) else type(obj) for obj in tree.objects)
    found = []
    while todo:
        value = todo.pop()
        if isinstance(value, types.FunctionType):
            if not _is_outside(value.__module__ or ""):
                add(_mentioned(value))
        elif _frameworks.is_layer(value):
            found.append(value)
            add(value.__bases__)
            for member in map(_underlying, value.__dict__.values()):
                if isinstance(member, types.FunctionType):
                    add(_mentioned(member))
        elif not _is_outside(value.__module__):
            add(value.__bases__)
            add(value.__dict__.values())
    return found


def _is_outside(module: str) -> bool:
    """Returns `True` if the definitions of a Python module instantiate no layers."""
    return is_opaque_module(module) or _frameworks.is_own(module)


def _underlying(value: Any) -> Any:
    """Unwraps a decorated or bound function or method."""
    for _ in range(100):
        if isinstance(value, type | types.FunctionType):
            break
        if isinstance(value, functools.partial):
            value = value.func
        elif isinstance(value, property):
            value = value.fget
        elif isinstance(value, staticmethod | classmethod | types.MethodType):
            value = value.__func__
        elif is_opaque(type(value)) and callable(value):  # such as a jitted function
            value = getattr(value, "__wrapped__", None)
        else:
            value = instance_dict(value).get("__wrapped__")
    return value


def _mentioned(function: types.FunctionType) -> Iterator[Any]:
    """Yields the objects that a function refers to, and attributes of the modules among them."""
    yield from (value for _, value in held(function))
    yield from function.__dict__.values()
    names = set(global_names(function.__code__))
    for name in names:
        yield from _members(function.__globals__.get(name), names)


def _members(value: Any, names: set[str], depth: int = 4) -> Iterator[Any]:
    """Yields a value, or the named attributes of a Python module."""
    if not isinstance(value, types.ModuleType):
        yield value
    elif depth and not is_opaque_module(value.__name__):
        for name in names & value.__dict__.keys():
            yield from _members(value.__dict__[name], names, depth - 1)
