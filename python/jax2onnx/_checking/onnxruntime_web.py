"""Runs models with onnxruntime-web, in Node or in a Chrome browser."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from jax2onnx._checking import chrome
from jax2onnx._checking.allclose import compare
from jax2onnx._checking.runtime import Runnable
from jax2onnx._export.options import Layout
from jax2onnx.errors import InvalidInputError, bad_option

# The environment variable with the folder of the npm package, if it is not in `node_modules` of the
# working directory or a folder above.
PACKAGE = "ONNXRUNTIME_WEB"

# The environment variable with the runner, if none is given.
RUNNER = "JAX2ONNX_ONNXRUNTIME_WEB_RUNNER"

Runner = Literal["node", "chrome", "browser"]

_SCRIPT = os.path.join(os.path.dirname(__file__), "onnxruntime_web.mjs")
_BUNDLE = "ort.wasm.bundle.min.mjs"


@overload
def allclose_onnxruntime_web(
    fn: Callable[..., Any],
    model: Any,
    inputs: Sequence[Any] = ...,
    input_params: Mapping[str, Any] | None = ...,
    rtol: float = ...,
    atol: float = ...,
    *,
    enable_double_precision: bool = ...,
    inputs_as_nchw: Layout = ...,
    outputs_as_nchw: Layout = ...,
    node_command: str = ...,
    runner: Runner | None = ...,
) -> tuple[bool, str]: ...


@overload
def allclose_onnxruntime_web(
    onnx_model_path: Any,
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = ...,
    rtol: float = ...,
    atol: float = ...,
    *,
    inputs_as_nchw: Layout = ...,
    node_command: str = ...,
    runner: Runner | None = ...,
) -> tuple[bool, str]: ...


def allclose_onnxruntime_web(  # noqa: D417 (the arguments of both forms)
    *args: Any, node_command: str = "node", runner: Runner | None = None, **options: Any
) -> tuple[bool, str]:
    """Compares the outputs of a model in onnxruntime-web with the results of a function, or with
    onnxruntime's.

    There are two forms: `allclose_onnxruntime_web(fn, model, inputs, …)` compares with a function,
    and `allclose_onnxruntime_web(onnx_model_path, inputs, …)` with onnxruntime in this process.

    The npm package is the one in `node_modules` of the working directory or a folder above, or the
    folder in the environment variable `ONNXRUNTIME_WEB`. The model runs in its WebAssembly build.

    Args:
        fn: The function.
        model: The model: a path, an `onnx.ModelProto` or an `onnx_ir.Model`.
        onnx_model_path: The model, in any of these forms.
        inputs: As in `allclose`.
        input_params: As in `allclose`.
        rtol: The relative tolerance for floats.
        atol: The absolute tolerance for floats. Integers must be equal.
        enable_double_precision: Computes with 64-bit types, like an export with this option.
        inputs_as_nchw: As in the export.
        outputs_as_nchw: As in the export.
        node_command: The name or path of Node.
        runner: `"node"`, or `"chrome"` for a headless Chrome or Chromium; `"browser"` is the same.
            If omitted, the environment variable `JAX2ONNX_ONNXRUNTIME_WEB_RUNNER` or `"node"`.

    Returns:
        `True` if all outputs are close, and a message that lists the differences.
    """
    runner = runner or os.environ.get(RUNNER, "").lower() or "node"  # type: ignore[assignment]
    if runner not in ("node", "chrome", "browser"):
        raise bad_option("runner", runner, ("node", "chrome", "browser"))

    node = node_command if runner == "node" else None
    if callable(options.get("fn", args[0] if args else None)):
        return _against_function(node, *args, **options)
    return _against_onnxruntime(node, *args, **options)


def _against_function(
    node: str | None,
    fn: Callable[..., Any] | None,
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
    runnable = Runnable(model)
    return compare(
        fn,
        runnable,
        lambda feeds: run(runnable.whole(), feeds, node),
        inputs,
        input_params,
        rtol,
        atol,
        double=enable_double_precision,
        inputs_as_nchw=inputs_as_nchw,
        outputs_as_nchw=outputs_as_nchw,
    )


def _against_onnxruntime(
    node: str | None,
    onnx_model_path: Any,
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-5,
    *,
    inputs_as_nchw: Layout = None,
) -> tuple[bool, str]:
    arrays = [x for x in (*inputs, *(input_params or {}).values()) if hasattr(x, "dtype")]
    double = any(np.asarray(value).dtype.itemsize == 8 for value in arrays)
    return _against_function(
        node,
        None,
        onnx_model_path,
        inputs,
        input_params,
        rtol,
        atol,
        enable_double_precision=double,
        inputs_as_nchw=inputs_as_nchw,
    )


def run(
    proto: Any, feeds: Sequence[np.ndarray], node_command: str | None = "node"
) -> list[np.ndarray]:
    """Runs a self-contained model on inputs in their order, and returns its outputs.

    Without a command for Node, the model runs in Chrome.
    """
    inputs = [
        {
            "type": str(array.dtype),
            "dims": list(array.shape),
            "data": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode(),
        }
        for array in feeds
    ]
    dist, model = _package() / "dist", proto.SerializeToString()
    if node_command is None:
        text, error = chrome.run_module(_SCRIPT, dist, _BUNDLE, model, json.dumps(inputs))
    else:
        text, error = _run_in_node(node_command, dist / _BUNDLE, model, inputs)
    if error:
        lines = [line for line in error.splitlines() if "Error" in line]
        what = lines[-1].strip() if lines else error.strip()
        raise InvalidInputError(
            "onnxruntime-web",
            f"onnxruntime-web cannot run the model: {what}",
            help='export the model with `target="onnxruntime-web"`',
        )
    return [
        np.frombuffer(base64.b64decode(one["data"]), dtype=one["type"]).reshape(one["dims"])
        for one in json.loads(text)
    ]


def _run_in_node(command: str, bundle: Path, model: bytes, inputs: Any) -> tuple[str, str]:
    """Returns the outputs as JSON, and an error or nothing."""
    node = shutil.which(command)
    if node is None:
        raise InvalidInputError(
            "no-node",
            f"{command} is not on PATH",
            help='install Node.js 20 or newer, or run the model in Chrome with `runner="chrome"`',
        )
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        Path(path).write_bytes(model)
        given = json.dumps({"bundle": str(bundle), "model": path, "inputs": inputs})
        done = subprocess.run(
            [node, _SCRIPT], input=given, capture_output=True, text=True, check=False
        )
    return done.stdout, done.stderr or "an unknown error" if done.returncode else ""


def _package() -> Path:
    """Returns the folder of the npm package."""
    if folder := os.environ.get(PACKAGE):
        candidates = [Path(folder).resolve()]
    else:
        here = Path.cwd()
        candidates = [up / "node_modules" / "onnxruntime-web" for up in (here, *here.parents)]
    for candidate in candidates:
        if (candidate / "dist" / _BUNDLE).is_file():
            return candidate
    raise InvalidInputError(
        "onnxruntime-web",
        f"onnxruntime-web is not in {candidates[0]}",
        help=f"run `npm install onnxruntime-web`, or set {PACKAGE} to its folder",
    )
