"""Exports the models that the tests of the command line read: run it in this folder."""

import onnxruntime
from flax import nnx
from layers import Layers
from shared import Shared

from jax2onnx import to_onnx

LEVELS = {
    "map": {"stacktrace_metadata": "sourcemap"},
    "text": {"stacktrace_metadata": "sourcemap", "source_text": True},
    "minimal": {"stacktrace_metadata": "minimal"},
    "full": {"stacktrace_metadata": "full"},
    "beside": {"source_map": "beside.onnx.map"},
    "off": {},
}

model = Layers(nnx.Rngs(0))
for name, options in LEVELS.items():
    shapes = [(5, 4), (4, 3)]
    to_onnx(model, shapes, return_mode="file", output_path=f"{name}.onnx", **options)

to_onnx(
    Shared(nnx.Rngs(0)),
    [("B", 4), ("B", 4)],
    return_mode="file",
    output_path="shared.onnx",
    stacktrace_metadata="sourcemap",
)


def optimise(model: str, path: str) -> None:
    """Writes what onnxruntime makes of a model."""
    session = onnxruntime.SessionOptions()
    session.log_severity_level = 3
    session.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    session.optimized_model_filepath = path
    onnxruntime.InferenceSession(model, session, providers=["CPUExecutionProvider"])


optimise("map.onnx", "optimised.onnx")
optimise("shared.onnx", "shared.optimised.onnx")
