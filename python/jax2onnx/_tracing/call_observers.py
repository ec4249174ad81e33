"""Runs code around the calls of modules, in the thread that traces them and in no other.

Python looks `__call__` up in the class, so each class of the model gets a wrapper of its `__call__`
while a function is traced. In other threads the wrapper only calls the original. If several traces
need a class, in one thread or in several, the first one wraps it and the last one restores it.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol


class Observer(Protocol):
    """Receives the calls that a thread makes."""

    def enter(
        self, module: Any, call: Any, /
    ) -> tuple[AbstractContextManager[Any], Callable[..., Any]]:
        """Records the start of a call of `module`, whose class defines `call` as its `__call__`.
        Returns a context manager for the call, and the function to run in its place.
        """

    def leave(self) -> None:
        """Records the end of the latest call."""


_thread = threading.local()
_lock = threading.Lock()

# The wrapped classes, each with its original `__call__` and the number of traces that use it.
_wrapped: dict[type, tuple[Any, int]] = {}


@contextmanager
def observed(classes: Set[type], observer: Observer) -> Iterator[None]:
    """Notifies `observer` of this thread's calls of `classes` while the block runs."""
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
    """Binds a class attribute to an instance, as attribute lookup does."""
    get = getattr(type(function), "__get__", None)
    return function if get is None else get(function, instance, type(instance))
