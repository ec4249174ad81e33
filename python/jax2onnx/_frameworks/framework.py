"""What the rest of the package asks of a framework."""

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple

from jax2onnx._core import Copies

# Runs a call. It takes the module, the method, whether it may be the model itself, and arguments.
Run = Callable[..., Any]

Holders = Mapping[tuple[str, str], frozenset[str]]
Marks = Mapping[str, Callable[[Any], Any]]


class Isolated(NamedTuple):
    """A callable on copies of the objects that it updates, which nobody else sees.

    Attributes:
        fn: The callable.
        copies: The copies, and what they are copies of.
        adopt: Lets the current trace update the copies.
    """

    fn: Any
    copies: Copies
    adopt: Callable[[], None]


class Framework:
    """A framework, and what is known of it beyond its documented API.

    Each framework overrides what it has. Nothing here imports it: what is asked of its classes is
    asked only once the user's program has loaded them.
    """

    #: The module that a program imports to use the framework; it has a class `Module`.
    module: ClassVar[str]

    #: Types of which only the named attributes are walked, by module and qualified name. Neither
    #: adds to a path.
    holders: ClassVar[Holders] = {}

    #: Attributes in which the framework keeps its own books.
    books: ClassVar[frozenset[str]] = frozenset()

    #: Attributes in which its variables and mappings keep what they stand for.
    content: ClassVar[frozenset[str]] = frozenset()

    #: Attributes that remember the trace in which an object may be updated, and what they are in
    #: the current trace.
    trace_marks: ClassVar[Marks] = {}

    #: Whether calls of its modules open a scope for each instance already.
    names_scopes: ClassVar[bool] = False

    #: Whether modules may be rebuilt while a function is traced, from parameters that it is
    #: given. Then no instance tells which classes there are.
    rebuilds: ClassVar[bool] = False

    def modules(self) -> type | None:
        """The base class of its modules, once the program has loaded it."""
        kind: type | None = getattr(sys.modules.get(self.module), "Module", None)
        return kind

    def owns(self, kind: type, /) -> bool:
        """Whether a class is one of its modules."""
        base = self.modules()
        return base is not None and issubclass(kind, base)

    def is_internal(self, _kind: type, /) -> bool:
        """Whether a class of its modules is not a layer but part of how the framework works."""
        return False

    def interception(self, _run: Run, /) -> AbstractContextManager[Any] | None:
        """Has calls of its modules in this thread run by a function, if it lets others do that."""
        return None

    def bare(self, call: Any, /) -> Any:
        """The `__call__` of a class without the scope that the framework names after the class."""
        return call

    def is_method(self, _value: Any, /) -> bool:
        """Whether an object is a bound method of a kind of its own."""
        return False

    def variables(self, _module: Any, /) -> Any:
        """The collections of variables that a module is bound to, by name, or None."""
        return None

    def names_variables(self, _kind: type, /) -> bool:
        """Whether a class is that of variables which have names of their own."""
        return False

    def names_arrays(self, _kind: type, /) -> bool:
        """Whether arrays in a class's instances, beside variables, are named after the instance."""
        return False

    def name_of(self, _variable: Any, /) -> str | None:
        """The name of an object of such a class."""
        return None

    def isolated(self, _fn: Any, /) -> Isolated | None:
        """A callable with copies in place of the objects that it updates while it is traced, if
        they can be copied.
        """
        return None
