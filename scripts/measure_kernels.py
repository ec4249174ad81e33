"""Finds the element types that onnxruntime's CPU provider really runs, by running one-node models.

The kernel list shows only what is registered. float16 works wherever there is a float32 kernel
(casts are inserted when the session is created), functions are expanded, and some registered
kernels reject a type at run time.

The samples are the operators' own examples in `onnx.backend.test`. For every sample that runs
unchanged, all bindings of the operator's type constraints are tried.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

# The maximum number of bindings. Operator versions with more of them are not tried.
MAX_BINDINGS = 5000
# The maximum number of samples per operator, chosen to differ in their attributes.
MAX_SAMPLES = 12
# The attributes that determine an operator's result type.
DTYPE_ATTRIBUTES = ("to", "dtype", "output_datatype", "output_dtype")
# Operators on subgraphs, strings, images or sequences; the kernel list is exact for them.
NOT_MEASURED = {"If", "Loop", "Scan", "Constant", "ImageDecoder", "SequenceMap"}

# Operators with an attribute that determines the supported types: its name and its default.
VARIANT_ATTRIBUTES = {
    "GRU": ("linear_before_reset", "0"),
    "Gelu": ("approximate", "none"),
    "Mod": ("fmod", "0"),
    "Resize": ("mode", "nearest"),
    "ScatterElements": ("reduction", "none"),
    "ScatterND": ("reduction", "none"),
}
SILENT = 4
# Attributes that only some types support.
TYPE_SPECIFIC_ATTRIBUTES = {"saturate", "round_mode"}

ELEMENT_TYPES = {
    "bool": (TensorProto.BOOL, np.dtype(bool)),
    "int2": (TensorProto.INT2, np.dtype(ml_dtypes.int2)),
    "int4": (TensorProto.INT4, np.dtype(ml_dtypes.int4)),
    "int8": (TensorProto.INT8, np.dtype(np.int8)),
    "int16": (TensorProto.INT16, np.dtype(np.int16)),
    "int32": (TensorProto.INT32, np.dtype(np.int32)),
    "int64": (TensorProto.INT64, np.dtype(np.int64)),
    "uint2": (TensorProto.UINT2, np.dtype(ml_dtypes.uint2)),
    "uint4": (TensorProto.UINT4, np.dtype(ml_dtypes.uint4)),
    "uint8": (TensorProto.UINT8, np.dtype(np.uint8)),
    "uint16": (TensorProto.UINT16, np.dtype(np.uint16)),
    "uint32": (TensorProto.UINT32, np.dtype(np.uint32)),
    "uint64": (TensorProto.UINT64, np.dtype(np.uint64)),
    "float4e2m1": (TensorProto.FLOAT4E2M1, np.dtype(ml_dtypes.float4_e2m1fn)),
    "float8e4m3fn": (TensorProto.FLOAT8E4M3FN, np.dtype(ml_dtypes.float8_e4m3fn)),
    "float8e4m3fnuz": (TensorProto.FLOAT8E4M3FNUZ, np.dtype(ml_dtypes.float8_e4m3fnuz)),
    "float8e5m2": (TensorProto.FLOAT8E5M2, np.dtype(ml_dtypes.float8_e5m2)),
    "float8e5m2fnuz": (TensorProto.FLOAT8E5M2FNUZ, np.dtype(ml_dtypes.float8_e5m2fnuz)),
    "float8e8m0": (TensorProto.FLOAT8E8M0, np.dtype(ml_dtypes.float8_e8m0fnu)),
    "float16": (TensorProto.FLOAT16, np.dtype(np.float16)),
    "bfloat16": (TensorProto.BFLOAT16, np.dtype(ml_dtypes.bfloat16)),
    "float": (TensorProto.FLOAT, np.dtype(np.float32)),
    "double": (TensorProto.DOUBLE, np.dtype(np.float64)),
    "complex64": (TensorProto.COMPLEX64, np.dtype(np.complex64)),
    "complex128": (TensorProto.COMPLEX128, np.dtype(np.complex128)),
}
"""ONNX's name of each element type, in the order of `tensor::DType`."""

INTEGERS = {n for n in ELEMENT_TYPES if "int" in n}
NAME_OF = {dtype: name for name, (_, dtype) in ELEMENT_TYPES.items()}

