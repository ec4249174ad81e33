"""The interface of a framework to the rest of the package."""

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple

from jax2onnx._core import Copies

# Runs a call, given the module, the method, `True` if the module may be the model itself, and the
# arguments.
Run = Callable[..., Any]

Transparent = Mapping[tuple[str, str], frozenset[str]]
Marks = Mapping[str, Callable[[Any], Any]]


class Isolated(NamedTuple):
    """A callable on private copies of the objects that it updates.

    Attributes:
        fn: The callable.
        copies: The copies and their originals.
        adopt: Lets the current trace update the copies.
    """

    fn: Any
    copies: Copies
    adopt: Callable[[], None]


def first_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function with the first result of another one, which also returns a state."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)[0]

    return call


def interceptor(
    package: str, run: Run, is_root: Callable[[Any], bool]
) -> AbstractContextManager[Any] | None:
    """Returns a package's interceptor of calls, which is local to the thread. Returns None if the
    program has not loaded the package.
    """
    loaded: Any = sys.modules.get(package)

    def intercept(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        if context.method_name != "__call__":
            return call(*args, **kwargs)
        return run(context.module, call, is_root(context.module), *args, **kwargs)

    context: AbstractContextManager[Any] | None
    context = None if loaded is None else loaded.intercept_methods(intercept)
    return context


class Framework:
    """A framework, with its undocumented API.

    Each framework overrides the attributes and methods that apply to it. Nothing here imports it:
    queries about its classes are made only after the user's program has loaded them.
    """

    #: The module that a program imports to use the framework.
    module: ClassVar[str]

    #: The base class of modules in it.
    base: ClassVar[str] = "Module"

    #: How a model is switched to inference.
    inference: ClassVar[str]

    #: Advice for errors that the framework raises, by the names of their classes or a part of the
    #: message.
    errors: ClassVar[Mapping[str, str]] = {}

    #: Types that add nothing to a path, by module and qualified name, each with the attributes that
    #: are walked.
    transparent: ClassVar[Transparent] = {}

    #: Attributes that are not walked: the framework's own bookkeeping.
    ignored: ClassVar[frozenset[str]] = frozenset()

    #: Attributes that add nothing to a path: they store the content of variables and mappings.
    unnamed: ClassVar[frozenset[str]] = frozenset()

    #: Attributes that store the trace that may update an object, each with a function that returns
    #: its value in the current trace.
    trace_marks: ClassVar[Marks] = {}

    #: Keyword arguments that choose what `apply` of a module computes.
    options: ClassVar[frozenset[str]] = frozenset()

    #: `True` if calls of its modules already open a scope for each instance.
    names_scopes: ClassVar[bool] = False

    #: `True` if modules may be rebuilt from arguments while a function is traced. Then the callable
    #: holds no instances of their classes.
    rebuilds: ClassVar[bool] = False

    def modules(self) -> type | None:
        """Returns the base class of its modules, once the program has loaded it."""
        kind: type | None = getattr(sys.modules.get(self.module), self.base, None)
        return kind

    def contains(self, file: str, /) -> bool:
        """Returns `True` for a source file of the framework, once the program has loaded it."""
        loaded: str | None = getattr(sys.modules.get(self.module), "__file__", None)
        return bool(loaded) and file.startswith(os.path.join(os.path.dirname(loaded or ""), ""))

    def advice_on_arguments(self, _fn: Any, _args: Sequence[Any], /) -> str:
        """Returns advice for a model that fails on its arguments, or an empty string."""
        return ""

    def owns(self, kind: type, /) -> bool:
        """Returns `True` if a class is one of its modules."""
        base = self.modules()
        return base is not None and issubclass(kind, base)

    def is_internal(self, _kind: type, /) -> bool:
        """Returns `True` if a class of its modules is internal to the framework."""
        return False

    def interception(self, _run: Run, /) -> AbstractContextManager[Any] | None:
        """Returns a context manager that redirects this thread's calls of its modules, or None."""
        return None

    def bare(self, call: Any, /) -> Any:
        """Removes the scope that the framework names after a class from its `__call__`."""
        return call

    def is_method(self, _value: Any, /) -> bool:
        """Returns `True` if an object is a bound method of the framework's own type."""
        return False

    def variables(self, _module: Any, /) -> Any:
        """Returns the collections of variables that a module is bound to, by name, or None."""
        return None

    def names_variables(self, _kind: type, /) -> bool:
        """Returns `True` if instances of a class are variables with names of their own."""
        return False

    def names_arrays(self, _kind: type, /) -> bool:
        """Returns `True` if a class's instances give their name to the arrays in them."""
        return False

    def name_of(self, _variable: Any, /) -> str | None:
        """Returns the name of an object of such a class."""
        return None

    def holding(self, _fn: Any, _params: Any, _state: Any, /) -> Callable[..., Any] | None:
        """Returns a callable that computes a model with these parameters and this state, or None
        if the model is not one of the framework's.
        """
        return None

    def with_variables(self, _fn: Any, _variables: Any, /) -> Any | None:
        """Returns a model like `_fn` with other variables, or None if it is not the framework's."""
        return None

    def unready(self, _fn: Any, /) -> tuple[str, str] | None:
        """Returns the message and the help for a model without parameters."""
        return None

    def isolated(self, _fn: Any, /) -> Isolated | None:
        """Replaces the objects that a callable updates during a trace by copies, if possible."""
        return None
