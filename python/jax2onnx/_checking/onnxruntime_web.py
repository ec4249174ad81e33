"""Runs models with onnxruntime-web, in Node."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jax2onnx._checking.allclose import compare
from jax2onnx._checking.runtime import Runnable
from jax2onnx._export.options import Layout
from jax2onnx.errors import InvalidInputError

# The environment variable with the folder of the npm package, if Node does not find it.
PACKAGE = "ONNXRUNTIME_WEB"
_SCRIPT = os.path.join(os.path.dirname(__file__), "onnxruntime_web.mjs")


def allclose_onnxruntime_web(
    fn: Callable[..., Any],
    model: Any,
    inputs: Sequence[Any] = (),
    input_params: Mapping[str, Any] | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-5,
    *,
    enable_double_precision: bool = False,
    inputs_as_nchw: Layout = None,
    outputs_as_nchw: Layout = None,
) -> tuple[bool, str]:
    """Compares the outputs of a model in onnxruntime-web with the results of a function.

    The model runs in Node, in the package's WebAssembly build. The npm package is the one that Node
    finds from the working directory, or the folder in the environment variable `ONNXRUNTIME_WEB`.

    Args:
        fn: The function.
        model: The model: a path, an `onnx.ModelProto` or an `onnx_ir.Model`.
        inputs: As in `allclose`.
        input_params: As in `allclose`.
        rtol: The relative tolerance for floats.
        atol: The absolute tolerance for floats. Integers must be equal.
        enable_double_precision: Computes with 64-bit types, like an export with this option.
        inputs_as_nchw: As in the export.
        outputs_as_nchw: As in the export.

    Returns:
        `True` if all outputs are close, and a message that lists the differences.
    """
    runnable = Runnable(model)
    return compare(
        fn,
        runnable,
        lambda feeds: run(runnable.proto, feeds),
        inputs,
        input_params,
        rtol,
        atol,
        double=enable_double_precision,
        inputs_as_nchw=inputs_as_nchw,
        outputs_as_nchw=outputs_as_nchw,
    )


def run(proto: Any, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Runs a self-contained model on inputs in their order, and returns its outputs."""
    node = shutil.which("node")
    if node is None:
        raise InvalidInputError(
            "no-node", "node is not on PATH", help="install Node.js 20 or newer"
        )
    tensors = [
        {
            "type": str(array.dtype),
            "dims": list(array.shape),
            "data": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode(),
        }
        for array in feeds
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(proto.SerializeToString())
        given = {"folder": os.environ.get(PACKAGE), "model": path, "inputs": tensors}
        done = subprocess.run(
            [node, _SCRIPT], input=json.dumps(given), capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "Error" in line]
        what = lines[-1].strip() if lines else done.stderr.strip()
        missing = "onnxruntime-web" in what and "Cannot find" in what
        advice = 'export the model with `target="onnxruntime-web"`'
        if missing:
            advice = f"run `npm install onnxruntime-web`, or set {PACKAGE} to its folder"
        raise InvalidInputError(
            "onnxruntime-web",
            f"onnxruntime-web cannot run the model: {what}",
            help=advice,
        )
    return [
        np.frombuffer(base64.b64decode(one["data"]), dtype=one["type"]).reshape(one["dims"])
        for one in json.loads(done.stdout)
    ]
