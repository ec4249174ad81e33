"""Notebooks: detecting one, and short tracebacks in it."""

import contextlib
import functools
import linecache
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from jax2onnx._python.objects import PACKAGE
from jax2onnx.errors import InvalidInputError

# The start of a text in HTML. Some themes of notebooks show it in proportional type otherwise, or
# break the lines of tables.
PRE = '<pre style="font-family:monospace;line-height:1.25;white-space:pre;overflow-x:auto">'

Given = ParamSpec("Given")
Result = TypeVar("Result")


def is_notebook() -> bool:
    """Returns `True` if a notebook kernel runs this code."""
    if "ipykernel" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _cell_numbers() -> dict[str, int]:
    """Returns the numbers of the cells that ran, by path."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(getattr(shell, "compile", None), "_filename_map", {})


def cells() -> dict[str, str]:
    """Returns the texts of the cells that ran, by the names that they have in source maps."""
    numbers = _cell_numbers()
    return {f"In [{number}]": "".join(linecache.getlines(path)) for path, number in numbers.items()}


def name_of_file(path: str) -> str:
    """Returns the name of a file in messages: relative to the working directory, or of a cell."""
    numbers = _cell_numbers()
    if path in numbers:
        return f"In [{numbers[path]}]"
    return path.removeprefix(os.path.join(os.getcwd(), ""))


class HiddenFrames:
    """Shortens errors in notebooks: removes the frames of this package, and the errors that led to
    one about a wrong argument. Moves notes into the message, since many releases of IPython do not
    show them.

    A generator could not do this: `contextlib` restores the traceback. Nor could its
    `ContextDecorator`, whose frame would be part of each call stack.
    """

    def __call__(self, function: Callable[Given, Result]) -> Callable[Given, Result]:
        """Runs all of a function like a block."""

        @functools.wraps(function)
        def called(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            with self:
                return function(*args, **kwargs)

        return called

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if error is None or not is_notebook():
            return
        error.__traceback__ = without_own_frames(error.__traceback__)
        if isinstance(error, InvalidInputError):
            error.__cause__, error.__suppress_context__ = None, True
        _show_notes(error)


def _show_notes(error: BaseException) -> None:
    """Moves the notes of an error into its message, if that is its first argument."""
    notes = [note for note in getattr(error, "__notes__", ()) if "help: " in note]
    if notes and error.args and str(error) == error.args[0]:
        error.args = ("\n".join([error.args[0], *notes]), *error.args[1:])
        error.__notes__ = [note for note in error.__notes__ if note not in notes]


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Removes the frames of this package, and of context managers, from a traceback."""
    kept = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith((PACKAGE, contextlib.__file__)):
            kept.append(traceback)
        traceback = traceback.tb_next
    rest: TracebackType | None = None
    for frame in reversed(kept):
        rest = TracebackType(rest, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return rest
