"""Lowering rules that users write: `@lowering("primitive")`."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeVar

from jax2onnx._tracing.inputs import place_of
from jax2onnx.errors import InvalidInputError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class _Registered:
    function: Callable[..., Any]
    code: CodeType

    @property
    def definition(self) -> tuple[str, str, int]:
        """The file, the function and its first line, which may be a decorator."""
        return self.code.co_filename, self.code.co_qualname, self.code.co_firstlineno

    @property
    def place(self) -> tuple[str, str, int]:
        """The file, the function and the line of its `def`, if the source is known."""
        file, name, first = self.definition
        try:
            lines, first_line = inspect.getsourcelines(self.code)
        except (OSError, IndentationError, SyntaxError):
            return file, name, first
        for number, line in enumerate(lines, first_line):
            if line.lstrip().startswith(("def ", "async def ")):
                return file, name, number
        return file, name, first


_rules: dict[str, _Registered] = {}


def lowering(primitive: Any, *, override: bool = False) -> Callable[[F], F]:
    """Registers the decorated function as the lowering rule of a JAX primitive.

    The rule is called as `rule(ctx, *inputs)` for each equation of the primitive. It emits nodes
    with `ctx.op("Name", *inputs, **attributes)` and returns the value of the equation, or a
    sequence of values if it has several. `docs/custom-rules.md` has a complete example.

    Args:
        primitive: The primitive, or its name.
        override: Allows the rule to replace a built-in or registered one.

    Raises:
        InvalidInputError: The primitive has a rule, and `override` is not set.
    """
    name = primitive if isinstance(primitive, str) else getattr(primitive, "name", None)
    if not isinstance(name, str) or not name or callable(primitive):
        raise InvalidInputError(
            "invalid-rule",
            f"`{primitive!r}` is not a primitive",
            help='pass a primitive or its name: @jax2onnx.lowering("my_primitive")',
        )

    def register(function: F) -> F:
        known = _rules.get(name)
        rule = _Registered(function, _code_of(function))
        # A cell of a notebook may execute the same definition again.
        is_again = known is not None and known.definition == rule.definition
        if not override and not is_again:
            _refuse(name, known)
        _rules[name] = rule
        return function

    return register


@contextmanager
def local_lowerings() -> Iterator[None]:
    """Removes the rules that are registered inside the block at its end."""
    saved = dict(_rules)
    try:
        yield
    finally:
        _rules.clear()
        _rules.update(saved)


def registered() -> list[tuple[str, Any, CodeType, tuple[str, str, int]]]:
    """Returns all rules in the form that the compiled half takes."""
    return [(name, rule.function, rule.code, rule.place) for name, rule in _rules.items()]


def _refuse(name: str, known: _Registered | None) -> None:
    """Raises if a primitive has a rule: the registered one that is known, or a built-in one."""
    from jax2onnx._tracing.primitives import has_rule

    if known is not None:
        raise InvalidInputError(
            "rule-exists",
            f"`{name}` already has a rule",
            place_of(known.place),
            help="pass override=True to replace it",
        )
    if has_rule(name):
        raise InvalidInputError(
            "rule-exists",
            f"`{name}` has a built-in rule",
            help="pass override=True to replace it",
        )


def _code_of(function: Any) -> CodeType:
    """Returns the code of a rule, which provides the reported lines."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__code__") and callable(function):
        function = getattr(type(function).__call__, "__func__", type(function).__call__)
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        raise InvalidInputError(
            "invalid-rule", f"`{function!r}` is not a Python function", help="decorate a function"
        )
    return code
