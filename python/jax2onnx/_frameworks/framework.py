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

Holders = Mapping[tuple[str, str], frozenset[str]]
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


class Framework:
    """A framework, with its undocumented API.

    Each framework overrides the attributes and methods that apply to it. Nothing here imports it:
    queries about its classes are made only after the user's program has loaded them.
    """

    #: The module that a program imports to use the framework; it has a class `Module`.
    module: ClassVar[str]

    #: How a model is switched to inference.
    inference: ClassVar[str]

    #: Advice for errors that the framework raises, by the names of their classes or a part of the
    #: message.
    errors: ClassVar[Mapping[str, str]] = {}

    #: Types with the only attributes of theirs that are walked, by module and qualified name.
    #: Neither adds to a path.
    holders: ClassVar[Holders] = {}

    #: Attributes for the framework's own bookkeeping.
    books: ClassVar[frozenset[str]] = frozenset()

    #: Attributes in which its variables and mappings store their content.
    content: ClassVar[frozenset[str]] = frozenset()

    #: Attributes that name the trace that may update an object, with functions that return their
    #: values in the current trace.
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
        kind: type | None = getattr(sys.modules.get(self.module), "Module", None)
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
        """Returns `True` if a class of its modules is internal to the framework rather than a
        layer.
        """
        return False

    def interception(self, _run: Run, /) -> AbstractContextManager[Any] | None:
        """Returns a context manager that redirects this thread's calls of its modules to a
        function, or None.
        """
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
        """Returns `True` if arrays in a class's instances, besides variables, are named after the
        instance.
        """
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
        """Returns a model like `_fn` with other values of its variables, or None if it is not one
        of the framework's.
        """
        return None

    def unready(self, _fn: Any, /) -> tuple[str, str, str] | None:
        """Returns the message, an empty place and the help for a model without parameters."""
        return None

    def isolated(self, _fn: Any, /) -> Isolated | None:
        """Replaces the objects that a callable updates while it is traced by copies, if they can be
        copied.
        """
        return None
