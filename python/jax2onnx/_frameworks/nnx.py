"""Flax NNX."""

import functools
import sys
import types
from collections.abc import Mapping
from operator import is_
from typing import Any, ClassVar, NamedTuple

from jax2onnx._core import Copier, Copies
from jax2onnx._frameworks.framework import Framework, Isolated, Marks
from jax2onnx._frameworks.namespace import Namespace, assigns_globals, globals_of
from jax2onnx._python.objects import has_dict, slots
from jax2onnx.errors import InvalidInputError


class NNX(Framework):
    """Modules are objects that hold variables and update them when they are called."""

    module = "flax.nnx"
    inference = (
        "call `model.eval()`, or export `nnx.view(model, deterministic=True)` (batch norms: "
        "`use_running_average=True`)"
    )
    ignored = frozenset({"_object__nodes", "_pytree__nodes", "_trace_state", "_var_metadata"})
    unnamed = frozenset({"_raw_value", "raw_value"})  # of a Variable
    trace_marks: ClassVar[Marks] = {"_trace_state": lambda mark: type(mark)()}
    rebuilds = True

    def with_variables(self, fn: Any, variables: Any, /) -> Any | None:
        """Returns a copy of a module with a state of another one, or with a part of it."""
        nnx: Any = sys.modules.get(self.module)
        base = self.modules()
        if base is None or not isinstance(fn, base) or not isinstance(variables, Mapping):
            return None
        state = variables if isinstance(variables, nnx.State) else nnx.State(dict(variables))
        own, given = (dict(nnx.to_flat_state(tree)) for tree in (nnx.state(fn), state))
        for path in (path for path in given if path not in own):
            name = ".".join(map(str, path))
            raise InvalidInputError(
                "other-weights",
                f"the new weights have `{name}`, but `{type(fn).__name__}` has no such variable",
                help="pass nnx.state of a model like the exported one, or that model",
            )
        copy = nnx.clone(fn)
        nnx.update(copy, state)
        return copy

    def isolated(self, fn: Any, /) -> Isolated | None:
        """Copies the model of a callable: a model, a method of one, or a function that reads one.

        While it is traced, a model in training mode holds tracers, which must not reach other
        threads that call it. The copy holds the same arrays. Models that are parts of other objects
        are not copied. Nor are global variables if the function, or one that it calls by a global
        name, assigns globals.
        """
        nnx: Any = sys.modules.get(self.module)
        base = getattr(nnx, "Pytree", None) or getattr(nnx, "Object", None)
        marks = getattr(sys.modules.get("flax.nnx.tracers"), "TraceState", None)
        if base is None or marks is None:
            return None
        # All copies share one mark, so that one call lets another trace update them.
        mark = marks()
        copies = Copies(functools.partial(_copier_of, bases=(base, nnx.Variable)), mark)
        own = _Functions((base, nnx.Variable), copies).callable(fn)
        return Isolated(own, copies, mark.__init__)


