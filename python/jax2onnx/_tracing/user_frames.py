"""Frames of the user's code on the call stacks of equations."""

import os
from collections.abc import Iterable
from typing import Any

from jax2onnx._python.objects import INSTALLED, PACKAGE


def user_frame(frames: Iterable[Any]) -> Any:
    """Returns the first frame that is neither in an installed package nor in this one, or None."""
    others = (PACKAGE, *INSTALLED, "<")
    return next((frame for frame in frames if not frame.file_name.startswith(others)), None)


def location(frame: Any) -> str:
    """Formats the file and the line of a frame. Files in the working directory are relative."""
    file = frame.file_name.removeprefix(os.path.join(os.getcwd(), ""))
    return f"{file}:{frame.line_num}"
