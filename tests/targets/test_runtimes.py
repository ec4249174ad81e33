"""Models of the catalogue, exported without options, in several releases of onnxruntime."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harness.checking import as_tensor, assert_close, quick
from jax2onnx import to_onnx
from models import catalogue

ROOT = Path(__file__).parents[2]
# The folder that `make runtimes` installs releases in.
RUNTIMES = ROOT / "build" / "runtimes"
NEWEST = "newest"
RELEASES = ("1.17", "1.19", "1.22", NEWEST)
# Frameworks produce much the same operators.
FRAMEWORKS = [
    pytest.param(name, marks=[] if name == "nnx" else pytest.mark.slow)
    for name in catalogue.FRAMEWORKS
]


@pytest.fixture(scope="module", params=FRAMEWORKS)
def models(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, list[Any]]]:
    """Returns a folder with a framework's models and their operands, and JAX's results."""
    pytest.importorskip(catalogue.FRAMEWORKS[request.param])
    folder = tmp_path_factory.mktemp("models")
    expected = {}
    for name in catalogue.NAMES:
        if not name.startswith(f"{request.param}/"):
            continue
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
def test_releases_run_the_catalogue(
    release: str, models: tuple[Path, dict[str, list[Any]]]
) -> None:
    environment = dict(os.environ)
    if release != NEWEST:
        environment["PYTHONPATH"] = str(RUNTIMES / release)
        if not (RUNTIMES / release / "onnxruntime").is_dir():
            pytest.skip(f"onnxruntime {release} is not in build/runtimes")
    folder, expected = models
    # Models with results would be skipped.
    for result in folder.glob("*.out.npz"):
        result.unlink()
    script = str(ROOT / "tests" / "harness" / "in_runtime.py")
    done = subprocess.run(
        [sys.executable, script, "onnxruntime", str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert release == NEWEST or done.stdout.startswith(f"{release}.")
    for stem, values in expected.items():
        results = np.load(folder / f"{stem}.out.npz")
        for key, value in zip(results.files, map(as_tensor, values), strict=True):
            # Kernels of older releases add up in other orders.
            scale = np.abs(value).max() if value.dtype.kind == "f" and value.size else 1
            assert_close([results[key] / max(scale, 1)], [value / max(scale, 1)])


@pytest.mark.parametrize("release", ["1.17", "1.19", "1.22"])
def test_releases_run_what_is_made_for_them(release: Any, tmp_path: Path) -> None:
    """Releases up to 1.18 end at a norm without a bias, and those up to 1.22 sort no bytes."""
    if not (RUNTIMES / release / "onnxruntime").is_dir():
        pytest.skip(f"onnxruntime {release} is not in build/runtimes")

    def fn(x: jax.Array) -> list[jax.Array]:
        y = jax.nn.standardize(x, epsilon=1e-5)
        return [jnp.sin(y) + jnp.cos(y), jnp.argsort(x), jnp.sort(x) * y]

    x = np.random.default_rng(0).normal(size=(3, 2, 8)).astype(np.float32)
    target: Any = f"onnxruntime>={release}"
    model = to_onnx(fn, [("B", 2, 8)], target=target)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "model.in.npz", **{model.graph.input[0].name: x})
    script = str(ROOT / "tests" / "harness" / "in_runtime.py")
    environment = os.environ | {"PYTHONPATH": str(RUNTIMES / release)}
    command = [sys.executable, script, "onnxruntime", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = np.load(tmp_path / "model.out.npz")
    assert_close([results[key] for key in results.files], [as_tensor(y) for y in fn(x)])
