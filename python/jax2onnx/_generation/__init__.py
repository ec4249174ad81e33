"""The folders that `jax2onnx.generation` writes: decoder caches and runtime configuration."""