class _Functions:
    """Functions on copies of the modules and variables that they refer to."""

    def __init__(self, bases: tuple[type, ...], copies: Copies) -> None:
        self._bases = bases
        self._copies = copies
        self._made: dict[int, Any] = {}  # the new functions, by the ids of the originals

    def callable(self, fn: Any) -> Any:
        """Replaces the models that a callable refers to directly by copies."""
        if self._has(type(fn)):
            return self._copies.of(fn)
        if isinstance(fn, types.MethodType) and self._has(type(fn.__self__)):
            return types.MethodType(fn.__func__, self._copies.of(fn.__self__))
        if type(fn) is functools.partial:
            keywords = {name: self.callable(value) for name, value in fn.keywords.items()}
            return functools.partial(
                self.callable(fn.func), *map(self.callable, fn.args), **keywords
            )
        if isinstance(fn, types.FunctionType):
            return self._function(fn)
        return fn

    def _has(self, kind: type) -> bool:
        return _is_any(kind, self._bases)

    def _function(self, fn: types.FunctionType) -> Any:
        if id(fn) in self._made:
            return self._made[id(fn)]
        self._made[id(fn)] = fn  # for a function that closes over itself
        functions = self._readers_of_models(fn)
        if functions:
            self._with_namespaces(functions)
        else:
            held = _Held.by(fn)
            copies = self._held(held)
            if not all(map(is_, copies.flat(), held.flat())):
                self._made[id(fn)] = _copy(fn, fn.__globals__, copies)
        return self._made[id(fn)]

    def _held(self, held: "_Held") -> "_Held":
        return _Held(
            tuple(map(self._cell, held.cells)),
            tuple(map(self.callable, held.defaults)),
            {name: self.callable(value) for name, value in held.keywords.items()},
        )

    def _readers_of_models(self, fn: types.FunctionType) -> list[types.FunctionType]:
        """Returns `fn` and the functions that it reaches by global names. The list is empty if none
        of them reads a model, or if one of them needs its real globals.
        """
        functions, reads = [fn], False
        seen = {id(fn)}
        for function in functions:
            for _, value in globals_of(function):
                reads |= self._has(type(value))
                if isinstance(value, types.FunctionType) and id(value) not in seen:
                    seen.add(id(value))
                    functions.append(value)
        assigns = reads and any(assigns_globals(function.__code__) for function in functions)
        return functions if reads and not assigns else []

    def _with_namespaces(self, functions: list[types.FunctionType]) -> None:
        """Copies functions whose globals are each other's copies and copies of models."""
        namespaces = [Namespace(function.__globals__) for function in functions]
        for function, namespace in zip(functions, namespaces, strict=True):
            self._made[id(function)] = _copy(function, namespace, self._held(_Held.by(function)))
        for function, namespace in zip(functions, namespaces, strict=True):
            for name, value in globals_of(function):
                if self._has(type(value)):
                    namespace[name] = self._copies.of(value)
                elif isinstance(value, types.FunctionType):
                    namespace[name] = self._made.get(id(value), value)

    def _cell(self, cell: types.CellType) -> types.CellType:
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            return cell
        copy = self.callable(value)
        return cell if copy is value else types.CellType(copy)


class _Held(NamedTuple):
    """The variables that a function closes over, and the default values of its arguments."""

    cells: tuple[types.CellType, ...]
    defaults: tuple[Any, ...]
    keywords: dict[str, Any]

    @staticmethod
    def by(fn: types.FunctionType) -> "_Held":
        return _Held(fn.__closure__ or (), fn.__defaults__ or (), fn.__kwdefaults__ or {})

    def flat(self) -> list[Any]:
        return [*self.cells, *self.defaults, *self.keywords.values()]


def _copy(fn: types.FunctionType, namespace: dict[str, Any], held: _Held) -> types.FunctionType:
    copy = types.FunctionType(fn.__code__, namespace, fn.__name__, held.defaults, held.cells)
    copy.__kwdefaults__ = held.keywords
    copy.__dict__.update(fn.__dict__)
    return copy


@functools.lru_cache(maxsize=1024)
def _copier_of(kind: type, bases: tuple[type, ...]) -> Copier | None:
    """Returns the copier for objects of a type, or None if they are not copied."""
    if not _is_any(kind, bases) and not _is_mark(kind):
        return None
    try:
        object.__new__(kind)
    except TypeError:  # it is a dictionary as well, say
        return None
    members = [(slot.__get__, slot.__set__) for slot in slots(kind)]
    return Copier(object.__new__, has_dict(kind), members)


def _is_any(kind: type, bases: tuple[type, ...]) -> bool:
    """Returns `True` if a type derives from one of `bases`, ignoring virtual subclasses."""
    return any(base in kind.__mro__ for base in bases)


def _is_mark(kind: type) -> bool:
    """Returns `True` if objects of a type store the trace that may update a module."""
    inside = kind.__module__.startswith("flax.nnx.")
    return inside and any(slot.__name__ == "_trace_state" for slot in slots(kind))
