"""Flax NNX."""

import functools
import sys
import types
from collections.abc import Callable
from typing import Any, ClassVar

from jax2onnx._frameworks.framework import Framework, Marks
from jax2onnx._objects import has_dict, instance_dict, slots


class NNX(Framework):
    """Modules are objects that hold variables and update them when they are called."""

    module = "flax.nnx"
    books = frozenset({"_object__nodes", "_pytree__nodes", "_trace_state", "_var_metadata"})
    content = frozenset({"_raw_value", "raw_value"})  # of a Variable
    trace_marks: ClassVar[Marks] = {"_trace_state": lambda mark: type(mark)()}
    rebuilds = True

    def isolated(self, fn: Any, /) -> tuple[Any, list[Any]]:
        """A model, a method of one, or a function that closes over one, on a copy of the model.

        While it is traced, a model in training mode holds tracers, which another thread that calls
        it must not meet. The copy holds the same arrays. Models that are global variables or parts
        of other objects are not copied.
        """
        nnx: Any = sys.modules.get(self.module)
        base = getattr(nnx, "Pytree", None) or getattr(nnx, "Object", None)
        if base is None:
            return fn, []
        copies = _Copies((base, nnx.Variable))
        return copies.callable(fn), copies.originals


class _Copies:
    """Copies of modules and variables, each made once, so that what is shared stays shared.

    Attributes:
        originals: What was copied. The references keep its ids valid.
    """

    def __init__(self, kinds: tuple[type, ...]) -> None:
        self._kinds = kinds
        self._made: dict[int, Any] = {}
        self._copiers: dict[type, Callable[[Any], Any] | None] = {
            dict: self._dict,
            list: self._list,
            tuple: self._tuple,
        }
        self.originals: list[Any] = []

    def callable(self, fn: Any) -> Any:
        """A callable that refers to copies in place of what it refers to directly."""
        if self._has(type(fn)):
            return self._of(fn)
        if isinstance(fn, types.MethodType) and self._has(type(fn.__self__)):
            return types.MethodType(fn.__func__, self._of(fn.__self__))
        if type(fn) is functools.partial:
            keywords = {name: self.callable(value) for name, value in fn.keywords.items()}
            return functools.partial(
                self.callable(fn.func), *map(self.callable, fn.args), **keywords
            )
        if isinstance(fn, types.FunctionType) and fn.__closure__:
            return self._function(fn)
        return fn

    def _has(self, kind: type) -> bool:
        """Whether objects of a type are modules or variables, rather than pass for them."""
        return any(base in kind.__mro__ for base in self._kinds)

    def _function(self, fn: types.FunctionType) -> Any:
        if id(fn) in self._made:
            return self._made[id(fn)]
        self._made[id(fn)] = fn  # for a function that closes over itself
        closure = fn.__closure__ or ()
        cells = tuple(self._cell(cell) for cell in closure)
        if all(new is old for new, old in zip(cells, closure, strict=True)):
            return fn
        copy = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, cells)
        copy.__kwdefaults__ = fn.__kwdefaults__
        copy.__dict__.update(fn.__dict__)
        self._made[id(fn)] = copy
        return copy

    def _cell(self, cell: types.CellType) -> types.CellType:
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            return cell
        copy = self.callable(value)
        return cell if copy is value else types.CellType(copy)

    def _of(self, obj: Any) -> Any:
        """The copy of an object. Objects of the framework are copied, and the containers in which
        they keep others.
        """
        kind = type(obj)
        copier = self._copiers[kind] if kind in self._copiers else self._learn(kind)
        if copier is None:
            return obj
        if id(obj) in self._made:
            return self._made[id(obj)]
        return copier(obj)

    def _learn(self, kind: type) -> Callable[[Any], Any] | None:
        """How objects of a type are copied; None if they are not."""
        copied = self._has(kind) or _is_mark(kind)
        return self._copiers.setdefault(kind, self._copier(kind) if copied else None)

    def _note(self, obj: Any, copy: Any) -> None:
        self._made[id(obj)] = copy
        self.originals.append(obj)

    def _tuple(self, obj: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(self._of, obj))

    def _list(self, obj: list[Any]) -> list[Any]:
        copy: list[Any] = []
        self._note(obj, copy)
        copy.extend(map(self._of, obj))
        return copy

    def _dict(self, obj: dict[Any, Any]) -> dict[Any, Any]:
        copy: dict[Any, Any] = {}
        self._note(obj, copy)
        self._fill(copy, obj)
        return copy

    def _fill(self, copy: dict[Any, Any], stored: dict[Any, Any]) -> None:
        """Most values are not copied, so the others replace them in a copy of the whole."""
        copy.update(stored)
        copiers = self._copiers
        for key, value in stored.items():
            if copiers.get(type(value), self) is not None:
                copy[key] = self._of(value)

    def _copier(self, kind: type) -> Callable[[Any], Any]:
        """Copies objects of a type. A model has thousands, so what they share is asked once."""
        made, originals, copiers = self._made, self.originals, self._copiers
        new, fills = object.__new__, has_dict(kind)
        members = [(slot.__get__, slot.__set__) for slot in slots(kind)]

        def copier(obj: Any) -> Any:
            copy = new(kind)
            made[id(obj)] = copy
            originals.append(obj)
            if fills:
                self._fill(instance_dict(copy), instance_dict(obj))
            for get, put in members:
                try:
                    value = get(obj)
                except AttributeError:  # not assigned yet
                    continue
                put(copy, value if copiers.get(type(value), self) is None else self._of(value))
            return copy

        return copier


def _is_mark(kind: type) -> bool:
    """Whether objects of a type remember, for a module, the trace that may update it."""
    inside = kind.__module__.startswith("flax.nnx.")
    return inside and any(slot.__name__ == "_trace_state" for slot in slots(kind))
