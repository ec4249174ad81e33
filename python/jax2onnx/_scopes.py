"""Scopes by module instance: while a function is traced, a call of the module at `blocks.3.attn`
inside a call of that at `blocks.3` opens `jax.named_scope("attn")`.

The `__call__` of the classes in the callable's tree is wrapped during the trace. The wrapper does
nothing in other threads. It also turns the call into a function of the model if it should be one.
"""

import functools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import jax

from jax2onnx import _jax
from jax2onnx._functions import Functions
from jax2onnx._walk import Walker, call_definitions, join

_thread = threading.local()
_NO_SCOPE = nullcontext()


class Scopes:
    """The module instances of one export, and which of them are running."""

    def __init__(self, modules: list[tuple[Any, str]], functions: Functions) -> None:
        self.functions = functions
        self._paths = {id(module): path for module, path in modules}
        self._originals = [module for module, _ in modules]
        self._settings: dict[type, dict[str, tuple[object, ...]]] = {}
        self._alive: list[Any] = []
        self._running = [""]
        kinds = {*(type(module) for module, _ in modules), *functions.classes}
        self._classes = {
            cls for kind in kinds if not _opens_scopes(kind) for cls in call_definitions(kind)
        }

    def __bool__(self) -> bool:
        return bool(self._classes)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Wraps the classes while the block runs. Only one thread at a time may do so."""
        outer = getattr(_thread, "scopes", None)
        originals = {cls: cls.__dict__["__call__"] for cls in self._classes}
        try:
            for cls, original in originals.items():
                type.__setattr__(cls, "__call__", _wrapper(original))
            _thread.scopes = self
            yield
        finally:
            _thread.scopes = outer
            for cls, original in originals.items():
                type.__setattr__(cls, "__call__", original)

    def enter(self, module: Any) -> tuple[str, bool, bool]:
        """Records that a call of `module` starts: its scope, whether its path is known, and whether
        it is the model itself.
        """
        known = id(module) in self._paths or self._adopt(module)
        path, caller = self._paths[id(module)], self._running[-1]
        is_root = not path and len(self._running) == 1
        self._running.append(path)
        return _relative(path, caller), known, is_root

    def leave(self) -> None:
        """Records that the latest call has ended."""
        self._running.pop()

    def _adopt(self, module: Any) -> bool:
        """Adopts a module that a transformation has rebuilt, and its parts. Returns whether the
        original is known: the running module with the same settings, or the only such module inside
        the running one.
        """
        settings, parts = _settings(module)
        running = self._running[-1]
        same = self._paths_of(type(module), settings)
        inside = [path for path in same if not running or path.startswith(f"{running}.")]
        known = running in same or len(inside) == 1
        place = inside[0] if known and running not in same else running
        for part, path in parts:
            self._alive.append(part)
            self._paths[id(part)] = join(place, path)
        return known

    def _paths_of(self, kind: type, settings: tuple[object, ...]) -> list[str]:
        """Where the callable's tree has modules that differ only in their parameters."""
        if kind not in self._settings:
            modules = (module for module in self._originals if type(module) is kind)
            self._settings[kind] = {self._paths[id(m)]: _settings(m)[0] for m in modules}
        return [path for path, known in self._settings[kind].items() if known == settings]


def _settings(module: Any) -> tuple[tuple[object, ...], list[tuple[Any, str]]]:
    """What a module consists of besides arrays, and the modules in it."""
    walker = Walker()
    branch = walker.walk(module)
    arrays = {id(array) for array, _ in branch.arrays}
    return tuple(part for part in walker.fingerprint if part not in arrays), branch.modules


def _relative(path: str, caller: str) -> str:
    if path == caller:
        return ""
    inside = path.removeprefix(f"{caller}.") if caller else path
    return inside.replace("/", ".")  # JAX separates levels by slashes


def _opens_scopes(cls: type) -> bool:
    """Linen modules open a scope for each instance by themselves."""
    linen = sys.modules.get("flax.linen")
    return linen is not None and issubclass(cls, linen.Module)


def _wrapper(original: Any) -> Any:
    # Equinox names a scope after the class, which the instance's path makes redundant.
    bare = original.__wrapped__ if _jax.opens_scope(original) else original

    @functools.wraps(original)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        scopes: Scopes | None = getattr(_thread, "scopes", None)
        if scopes is None:
            return _bind(original, self)(*args, **kwargs)
        scope, known, is_root = scopes.enter(self)
        function = _bind(bare if known else original, self)
        functions = scopes.functions
        try:
            with jax.named_scope(scope) if scope else _NO_SCOPE:
                if functions:
                    return functions.run(self, function, args, kwargs, is_root=is_root)
                # Every frame here appears in the stack of every equation below it.
                return function(*args, **kwargs)
        finally:
            scopes.leave()

    return call


def _bind(function: Any, instance: Any) -> Any:
    """What the attribute lookup of `instance` makes of a class's attribute."""
    get = getattr(type(function), "__get__", None)
    return function if get is None else get(function, instance, type(instance))
