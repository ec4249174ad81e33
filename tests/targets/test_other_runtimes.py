"""Typical models in other runtimes, exported for them and without options."""

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import pytest

from harness.checking import TOLERANCE, as_tensor, quick
from jax2onnx import to_onnx
from jax2onnx.errors import UnsupportedError
from models.typical import BACKWARDS, COMPARISONS, MODELS, REPEATED, Typical

ROOT = Path(__file__).parents[2]
# The folder that `make runtimes` and `make rten` install runtimes in.
RUNTIMES = ROOT / "build" / "runtimes"
SCRIPT = ROOT / "tests" / "harness" / "in_runtime.py"
RTEN = RUNTIMES / "rten" / "bin" / ("run_in_rten.exe" if os.name == "nt" else "run_in_rten")

# Loops that end when a condition fails, which some runtimes do not have.
CONDITIONAL = {"Newton's method"}
REFUSED = {
    "openvino": set[str](),
    "rten": set[str](),
    "mnn": set[str](),
    "tract": CONDITIONAL,
    "iree": CONDITIONAL,
}
# Models that do not run unless the target is named.
UNNAMED = {
    "openvino": set[str](),
    # It has no `Scan`.
    "rten": {"state space"},
    # It has no operators of opset 23, no `Scan`, and ends at a `Loop` in a branch.
    "mnn": {"Llama", "state space", "LSTM and GRU (Equinox)"},
    # It has no `Loop`.
    "tract": {"LSTM and GRU (Equinox)", "differential equation"} | CONDITIONAL,
}
# It compiles for seconds, so that only models run which need other spellings.
IN_IREE = ("MLP", "LSTM and GRU (NNX)", "state space", "decoder of images", "differential equation")
# They approximate functions.
ROUGHLY = {"iree": 5e-4, "mnn": 1e-3}


def skip_without(runtime: str) -> None:
    """Skips a test if a runtime is not installed."""
    if runtime == "rten" and not RTEN.exists():
        pytest.skip("rten is not in build/runtimes")
    package = {"mnn": "MNN"}.get(runtime, runtime)
    if runtime != "rten" and not (RUNTIMES / runtime / package).is_dir():
        pytest.skip(f"{runtime} is not in build/runtimes")


@functools.cache
def built(name: str) -> tuple[Typical, list[Any]]:
    """Returns a model and JAX's results."""
    model = (MODELS | BACKWARDS | COMPARISONS | REPEATED)[name]()
    return model, jax.tree.leaves(quick(model.fn)(*model.args))


def export(name: str, path: Path, **options: Any) -> None:
    """Writes a model and its operands."""
    typical, _ = built(name)
    model = to_onnx(typical.fn, list(typical.types), **options)
    path.write_bytes(model.SerializeToString())
    leaves = [as_tensor(leaf) for leaf in jax.tree.leaves(typical.args)]
    names = [operand.name for operand in model.graph.input]
    np.savez(path.with_suffix(".in.npz"), **dict(zip(names, leaves, strict=True)))


def failures(
    runtime: str, folder: Path, files: dict[str, Path], roughly: float = 0
) -> dict[str, str]:
    """Runs the models of a folder, and returns the reasons of those that fail or differ."""
    environment = os.environ | {"RUN_IN_RTEN": str(RTEN)}
    if runtime != "rten":
        environment["PYTHONPATH"] = str(RUNTIMES / runtime)
    # Each crash ends a run.
    for _ in files:
        command = [sys.executable, str(SCRIPT), runtime, str(folder)]
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        if done.returncode == 0:
            break
    failed = {}
    for name, path in files.items():
        error = path.with_suffix(".error")
        problem = (
            error.read_text()
            if error.exists()
            else compare(name, path, roughly or ROUGHLY.get(runtime, 0))
        )
        if problem:
            failed[name] = problem
    return failed


def compare(name: str, path: Path, roughly: float) -> str | None:
    """Returns the difference between the results of a model and JAX's, if there is one."""
    results = np.load(path.with_suffix(".out.npz"))
    found, expected = [results[key] for key in results.files], built(name)[1]
    if len(found) != len(expected):
        return f"{len(found)} results in place of {len(expected)}"
    for one, other in zip(found, map(as_tensor, expected), strict=True):
        rtol, atol = TOLERANCE.get(other.dtype.name, (0, 0))
        atol = max(atol, roughly)
        if one.shape != other.shape:
            return f"{one.shape} in place of {other.shape}"
        if not np.allclose(one, other.astype(one.dtype), rtol, atol, equal_nan=True):
            return "other numbers"
    return None


