"""Measures speed and memory as ratios within one run: `make bench`.

The last table shows the speed of exported models: onnxruntime's time divided by that of `jax.jit`,
on one thread and on all threads.

`make bench REFERENCE=1` also measures the PyPI package of the same name on the same models, in
separate environments, with and without Equinox installed, and runs its models and, if torch is
installed, torch.onnx's beside ours.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import venv
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE.parent / "build"
sys.path.insert(0, str(HERE.parent / "tests"))

from models import catalogue  # noqa: E402

# The maximum cost of each level of metadata, relative to a conversion without metadata.
METADATA = {"minimal": 1.05, "full": 1.15, "sourcemap": 1.05}


def task(name, *arguments, python=sys.executable):
    """Runs one task of `tasks.py` in a fresh process."""
    command = [python, str(HERE / "tasks.py"), name, *map(str, arguments)]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"bench: {' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def median(name, *arguments, rounds=5, python=sys.executable):
    """Returns the median of a task's `seconds` over fresh processes."""
    runs = (task(name, *arguments, python=python)["seconds"] for _ in range(rounds))
    return statistics.median(runs)


# The models to run, with their sizes.
RUN = (
    "nnx/gpt:layers=12,width=256,heads=8,vocabulary=1000,length=128,batch=1",
    "nnx/gpt:layers=48,width=64,heads=4,vocabulary=1000,length=64,batch=1",
    "nnx/gpt_step:capacity=256,width=256",
    "nnx/vit:batch=1,size=224,patch=16,width=384,heads=6,layers=12",
    "nnx/resnet50:size=224",
    "equinox/gpt",
    "nnx/unet:size=64",
    "nnx/rnn:length=64,width=128",
    "nnx/moe",
    "nnx/denoiser",
    "nnx/flow",
    "nnx/ode",
)


class Table:
    """The measurements and their targets."""

    def __init__(self):
        self.rows = []

    def add(self, what, value, unit, target, *, at_least=False):
        """Adds one measurement; `target` is `None` if there is no target."""
        met = target is None or (value >= target if at_least else value <= target)
        goal = "" if target is None else f"{'≥' if at_least else '≤'} {target:g}{unit}"
        row = {"what": what, "value": value, "unit": unit, "target": target, "met": met}
        self.rows.append(row)
        mark = "" if target is None else ("ok" if met else "MISSED")
        print(f"{what:<64} {value:>9.3g}{unit:<3} {goal:<9} {mark}", flush=True)


def machine():
    """Returns the processor and the versions that a table of figures has to name."""
    names = re.findall(r"model name\s*: (.*)", _text("/proc/cpuinfo")) or [platform.processor()]
    packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("jax", "onnxruntime"))
    python = platform.python_version()
    return f"{names[0]}, {os.cpu_count()} CPUs, {platform.system()}, Python {python}, {packages}"


def _text(path):
    return Path(path).read_text() if os.path.exists(path) else ""


def reference_python(name, extras):
    """Returns the interpreter of an environment with the PyPI package."""
    folder = BUILD / f"venv-{name}"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        packages = ["jax2onnx", "flax", "onnx", "onnxruntime", *extras]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return str(python)


def measure(table, layers):
    """Takes all measurements of this package."""
    jax = median("import_jax")
    imported = task("import_time")
    seconds = statistics.median(task("import_time")["seconds"] for _ in range(5))
    table.add("import to_onnx after jax, CPU ms", 1000 * seconds, "", 60)
    table.add("optional packages that the import pulls in", len(imported["pulled_in"]), "", 0)
    for depth in layers:
        warm = task("warm", depth, ",".join(["off", *METADATA]))
        converted = warm["of_trace"]["off"]
        table.add(f"GPT {depth} layers: conversion ÷ trace alone", converted, "×", 1.2)
        for detail, target in METADATA.items():
            ratio = warm["of_off"][detail]
            table.add(f"GPT {depth} layers: {detail} metadata ÷ off", ratio, "×", target)
    depth = layers[0]
    first = median("first_conversion", depth) + jax
    trace = median("first_trace", depth) + jax
    table.add(f"GPT {depth} layers: first conversion ÷ first trace", first / trace, "×", 1.3)
    used = task("memory", 1024)
    table.add("1 GB of weights: extra memory", 100 * used["extra"] / used["bytes"], "%", 5)
    speed = used["plain_seconds"] / used["seconds"]
    table.add(
        "1 GB of weights: speed compared with a plain write", 100 * speed, "%", 80, at_least=True
    )
    for weights, slowest in (("keep", 1.3), ("int4", 3)):
        read = task("checkpoint", 1024, weights)
        what = f"1 GB from safetensors, {weights}"
        table.add(f"{what}: extra memory", read["extra"] / 1e6, "MB", 1000)
        ratio = read["seconds"] / read["plain_seconds"]
        table.add(f"{what}: time ÷ copying the file", ratio, "×", slowest)