Binding = tuple[str, ...]
Measurement = tuple[list[int], set[Binding]]
"""The constraints that were varied, and the bindings of them that run."""


@dataclass(frozen=True)
class Constraint:
    """A set of types that some inputs and outputs of an operator share."""

    name: str
    types: tuple[str, ...]


@dataclass(frozen=True)
class Version:
    """The type signature of one version of an operator."""

    op: str
    since: int
    opsets: tuple[int, ...]
    constraints: tuple[Constraint, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass
class Sample:
    """A node and its operands; an omitted operand is `None`."""

    name: str
    node: onnx.NodeProto
    inputs: list[np.ndarray | None]


def samples() -> dict[str, list[Sample]]:
    """Collects the examples of each operator that consist of a single node on tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    found: dict[str, list[Sample]] = {}
    for case in cases:
        graph = case.model.graph if case.model else None
        if graph is None or len(graph.node) != 1 or graph.node[0].domain:
            continue
        if any(a.name in TYPE_SPECIFIC_ATTRIBUTES for a in graph.node[0].attribute):
            continue
        node, given = graph.node[0], list((case.data_sets or [([], [])])[0][0])
        given = [numpy_helper.to_array(a) if isinstance(a, TensorProto) else a for a in given]
        given = [np.asarray(a) if isinstance(a, np.generic) else a for a in given]
        arrays = dict(zip((i.name for i in graph.input), given, strict=False))
        inputs = [arrays.get(name) for name in node.input]
        plain = all(a is None or (isinstance(a, np.ndarray) and a.dtype in NAME_OF) for a in inputs)
        if plain and all(name in arrays for name in node.input if name):
            found.setdefault(node.op_type, []).append(Sample(case.name, node, inputs))
    for op, extra in extra_samples().items():
        found.setdefault(op, []).extend(extra)
    return {op: spread(all_of_it) for op, all_of_it in found.items()}


def extra_samples() -> dict[str, list[Sample]]:
    """Returns samples of operators that have no example with a single node."""
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    rows: list[tuple[str, list[np.ndarray], dict[str, Any]]] = [
        ("GlobalLpPool", [x], {"p": 2}),
        ("RandomNormal", [], {"shape": [2]}),
        ("RandomUniform", [], {"shape": [2]}),
        ("RandomNormalLike", [x], {"dtype": 1}),
        ("RandomUniformLike", [x], {"dtype": 1}),
        ("Multinomial", [np.ones((2, 3), np.float32)], {}),
    ]
    found = {}
    for op, inputs, attrs in rows:
        names = [f"i{n}" for n in range(len(inputs))]
        found[op] = [Sample(op, helper.make_node(op, names, ["o"], **attrs), list(inputs))]
    return found


def spread(cases: list[Sample]) -> list[Sample]:
    """Selects a few samples, starting with those whose attributes and input counts are new."""
    seen: set[object] = set()
    fresh: list[Sample] = []
    rest: list[Sample] = []
    for case in cases:
        texts = tuple(sorted(f"{a.name}={a.s!r}" for a in case.node.attribute))
        given = tuple(array is not None for array in case.inputs)
        key = (texts, given, len(case.node.output))
        (rest if key in seen else fresh).append(case)
        seen.add(key)
    return (fresh + rest)[:MAX_SAMPLES]


def convert(array: np.ndarray, name: str) -> np.ndarray:
    """Converts an array to another type: in range, and without zeros to divide by."""
    target = ELEMENT_TYPES[name][1]
    if array.dtype == target:
        return array
    if name in INTEGERS and array.dtype.kind in "iu":
        info = ml_dtypes.iinfo(target)
        if array.size == 0 or (array.min() >= info.min and array.max() <= info.max):
            return array.astype(target)
    if name in INTEGERS:
        high = min(ml_dtypes.iinfo(target).max, 100)
        wide = np.abs(np.nan_to_num(array.astype(np.float64)))
        return np.clip(np.round(wide), 1, high).astype(np.int64).astype(target)
    if target.kind == "c":
        return array.astype(np.float64).astype(target)
    if name == "bool":
        return array.astype(np.float64) > 0.5
    with np.errstate(over="ignore"):
        return array.astype(np.float64).astype(np.float32).astype(target)


def one_node_model(
    version: Version, opset: int, sample: Sample, binding: dict[int, str]
) -> onnx.ModelProto:
    """Builds a model of the sample with the types of `binding` (constraint index to type)."""
    node = onnx.NodeProto()
    node.CopyFrom(sample.node)
    initializers = []
    for i, array in enumerate(sample.inputs):
        if array is None:
            node.input[i] = ""
            continue
        param = version.inputs[min(i, len(version.inputs) - 1)]
        typed = convert(array, binding[param]) if param in binding else array
        node.input[i] = f"i{i}"
        initializers.append(numpy_helper.from_array(typed, node.input[i]))
    set_result_type(version, node, binding)
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "g", [], outputs, initializers)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=13)


def set_result_type(version: Version, node: onnx.NodeProto, binding: dict[int, str]) -> None:
    """Sets the attribute that determines the type of a result."""
    for index in set(version.outputs) - set(version.inputs):
        if index not in binding:
            continue
        code, dtype = ELEMENT_TYPES[binding[index]]
        if version.op == "ConstantOfShape":
            del node.attribute[:]
            value = numpy_helper.from_array(np.ones(1, dtype))
            node.attribute.append(helper.make_attribute("value", value))
        for attribute in node.attribute:
            if attribute.name in DTYPE_ATTRIBUTES:
                attribute.i = code


def runs(model: onnx.ModelProto) -> str:
    """Runs the model. Returns the error, or an empty string if it succeeds."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = SILENT
    options.intra_op_num_threads = 1
    try:
        providers = ["CPUExecutionProvider"]
        session = ort.InferenceSession(model.SerializeToString(), options, providers=providers)
        run_options = ort.RunOptions()
        run_options.log_severity_level = SILENT
        names = [output.name for output in session.get_outputs()]
        session._sess.run_with_ort_values({}, names, run_options)
    except Exception as error:  # onnxruntime raises many types of exceptions
        return str(error).splitlines()[0] or type(error).__name__
    return ""


def free_constraints(version: Version, sample: Sample) -> list[int]:
    """Returns the constraints whose type the model chooses, by an operand or by an attribute."""
    used = {
        version.inputs[min(i, len(version.inputs) - 1)]
        for i, array in enumerate(sample.inputs)
        if array is not None
    }
    named = any(a.name in DTYPE_ATTRIBUTES for a in sample.node.attribute)
    if named or version.op == "ConstantOfShape":
        used |= set(version.outputs) - set(version.inputs)
    return sorted(i for i in used if len(version.constraints[i].types) > 1)


def variant(op: str, node: onnx.NodeProto) -> str:
    """Returns the value of the attribute that determines the supported types, if any."""
    name, default = VARIANT_ATTRIBUTES.get(op, ("", ""))
    values = {a.name: a.s.decode() or str(a.i) for a in node.attribute}
    return values.get(name, default)


def measure(version: Version, cases: Iterable[Sample]) -> dict[str, Measurement]:
    """Returns, by variant, the bindings that run in every sample that runs at all."""
    found: dict[str, Measurement] = {}
    for case in cases:
        free = free_constraints(version, case)
        sets = [version.constraints[i].types for i in free]
        if np.prod([len(s) for s in sets]) > MAX_BINDINGS:
            continue
        good = set()
        for binding in itertools.product(*sets):
            types = dict(zip(free, binding, strict=True))
            models = [one_node_model(version, opset, case, types) for opset in version.opsets]
            if all(not runs(model) for model in models):
                good.add(binding)
        if not good:
            continue
        kind = variant(version.op, case.node)
        known = found.get(kind)
        if known is None or len(free) > len(known[0]):
            found[kind] = (free, good)
        elif len(free) == len(known[0]):
            found[kind] = (free, known[1] & good)
    return found


def measure_all(versions: list[Version], jobs: int) -> list[dict[str, Measurement]]:
    """Measures each version in child processes. Versions without a sample have no measurements."""
    with ProcessPoolExecutor(jobs, initializer=start_worker) as pool:
        return list(pool.map(measure_in_worker, versions))


CASES: dict[str, list[Sample]] = {}
"""The samples of a worker process."""


def start_worker() -> None:
    ort.set_default_logger_severity(SILENT)
    CASES.update(samples())


def measure_in_worker(version: Version) -> dict[str, Measurement]:
    return {} if version.op in NOT_MEASURED else measure(version, CASES.get(version.op, []))
