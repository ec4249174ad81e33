"""Programs that demonstrate bugs of ONNX Runtime.

Each runs in its own process, so JAX is not imported here.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import parser

FOLDER = Path(__file__).parents[2] / "crates/optimize/src/targets/onnxruntime/bugs/programs"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.onnxtxt"))


def sample(name: str) -> onnx.ModelProto:
    header = '<ir_version: 10, opset_import: ["" : 23]>\n'
    return parser.parse_model(header + (FOLDER / f"{name}.onnxtxt").read_text())


def results(name: str, *, optimised: bool) -> list[np.ndarray]:
    options = ort.SessionOptions()
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
    model = sample(name).SerializeToString()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    types = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": float}
    shapes = {
        v.name: [d if isinstance(d, int) else 0 for d in v.shape] for v in session.get_inputs()
    }
    feeds = {
        v.name: rng.normal(size=shapes[v.name]).astype(types[v.type]) for v in session.get_inputs()
    }
    return session.run(None, feeds)


def compare(name: str) -> None:
    plain, fast = results(name, optimised=False), results(name, optimised=True)
    for one, other in zip(plain, fast, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3)


if __name__ == "__main__":
    compare(sys.argv[1])