def speed(*arguments, python=sys.executable, needed=True):
    """Runs `speed.py` in a fresh process. Exits on a failure, unless the run is not `needed`."""
    command = [python, str(HERE / "speed.py"), *map(str, arguments)]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    if needed:
        sys.exit(f"bench: {' '.join(command)}\n{done.stderr}")
    errors = [
        line for line in done.stderr.splitlines() if re.match(r"[\w.]+(Error|Exception)", line)
    ]
    return {"path": None, "why": errors[-1] if errors else f"exit status {done.returncode}"}


def measure_speed(table, names, *, reference):
    """Measures the speed of models beside those of other exporters, one process per model."""
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(names):
            others = []
            if reference:
                python = reference_python("reference-equinox", ["equinox"])
                makers = {
                    "the PyPI package": ("export", python),
                    "torch.onnx": ("torch", sys.executable),
                }
                for label, (how, python) in makers.items():
                    path = os.path.join(folder, f"{number}-{how}.onnx")
                    made = speed(how, name, path, python=python, needed=False)
                    if made["path"]:
                        others.append(f"{label}={path}")
                    elif "why" in made:
                        print(f"{name}: {label} does not export it: {made['why']}")
            for threads in sorted({1, len(os.sched_getaffinity(0))}):
                found = speed("run", name, threads, *others)
                for label, (nodes, run) in found["nodes"].items():
                    what = f"{name.partition(':')[0]}, {threads} threads, {label} ({nodes}→{run})"
                    table.add(f"{what} ÷ jit", found["of_jit"][label], "×", None)
                for label, why in found["failed"].items():
                    print(f"{name}: the model of {label} does not run: {why}")


def measure_models(table, names):
    """Measures the conversion time of models of `tests/models`, each in a separate process."""
    for name in names:
        warm = task("warm", name, "off")
        table.add(f"{name}: conversion, CPU ms", 1000 * warm["seconds"]["off"], "", None)
        table.add(f"{name}: conversion ÷ trace alone", warm["of_trace"]["off"], "×", None)


def compare(table, layers):
    """Measures the PyPI package on the same models, as multiples of this package's time."""
    own_first = median("first_conversion", layers[0])
    own_warm = {depth: task("warm", depth, "off")["seconds"]["off"] for depth in layers}
    for name, extras in (("reference", []), ("reference-equinox", ["equinox"])):
        python = reference_python(name, extras)
        label = "PyPI package, " + ("Equinox installed" if extras else "no Equinox")
        first = median("first_conversion", layers[0], rounds=3, python=python)
        table.add(f"{label}: first conversion, CPU s", first, "", None)
        table.add(f"{label}: first conversion ÷ ours", first / own_first, "×", None)
        for depth in layers:
            warm = task("warm", depth, "off", python=python)["seconds"]["off"]
            table.add(f"{label}: GPT {depth} layers ÷ ours", warm / own_warm[depth], "×", None)


def main():
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", action="store_true", help="measure the PyPI package too")
    parser.add_argument("--layers", type=int, nargs="+", default=[12, 48])
    parser.add_argument(
        "--models",
        nargs="+",
        metavar="NAME",
        choices=["all", *catalogue.NAMES],
        help="measure only these models of tests/models, such as nnx/vit; `all` for all of them",
    )
    parser.add_argument(
        "--speed",
        nargs="*",
        metavar="NAME[:SIZE=N,…]",
        help="measure only the speed of models: these, such as nnx/vit:layers=4, or a selection",
    )
    options = parser.parse_args()
    BUILD.mkdir(exist_ok=True)
    print(machine(), flush=True)
    table = Table()
    if options.speed is not None:
        measure_speed(table, options.speed or RUN, reference=options.reference)
    elif options.models:
        measure_models(table, catalogue.NAMES if "all" in options.models else options.models)
    else:
        measure(table, options.layers)
        measure_speed(table, RUN, reference=options.reference)
    if options.reference and options.speed is None:
        compare(table, options.layers)
    (BUILD / "bench.json").write_text(json.dumps(table.rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
