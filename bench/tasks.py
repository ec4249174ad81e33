"""One measurement in a separate process: `python tasks.py TASK [ARGUMENT …]` prints JSON.

The tasks use only the public API, so they can measure any package named `jax2onnx`.
"""

import functools
import gc
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from peak import Peak

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


def _interleaved(measures, rounds=15):
    """Returns the CPU seconds of several functions, each called once per repetition, after a
    warm-up.

    Other load on the machine affects all functions of a repetition.
    """
    seconds = {name: [] for name in measures}
    for measure in measures.values():
        measure()
    for _ in range(rounds):
        for name, measure in measures.items():
            gc.collect()
            start = time.process_time()
            measure()
            seconds[name].append(time.process_time() - start)
    return seconds


def _ratio(numbers, others):
    """Returns the median ratio of measurements from the same repetitions."""
    return statistics.median(one / other for one, other in zip(numbers, others, strict=True))


def _model(name):
    """Returns a model of `tests/models` by name, with optional sizes: `nnx/gpt:layers=12`.

    A number is a GPT with that many layers.
    """
    if name.isdigit():
        from models.nnx import gpt

        return gpt.gpt(layers=int(name))
    from models import catalogue

    name, _, sizes = name.partition(":")
    pairs = (size.split("=") for size in sizes.split(",") if size)
    return catalogue.build(name, **{key: int(value) for key, value in pairs})


def _tracer(model, inputs):
    """Returns a function that traces the model from scratch each time."""
    import jax

    # A new function every time, because JAX would take a second trace of the same one from its
    # cache.
    def trace():
        jax.make_jaxpr(lambda *x: model(*x))(*inputs)

    try:
        trace()
    except ValueError:  # some NNX modules can be called only in the trace that created them
        from flax import nnx

        graph, state = nnx.split(model)
        return lambda: jax.make_jaxpr(lambda s, *x: nnx.merge(graph, s)(*x))(state, *inputs)
    return trace


def import_time():
    """Measures importing `to_onnx` after JAX, and lists unwanted modules that it pulls in."""
    import jax  # noqa: F401

    start = time.process_time()
    from jax2onnx import to_onnx  # noqa: F401

    seconds = time.process_time() - start
    heavy = ("flax", "equinox", "onnx", "onnx_ir", "onnxruntime")
    return {"seconds": seconds, "pulled_in": [name for name in heavy if name in sys.modules]}


def warm(name, details):
    """Measures conversion at each level of metadata, relative to a trace and to `off`."""
    from jax2onnx import to_onnx

    model, inputs = _model(name)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")

        def convert(detail):
            options = {} if detail == "off" else {"stacktrace_metadata": detail}
            to_onnx(model, list(inputs), return_mode="file", output_path=path, **options)

        measures = {"trace": _tracer(model, inputs)}
        measures |= {detail: functools.partial(convert, detail) for detail in details.split(",")}
        seconds = _interleaved(measures)
    return {
        "seconds": {name: statistics.median(runs) for name, runs in seconds.items()},
        "of_trace": {name: _ratio(runs, seconds["trace"]) for name, runs in seconds.items()},
        "of_off": {name: _ratio(runs, seconds["off"]) for name, runs in seconds.items()},
    }


def first_trace(name):
    """Measures the CPU time of importing JAX and of the first trace in a fresh process."""
    model, inputs = _model(name)  # creating the model does not count
    import jax

    start = time.process_time()
    jax.make_jaxpr(lambda *x: model(*x))(*inputs)
    return {"seconds": time.process_time() - start}


def first_conversion(name):
    """Measures the CPU time of the import and the first conversion in a fresh process."""
    model, inputs = _model(name)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        start = time.process_time()
        from jax2onnx import to_onnx

        to_onnx(model, list(inputs), return_mode="file", output_path=path)
        return {"seconds": time.process_time() - start}


def import_jax():
    """Measures the CPU time of `import jax`."""
    start = time.process_time()
    import jax  # noqa: F401

    return {"seconds": time.process_time() - start}


