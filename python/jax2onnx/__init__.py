"""Converts JAX functions to ONNX models in which every node knows its line of Python."""

from typing import TYPE_CHECKING, Any

from jax2onnx._allclose import allclose
from jax2onnx._api import to_onnx
from jax2onnx._explain import explain_errors
from jax2onnx._functions import onnx_function
from jax2onnx._metadata import stacktrace_metadata
from jax2onnx._rules import local_lowerings, lowering
from jax2onnx._verification import LineError, Verification
from jax2onnx._verify import verify
from jax2onnx.errors import InternalError, InvalidInputError, Jax2OnnxError, UnsupportedError

if TYPE_CHECKING:
    from jax2onnx._core import LoweringContext, Value
    from jax2onnx._source_map import SourceMap

__all__ = [
    "InternalError",
    "InvalidInputError",
    "Jax2OnnxError",
    "LineError",
    "LoweringContext",
    "SourceMap",
    "UnsupportedError",
    "Value",
    "Verification",
    "allclose",
    "explain_errors",
    "local_lowerings",
    "lowering",
    "onnx_function",
    "stacktrace_metadata",
    "to_onnx",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "SourceMap":
        from jax2onnx._source_map import SourceMap

        return SourceMap
    if name in ("LoweringContext", "Value"):
        # The types that rules are given. Loading the compiled part takes time.
        from jax2onnx import _core

        return getattr(_core, name)
    if name == "__version__":
        from importlib.metadata import version

        return version("jax2onnx")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
