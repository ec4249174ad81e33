"""Measures models on a GPU: `make bench GPU=1`.

Needs onnxruntime with its CUDA provider, and JAX with CUDA; torch and torchvision for the
comparison with torch.onnx. Processes of their own export all models first. Then the forms of each
model run in turns in one process, with inputs and outputs on the device. A row per form has its
time in milliseconds, also divided by those of `jax.jit` and torch.onnx's model, the error against
float64 divided by `jax.jit`'s, the number of nodes on the CPU, of copies between host and device,
and the session's memory on the GPU. Rows are saved after each model, and no model begins after
`--seconds`.

    python bench/gpu.py [NAME[:SIZE=N,…] …] [--dtype float16] [--provider CPUExecutionProvider]

Another provider shows that the script runs; its figures say nothing about GPUs.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE.parent / "build"
MODELS = (
    "nnx/gpt:layers=12,width=768,heads=12,vocabulary=8000,length=512,batch=8",
    "nnx/resnet50:size=224,batch=32",
    "nnx/vit:batch=32,size=224,patch=16,width=768,heads=12,layers=12,classes=1000",
    "llama_step",
    "llama",
    "bert",
)
TORCH = "torch.onnx"


def build(name, stored, dtype=None):
    """Returns a model that computes in `dtype`, with parameters in `stored`, and its inputs."""
    import gpu_models
    import jax
    import jax.numpy as jnp
    from tasks import _model

    dtype = dtype or stored
    is_float = lambda x: hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)  # noqa: E731
    found = gpu_models.build(name, stored, dtype)
    if found is None:
        model, inputs = _model(name)
        found = cast(cast(model, stored), dtype), list(inputs)
    model, inputs = found
    small = lambda x: jnp.asarray(x, stored).astype(dtype) if is_float(x) else jnp.asarray(x)  # noqa: E731
    return model, jax.tree.map(small, inputs)


def cast(model, dtype):
    """Returns the module with its floats and its layers in `dtype`."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    is_float = lambda x: hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)  # noqa: E731
    graph, state = nnx.split(model)
    state = jax.tree.map(lambda x: x.astype(dtype) if is_float(x) else x, state)
    model = nnx.merge(graph, state)
    for _, part in nnx.iter_graph(model):
        # Layers remember the type that they were created with, and would promote their operands.
        if getattr(part, "dtype", None) is not None and isinstance(part, nnx.Module):
            part.dtype = jnp.dtype(dtype)
    return model


def forms_of(dtype):
    """Returns the options of each form by label."""
    forms = {"cuda": {"target": "cuda"}, "no target": {}}
    if dtype == "float32":
        forms["cuda, compute float16"] = {"target": "cuda", "compute": "float16"}
    return forms


def export(name, dtype, folder):
    """Writes the forms of a model to a folder, with a line for each that cannot be made."""
    from jax2onnx import to_onnx
    from jax2onnx.errors import Jax2OnnxError

    model, inputs = build(name, dtype)
    for label, options in forms_of(dtype).items():
        path = os.path.join(folder, f"{label}.onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                to_onnx(model, inputs, return_mode="file", output_path=path, **options)
            except Jax2OnnxError as error:
                print(f"{label}: {str(error).splitlines()[0]}", file=sys.stderr)


def export_by_torch(name, dtype, folder):
    """Writes torch.onnx's model of the same architecture to a folder."""
    import torch_models

    if dtype in ("float32", "float16"):
        path = os.path.join(folder, f"{TORCH}.onnx")
        torch_models.export(name, path, half=dtype == "float16")


def export_all(jobs, folder):
    """Exports models at once, and returns the folder of each by name and type."""
    folders = {job: os.path.join(folder, str(number)) for number, job in enumerate(jobs)}
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}

    def one(task):
        verb, job = task
        command = [sys.executable, __file__, verb, *job, folders[job]]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode or (done.stderr and verb == "--export"):
            print(f"{' '.join(job)} {verb}: {done.stderr.strip()[-300:]}", flush=True)

    for path in folders.values():
        os.mkdir(path)
    # The slowest first.
    tasks = [(verb, job) for verb in ("--export-by-torch", "--export") for job in jobs]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, tasks))
    return folders


