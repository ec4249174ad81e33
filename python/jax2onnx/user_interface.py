"""The functions of the package under the module name that some programs import them from."""

from jax2onnx import allclose, allclose_onnxruntime_web, onnx_function, to_onnx

__all__ = ["allclose", "allclose_onnxruntime_web", "onnx_function", "to_onnx"]
