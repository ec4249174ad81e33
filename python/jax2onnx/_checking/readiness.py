"""`readiness` reports whether a model can be deployed to a runtime."""

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jax2onnx import _core
from jax2onnx._checking import onnxruntime_web
from jax2onnx._checking.runtime import Runnable, dtype_of, shape_text, sizes_of
from jax2onnx._export.target_names import Target
from jax2onnx.errors import InvalidInputError, bad_option

# The packages of runtimes that run a file.
_PACKAGES = {"iree": "iree.compiler", "openvino": "openvino", "tract": "tract"}

# The size of symbolic dimensions in a trial run.
_SIZE = 2


@dataclass(frozen=True)
class Check:
    """One requirement.

    Attributes:
        name: The requirement.
        ok: `True` if the model meets it.
        message: The reason why it does not, or nothing.
    """

    name: str
    ok: bool
    message: str = ""

    def __str__(self) -> str:
        return f"{'yes' if self.ok else 'NO '}  {self.name}" + f": {self.message}" * (not self.ok)


@dataclass(frozen=True)
class Readiness:
    """The report on a model.

    Attributes:
        target: The runtime.
        checks: All requirements.
        facts: Properties for a deployment: opsets, inputs, outputs, symbolic sizes, bytes.
    """

    target: str
    checks: tuple[Check, ...]
    facts: dict[str, Any]

    @property
    def ready(self) -> bool:
        """`True` if the model meets all requirements."""
        return all(check.ok for check in self.checks)

    def __str__(self) -> str:
        lines = [f"{'ready' if self.ready else 'not ready'} for {self.target}"]
        lines += [f"  {check}" for check in self.checks]
        lines += [f"  {name}: {value}" for name, value in self.facts.items()]
        return "\n".join(lines)


def readiness(model: Any, target: Target = "onnxruntime") -> Readiness:
    """Reports whether a runtime accepts and runs a model.

    The model is checked against ONNX's specification, its opset and IR version are compared with
    the newest that the target loads, and it is run once on zeros, with every symbolic dimension 2.
    onnxruntime-web runs as in `allclose_onnxruntime_web`, and OpenVINO, tract and IREE in their
    Python packages. The installed onnxruntime runs the model on the CPU for all other targets,
    which the facts of the report mention.

    Args:
        model: A path, an `onnx.ModelProto` or an `onnx_ir.Model`. The weights of a path may be in
            other files.
        target: The runtime: any target of `to_onnx`.

    Returns:
        The report, which is printed as text. `ready` is its result.
    """
    limits = _core.targets().get(target)
    if limits is None:
        raise bad_option("target", target, tuple(_core.targets()))
    runnable = Runnable(model)
    loads = f"{target} loads its opset and IR version"
    checks = [
        _checked("the model is valid", lambda: _validate(model, runnable)),
        _checked(loads, lambda: _load(runnable, target, limits)),
    ]
    runs_itself = target in _PACKAGES or target == "onnxruntime-web"
    name = target if runs_itself else "onnxruntime"
    checks.append(_checked(f"{name} loads and runs it", lambda: _try(runnable, name)))
    facts = dict(_facts(model, runnable))
    # onnxruntime's CPU provider stands for targets that need a device or another program.
    if not runs_itself and target != "any" and not target.startswith("onnxruntime"):
        facts["not run in"] = target
    return Readiness(target, tuple(checks), facts)


def _checked(name: str, run: Callable[[], None]) -> Check:
    try:
        run()
    except InvalidInputError as error:
        if error.code in ("no-node", "no-chrome", "no-package"):
            raise
        return Check(name, ok=False, message=_first_line(error))
    except Exception as error:  # every runtime has its own
        return Check(name, ok=False, message=_first_line(error))
    return Check(name, ok=True)


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _validate(model: Any, runnable: Runnable) -> None:
    import onnx

    path = isinstance(model, str | os.PathLike)
    onnx.checker.check_model(os.fspath(model) if path else runnable.proto, full_check=True)


def _try(runnable: Runnable, target: str) -> None:
    feeds = [
        np.zeros([_SIZE if n is None else n for n in sizes_of(value)], dtype_of(value))
        for value in runnable.inputs
    ]
    match target:
        case "onnxruntime":
            runnable.run(feeds)
        case "onnxruntime-web":
            onnxruntime_web.run(runnable.whole(), feeds)
        case _:
            _run_file(runnable, target, feeds)


def _load(runnable: Runnable, target: str, limits: _core.Target) -> None:
    proto = runnable.proto
    versions = [e.version for e in proto.opset_import if e.domain in ("", "ai.onnx")]
    found = max(versions, default=0)
    if found > limits.newest_opset:
        advice = f"export it with target={target!r}"
        raise ValueError(f"opset {found} is newer than {limits.newest_opset}; {advice}")
    if proto.ir_version > limits.newest_ir_version:
        raise ValueError(
            f"IR version {proto.ir_version} is newer than {limits.newest_ir_version}; export it "
            f"with target={target!r} and without `stacktrace_metadata`"
        )


def _run_file(runnable: Runnable, target: str, feeds: Sequence[np.ndarray]) -> None:
    """Runs a model in a runtime that reads files."""
    import onnx

    try:
        runtime = importlib.import_module(_PACKAGES[target])
    except ImportError as error:
        needed = "iree-base-compiler iree-base-runtime" if target == "iree" else target
        raise InvalidInputError(
            "no-package", f"{target} is not installed", help=f"pip install {needed}"
        ) from error
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(runnable.whole(), path)
        match target:
            case "openvino":
                runtime.Core().compile_model(path, "CPU")(list(feeds))
            case "tract":
                runtime.onnx().load(path).into_model().into_runnable().run(list(feeds))
            case _:
                _run_in_iree(runtime, path, feeds)


def _run_in_iree(compiler: Any, path: str, feeds: Sequence[np.ndarray]) -> None:
    text = f"{path}.mlir"
    importer = [sys.executable, "-m", "iree.compiler.tools.import_onnx", path, "-o", text]
    done = subprocess.run(importer, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1])
    code = compiler.compile_file(text, target_backends=["llvm-cpu"], input_type="onnx")
    runtime = importlib.import_module("iree.runtime")
    config = runtime.Config("local-task")
    module = runtime.VmModule.copy_buffer(config.vm_instance, code)
    bound = runtime.load_vm_module(module, config)
    # The function is called like the graph.
    names = (name for name in module.function_names if not name.endswith(("$async", "__init")))
    getattr(bound, next(names))(*feeds)


def _facts(model: Any, runnable: Runnable) -> Iterator[tuple[str, Any]]:
    proto = runnable.proto
    opsets = {entry.domain or "ai.onnx": entry.version for entry in proto.opset_import}
    yield "opsets", ", ".join(f"{domain} {version}" for domain, version in opsets.items())
    yield "IR version", proto.ir_version
    for name, values in (("inputs", runnable.inputs), ("outputs", runnable.outputs)):
        yield name, ", ".join(f"{v.name}: {dtype_of(v)}[{shape_text(v)}]" for v in values)
    sizes = {
        dim.dim_param
        for value in runnable.inputs
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    }
    yield "sizes that are known at run time", ", ".join(sorted(sizes)) or "none"
    if proto.functions:
        yield "functions", len(proto.functions)
    yield "bytes", _bytes(model, runnable)


def _bytes(model: Any, runnable: Runnable) -> int:
    """Returns the size of the model with the weights in other files."""
    if not isinstance(model, str | os.PathLike):
        return int(runnable.proto.ByteSize())
    return sum(os.path.getsize(file) for file in (os.fspath(model), *runnable.data_files()))
