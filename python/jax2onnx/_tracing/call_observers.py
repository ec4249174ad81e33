"""Runs code around the calls of modules, in the thread that traces them and in no other.

Python looks `__call__` up in the class, so the classes of the model at hand are given another one
while a function is traced. In other threads it does nothing but run the one that it replaces. If
several traces need a class, in one thread or in several, the first one wraps it and the last one
restores it.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol


class Observer(Protocol):
    """Is told about the calls that a thread makes."""

    def enter(
        self, module: Any, call: Any, /
    ) -> tuple[AbstractContextManager[Any], Callable[..., Any]]:
        """Notes that a call of `module` starts, whose class has `call` for its `__call__`. Returns
        what surrounds the call, and what runs in its place.
        """

    def leave(self) -> None:
        """Notes that the latest call has ended."""


_thread = threading.local()
_lock = threading.Lock()

# The classes that are wrapped, with what they had and for how many traces.
_wrapped: dict[type, tuple[Any, int]] = {}


@contextmanager
def observed(classes: Set[type], observer: Observer) -> Iterator[None]:
    """Tells `observer` of the calls in this thread that `classes` define, while the block runs."""
    outer = getattr(_thread, "watch", None)
    wrapped: list[type] = []
    try:
        for cls in classes:
            _wrap(cls)
            wrapped.append(cls)
        _thread.watch = classes, observer
        yield
    finally:
        _thread.watch = outer
        for cls in wrapped:
            _unwrap(cls)


def _wrap(cls: type) -> None:
    with _lock:
        if cls in _wrapped:
            original, traces = _wrapped[cls]
        else:
            original, traces = cls.__dict__["__call__"], 0
            type.__setattr__(cls, "__call__", _wrapper(cls, original))
        _wrapped[cls] = original, traces + 1


def _unwrap(cls: type) -> None:
    with _lock:
        original, traces = _wrapped[cls]
        if traces > 1:
            _wrapped[cls] = original, traces - 1
        else:
            type.__setattr__(cls, "__call__", original)
            del _wrapped[cls]


def _wrapper(cls: type, original: Any) -> Any:
    @functools.wraps(original)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        classes, observer = getattr(_thread, "watch", None) or ((), None)
        if observer is None or cls not in classes:
            return bound(original, self)(*args, **kwargs)
        around, run = observer.enter(self, original)
        try:
            # Every frame here is in the stack of every equation below it.
            with around:
                return run(*args, **kwargs)
        finally:
            observer.leave()

    return call


def bound(function: Any, instance: Any) -> Any:
    """What the attribute lookup of `instance` makes of a class's attribute."""
    get = getattr(type(function), "__get__", None)
    return function if get is None else get(function, instance, type(instance))
