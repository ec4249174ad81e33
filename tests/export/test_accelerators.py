"""Weights on an accelerator are copied to the host one at a time, and no copy remains."""

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import psutil
import pytest

from jax2onnx import to_onnx

pytestmark = pytest.mark.skipif(
    jax.default_backend() == "cpu", reason="JAX has no accelerator on this machine"
)


def resident():
    return psutil.Process().memory_info().rss


@pytest.mark.parametrize("weights", [None, "float16", "int4"])
def test_the_host_keeps_no_copy(tmp_path, weights):
    side, layers = 4096, 16  # 1 GB
    keys = jax.random.split(jax.random.key(0), layers)
    params = [jax.random.normal(key, (side, side)) / 64 for key in keys]
    jax.block_until_ready(params)
    path = str(tmp_path / "m.onnx")

    def fn(x):
        for w in params:
            x = x @ w
        return x

    to_onnx(lambda x: x + 1, [(1, side)])
    before = resident()
    to_onnx(fn, [(1, side)], weights=weights, return_mode="file", output_path=path)
    assert all(w._npy_value is None for w in params)
    assert resident() - before < 250e6
    x = np.ones((1, side), np.float32)
    found = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(
        None, {"x": x}
    )[0]
    with jax.default_matmul_precision("highest"):
        expected = np.asarray(fn(jnp.asarray(x)))
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert error < {None: 1e-4, "float16": 5e-3, "int4": 0.8}[weights]
