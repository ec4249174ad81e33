"""Measures models on a GPU: `make bench GPU=1`.

Needs onnxruntime with its CUDA provider, and JAX with CUDA. Models run in turns in one process.
Inputs and outputs stay on the device. For each model and element type, a row per form says how long
a run takes in milliseconds and divided by `jax.jit`'s time, the largest difference from its results
divided by the largest result, how many nodes ran on the CPU, how many copies between host and
device the graph has, and how much memory of the GPU the session took.

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
import warnings
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE.parent / "build"
MODELS = (
    "nnx/gpt:layers=12,width=768,heads=12,vocabulary=8000,length=512,batch=8",
    "nnx/vit:batch=32,size=224,patch=16,width=768,heads=12,layers=12",
    "nnx/resnet50:size=224,batch=32",
    "nnx/gpt_step:capacity=1024,width=1024,heads=16",
    "nnx/unet:size=64",
    "nnx/rnn:length=128,width=256",
)


def cast(model, dtype):
    """Returns the model with its floats and its layers in `dtype`."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    if dtype == "float32":
        return model
    graph, state = nnx.split(model)
    is_float = lambda x: hasattr(x, "dtype") and x.dtype == jnp.float32  # noqa: E731
    state = jax.tree.map(lambda x: x.astype(dtype) if is_float(x) else x, state)
    model = nnx.merge(graph, state)
    for _, part in nnx.iter_graph(model):
        # Layers remember the type that they were created with, and would promote their operands.
        if getattr(part, "dtype", None) == jnp.float32 and isinstance(part, nnx.Module):
            part.dtype = jnp.dtype(dtype)
    return model


def export(model, inputs, name, dtype, folder):
    """Returns the paths of the model's forms by label, without those that cannot be made."""
    import torch_models

    from jax2onnx import to_onnx
    from jax2onnx.errors import InvalidInputError

    forms = {
        "cuda": {"target": "cuda"},
        "cuda, promises": {"target": "cuda", "assume": ["finite", "indices_in_range"]},
        "no target": {},
    }
    if dtype == "float32":
        forms["cuda, compute float16"] = {"target": "cuda", "compute": "float16"}
    paths = {}
    for number, (label, options) in enumerate(forms.items()):
        path = os.path.join(folder, f"{number}.onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                to_onnx(model, inputs, return_mode="file", output_path=path, **options)
            except InvalidInputError:  # no product can compute in float16
                continue
        paths[label] = path
    path = os.path.join(folder, "torch.onnx")
    if torch_models.export(name, path, half=dtype == "float16"):
        paths["torch.onnx"] = path
    return paths


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

    def difference(self, results):
        """Returns the largest difference from `results`, relative to the largest of them."""
        import jax
        import numpy as np

        worst = 0.0
        for array, result in zip(self.outputs, results, strict=True):
            expected = np.asarray(result).astype(np.float64)
            found = np.asarray(jax.dlpack.from_dlpack(array, copy=True)).astype(np.float64)
            scale = np.abs(expected).max(initial=1e-30)
            worst = max(worst, float(np.abs(found - expected).max(initial=0.0) / scale))
        return worst

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


def measure(name, dtype, provider):
    """Returns a row per form of one model."""
    import jax
    import jax.numpy as jnp
    import speed
    from tasks import _model

    model, inputs = _model(name)
    model = cast(model, dtype)
    is_float = lambda x: jnp.issubdtype(x.dtype, jnp.floating)  # noqa: E731
    inputs = jax.tree.map(lambda x: jnp.asarray(x, dtype if is_float(x) else None), list(inputs))
    arrays = jax.tree.leaves(jax.device_put(inputs))
    jitted = speed._jitted(model, inputs)
    results = jax.tree.leaves(jitted())
    with tempfile.TemporaryDirectory() as folder:
        forms, failed = {}, {}
        for label, path in export(model, inputs, name, dtype, folder).items():
            sessions = {label: {}}
            if label.startswith("cuda"):
                sessions[f"{label}, CUDA graph"] = {"graph": True}
            for shown, options in sessions.items():
                try:
                    forms[shown] = Form(path, arrays, results, provider, **options)
                except Exception as error:  # a form that does not run is a result
                    failed[shown] = str(error).splitlines()[0]
        runs = {"jit": jitted, **{k: form.run for k, form in forms.items()}}
        seconds = speed._in_turns(runs)
        rows = []
        for label, times in seconds.items():
            pairs = zip(times, seconds["jit"], strict=True)
            row = {"model": name.partition(":")[0], "dtype": dtype, "form": label}
            row["ms"] = 1000 * statistics.median(times)
            row["of_jit"] = statistics.median(own / jit for own, jit in pairs)
            if label in forms:
                if label != "torch.onnx":  # it has other weights
                    row["difference"] = forms[label].difference(results)
                row["on_cpu"], row["copies"] = forms[label].placement(folder)
                row["memory_mb"] = forms[label].memory
            rows.append(row)
    known = {"model": name.partition(":")[0], "dtype": dtype}
    return rows + [known | {"form": k, "failed": v} for k, v in failed.items()]


def show(row):
    """Prints one row."""
    label = f"{row['model']} {row['dtype']} {row['form']}"
    if "failed" in row:
        print(f"{label:<60} does not run: {row['failed']}", flush=True)
        return
    more = ""
    if "on_cpu" in row:
        memory = "" if row["memory_mb"] is None else f", {row['memory_mb']} MB"
        more = f"{row['on_cpu']} on the CPU, {row['copies']} copies{memory}"
        if "difference" in row:
            more += f", difference {row['difference']:.1e}"
    print(f"{label:<60} {row['ms']:8.3f} ms {row['of_jit']:6.2f}×  {more}", flush=True)


def main():
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=MODELS, metavar="NAME[:SIZE=N,…]")
    parser.add_argument("--dtype", nargs="+", default=["float32", "float16", "bfloat16"])
    parser.add_argument("--provider", default="CUDAExecutionProvider")
    options = parser.parse_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
    import jax
    import onnxruntime as ort

    if options.provider not in ort.get_available_providers():
        sys.exit(f"bench: onnxruntime {ort.__version__} has no {options.provider}")
    if options.provider.startswith("CUDA"):
        ort.preload_dlls()  # NVIDIA's libraries, if they are packages of Python
    device = jax.devices()[0]
    print(f"{device.device_kind}, onnxruntime {ort.__version__}, JAX {jax.__version__}")
    rows = []
    for name in options.models:
        for dtype in options.dtype:
            try:
                measured = measure(name, dtype, options.provider)
            except Exception as error:  # the others are measured nevertheless
                failed = {"form": "all", "failed": str(error).splitlines()[0]}
                measured = [{"model": name.partition(":")[0], "dtype": dtype} | failed]
            for row in measured:
                show(row)
                rows.append(row)
    BUILD.mkdir(exist_ok=True)
    (BUILD / "bench-gpu.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
