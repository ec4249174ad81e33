"""Scopes by module instance: while a function is traced, a call of the module `blocks.3.attn`
inside a call of `blocks.3` opens `jax.named_scope("attn")`.
"""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax

from jax2onnx import _frameworks
from jax2onnx._tracing.call_observers import bound, observed
from jax2onnx._tracing.functions import Functions
from jax2onnx._tracing.parameters import Tree
from jax2onnx._tracing.walk import call_definitions, join, walker

_NO_SCOPE = nullcontext()


class Scopes:
    """The module instances of one export, and the stack of running ones."""

    def __init__(self, tree: Tree, functions: Functions) -> None:
        self._functions = functions
        self._paths = {id(module): path for module, path in tree.modules}
        self._originals = [module for module, _ in tree.modules]
        self._settings: dict[type, dict[str, tuple[object, ...]]] = {}
        self._alive: list[Any] = []
        self._bare = functools.cache(_frameworks.bare)
        self._running = [""]
        kinds = {*map(type, self._originals), *functions.classes(tree)}
        self._classes = frozenset(
            cls
            for kind in kinds
            if not _frameworks.names_scopes(kind)
            or (functions and not _frameworks.intercepts(kind))
            for cls in call_definitions(kind)
        )

    def __bool__(self) -> bool:
        return bool(self._classes)

    def open(self) -> AbstractContextManager[None]:
        """Opens scopes while a block runs, in this thread."""
        return observed(self._classes, self)

    def enter(
        self, module: Any, call: Any, /
    ) -> tuple[AbstractContextManager[Any], Callable[..., Any]]:
        """Records the start of a call. Returns its scope, and the function to run inside."""
        known = id(module) in self._paths or self._adopt(module)
        path, caller = self._paths[id(module)], self._running[-1]
        is_root = not path and len(self._running) == 1
        self._running.append(path)
        # The path replaces a scope that is named after the class.
        function = bound(self._bare(call) if known else call, module)
        if self._functions:
            function = functools.partial(self._functions.run, module, function, is_root)
        scope = "" if _frameworks.names_scopes(type(module)) else _relative(path, caller)
        return jax.named_scope(scope) if scope else _NO_SCOPE, function

    def leave(self) -> None:
        self._running.pop()

    def _adopt(self, module: Any) -> bool:
        """Assigns paths to a module that a transformation has rebuilt, and to its parts. Returns
        `True` if the original is known: the running module with the same settings, or the only such
        module inside the running one.
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
        """Returns the paths of modules that differ only in their parameters."""
        if kind not in self._settings:
            modules = (module for module in self._originals if type(module) is kind)
            self._settings[kind] = {self._paths[id(m)]: _settings(m)[0] for m in modules}
        return [path for path, known in self._settings[kind].items() if known == settings]


def _settings(module: Any) -> tuple[tuple[object, ...], list[tuple[Any, str]]]:
    """Returns the contents of a module besides arrays, and the modules in it."""
    walk = walker()
    arrays, modules = walk.walk(module)
    ids = {id(array) for array, *_ in arrays}
    settings = tuple(part for part in walk.fingerprint if part not in ids)
    return settings, [(module, path) for module, path, _ in modules]


def _relative(path: str, caller: str) -> str:
    if path == caller:
        return ""
    inside = path.removeprefix(f"{caller}.") if caller else path
    return inside.replace("/", ".")  # JAX separates levels by slashes
