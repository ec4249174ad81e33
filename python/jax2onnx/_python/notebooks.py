"""Notebooks: detecting one, and short tracebacks in it."""

import sys
from types import TracebackType
from typing import Self

from jax2onnx._python.objects import PACKAGE


def is_notebook() -> bool:
    """Returns `True` if a notebook kernel runs this code."""
    if "ipykernel" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class HiddenFrames:
    """Removes the frames of this package from the tracebacks of errors, in notebooks.

    A generator could not do this: `contextlib` restores the traceback.
    """

    def __enter__(self) -> Self:
        """Starts the block."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Shortens the traceback of an error."""
        if error is not None and is_notebook():
            error.__traceback__ = _without_own_frames(error.__traceback__)


def _without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    kept = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(PACKAGE):
            kept.append(traceback)
        traceback = traceback.tb_next
    rest: TracebackType | None = None
    for frame in reversed(kept):
        rest = TracebackType(rest, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return rest
