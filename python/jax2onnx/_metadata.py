"""How much provenance a model carries: the argument and the environment switches."""

import os

from jax2onnx.errors import bad_option

ENABLE = "JAX2ONNX_ENABLE_STACKTRACE_METADATA"
DETAIL = "JAX2ONNX_STACKTRACE_DETAIL"
LEVELS = ("minimal", "full")
OFF = "off"

_FALSE = ("", "0", "false", "off", "no")


def detail(argument: bool | str | None) -> str:
    """The level that applies: "off" or one of `LEVELS`. The argument beats the environment."""
    if argument is None:
        argument = os.environ.get(ENABLE, "").strip().lower() not in _FALSE
    if argument is False:
        return OFF
    if argument is True:
        return _level(DETAIL, os.environ.get(DETAIL, "").strip().lower() or LEVELS[0], LEVELS)
    return _level("stacktrace_metadata", argument, ("True", "False", *LEVELS))


def _level(name: str, value: object, allowed: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in LEVELS:
        return value
    raise bad_option(name, value, allowed)
