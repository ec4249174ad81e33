"""Finds the types in which onnxruntime's CPU provider cannot reduce an empty axis.

Known so far: unsigned products along an empty axis fail.
"""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
from measure_kernels import ELEMENT_TYPES, SILENT
from onnx import helper

NEWEST = 26


def fails(name: str) -> bool:
    """Returns `True` if a product runs, but not along an empty axis."""
    code, dtype = ELEMENT_TYPES[name]
    declared = [helper.make_tensor_value_info(v, code, [None, None]) for v in "aby"]
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    graph = helper.make_graph([node], "g", declared[:2], declared[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", NEWEST)], ir_version=13)
    options = ort.SessionOptions()
    options.log_severity_level = SILENT
    providers = ["CPUExecutionProvider"]
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=providers)
        session.run(None, {"a": np.ones((2, 1), dtype), "b": np.ones((1, 3), dtype)})
    except Exception:  # no kernel, or a type that NumPy lacks
        return False
    try:
        found = session.run(None, {"a": np.ones((2, 0), dtype), "b": np.ones((0, 3), dtype)})[0]
    except Exception:
        return True
    return not np.array_equal(found, np.zeros((2, 3), dtype))


def failing_types() -> dict[tuple[str, str], set[str]]:
    """Returns the types that cannot reduce an empty axis, by operator and variant."""
    ort.set_default_logger_severity(SILENT)
    return {("MatMul", ""): {name for name in ELEMENT_TYPES if fails(name)}}


if __name__ == "__main__":
    for (op, variant), bad in sorted(failing_types().items()):
        print(op, variant, *sorted(bad))
