"""Models of the catalogue, exported without options, in older releases of onnxruntime."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from harness.checking import as_tensor, assert_close, quick
from jax2onnx import to_onnx
from models import catalogue

ROOT = Path(__file__).parents[2]
# The folder that `make runtimes` installs releases in.
RUNTIMES = ROOT / "build" / "runtimes"
RELEASES = ("1.17", "1.19", "1.22")
# All frameworks produce the same operators.
MODELS = tuple(name for name in catalogue.NAMES if name.startswith("nnx/"))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    """Returns a folder with all models and their operands, and JAX's results."""
    folder = tmp_path_factory.mktemp("models")
    expected = {}
    for name in MODELS:
        fn, args = catalogue.build(name)
        model = to_onnx(fn, list(args))
        stem = name.replace("/", "_")
        (folder / f"{stem}.onnx").write_bytes(model.SerializeToString())
        leaves = [as_tensor(leaf) for leaf in jax.tree_util.tree_leaves(args)]
        names = [operand.name for operand in model.graph.input]
        np.savez(folder / f"{stem}.in.npz", **dict(zip(names, leaves, strict=True)))
        expected[stem] = jax.tree_util.tree_leaves(quick(fn)(*args))
    return folder, expected


@pytest.mark.parametrize("release", RELEASES)
def test_older_releases_run_the_catalogue(
    release: str, models: tuple[Path, dict[str, list[Any]]]
) -> None:
    runtime = RUNTIMES / release
    if not (runtime / "onnxruntime").is_dir():
        pytest.skip(f"onnxruntime {release} is not in build/runtimes")
    folder, expected = models
    script = str(ROOT / "tests" / "harness" / "in_runtime.py")
    environment = os.environ | {"PYTHONPATH": str(runtime)}
    done = subprocess.run(
        [sys.executable, script, "onnxruntime", str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{release}.")
    for stem, values in expected.items():
        results = np.load(folder / f"{stem}.out.npz")
        assert_close([results[key] for key in results.files], values)
