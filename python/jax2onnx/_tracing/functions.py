"""ONNX functions: decorated callables, and on request all modules.

JAX traces through their calls as through any other code. A level of JAX's name stack marks the
equations of each call, so arguments need no flattening and transformations work as usual.
"""

import functools
import itertools
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import jax

from jax2onnx import _frameworks
from jax2onnx._tracing.mentioned_layers import layers_of
from jax2onnx._tracing.parameters import Tree
from jax2onnx.errors import InvalidInputError

T = TypeVar("T")


@dataclass(frozen=True)
class Function:
    """A function of the model.

    Attributes:
        name: Its name.
        namespace: The start of its domain.
        unique: `True` if its domain ends with `unique` instead of a number.
        module: `True` if it was not decorated, but is a module.
    """

    name: str
    namespace: str = "custom"
    unique: bool = False
    module: bool = False


# The classes that the user decorated, and the names of everything decorated.
_classes: weakref.WeakKeyDictionary[type, Function] = weakref.WeakKeyDictionary()
_decorated: list[str] = []

# The start of a call's scope, which the number of the call follows. The compiled half parses both.
_MARK = "jax2onnx.function"
_NUMBERED = re.compile(rf"^{re.escape(_MARK)}\|\d+")

_calls = itertools.count()
_thread = threading.local()


def run_as_function(function: Function, call: Any, args: Any, kwargs: Any) -> Any:
    """Runs `call`. The equations that it traces become a call of `function` in the model.

    In tracebacks, this frame is between the function and its caller.
    """
    flags = "u" * function.unique + "m" * function.module
    parts = (_MARK, str(next(_calls)), flags, function.namespace, function.name)
    with jax.named_scope("|".join(parts)):
        return call(*args, **kwargs)


def without_number(scope: str) -> str:
    """Removes the number of the call from a scope."""
    return _NUMBERED.sub(rf"{_MARK}|", scope)


class Functions:
    """The functions of one export: decorated ones, also all modules, or none."""

    def __init__(self, *, modules: bool, none: bool = False) -> None:
        self._modules = modules
        self._none = none
        self._marks = not none and (modules or bool(_decorated))
        self._running: list[Any] = []

    @property
    def key(self) -> str:
        """A key that identifies the set of functions; empty for no functions."""
        return f"{'modules' if self._modules else ''}{len(_decorated)}" if self else ""

    def __bool__(self) -> bool:
        return self._marks

    def classes(self, tree: Tree) -> list[type]:
        """Returns the classes whose calls may be functions, besides the modules in the tree."""
        decorated = [cls for cls in list(_classes) if not _frameworks.intercepts(cls)]
        return [*decorated, *layers_of(tree)] if self._modules else decorated

    @contextmanager
    def open(self) -> Iterator[None]:
        """Marks calls while the block runs, in this thread."""
        outer = getattr(_thread, "functions", None)
        _thread.functions = None if self._none else self
        try:
            with ExitStack() as stack:
                for context in _frameworks.interceptions(self._intercepted) if self else ():
                    stack.enter_context(context)
                yield
        finally:
            _thread.functions = outer

    def _intercepted(
        self, module: Any, call: Any, is_root: bool, /, *args: Any, **kwargs: Any
    ) -> Any:
        """Runs a call that the interceptor of a framework redirects."""
        if getattr(_thread, "functions", None) is not self:  # an export inside this one
            return call(*args, **kwargs)
        return self.run(module, call, is_root and not self._running, *args, **kwargs)

    def run(self, module: Any, call: Any, is_root: bool, /, *args: Any, **kwargs: Any) -> Any:
        """Runs the call of a module, as a function if it is one."""
        # A method that calls the one it overrides is part of the same call.
        again = bool(self._running) and self._running[-1] is module
        function = None if again else self._of(type(module), is_root=is_root)
        self._running.append(module)
        try:
            if function is None:
                return call(*args, **kwargs)
            return run_as_function(function, call, args, kwargs)
        finally:
            self._running.pop()

    def _of(self, kind: type, *, is_root: bool) -> Function | None:
        """Returns the function that calls of a class's instances become, or None."""
        if self._none:
            return None
        chosen = next((_classes[base] for base in kind.__mro__ if base in _classes), None)
        if chosen is None and self._modules and not is_root:
            return Function(_identifier(kind.__name__), module=True)
        return chosen


@overload
def onnx_function(target: T, /) -> T: ...


@overload
def onnx_function(
    *,
    unique: bool = False,
    namespace: str | None = None,
    type: str | None = None,
    name: str | None = None,
) -> Callable[[T], T]: ...


def onnx_function(
    target: Any = None,
    /,
    *,
    unique: bool = False,
    namespace: str | None = None,
    type: str | None = None,
    name: str | None = None,
) -> Any:
    """Turns a function, or the calls of a class's instances, into an ONNX function.

    Outside `to_onnx` nothing changes. Calls with the same computation share one function;
    parameters are operands of the call. If shapes, element types or anything else differ, another
    function with the next number is created.

    Args:
        target: A function, another callable, or a class with a `__call__`.
        unique: Ends the function's domain with `unique` instead of a number.
        namespace: The start of the domain, "custom" by default. The domain of `Block` is
            `custom.Block.1`, or `custom.Block.unique`.
        type: The name of the function, which is the operator of its calls. Defaults to the name of
            the target.
        name: An alias of `type`. `type` takes precedence.
    """

    def decorate(target: Any) -> Any:
        if not callable(target):
            raise _invalid("target", target, "decorate a function or a class")
        function = Function(_chosen_name(target, type, name), _namespace(namespace), bool(unique))
        if not isinstance(target, builtin_type):
            _decorated.append(function.name)
            return _wrap(target, function)
        if "__call__" not in dir(target) or target.__call__ is builtin_type.__call__:
            raise _invalid("target", target, "its instances cannot be called")
        if target in _classes and _classes[target] != function:
            raise InvalidInputError(
                "conflicting-function",
                f"`{target.__qualname__}` is already {_classes[target]}",
                help="decorate it once",
            )
        _decorated.append(function.name)
        _classes[target] = function
        return target

    return decorate if target is None else decorate(target)


# The parameter `type` shadows the built-in.
builtin_type = type


def _wrap(target: Any, function: Function) -> Any:
    @functools.wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        if getattr(_thread, "functions", None) is None:
            return target(*args, **kwargs)
        return run_as_function(function, target, args, kwargs)

    return call


def _chosen_name(target: Any, *names: str | None) -> str:
    for name in names:
        if name is not None:
            if not isinstance(name, str) or not re.search(r"\w", name):
                raise _invalid("type", name, "use a name with letters")
            return _identifier(name)
    while isinstance(target, functools.partial):
        target = target.func
    return _identifier(getattr(target, "__name__", None) or type(target).__name__)


def _namespace(namespace: str | None) -> str:
    if namespace is None:
        return "custom"
    if not isinstance(namespace, str) or not re.fullmatch(r"\w[\w.-]*", namespace):
        raise _invalid("namespace", namespace, "use a name such as custom or my.model")
    return namespace


def _identifier(name: str) -> str:
    """Replaces characters that are not allowed in an operator's name."""
    found = re.sub(r"\W+", "_", name).strip("_") or "function"
    return f"_{found}" if found[0].isdigit() else found


def _invalid(name: str, value: object, help: str) -> InvalidInputError:
    return InvalidInputError("invalid-function", f"`{name}` cannot be {value!r}", help=help)
