"""Writes the kernels of the targets `onnxruntime-web` and `webgpu`, and those on the GPU.

    python scripts/gen_web_table.py build/web/node_modules/onnxruntime-web

Needs node, a Chromium with WebGPU (SwiftShader will do) and the npm package (`make web`).

Every combination of an operator version and element types that onnxruntime runs is tried as a
one-node model: in the package's WebAssembly build, and in its WebGPU build, which lacks some types
and logs the placement of the node. Only differences from onnxruntime are written.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from gen_op_table import (
    BIT,
    KERNELS,
    LOADED,
    OLDEST,
    ROW,
    TARGETS,
    Runs,
    Schema,
    imports,
    known_runs,
    merge,
    runs_table,
    schemas,
    show_row,
)
from measure_kernels import (
    NOT_MEASURED,
    Sample,
    free_constraints,
    one_node_model,
    runs,
    samples,
    variant,
)

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from harness.onnxruntime_web import WebPage

HEADER = "//! Generated from onnxruntime-web {version} by `python scripts/gen_web_table.py`.\n\n"

NEWEST = f"""\
/// The newest opset that onnxruntime-web loads.
pub(super) const NEWEST: i64 = {LOADED};

"""

WASM = "The combinations that the WebAssembly build runs, for operators that lack types there."
WEBGPU = "The combinations that the WebGPU build runs on the CPU or the GPU, where it lacks types."
GPU = "The combinations that the WebGPU build runs on the GPU."

Case = tuple[str, str, tuple[int, ...], str]
"""The kind of a row, its variant, one mask per constraint, and a model in base64."""


def bindings(schema: Schema, rows: str, cases: list[Sample]) -> list[Case]:
    """Builds a model for every combination of types that onnxruntime runs."""
    version = schema.version()
    opset = max(version.since, OLDEST)
    found: list[Case] = []
    for kind, which, masks in ROW.findall(rows):
        sets = [int(mask, 16) for mask in masks.split(", ")]
        able = [s for s in cases if not which or variant(version.op, s.node) == which]
        able = [s for s in able if not runs(one_node_model(version, opset, s, {}))]
        if not able:
            continue
        sample = max(able, key=lambda s: len(free_constraints(version, s)))
        free = free_constraints(version, sample)
        names = [[name for name, bit in BIT.items() if sets[i] & bit] for i in free]
        for binding in itertools.product(*names):
            exact = list(sets)
            for index, name in zip(free, binding, strict=True):
                exact[index] = BIT[name]
            types = dict(zip(free, binding, strict=True))
            model = one_node_model(version, opset, sample, types).SerializeToString()
            found.append((kind, which, tuple(exact), base64.b64encode(model).decode()))
    return found


def in_webassembly(package: Path, models: list[str]) -> list[str]:
    """Returns `cpu` for each model that loads, and an empty string for the others."""
    script = Path(__file__).parent / "web_session.mjs"
    command = ["node", str(script), str(package)]
    done = subprocess.run(
        command, input="\n".join(models), capture_output=True, text=True, check=True
    )
    return done.stdout.split("\n")[: len(models)]


def in_webgpu_build(package: Path, models: list[str]) -> list[str]:
    """Returns `gpu` or `cpu` for each model that loads, and an empty string for the others."""
    found: list[str] = []
    with tempfile.TemporaryDirectory() as folder, WebPage(Path(folder), package, "webgpu") as page:
        for start in range(0, len(models), 200):
            found += page.call("placements", models[start : start + 200])
            print(f"{len(found)} of {len(models)}", file=sys.stderr, flush=True)
    return found


def show(cases: list[Case]) -> str:
    groups: dict[tuple[str, str], set[tuple[int, ...]]] = {}
    for kind, which, masks, _ in cases:
        groups.setdefault((kind, which), set()).add(masks)
    rows = [show_row(kind, v, row) for (kind, v), rows in groups.items() for row in merge(rows)]
    return ", ".join(rows)


def write(version: str, wasm: Runs, webgpu: Runs, gpu: Runs) -> None:
    """Writes the files of both targets."""
    header = HEADER.format(version=version)
    text = runs_table("KERNELS", WASM, wasm)
    (TARGETS / "onnxruntime_web/kernels.rs").write_text(header + imports(text) + NEWEST + text)
    text = runs_table("KERNELS", WEBGPU, webgpu) + "\n" + runs_table("ON_GPU", GPU, gpu)
    (TARGETS / "webgpu/kernels.rs").write_text(header + imports(text) + text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", type=Path, help="the folder of onnxruntime-web")
    package = parser.parse_args().package.resolve()
    known = known_runs(KERNELS.read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = samples()
    tried: dict[tuple[str, int], list[Case]] = {}
    for schema in schemas():
        name = schema.schema.name
        if schema.schema.since_version <= LOADED and name in cases and name not in NOT_MEASURED:
            found = bindings(schema, known.get(schema.key, ""), cases[name])
            if found:
                tried[schema.key] = found
    models = [case[3] for found in tried.values() for case in found]
    print(f"{len(models)} models of {len(tried)} operator versions", file=sys.stderr, flush=True)
    wasm = iter(in_webassembly(package, models))
    webgpu = iter(in_webgpu_build(package, models))
    runs_in_wasm, runs_in_webgpu, runs_on_gpu = Runs(), Runs(), Runs()
    for key, found in tried.items():
        placed = [(case, next(wasm), next(webgpu)) for case in found]
        for kernels, fits in (
            (runs_in_wasm, [case for case, cpu, _ in placed if cpu]),
            (runs_in_webgpu, [case for case, _, where in placed if where]),
        ):
            if len(fits) < len(found):
                kernels[key] = show(fits)
        if on_gpu := [case for case, _, where in placed if where == "gpu"]:
            runs_on_gpu[key] = show(on_gpu)
    version = json.loads((package / "package.json").read_text())["version"]
    write(version, runs_in_wasm, runs_in_webgpu, runs_on_gpu)


if __name__ == "__main__":
    main()
