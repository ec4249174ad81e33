"""Converts JAX functions to ONNX models in which every node knows its line of Python."""

from jax2onnx._api import to_onnx
from jax2onnx.errors import InternalError, InvalidInputError, Jax2OnnxError, UnsupportedError

__all__ = ["InternalError", "InvalidInputError", "Jax2OnnxError", "UnsupportedError", "to_onnx"]


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version

        return version("jax2onnx")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
