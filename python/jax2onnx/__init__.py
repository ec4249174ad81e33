"""Converts JAX functions to ONNX models in which every node knows its line of Python."""

from typing import TYPE_CHECKING, Any

from jax2onnx._api import to_onnx
from jax2onnx._explain import explain_errors
from jax2onnx._functions import onnx_function
from jax2onnx._metadata import stacktrace_metadata
from jax2onnx.errors import InternalError, InvalidInputError, Jax2OnnxError, UnsupportedError

if TYPE_CHECKING:
    from jax2onnx._source_map import SourceMap

__all__ = [
    "InternalError",
    "InvalidInputError",
    "Jax2OnnxError",
    "SourceMap",
    "UnsupportedError",
    "explain_errors",
    "onnx_function",
    "stacktrace_metadata",
    "to_onnx",
]


def __getattr__(name: str) -> Any:
    if name == "SourceMap":
        from jax2onnx._source_map import SourceMap

        return SourceMap
    if name == "__version__":
        from importlib.metadata import version

        return version("jax2onnx")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
