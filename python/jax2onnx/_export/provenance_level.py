"""The level of provenance in a model, set by argument, context manager or environment."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from jax2onnx._export.option_names import with_advice
from jax2onnx.errors import bad_option

ENABLE = "JAX2ONNX_ENABLE_STACKTRACE_METADATA"
DETAIL = "JAX2ONNX_STACKTRACE_DETAIL"
SOURCE_MAP = "sourcemap"
LEVELS = ("minimal", "full", SOURCE_MAP)
OFF = "off"

Level = bool | Literal["minimal", "full", "sourcemap"]


@with_advice
@dataclass(frozen=True)
class Provenance:
    """The record of sources in a model.

    Attributes:
        level: The detail: "minimal", "full", "sourcemap", or False for none.
        file: Writes the source map to this file instead of into the model.
        text: Includes the text of the user's files in the source map.
        paths: "relative" writes files relative to the working directory or to their package,
            "absolute" writes whole paths.
        user_packages: Packages whose code counts as the user's, or with a minus sign as a
            library's.
        names: "modules" names nodes after modules only, "functions" also after functions.
    """

    level: Level = "sourcemap"
    file: str | os.PathLike[str] | None = None
    text: bool = False
    paths: Literal["relative", "absolute"] = "relative"
    user_packages: str | Sequence[str] = ()
    names: Literal["modules", "functions"] = "modules"

    def options(self) -> dict[str, Any]:
        """Returns the options of `to_onnx`."""
        # A map in a file needs no other provenance in the model.
        level = False if self.file is not None and self.level == SOURCE_MAP else self.level
        return {
            "stacktrace_metadata": level,
            "source_map": self.file,
            "source_text": self.text,
            "paths": self.paths,
            "user_packages": self.user_packages,
            "node_names": self.names,
        }


_FALSE = ("", "0", "false", "off", "no")
_level_in_force: ContextVar[Level | None] = ContextVar("stacktrace_metadata", default=None)


@contextmanager
def stacktrace_metadata(level: Level = True) -> Iterator[None]:
    """Sets the level of provenance of models that are exported inside the block.

    `with stacktrace_metadata("full"):` is the same as passing `stacktrace_metadata="full"` to every
    call of `to_onnx` that does not pass it.
    """
    detail(level)  # raise for a wrong level here, where it was given
    token = _level_in_force.set(level)
    try:
        yield
    finally:
        _level_in_force.reset(token)


def detail(argument: Level | None) -> str:
    """Returns the level that applies: "off" or one of `LEVELS`.

    The argument takes precedence over the context manager, which takes precedence over the
    environment.
    """
    level: object = _level_in_force.get() if argument is None else argument
    if level is None:
        level = os.environ.get(ENABLE, "").strip().lower() not in _FALSE
    if level is False:
        return OFF
    if level is True:
        return _level(DETAIL, os.environ.get(DETAIL, "").strip().lower() or LEVELS[0], LEVELS)
    return _level("stacktrace_metadata", level, ("True", "False", *LEVELS))


def _level(name: str, value: object, allowed: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in LEVELS:
        return value
    raise bad_option(name, value, allowed)
