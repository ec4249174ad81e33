"""Measures how much of JAX can be exported: `make coverage`.

The corpus is the list of cases in JAX's wheel for testing its own exporters. Each case is exported,
run by ONNX Runtime and compared with JAX.
"""
