"""Measures the speed of exported models: onnxruntime's time divided by that of `jax.jit`.

    python speed.py export NAME FILE   a model of tests/models, by the installed jax2onnx
    python speed.py torch NAME FILE    the same architecture, by torch.onnx
    python speed.py run NAME THREADS [LABEL=FILE …]

`run` exports the model, and runs it, `jax.jit` and the given files in turn, in one process on as
many CPUs as it has threads. Each command prints JSON.
"""

import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
ROUNDS = 12
# The minimum duration of a measurement in seconds.
SECONDS = 0.05


def export(name, path):
    """Exports a model with the installed package named jax2onnx."""
    from tasks import _model

    from jax2onnx import to_onnx

    model, inputs = _model(name)
    to_onnx(model, list(inputs), return_mode="file", output_path=path)
    return {"path": path}


def torch(name, path):
    """Exports a model of the same architecture with torch.onnx, if torch is installed."""
    import torch_models

    return {"path": path if torch_models.export(name, path) else None}


def _pin(threads):
    """Restricts this process to `threads` CPUs. Must be called before JAX is imported."""
    flags = os.environ.get("XLA_FLAGS", "")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    if threads == 1:
        flags += " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["XLA_FLAGS"] = flags


def _session(path, threads):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _runner(path, threads, arrays):
    """Returns a function that runs the model in a file."""
    session = _session(path, threads)
    names = [value.name for value in session.get_inputs()]
    feeds = dict(zip(names, arrays, strict=True))
    return lambda: session.run(None, feeds)


def _node_counts(path, folder):
    """Counts the nodes of the main graph, as exported and as optimised by onnxruntime."""
    import onnx
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = os.path.join(folder, "optimised.onnx")
    ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    files = (path, options.optimized_model_filepath)
    return [len(onnx.load(file, load_external_data=False).graph.node) for file in files]


def _jitted(model, inputs):
    """Returns the compiled function, applied to inputs on the device."""
    import jax

    with contextlib.suppress(ImportError):
        from flax import nnx

        if isinstance(model, nnx.Module):
            graph, state = nnx.split(model)
            # Taking the state apart in each call would count as time of the model.
            leaves, tree = jax.tree.flatten(state)
            leaves = jax.device_put(leaves, jax.devices()[0])
            merged = jax.jit(lambda s, *x: nnx.merge(graph, tree.unflatten(s))(*x))
            return lambda: jax.block_until_ready(merged(leaves, *inputs))
    compiled = jax.jit(lambda *x: model(*x))
    return lambda: jax.block_until_ready(compiled(*inputs))


def run(name, threads, *others):
    """Returns the nodes and times of each form of a model."""
    threads = int(threads)
    _pin(threads)
    import jax
    import numpy as np
    from tasks import _model

    model, inputs = _model(name)
    inputs = jax.device_put(inputs)
    arrays = [np.asarray(x) for x in jax.tree_util.tree_leaves(inputs)]
    measures, nodes, failed = {"jit": _jitted(model, inputs)}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        own = export(name, os.path.join(folder, "own.onnx"))["path"]
        for label, path in [("ours", own), *(other.split("=", 1) for other in others)]:
            try:
                measure = _runner(path, threads, arrays)
                measure()
            except Exception as error:  # a failure is a result, unless it is ours
                if label == "ours":
                    raise
                failed[label] = str(error).splitlines()[0]
                continue
            measures[label] = measure
            nodes[label] = _node_counts(path, folder)
        seconds = _in_turns(measures)
    ratios = {
        label: statistics.median(a / b for a, b in zip(runs, seconds["jit"], strict=True))
        for label, runs in seconds.items()
    }
    medians = {label: statistics.median(runs) for label, runs in seconds.items()}
    return {"nodes": nodes, "of_jit": ratios, "seconds": medians, "failed": failed}


def _in_turns(measures):
    """Returns the seconds per call in each repetition. Other load affects whole repetitions."""
    repeats = {}
    for label, measure in measures.items():
        measure()
        start = time.perf_counter()
        measure()
        repeats[label] = max(1, round(SECONDS / max(time.perf_counter() - start, 1e-6)))
    seconds = {label: [] for label in measures}
    for _ in range(ROUNDS):
        for label, measure in measures.items():
            start = time.perf_counter()
            for _ in range(repeats[label]):
                measure()
            seconds[label].append((time.perf_counter() - start) / repeats[label])
    return seconds


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    task = {"export": export, "torch": torch, "run": run}[sys.argv[1]]
    print(json.dumps(task(*sys.argv[2:])))
