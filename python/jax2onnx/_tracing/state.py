"""Restores the user's model after tracing has written into it.

A module in training mode updates its batch statistics and random counters when it is called. During
tracing these updates are tracers, which must not be left behind.
"""

from collections.abc import Callable, Iterable, Set
from functools import partial
from operator import is_
from typing import Any, NamedTuple

import jax
import numpy as np

from jax2onnx._frameworks import TRACE_MARKS
from jax2onnx._python.objects import has_dict, instance_dict, once_per_type, slots

_MISSING = object()
_CONTAINERS: tuple[Any, ...] = (dict, list, set)
_IMMUTABLE = (jax.Array, np.ndarray, tuple)


class _Parts(NamedTuple):
    """The mutable parts of the objects of a type."""

    containers: list[Any]
    has_dict: bool
    slots: tuple[Any, ...]
    #: The slots that name the trace that may update an object.
    marks: tuple[Any, ...]


@once_per_type
def _mutable_parts(kind: type) -> _Parts | None:
    if issubclass(kind, _IMMUTABLE):
        return None
    containers = [c for c in _CONTAINERS if issubclass(kind, c)]
    marks = tuple(slot for slot in slots(kind) if slot.__name__ in TRACE_MARKS)
    return _Parts(containers, has_dict(kind), slots(kind), marks)


class Snapshot:
    """The shallow contents of objects. Objects whose ids are in `loose` are variables of functions,
    which other code may use at the same time.
    """

    def __init__(self, objects: Iterable[Any], loose: Set[int]) -> None:
        self._containers: list[tuple[Any, Any, bool]] = []
        self._slots: list[tuple[Any, Any, Any]] = []
        self._marks: list[tuple[Callable[[Any], None], str, Any]] = []
        for obj in objects:
            parts = _mutable_parts(type(obj))
            if parts is None:
                continue
            identity = id(obj)
            self._note_marks(obj, parts)
            for container in parts.containers:
                self._containers.append((obj, container.copy(obj), identity in loose))
            if parts.has_dict and (stored := instance_dict(obj)):
                self._containers.append((stored, stored.copy(), identity in loose))
            for slot in parts.slots:
                self._slots.append((slot, obj, _get(slot, obj)))

    def adopt(self) -> None:
        """Lets the current trace update the objects."""
        renewed: dict[str, Any] = {}

        def renew(name: str, mark: Any) -> Any:
            if name not in renewed:
                renewed[name] = TRACE_MARKS[name](mark)
            return renewed[name]

        for put, name, mark in self._marks:
            put(renew(name, mark))

    def _note_marks(self, obj: Any, parts: _Parts) -> None:
        for slot in parts.marks:
            if (mark := _get(slot, obj)) is not _MISSING:
                self._marks.append((partial(slot.__set__, obj), slot.__name__, mark))
        if parts.has_dict:
            stored = instance_dict(obj)
            for name in TRACE_MARKS:
                if name in stored:
                    put = partial(stored.__setitem__, name)
                    self._marks.append((put, name, stored[name]))

    def restore(self) -> None:
        """Restores contents that were replaced, added or removed; in loose containers only if
        tracers were left there. Unchanged contents are not written.
        """
        for found, saved, loose in self._containers:
            if not _same(found, saved) and not (loose and not _has_tracers(found)):
                found.clear()
                found.extend(saved) if isinstance(found, list) else found.update(saved)
        for slot, obj, value in self._slots:
            if _get(slot, obj) is not value:
                slot.__delete__(obj) if value is _MISSING else slot.__set__(obj, value)


def _same(one: Any, other: Any) -> bool:
    """Returns `True` if two containers of one type hold the same objects."""
    if isinstance(one, set):
        return bool(one == other)
    if len(one) != len(other):
        return False
    if isinstance(one, dict):
        return all(map(is_, one.values(), other.values())) and [*one] == [*other]
    return all(map(is_, one, other))


def _has_tracers(container: Any) -> bool:
    values = container.values() if isinstance(container, dict) else container
    leaves = jax.tree_util.tree_leaves(list(values))
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def _get(slot: Any, obj: Any) -> Any:
    try:
        return slot.__get__(obj)
    except AttributeError:
        return _MISSING
