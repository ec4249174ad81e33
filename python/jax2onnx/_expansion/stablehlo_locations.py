"""Locations in MLIR, as call stacks of Python."""

import functools
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import jax

from jax2onnx._python.loaded_text import ELSEWHERE


class Frame(NamedTuple):
    """A call: its file, its line and the name of the function that it is in."""

    file: str
    line: int
    function: str


class Location(NamedTuple):
    """A location: the calls that lead to it, outermost first, and its scopes."""

    frames: tuple[Frame, ...]
    scopes: tuple[str, ...]

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def of(text: str) -> "Location":
        """Parses a location as MLIR prints it."""
        reader = _Reader(text.removeprefix("loc("))
        return Location(tuple(reader.frames(None)), tuple(filter(_is_scope, reader.scopes)))


_SCOPE = re.compile(r"[^\W\d][\w.\-]*")
_CONTROL_FLOW = {"while", "body", "cond", "closed_call", "jit", "pjit", "checkpoint", "remat"}


def _is_scope(level: str) -> bool:
    """Returns `True` for the name of a module or of `jax.named_scope`."""
    return _SCOPE.fullmatch(level) is not None and level not in _CONTROL_FLOW


class _Reader:
    """A parser of `"scope/name"(callsite("f"("a.py":2:1) at "<module>"("a.py":9:1)))`."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self.scopes: list[str] = []

    def _take(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern).match(self._text, self._at)
        if found:
            self._at = found.end()
        return found

    def frames(self, function: str | None) -> list[Frame]:
        """Returns the frames of the next location; `function` names the innermost one."""
        if self._take(r"callsite\("):
            inner = self.frames(None)
            self._take(r"\s*at\s*")
            outer = self.frames(None)
            self._take(r"\)")
            return outer + inner
        if self._take(r"fused(<[^>]*>)?\["):
            found = self.frames(None)
            while self._take(r",\s*"):
                self.frames(None)
            self._take(r"\]")
            return found
        text = self._take(r'"((?:[^"\\]|\\.)*)"')
        if text is None:
            self._take(r"[^,)\]]*")
            return []
        name = re.sub(r"\\(.)", r"\1", text[1])
        if line := self._take(r":(\d+):\d+(\s*to\s*(\d+)?:\d+)?"):
            return [Frame(name, int(line[1]), function or "<unknown>")]
        if self._take(r"\("):
            if not self.scopes and not re.compile(r'"[^"]*":\d').match(self._text, self._at):
                self.scopes = name.split("/")[:-1] or [""]
            found = self.frames(name)
            self._take(r"\)")
            return found
        return []


def placed(location: Location, run: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Calls a function inside the frames and scopes of a location."""
    for frame in reversed(location.frames):
        run = functools.partial(_frame(frame), run)
    with ExitStack() as stack:
        for scope in location.scopes:
            stack.enter_context(jax.named_scope(scope))
        return run(*operands)


@functools.lru_cache(maxsize=4096)
def _frame(frame: Frame) -> FunctionType:
    """Returns a function that calls another one from the given line."""
    code: CodeType = compile("def f(run, *operands): return run(*operands)", frame.file, "exec")
    (inner,) = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    name = frame.function.rpartition(".")[2]
    inner = inner.replace(
        co_name=name,
        co_qualname=frame.function,
        co_firstlineno=max(1, frame.line),
        co_consts=(*inner.co_consts, ELSEWHERE),
    )
    return FunctionType(inner, {})
