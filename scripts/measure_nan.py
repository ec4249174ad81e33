"""Finds float types in which onnxruntime's CPU provider loses NaN.

Known so far: maximum and minimum reductions may skip NaN, depending on its position; maximum and
minimum updates lose it; and the sign of a 16-bit NaN is 0.
"""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
from measure_kernels import ELEMENT_TYPES, SILENT
from onnx import TensorProto, helper, numpy_helper

TYPES = ["float16", "bfloat16", "float", "double"]
ELEMENTWISE = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSwish",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
]
BINARY = ["Add", "Div", "Max", "Min", "Mul", "Sub"]
REDUCTIONS = [
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
]
SCATTERS = [
    (op, how) for op in ("ScatterElements", "ScatterND") for how in ("add", "max", "min", "mul")
]
SHAPE = (7, 40)
NEWEST = 26


def session(op: str, name: str, operands: int, axis: int | None) -> ort.InferenceSession | None:
    """Builds a session that applies the operator and `IsNaN` to its result."""
    code = ELEMENT_TYPES[name][0]
    given = [helper.make_tensor_value_info(f"x{i}", code, SHAPE) for i in range(operands)]
    constants = [] if axis is None else [numpy_helper.from_array(np.array([axis]), "axes")]
    attrs = {} if axis is None else {"keepdims": 1}
    names = [value.name for value in [*given, *constants]]
    nodes = [
        helper.make_node(op, names, ["y"], **attrs),
        helper.make_node("Cast", ["y"], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("IsNaN", ["wide"], ["nan"]),
    ]
    return model(nodes, given, constants)


def model(nodes: list, given: list, constants: list) -> ort.InferenceSession | None:
    """Builds a session with the result `nan`; `None` if there is no kernel."""
    result = helper.make_empty_tensor_value_info("nan")
    graph = helper.make_graph(nodes, "g", given, [result], constants)
    imports = [helper.make_opsetid("", NEWEST)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=13)
    options = ort.SessionOptions()
    options.log_severity_level = SILENT
    try:
        return ort.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception:
        return None


def feed(name: str, array: np.ndarray) -> ort.OrtValue:
    code, dtype = ELEMENT_TYPES[name]
    array = array.astype(dtype)
    if name != "bfloat16":
        return ort.OrtValue.ortvalue_from_numpy(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), code)


def loses_nan(op: str, name: str, operands: int = 1, axis: int | None = None) -> bool:
    """Returns `True` if a NaN among numbers is missing from the result."""
    built = session(op, name, operands, axis)
    if built is None:
        return False
    rng = np.random.default_rng(0)
    for place in np.ndindex(SHAPE):
        arrays = [np.abs(rng.normal(size=SHAPE)) + 1 for _ in range(operands)]
        arrays[sum(place) % operands][place] = np.nan
        feeds = {f"x{i}": feed(name, array) for i, array in enumerate(arrays)}
        found = built.run_with_ort_values(["nan"], feeds)[0].numpy()
        if not np.broadcast_to(found, SHAPE)[place]:
            return True
    return False


def scatter_loses_nan(op: str, reduction: str, name: str) -> bool:
    """Returns `True` if a NaN is lost when a number updates it."""
    code, place = ELEMENT_TYPES[name][0], (1, 1) if op == "ScatterND" else (1,)
    given = [helper.make_tensor_value_info(x, code, [1]) for x in ("data", "updates")]
    indices = numpy_helper.from_array(np.zeros(place, np.int64), "indices")
    nodes = [
        helper.make_node(op, ["data", "indices", "updates"], ["y"], reduction=reduction),
        helper.make_node("Cast", ["y"], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("IsNaN", ["wide"], ["nan"]),
    ]
    built = model(nodes, given, [indices])
    if built is None:
        return False
    nan, number = feed(name, np.array([np.nan])), feed(name, np.array([1.0]))
    orders = [{"data": nan, "updates": number}, {"data": number, "updates": nan}]
    try:
        found = [built.run_with_ort_values(["nan"], feeds)[0].numpy() for feeds in orders]
    except Exception:  # some types are rejected only at run time
        return False
    return not np.all(found)


def nan_losers() -> dict[tuple[str, str], set[str]]:
    """Returns the float types that lose NaN, by operator and variant (see `measure_kernels`)."""
    ort.set_default_logger_severity(SILENT)
    found: dict[tuple[str, str], set[str]] = {}
    for name in TYPES:
        lost = [op for op in ELEMENTWISE if loses_nan(op, name)]
        lost += [op for op in BINARY if loses_nan(op, name, operands=2)]
        lost += [op for op in REDUCTIONS for axis in (0, 1) if loses_nan(op, name, axis=axis)]
        for op in lost:
            found.setdefault((op, ""), set()).add(name)
        for op, how in SCATTERS:
            if scatter_loses_nan(op, how, name):
                found.setdefault((op, how), set()).add(name)
    return found


if __name__ == "__main__":
    for (op, variant), lost in sorted(nan_losers().items()):
        print(op, variant, *sorted(lost))