def used_memory():
    """Returns the used memory of the first GPU in MB; `None` without one."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return int(done.stdout)


class Form:
    """A session of one form of a model, with everything bound to the device."""

    def __init__(self, path, inputs, results, provider, *, graph=False):
        import onnx
        import onnxruntime as ort

        self.path, self.provider = path, provider
        device = "cuda" if provider.startswith("CUDA") else "cpu"
        options = ort.SessionOptions()
        options.log_severity_level = 4
        before = used_memory()
        settings = {"enable_cuda_graph": "1"} if graph else {}
        self.session = ort.InferenceSession(path, options, providers=[(provider, settings)])
        if provider not in self.session.get_providers():
            raise RuntimeError(f"onnxruntime cannot load {provider}")
        self.binding = self.session.io_binding()
        self.inputs = [ort.OrtValue.from_dlpack(x) for x in inputs]
        for value, array in zip(self.session.get_inputs(), self.inputs, strict=True):
            self.binding.bind_ortvalue_input(value.name, array)
        # A captured graph writes to the same memory in each run.
        self.outputs = []
        for value, result in zip(self.session.get_outputs(), results, strict=True):
            kind = onnx.helper.np_dtype_to_tensor_dtype(result.dtype)
            array = ort.OrtValue.ortvalue_from_shape_and_type(result.shape, kind, device, 0)
            self.binding.bind_ortvalue_output(value.name, array)
            self.outputs.append(array)
        self.run()
        after = used_memory()
        self.memory = None if before is None or after is None else after - before

    def run(self):
        """Runs the model, and waits for the device."""
        self.session.run_with_iobinding(self.binding)
        self.binding.synchronize_outputs()

    def results(self):
        """Returns the results as arrays of NumPy."""
        import jax
        import numpy as np

        return [np.array(jax.dlpack.from_dlpack(x)) for x in self.outputs]

    def placement(self, folder):
        """Returns the nodes that ran on the CPU, and the copies that the provider inserted."""
        import onnx
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(folder, "profile")
        options.optimized_model_filepath = os.path.join(folder, "optimised.onnx")
        session = ort.InferenceSession(self.path, options, providers=[self.provider])
        binding = session.io_binding()
        for value, array in zip(session.get_inputs(), self.inputs, strict=True):
            binding.bind_ortvalue_input(value.name, array)
        for value in session.get_outputs():
            binding.bind_output(value.name)
        session.run_with_iobinding(binding)
        events = json.loads(Path(session.end_profiling()).read_text())
        providers = Counter(event.get("args", {}).get("provider") for event in events)
        optimised = onnx.load(options.optimized_model_filepath, load_external_data=False)
        copies = sum(node.op_type.startswith("Memcpy") for node in optimised.graph.node)
        return providers["CPUExecutionProvider"], copies


def error_of(results, exact):
    """Returns the largest error of a result, relative to its norm."""
    import numpy as np

    worst = 0.0
    for one, other in zip(results, exact, strict=True):
        difference = np.linalg.norm(np.asarray(one).astype(np.float64) - other)
        worst = max(worst, float(difference / max(np.linalg.norm(other), 1e-30)))
    return worst


def exact_results(name, dtype):
    """Returns the results in float64 of a model whose parameters have the type `dtype`."""
    import jax
    import numpy as np
    import speed

    with jax.enable_x64(True):
        model, inputs = on_host(name, dtype, "float64")
        results = jax.tree.leaves(speed._jitted(model, jax.device_put(inputs))())
        return [np.asarray(x).astype(np.float64) for x in results]


def on_host(*arguments):
    """Builds a model without the device, as the processes that export it do."""
    import jax

    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        model, inputs = build(*arguments)
    return model, jax.tree.map(lambda x: jax.device_put(x, jax.devices()[0]), inputs)


def measure(name, dtype, provider, folder):
    """Returns a row per form of one model, whose forms are in a folder."""
    import jax
    import numpy as np
    import speed

    model, inputs = on_host(name, dtype)
    arrays = jax.tree.leaves(inputs)
    jitted = speed._jitted(model, inputs)
    results = jax.tree.leaves(jitted())
    exact = exact_results(name, dtype)
    own = error_of(map(np.asarray, results), exact)
    forms, failed, placements = {}, {}, {}
    for label in (*forms_of(dtype), TORCH):
        path = os.path.join(folder, f"{label}.onnx")
        if not os.path.exists(path):
            continue
        sessions = {label: {}}
        if label.startswith("cuda"):
            sessions[f"{label}, CUDA graph"] = {"graph": True}
        for shown, options in sessions.items():
            try:
                forms[shown] = Form(path, arrays, results, provider, **options)
                if not options:
                    placements[shown] = forms[shown].placement(folder)
            except Exception as error:  # a form that does not run is a result
                failed[shown] = str(error).splitlines()[0]
    seconds = speed._in_turns({"jit": jitted, **{k: form.run for k, form in forms.items()}})
    known = {"model": name.partition(":")[0], "dtype": dtype}
    rows = []
    for label, times in seconds.items():
        row = known | {"form": label, "ms": 1000 * statistics.median(times)}
        for other in ("jit", TORCH):
            if other in seconds and other != label:
                pairs = zip(times, seconds[other], strict=True)
                row[f"of_{other}"] = statistics.median(one / two for one, two in pairs)
        if label in forms:
            row["memory_mb"] = forms[label].memory
            if label != TORCH:  # it has other weights
                row["error"] = error_of(forms[label].results(), exact)
                if "compute" not in label:
                    row["error_of_jit"] = row["error"] / max(own, 1e-30)
        if label in placements:
            row["on_cpu"], row["copies"] = placements[label]
        rows.append(row)
    jax.clear_caches()
    return rows + [known | {"form": k, "failed": v} for k, v in failed.items()]


def show(row):
    """Prints one row."""
    label = f"{row['model']} {row['dtype']} {row['form']}"
    if "failed" in row:
        print(f"{label:<50} does not run: {row['failed']}", flush=True)
        return
    line = f"{label:<50} {row['ms']:8.3f} ms"
    for other in ("jit", TORCH):
        ratio = row.get(f"of_{other}")
        line += " " * 18 if ratio is None else f" {ratio:6.2f} × {other:9}"
    if "error" in row:
        line += f" error {row['error']:.1e}"
    if "error_of_jit" in row:
        line += f", {row['error_of_jit']:.2f} × jit's"
    if "on_cpu" in row:
        line += f", {row['on_cpu']} on the CPU, {row['copies']} copies"
    if row.get("memory_mb") is not None:
        line += f", {row['memory_mb']} MB"
    print(line, flush=True)


def main():
    """Measures, prints and saves."""
    if sys.argv[1:2] in (["--export"], ["--export-by-torch"]):
        sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
        (export if sys.argv[1] == "--export" else export_by_torch)(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=MODELS, metavar="NAME[:SIZE=N,…]")
    parser.add_argument("--dtype", nargs="+", default=["float32", "float16"])
    parser.add_argument("--provider", default="CUDAExecutionProvider")
    parser.add_argument("--seconds", type=float, default=450)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
    import jax
    import onnxruntime as ort

    if options.provider not in ort.get_available_providers():
        sys.exit(f"bench: onnxruntime {ort.__version__} has no {options.provider}")
    if options.provider.startswith("CUDA"):
        ort.preload_dlls()  # NVIDIA's libraries, if they are packages of Python
    device = jax.devices()[0]
    print(f"{device.device_kind}, onnxruntime {ort.__version__}, JAX {jax.__version__}", flush=True)
    run = {
        "device": device.device_kind,
        "date": time.strftime("%Y-%m-%d"),
        "versions": {"onnxruntime": ort.__version__, "jax": jax.__version__},
        "rows": (rows := []),
    }
    BUILD.mkdir(exist_ok=True)
    jobs = [(name, dtype) for name in options.models for dtype in options.dtype]
    with tempfile.TemporaryDirectory() as folder:
        folders = export_all(jobs, folder)
        print(f"exported, {end - time.monotonic():.0f} seconds are left", flush=True)
        for name, dtype in jobs:
            known = {"model": name.partition(":")[0], "dtype": dtype, "form": "all"}
            try:
                if time.monotonic() > end:
                    raise TimeoutError("no time is left")
                measured = measure(name, dtype, options.provider, folders[name, dtype])
            except Exception as error:  # the others are measured nevertheless
                measured = [known | {"failed": str(error).splitlines()[0]}]
            for row in measured:
                show(row)
            rows += measured
            (BUILD / "bench-gpu.json").write_text(json.dumps(run, indent=1) + "\n")


if __name__ == "__main__":
    main()