@pytest.mark.slow
@pytest.mark.parametrize("runtime", REFUSED)
def test_models_run_in_the_runtime_they_are_exported_for(runtime: str, tmp_path: Path) -> None:
    skip_without(runtime)
    files, refused = {}, set()
    for number, name in enumerate(IN_IREE if runtime == "iree" else MODELS):
        path = tmp_path / f"{number}.onnx"
        try:
            export(name, path, target=runtime)
        except UnsupportedError:
            refused.add(name)
        else:
            files[name] = path
    assert refused == {name for name in REFUSED[runtime] if runtime != "iree"}
    assert failures(runtime, tmp_path, files) == {}


@pytest.mark.slow
@pytest.mark.parametrize("runtime", UNNAMED)
def test_most_models_run_in_other_runtimes_without_options(runtime: str, tmp_path: Path) -> None:
    skip_without(runtime)
    files = {}
    for number, name in enumerate(name for name in MODELS if name not in UNNAMED[runtime]):
        files[name] = tmp_path / f"{number}.onnx"
        export(name, files[name])
    assert failures(runtime, tmp_path, files) == {}


@pytest.mark.slow
@pytest.mark.parametrize("runtime", REFUSED)
def test_sequences_are_read_backwards(runtime: str, tmp_path: Path) -> None:
    skip_without(runtime)
    files = {name: tmp_path / f"{number}.onnx" for number, name in enumerate(BACKWARDS)}
    for name, path in files.items():
        export(name, path, target=runtime)
    assert failures(runtime, tmp_path, files) == {}


@pytest.mark.slow
@pytest.mark.parametrize("runtime", REFUSED)
def test_weights_of_eight_bits(runtime: str, tmp_path: Path) -> None:
    skip_without(runtime)
    path = tmp_path / "model.onnx"
    export("MLP", path, target=runtime, weights={"*.kernel": "int8"})
    model = onnx.load(path)
    assert "DequantizeLinear" in [node.op_type for node in model.graph.node]
    assert failures(runtime, tmp_path, {"MLP": path}, roughly=0.05) == {}


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["iree", "openvino", "rten", "tract"])
@pytest.mark.parametrize("named", [True, False])
def test_nan_is_compared_as_in_jax(runtime: str, named: bool, tmp_path: Path) -> None:
    skip_without(runtime)
    path = tmp_path / "model.onnx"
    export("comparisons of NaN", path, **({"target": runtime} if named else {}))
    assert failures(runtime, tmp_path, {"comparisons of NaN": path}) == {}


@pytest.mark.slow
@pytest.mark.parametrize("runtime", REFUSED)
def test_numbers_are_compared_as_in_jax(runtime: str, tmp_path: Path) -> None:
    skip_without(runtime)
    path = tmp_path / "model.onnx"
    export("comparisons of numbers", path, target=runtime)
    assert failures(runtime, tmp_path, {"comparisons of numbers": path}) == {}


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["iree", "rten"])
def test_updates_and_sorts_of_one_symbolic_size(runtime: str, tmp_path: Path) -> None:
    skip_without(runtime)
    files = {name: tmp_path / f"{number}.onnx" for number, name in enumerate(REPEATED)}
    for name, path in files.items():
        export(name, path, target=runtime)
    assert failures(runtime, tmp_path, files) == {}


@pytest.mark.parametrize("target", ["tract", "iree"])
def test_conditional_loops_are_an_error(target: Any) -> None:
    typical, _ = built("Newton's method")
    with pytest.raises(UnsupportedError, match="a fixed number of iterations"):
        to_onnx(typical.fn, list(typical.types), target=target)


def test_updates_in_loops_are_an_error_for_iree() -> None:
    def fn(x: jax.Array, i: jax.Array) -> jax.Array:
        zeros = jax.numpy.zeros(x.shape)
        return jax.lax.fori_loop(0, 3, lambda k, sums: sums + zeros.at[i].add(x * k), x)

    (size,) = jax.export.symbolic_shape("N")
    types = [jax.ShapeDtypeStruct((size,), dtype) for dtype in (np.float32, np.int32)]
    to_onnx(fn, types)
    with pytest.raises(UnsupportedError, match=r"numbers in place of its sizes\n.*\n.*zeros.at"):
        to_onnx(fn, types, target="iree")


def test_integer_products_are_an_error_for_rten() -> None:
    types = 2 * [jax.ShapeDtypeStruct((3, 3), np.int32)]
    with pytest.raises(UnsupportedError, match="rten cannot compute `MatMul` on i32"):
        to_onnx(jax.numpy.matmul, types, target="rten")


def test_random_numbers_are_an_error_for_openvino() -> None:
    def noisy(x: jax.Array, seed: jax.Array) -> jax.Array:
        return x + jax.random.normal(jax.random.key(seed), x.shape)

    types = [jax.ShapeDtypeStruct((3,), np.float32), jax.ShapeDtypeStruct((), np.int32)]
    to_onnx(noisy, types)
    with pytest.raises(UnsupportedError, match="random numbers have to be inputs of the model"):
        to_onnx(noisy, types, target="openvino")
