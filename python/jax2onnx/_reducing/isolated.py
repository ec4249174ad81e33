"""Runs a model in a process of its own: `python -m jax2onnx._reducing.isolated FOLDER LEVEL`.

The folder has `model.onnx` and `inputs.npz`. The process imports no JAX, so it starts quickly.
"""

import os
import sys


def main(folder: str, level: str) -> None:
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if level == "unoptimised":
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        os.path.join(folder, "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    with np.load(os.path.join(folder, "inputs.npz")) as file:
        session.run(None, {name: file[name] for name in file.files})


if __name__ == "__main__":
    main(*sys.argv[1:])
