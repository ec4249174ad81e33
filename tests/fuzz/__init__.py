"""Random JAX programs, compared between JAX and ONNX Runtime: `python -m fuzz --help`."""
