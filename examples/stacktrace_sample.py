"""Exports a function with metadata on, runs the model, and compares it with JAX."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime

from jax2onnx import to_onnx

OUTPUT = Path("build/sandbox_stacktrace_sample.onnx")


def fn(x):
    """The function that is exported."""
    return jnp.sin(x) * 2.0


def main() -> None:
    """Exports, runs, compares."""
    path = to_onnx(
        fn,
        [jax.ShapeDtypeStruct((2,), jnp.float32)],
        return_mode="file",
        output_path=OUTPUT,
        stacktrace_metadata=True,
    )
    x = np.array([0.5, 2.0], dtype=np.float32)
    session = onnxruntime.InferenceSession(path)
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    expected = np.asarray(fn(x))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    print(f"exported     {path}")
    print(f"onnxruntime  {found.tolist()}")
    print(f"JAX          {expected.tolist()}\n")


if __name__ == "__main__":
    main()
