"""Walks the objects that a callable holds: its modules, their parameters, its closures.

The walk reads instance dictionaries, slots, containers, closure cells and default values. It never
evaluates a property, never calls user code and never looks into an array.
"""

import functools
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from jax2onnx import _frameworks
from jax2onnx._core import Attributes, Reader, Walker
from jax2onnx._python.objects import has_dict, held, once_per_type, slots

# The names and the values that an object holds.
Pairs = Iterable[tuple[str, Any]]

# Objects, each with its path, and `True` if the path is a complete name.
Found = list[tuple[Any, str, bool]]

# Packages whose types hold no parameters, besides the standard library.
_OPAQUE_PACKAGES = frozenset({"jax", "jaxlib", "ml_dtypes", "numpy"})
_STDLIB = sysconfig.get_path("stdlib")


def walker(*, abstract: bool = False) -> Walker:
    """Walks objects, each at most once. With `abstract`, a `jax.ShapeDtypeStruct` is an array whose
    values are elsewhere.
    """
    return Walker(_reader_of_abstract if abstract else _reader_of)


def join(path: str, name: str) -> str:
    """Appends a name to a path; an empty name leaves the path as it is."""
    return f"{path}.{name}" if path and name else path or name


@once_per_type
def is_opaque(kind: type) -> bool:
    """Returns `True` if a type holds no parameters because of the package that defines it."""
    return is_opaque_module(kind.__module__)


def is_opaque_module(name: str) -> bool:
    """Returns `True` if the types of a Python module hold no parameters."""
    package = name.partition(".")[0]
    if package not in sys.stdlib_module_names:
        return package in _OPAQUE_PACKAGES
    # A file of the user may have the name of a standard module.
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or file.startswith(_STDLIB)


@once_per_type
def call_definitions(kind: type) -> tuple[type, ...]:
    """Returns the Python classes that define the `__call__` of a module's type; none for others."""
    if hasattr(kind, "__jax_array__"):
        return ()
    return tuple(
        base
        for base in kind.__mro__
        if not is_opaque(base)
        and "__call__" in base.__dict__
        and not isinstance(base.__dict__["__call__"], types.WrapperDescriptorType)
    )


@once_per_type
def _reader_of(kind: type) -> Reader | None:
    """Returns a reader for the objects of a type, or None if they hold nothing."""
    if issubclass(kind, jax.core.Tracer | type | types.ModuleType):
        return None
    if issubclass(kind, jax.Array | np.ndarray):
        return Reader(None, is_array=True)
    is_module = bool(call_definitions(kind))
    for base, read in _BUILTIN:
        if issubclass(kind, base):
            return Reader(read(kind), is_module=is_module)
    if is_opaque(kind) and kind is not types.SimpleNamespace:
        # Of these only wrapped functions matter, such as jitted ones.
        return Reader(_wrapped, is_module=is_module) if _is_callable(kind) else None
    if (only := _frameworks.TRANSPARENT.get((kind.__module__, kind.__qualname__))) is not None:
        chosen = _attributes(kind, unnamed=only, only_unnamed=True)
        return Reader(chosen, is_module=is_module, is_object=True, is_step=False)
    # An array or a mapping in a box. The box adds nothing to a path.
    is_box = hasattr(kind, "__jax_array__") or issubclass(kind, Mapping)
    return Reader(
        _attributes(kind, unnamed=_frameworks.UNNAMED if is_box else frozenset()),
        is_module=is_module,
        is_object=True,
        own_name=_frameworks.name_of if _frameworks.names_variables(kind) else None,
        array_prefix=_frameworks.name_of if _frameworks.names_arrays(kind) else None,
    )


def _reader_of_abstract(kind: type) -> Reader | None:
    return Reader(None, is_array=True) if kind is jax.ShapeDtypeStruct else _reader_of(kind)


def _is_callable(kind: type) -> bool:
    """Returns `True` if objects of a type are callable."""
    return any("__call__" in base.__dict__ for base in kind.__mro__)


def _wrapped(obj: Any) -> Pairs:
    return [("", getattr(obj, "__wrapped__", None))]


def _function(obj: Any) -> Pairs:
    return [*held(obj), ("", obj.__dict__.get("__wrapped__"))]


def _method(obj: Any) -> Pairs:
    return [("", obj.__self__)]


def _partial(obj: Any) -> Pairs:
    args = ((str(index), value) for index, value in enumerate(obj.args))
    return [("", obj.func), *args, *obj.keywords.items()]


def _types_in(obj: Any) -> Pairs:
    return [("", kind) for kind in _node_types(obj)]


def _tuple(kind: type) -> Any:
    fields = getattr(kind, "_fields", None)
    if not isinstance(fields, tuple):
        return list

    def read(obj: Any) -> Pairs:
        # Other classes than named tuples may have the attribute, too.
        names = fields if len(fields) == len(obj) else range(len(obj))
        return zip(map(str, names), obj, strict=True)

    return read


def _node_types(tree: Any) -> Iterator[type]:
    """Yields the types of the objects that a pytree is made of."""
    node = tree.node_data()
    if node is not None:
        yield node[0]
    for child in tree.children():
        yield from _node_types(child)


# Readers of built-in types, given the type.
_BUILTIN: tuple[tuple[type, Callable[[type], Any]], ...] = (
    (dict, lambda _: dict),
    (list, lambda _: list),
    (tuple, _tuple),
    (set, lambda _: None),
    (types.FunctionType, lambda _: _function),
    (types.MethodType, lambda _: _method),
    (functools.partial, lambda _: _partial),
    (jax.tree_util.PyTreeDef, lambda _: _types_in),
)


def _attributes(
    kind: type, unnamed: frozenset[str] = frozenset(), *, only_unnamed: bool = False
) -> Attributes:
    """Reads the attributes that objects of a type store, in their dictionary or in slots.
    Attributes in `unnamed` add nothing to a path.
    """
    ignored = _frameworks.IGNORED
    members = [(s.__name__, s.__get__) for s in slots(kind) if s.__name__ not in ignored]
    return Attributes(
        has_dict(kind), members, unnamed=unnamed, ignored=ignored, only_unnamed=only_unnamed
    )
