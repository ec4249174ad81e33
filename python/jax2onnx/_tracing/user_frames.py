"""Frames of the user's code on the call stacks of equations."""

from collections.abc import Iterable
from typing import Any

from jax2onnx._python.notebooks import name_of_file
from jax2onnx._python.objects import is_users


def user_frame(frames: Iterable[Any]) -> Any:
    """Returns the first frame that is neither in an installed package nor in this one, or None."""
    return next((frame for frame in frames if is_users(frame.file_name)), None)


def location(frame: Any) -> str:
    """Formats the file and the line of a frame, as messages name them."""
    return f"{name_of_file(frame.file_name)}:{frame.line_num}"
