"""Random JAX programs, run by JAX and by ONNX Runtime: `python -m fuzz --help`."""