def _clear(folder):
    for file in Path(folder).iterdir():
        file.unlink()


def memory(megabytes):
    """Measures peak extra memory and speed of exporting this many megabytes of weights."""
    import jax
    import jax.numpy as jnp

    from jax2onnx import to_onnx

    side, layers = 4096, max(1, int(megabytes) // 64)
    weights = [jnp.full((side, side), 1.0 + i, jnp.float32) for i in range(layers)]

    def model(x):
        for weight in weights:
            x = x @ weight
        return x

    size = sum(weight.nbytes for weight in weights)
    spec = [jax.ShapeDtypeStruct((1, side), jnp.float32)]
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        small = os.path.join(folder, "small.onnx")
        to_onnx(lambda x: x + 1, spec, return_mode="file", output_path=small)
        gc.collect()
        path = os.path.join(folder, "model.onnx")
        extra, seconds, plain = [], [], []

        def export():
            watch = Peak()
            watch.start()
            start = time.perf_counter()
            to_onnx(model, spec, return_mode="file", output_path=path)
            seconds.append(time.perf_counter() - start)
            extra.append(watch.stop())

        def write():
            start = time.perf_counter()
            with open(path, "wb", buffering=0) as file:
                file.writelines(memoryview(jax.device_get(weight)).cast("B") for weight in weights)
                os.fsync(file.fileno())
            plain.append(time.perf_counter() - start)

        # Each function runs after itself and after the other, and the best time counts. Other load
        # on the machine, such as freeing memory for its cache, only adds to the time.
        for measure in (write, export, export, write) * 3:
            measure()
            _clear(folder)
    return {
        "bytes": size,
        "extra": max(extra),
        "seconds": min(seconds),
        "plain_seconds": min(plain),
    }


def checkpoint(megabytes, weights):
    """Measures peak extra memory and speed of exporting this many megabytes from a safetensors
    file, unchanged (`keep`) or in another format.
    """
    import jax
    import jax.numpy as jnp

    from jax2onnx import to_onnx

    side = 4096
    size, layers = 2 * side * side, max(1, int(megabytes) // 32)
    params = [jax.ShapeDtypeStruct((side, side), jnp.bfloat16) for _ in range(layers)]

    def model(x):
        for weight in params:
            x = x @ weight.astype(jnp.float32)
        return x

    offsets = [(i * size, (i + 1) * size) for i in range(layers)]
    entries = {
        str(i): {"dtype": "BF16", "shape": [side, side], "data_offsets": offset}
        for i, offset in enumerate(offsets)
    }
    header = json.dumps(entries).encode()
    spec = [jax.ShapeDtypeStruct((1, side), jnp.float32)]
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        source = os.path.join(folder, "weights.safetensors")
        with open(source, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.writelines(bytes([i % 60, 60]) * (size // 2) for i in range(layers))
        small, path = (os.path.join(folder, name) for name in ("small.onnx", "model.onnx"))
        to_onnx(lambda x: x + 1, spec, return_mode="file", output_path=small)
        gc.collect()
        extra, seconds, plain = [], [], []
        options = {} if weights == "keep" else {"weights": weights}

        def export():
            watch = Peak()
            watch.start()
            start = time.perf_counter()
            to_onnx(model, spec, checkpoint=source, return_mode="file", output_path=path, **options)
            seconds.append(time.perf_counter() - start)
            extra.append(watch.stop())

        def copy():
            start = time.perf_counter()
            with open(source, "rb", buffering=0) as one, open(path, "wb", buffering=0) as other:
                shutil.copyfileobj(one, other, 4 << 20)
                os.fsync(other.fileno())
            plain.append(time.perf_counter() - start)

        for measure in (copy, export, export, copy) * 2:
            measure()
    return {
        "bytes": size * layers,
        "extra": max(extra),
        "seconds": min(seconds),
        "plain_seconds": min(plain),
    }


TASKS = {
    task.__name__: task
    for task in (import_jax, import_time, warm, first_trace, first_conversion, memory, checkpoint)
}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
