"""Runs the models of a folder in another runtime, for `test_runtimes.py`.

    PYTHONPATH=build/runtimes/openvino python tests/harness/in_runtime.py openvino FOLDER

Operands are in `NAME.in.npz` beside `NAME.onnx`. Results go to `NAME.out.npz`, messages of
failures to `NAME.error`. Models that have either are skipped, so that a run can go on after a
crash. The last line of the output is the version of the runtime.
"""

import importlib.metadata
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Sequence[np.ndarray[Any, Any]]


def in_onnxruntime(path: Path, operands: dict[str, Any]) -> Arrays:
    import onnxruntime as ort

    ort.set_default_logger_severity(3)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [operand.name for operand in session.get_inputs()]
    results: Arrays = session.run(None, {name: operands[name] for name in names})
    return results


def in_openvino(path: Path, operands: dict[str, Any]) -> Arrays:
    import openvino

    # Some CPUs compute in bfloat16 unless told otherwise.
    options = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(path, "CPU", options)
    results = compiled([*operands.values()])
    return [results[output] for output in compiled.outputs]


def in_tract(path: Path, operands: dict[str, Any]) -> Arrays:
    import tract

    runnable = tract.onnx().load(path).into_model().into_runnable()
    return [result.to_numpy() for result in runnable.run([*operands.values()])]


def in_iree(path: Path, operands: dict[str, Any]) -> Arrays:
    from iree import runtime
    from iree.compiler import compile_file

    with tempfile.TemporaryDirectory() as folder:
        text = f"{folder}/model.mlir"
        importer = [sys.executable, "-m", "iree.compiler.tools.import_onnx", path, "-o", text]
        done = subprocess.run(importer, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        code = compile_file(text, target_backends=["llvm-cpu"], input_type="onnx")
    config = runtime.Config("local-task")
    module = runtime.VmModule.copy_buffer(config.vm_instance, code)
    bound = runtime.load_vm_module(module, config)
    # The function is called like the graph.
    name = next(name for name in module.function_names if not name.endswith(("$async", "__init")))
    results = getattr(bound, name)(*operands.values())
    results = results if isinstance(results, list | tuple) else [results]
    return [result.to_host() for result in results]


# The types of operands that MNN computes in others.
IN_MNN = {"bool": np.int32, "int64": np.int32, "float16": np.float32}


def in_mnn(path: Path, operands: dict[str, Any]) -> Arrays:
    # The command `mnnconvert` would install packages.
    import _tools
    from MNN import expr, nn

    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/model.mnn"
        _tools.mnnconvert(
            ["mnnconvert", "-f", "ONNX", "--modelFile", str(path), "--MNNModel", file]
        )
        module = nn.load_module_from_file(file, [*operands], [], shape_mutable=True)
    variables = []
    for operand in operands.values():
        known = operand.astype(IN_MNN.get(operand.dtype.name, operand.dtype))
        dtype = expr.int if known.dtype == np.int32 else expr.float
        variables.append(expr.placeholder(list(known.shape), expr.NCHW, dtype))
        variables[-1].write(known)
    results = module.forward(variables)
    if not results:
        raise RuntimeError("there are no results")
    return [np.array(result.read()) for result in results]


# The types of operands that rten computes in others.
IN_RTEN = {"int64": np.int32, "bool": np.int32, "float16": np.float32}


def in_rten(path: Path, operands: dict[str, Any]) -> Arrays:
    # `tests/harness/rten` is the program.
    with tempfile.TemporaryDirectory() as folder:
        for number, operand in enumerate(operands.values()):
            known = operand.astype(IN_RTEN.get(operand.dtype.name, operand.dtype))
            np.save(f"{folder}/{number}.in.npy", known)
        program = os.environ["RUN_IN_RTEN"]
        done = subprocess.run([program, path, folder], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        results = sorted(Path(folder).glob("*.out.npy"), key=lambda p: int(p.name.split(".")[0]))
        return [np.load(result) for result in results]


RUN: dict[str, Callable[[Path, dict[str, Any]], Arrays]] = {
    "onnxruntime": in_onnxruntime,
    "openvino": in_openvino,
    "tract": in_tract,
    "iree": in_iree,
    "mnn": in_mnn,
    "rten": in_rten,
}


def main(runtime: str, folder: Path) -> None:
    for path in sorted(folder.glob("*.onnx")):
        error, result = path.with_suffix(".error"), path.with_suffix(".out.npz")
        if error.exists() or result.exists():
            continue
        error.write_text("the process died")
        try:
            np.savez(result, *RUN[runtime](path, dict(np.load(path.with_suffix(".in.npz")))))
            error.unlink()
        # Panics of Rust are no exceptions of the usual kind.
        except BaseException as problem:
            error.write_text(f"{type(problem).__name__}: {problem}")
    package = {"iree": "iree-base-compiler", "mnn": "MNN"}.get(runtime, runtime)
    if runtime != "rten":
        print(importlib.metadata.version(package))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
