"""Walks the objects that a callable holds: its modules, their parameters, its closures.

The walk reads instance dictionaries, slots, containers, closure cells and default values. It never
evaluates a property, never calls user code and never looks into an array.
"""

import functools
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from jax2onnx import _frameworks
from jax2onnx._objects import has_dict, held, instance_dict, once_per_type, slots

Pairs = Iterable[tuple[str, Any]]
Children = Callable[[Any], Pairs]

# A walk that finds more objects than this has left the model.
_LIMIT = 500_000

# Longer containers of plain values are data, such as a vocabulary.
_LONG = 1_000

# Packages whose types hold no parameters, besides the standard library.
_OPAQUE_PACKAGES = frozenset({"jax", "jaxlib", "ml_dtypes", "numpy"})
_STDLIB = sysconfig.get_path("stdlib")

_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None)})


class OwnName(str):
    """A name that is complete, in place of a path."""

    __slots__ = ()


@dataclass
class Branch:
    """What was found below one object, with paths relative to it."""

    arrays: list[tuple[Any, str]] = field(default_factory=list)
    modules: list[tuple[Any, str]] = field(default_factory=list)


class _Reader(NamedTuple):
    """How the walk handles objects of a type that can hold others, or are arrays."""

    read: Children
    is_array: bool = False
    is_module: bool = False
    #: Whether they own the containers that they hold.
    is_object: bool = False
    #: Whether their own name is part of the paths below them.
    is_step: bool = True
    #: Whether they have a name of their own, whatever their path is.
    is_named: bool = False
    #: Whether arrays that are attributes of theirs are named after that name.
    names_arrays: bool = False


class Walker:
    """Walks objects, each at most once.

    Attributes:
        seen: Every array and every object that can hold others, by its id, in the order of the
            walk. The references keep the ids valid.
        loose: The containers that belong to no object but are variables of functions, or parts of
        such variables, by their id.
        fingerprint: Types, arrays and plain values in the order of the walk. It differs if
            anything differs that a traced function could depend on.
        classes: The classes that objects refer to, as the description of a model does that is
            merged with parameters later.
    """

    def __init__(self, *, abstract: bool = False) -> None:
        """With `abstract`, a `jax.ShapeDtypeStruct` is an array whose values are elsewhere."""
        self.seen: dict[int, Any] = {}
        self.loose: set[int] = set()
        self.fingerprint: list[object] = []
        self.classes: list[type] = []
        self._readers: dict[type, _Reader | None] = {}
        if abstract:
            self._readers[jax.ShapeDtypeStruct] = _Reader(_nothing, is_array=True)

    def walk(self, root: Any) -> Branch:
        """Breadth first, so that an object reachable in several ways gets a short path."""
        branch = Branch()
        queue: deque[tuple[str, str | None, bool, Iterator[tuple[str, Any]]]]
        queue = deque([("", None, True, iter([("", root)]))])
        seen, fingerprint, readers = self.seen, self.fingerprint, self._readers
        while queue and len(seen) < _LIMIT:
            parent, owner, loose, children = queue.popleft()
            for name, obj in children:
                kind = type(obj)
                reader = readers[kind] if kind in readers else self._learn(obj)
                if reader is None:
                    if kind in _PLAIN:
                        fingerprint.append(obj)
                    elif isinstance(obj, type):
                        self.classes.append(obj)
                    continue
                if (identity := id(obj)) in seen:
                    continue
                seen[identity] = obj
                path = f"{parent}.{name}" if parent and name else parent or name
                if reader.is_named and (own := _frameworks.name_of(obj)):
                    path = OwnName(own)
                if reader.is_array:
                    fingerprint.append(identity)
                    branch.arrays.append((obj, OwnName(f"{owner}/{name}") if owner else path))
                    continue
                fingerprint.append(kind)
                if reader.is_module:
                    branch.modules.append((obj, path))
                inside = loose and not reader.is_object
                if inside:
                    self.loose.add(identity)
                owner_of_them = _frameworks.name_of(obj) if reader.names_arrays else None
                step = path if reader.is_step else parent
                queue.append((step, owner_of_them, inside, iter(reader.read(obj))))
        return branch

    def _learn(self, obj: Any) -> _Reader | None:
        return self._readers.setdefault(type(obj), _reader_of(obj))


def join(path: str, name: str) -> str:
    """Appends a name to a path; an empty name leaves the path as it is."""
    return f"{path}.{name}" if path and name else path or name


@once_per_type
def is_opaque(kind: type) -> bool:
    """Whether a type holds no parameters because of where it is defined."""
    return is_opaque_module(kind.__module__)


