"""Leaves the user's model as it was: what tracing writes into it is undone.

A module in training mode updates its batch statistics and random counters when it is called. While
it is traced these updates are tracers, which must not stay behind.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from jax2onnx._walk import instance_dict, slots

# Flax modules may be updated only in the trace that made them: the attribute that remembers it, and
# what it is in the current trace.
_TRACE_MARKS: dict[str, Callable[[Any], Any]] = {
    "_trace_state": lambda mark: type(mark)(),
    "trace_level": lambda _: sys.modules["flax.core.tracers"].current_trace(),
}

_MISSING = object()
_IMMUTABLE = (jax.Array, np.ndarray, tuple)


class Snapshot:
    """The shallow contents of a number of objects."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._lists: list[tuple[list[Any], list[Any]]] = []
        self._sets: list[tuple[set[Any], set[Any]]] = []
        self._slots: list[tuple[Any, Any, Any]] = []
        for obj in objects:
            if not isinstance(obj, _IMMUTABLE):
                self._save(obj)

    def _save(self, obj: Any) -> None:
        if isinstance(obj, dict):
            self._dicts.append((obj, dict(obj)))
        elif isinstance(obj, list):
            self._lists.append((obj, list(obj)))
        elif isinstance(obj, set):
            self._sets.append((obj, set(obj)))
        if stored := instance_dict(obj):
            self._dicts.append((stored, dict(stored)))
        for slot in slots(type(obj)):
            self._slots.append((slot, obj, _get(slot, obj)))

    def adopt(self) -> None:
        """Lets the current trace update the objects."""
        renewed: dict[str, Any] = {}

        def renew(name: str, mark: Any) -> Any:
            if name not in renewed:
                renewed[name] = _TRACE_MARKS[name](mark)
            return renewed[name]

        for stored, saved in self._dicts:
            for name in _TRACE_MARKS.keys() & saved.keys():
                stored[name] = renew(name, saved[name])
        for slot, obj, value in self._slots:
            if slot.__name__ in _TRACE_MARKS and value is not _MISSING:
                slot.__set__(obj, renew(slot.__name__, value))

    def restore(self) -> None:
        """Puts back what was replaced, added or removed. What is unchanged is not written."""
        for found, saved in self._dicts:
            if not _same(found.values(), saved.values()) or list(found) != list(saved):
                found.clear()
                found.update(saved)
        for items, kept in self._lists:
            if not _same(items, kept):
                items[:] = kept
        for members, before in self._sets:
            if members != before:
                members.clear()
                members.update(before)
        for slot, obj, value in self._slots:
            if _get(slot, obj) is not value:
                slot.__delete__(obj) if value is _MISSING else slot.__set__(obj, value)


def _same(one: Iterable[Any], other: Iterable[Any]) -> bool:
    return list(map(id, one)) == list(map(id, other))


def _get(slot: Any, obj: Any) -> Any:
    try:
        return slot.__get__(obj)
    except AttributeError:
        return _MISSING
