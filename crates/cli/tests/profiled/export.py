"""Writes the models and profiles that the tests of the command line read, to `tests/data`.

Run from the root of the repository. Profiles are real ones, less what is not read of them.
"""

import json
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnxruntime

from jax2onnx import to_onnx

DATA = Path("crates/cli/tests/data")
sys.path[:0] = ["tests", str(DATA)]

from loops import loops  # noqa: E402

from models.nnx.mlp import mlp  # noqa: E402


def write(name: str, fn: Any, args: tuple[Any, ...], *, optimised: bool = False) -> None:
    path = DATA / f"{name}.onnx"
    to_onnx(
        fn,
        list(args),
        return_mode="file",
        output_path=str(path),
        stacktrace_metadata="sourcemap",
        source_text=True,
    )
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(DATA / name)
    if optimised:
        options.optimized_model_filepath = str(DATA / f"{name}.optimised.onnx")
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {i.name: np.asarray(arg) for i, arg in zip(session.get_inputs(), args, strict=True)}
    for _ in range(3):
        session.run(None, feeds)
    profile = Path(session.end_profiling())
    events = [compact(event) for event in json.loads(profile.read_text())]
    profile.unlink()
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    (DATA / f"{name}.profile.json").write_text(f"[\n{lines}\n]\n")


def compact(event: dict[str, Any]) -> dict[str, Any]:
    args = event["args"]
    kept = {key: args[key] for key in ("op_name", "provider", "node_index") if key in args}
    return {**event, "pid": 1, "tid": 1, "args": kept}


if __name__ == "__main__":
    model, inputs = mlp()
    write("mlp", model, inputs, optimised=True)
    write("loops", loops, (jnp.ones((3, 8)), jnp.int32(4)))