def is_opaque_module(name: str) -> bool:
    """Whether what a Python module defines holds no parameters."""
    package = name.partition(".")[0]
    if package not in sys.stdlib_module_names:
        return package in _OPAQUE_PACKAGES
    # A file of the user may have the name of a standard module.
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or file.startswith(_STDLIB)


@once_per_type
def call_definitions(kind: type) -> tuple[type, ...]:
    """The Python classes that define the `__call__` of a type; none if it is not a module's."""
    if hasattr(kind, "__jax_array__"):
        return ()
    return tuple(
        base
        for base in kind.__mro__
        if not is_opaque(base)
        and "__call__" in base.__dict__
        and not isinstance(base.__dict__["__call__"], types.WrapperDescriptorType)
    )


def _reader_of(obj: Any) -> _Reader | None:
    """How to read what objects of the type of `obj` hold; None if they hold nothing."""
    kind = type(obj)
    if isinstance(obj, jax.Array | np.ndarray):
        return None if isinstance(obj, jax.core.Tracer) else _Reader(_nothing, is_array=True)
    if issubclass(kind, type | types.ModuleType):
        return None
    is_module = bool(call_definitions(kind))
    for base, read in _BUILTIN:
        if issubclass(kind, base):
            return _Reader(read, is_module=is_module)
    if is_opaque(kind) and kind is not types.SimpleNamespace:
        # Of these only what JAX makes of a function matters, such as a jitted one.
        return _Reader(_wrapped, is_module=is_module) if callable(obj) else None
    if (only := _frameworks.HOLDERS.get((kind.__module__, kind.__qualname__))) is not None:
        chosen = _chosen(kind, only)
        return _Reader(chosen, is_module=is_module, is_object=True, is_step=False)
    # An array or a mapping in a box. The box adds nothing to a path.
    is_box = hasattr(kind, "__jax_array__") or issubclass(kind, Mapping)
    read = _attributes(kind, unnamed=_frameworks.CONTENT if is_box else frozenset())
    return _Reader(
        read,
        is_module=is_module,
        is_object=True,
        is_named=_frameworks.names_variables(kind),
        names_arrays=_frameworks.names_arrays(kind),
    )


def _nothing(_: Any) -> Pairs:
    return ()


def _wrapped(obj: Any) -> Pairs:
    return [("", getattr(obj, "__wrapped__", None))]


def _dict(obj: dict[Any, Any]) -> Pairs:
    items = dict.items(obj)
    if len(items) > _LONG and type(next(iter(items))[1]) in _PLAIN:
        return ()
    return [(str(key), value) for key, value in items]


def _sequence(obj: Any) -> Pairs:
    if len(obj) > _LONG and type(obj[0]) in _PLAIN:
        return ()
    return [(str(index), value) for index, value in enumerate(obj)]


def _tuple(obj: Any) -> Pairs:
    fields = getattr(type(obj), "_fields", None)
    return _sequence(obj) if fields is None else zip(fields, obj, strict=True)


def _node_types(tree: Any) -> Iterator[type]:
    """The types of the objects that a pytree is made of."""
    node = tree.node_data()
    if node is not None:
        yield node[0]
    for child in tree.children():
        yield from _node_types(child)


_BUILTIN: tuple[tuple[type, Children], ...] = (
    (dict, _dict),
    (list, _sequence),
    (tuple, _tuple),
    (set, _nothing),
    (types.FunctionType, lambda obj: [*held(obj), ("", obj.__dict__.get("__wrapped__"))]),
    (types.MethodType, lambda obj: [("", obj.__self__)]),
    (functools.partial, lambda obj: [("", obj.func), *_sequence(obj.args), *obj.keywords.items()]),
    (jax.tree_util.PyTreeDef, lambda obj: [("", kind) for kind in _node_types(obj)]),
)


def _attributes(kind: type, unnamed: frozenset[str] = frozenset()) -> Children:
    """Reads the attributes that objects of a type store, in their dictionary or in slots. Those in
    `unnamed` add nothing to a path.
    """
    stored = instance_dict if has_dict(kind) else None
    books = _frameworks.BOOKS
    members = [
        ("" if slot.__name__ in unnamed else slot.__name__, slot.__get__)
        for slot in slots(kind)
        if slot.__name__ not in books
    ]

    def read(obj: Any) -> Pairs:
        items = stored(obj).items() if stored else ()
        found = [("" if n in unnamed else n, value) for n, value in items if n not in books]
        for name, get in members:
            try:
                found.append((name, get(obj)))
            except AttributeError:  # not assigned yet
                continue
        return found

    return read


def _chosen(kind: type, names: frozenset[str]) -> Children:
    """Reads only the named attributes, which add nothing to a path."""
    read = _attributes(kind, unnamed=names)
    return lambda obj: [(name, value) for name, value in read(obj) if not name]
