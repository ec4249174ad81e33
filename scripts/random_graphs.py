"""Random graphs of two or three operators, and random inputs for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

OPSET = 23
FLOAT, HALF, DOUBLE = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE
I32, I64, BOOL, U8 = TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.UINT8
FLOATS = (FLOAT, HALF, DOUBLE)
NUMPY = {
    FLOAT: np.float32,
    HALF: np.float16,
    DOUBLE: np.float64,
    I32: np.int32,
    I64: np.int64,
    BOOL: np.bool_,
    U8: np.uint8,
}

UNARY = [
    "Abs",
    "Ceil",
    "Cos",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LeakyRelu",
    "Log",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tanh",
]
BINARY = ["Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"]
COMPARE = ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"]
REDUCE = ["ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"]
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    0.5,
    np.inf,
    -np.inf,
    np.nan,
    6.0,
    1.4142135,
    0.70710677,
    1.702,
]


@dataclass
class Value:
    name: str
    dtype: int
    shape: tuple[int, ...]


class Graph:
    """A graph that grows by random nodes."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.inputs: list[Value] = []
        self.values: list[Value] = []

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def input(self, dtype: int, shape: tuple[int, ...]) -> Value:
        value = Value(f"x{len(self.inputs)}", dtype, shape)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def constant(self, array: Any, dtype: int) -> str:
        name = f"c{len(self.constants)}"
        with np.errstate(all="ignore"):
            self.constants[name] = np.asarray(array).astype(NUMPY[dtype])
        return name

    def ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64), I64)

    def number(self, dtype: int) -> np.ndarray:
        return np.array(self.pick(SPECIAL) if dtype in FLOATS else self.pick([0, 1, 2, 3]))

    def partner(self, value: Value) -> str:
        """Returns a second operand for `value`: a number, a row, an array, or an existing value."""
        alike = [v.name for v in self.values if (v.dtype, v.shape) == (value.dtype, value.shape)]
        kind = self.pick(["scalar", "scalar", "one", "row", "channel", "alike", "alike", "full"])
        if kind == "alike":
            return self.pick(alike)
        rank = len(value.shape)
        shape = {
            "scalar": (),
            "one": (1,),
            "row": value.shape[-1:],
            "channel": (value.shape[1], *[1] * (rank - 2)) if rank > 2 else (1,),
            "full": value.shape,
        }[kind]
        if kind in ("scalar", "one") or self.chance(0.3):
            array = np.full(shape, self.number(value.dtype))
        else:
            array = numbers(self.rng, value.dtype, shape, hostile=self.chance(0.3))
        return self.constant(array, value.dtype)

    def add(self, op: str, operands: Sequence[str], **attrs: Any) -> None:
        """Adds a node. Raises an exception if the node is invalid."""
        count = 2 if op in ("Split", "TopK") else 1
        names = [f"v{len(self.nodes)}_{i}" if i else f"v{len(self.nodes)}" for i in range(count)]
        self.nodes.append(helper.make_node(op, operands, names, **attrs))
        proto = self.model(outputs=[])
        inferred = shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
        types = {info.name: info.type.tensor_type for info in inferred.graph.value_info}
        for name in names:
            if name not in types or not types[name].HasField("shape"):
                raise ValueError("no shape")
            dims = types[name].shape.dim
            if not all(dim.HasField("dim_value") for dim in dims):
                raise ValueError("no size")
            shape = tuple(dim.dim_value for dim in dims)
            self.values.append(Value(name, types[name].elem_type, shape))

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        infos = [helper.make_tensor_value_info(v.name, v.dtype, v.shape) for v in self.inputs]
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        used = {name for node in self.nodes for name in node.input}
        constants = [numpy_helper.from_array(c, n) for n, c in self.constants.items() if n in used]
        graph = helper.make_graph(self.nodes, "g", infos, results, constants)
        imports = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def numbers(
    rng: np.random.Generator, dtype: int, shape: tuple[int, ...], *, hostile: bool
) -> np.ndarray:
    """Draws random numbers. Hostile ones include NaN, infinities, zeros and extremes."""
    if dtype == BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype not in FLOATS:
        return rng.integers(0, 5, shape).astype(NUMPY[dtype])
    array = np.asarray(rng.normal(size=shape))
    if hostile:
        odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, 1e30, -1e30])
        mask = rng.random(shape) < 0.3
        array = np.where(mask, rng.choice(odd, size=shape), array)
    with np.errstate(over="ignore"):
        return array.astype(NUMPY[dtype])


Template = Callable[[Graph, Value], None]


def unary(g: Graph, x: Value) -> None:
    g.add(g.pick(UNARY), [x.name])


def binary(g: Graph, x: Value) -> None:
    operands = [x.name, g.partner(x)]
    g.add(g.pick(BINARY), operands[:: g.pick([1, 1, -1])])


def compare(g: Graph, x: Value) -> None:
    g.add(g.pick(COMPARE), [x.name, g.partner(x)])


def choose(g: Graph, x: Value) -> None:
    conditions = [v.name for v in g.values if v.dtype == BOOL and v.shape == x.shape]
    constant = g.constant(g.rng.integers(0, 2, x.shape), BOOL)
    choice = g.pick(conditions or [constant])
    g.add("Where", [choice, *[x.name, g.partner(x)][:: g.pick([1, -1])]])


def logic(g: Graph, x: Value) -> None:
    if x.dtype != BOOL or g.chance(0.4):
        g.add("Not", [x.name])
    else:
        g.add(g.pick(["And", "Or", "Xor"]), [x.name, g.partner(x)])


def cast(g: Graph, x: Value) -> None:
    g.add("Cast", [x.name], to=g.pick(list(NUMPY)))


def clip(g: Graph, x: Value) -> None:
    low, high = sorted(g.pick([0, 1, 6, -1, 3]) for _ in range(2))
    bounds = [g.constant(low, x.dtype), g.constant(high, x.dtype)]
    bounds[g.pick([0, 1])] = g.pick(["", bounds[0], bounds[1]])
    g.add("Clip", [x.name, *bounds])


def reduce(g: Graph, x: Value) -> None:
    axes = sorted({int(g.rng.integers(len(x.shape))) for _ in range(g.pick([1, 1, 2]))})
    g.add(g.pick(REDUCE), [x.name, g.ints(*axes)], keepdims=g.pick([0, 1]))


def softmax(g: Graph, x: Value) -> None:
    axis = int(g.rng.integers(len(x.shape)))
    g.add(g.pick(["Softmax", "LogSoftmax"]), [x.name], axis=axis)


def norm(g: Graph, x: Value) -> None:
    size = x.shape[-1:]
    scale = g.constant(numbers(g.rng, x.dtype, size, hostile=False), x.dtype)
    bias = g.constant(numbers(g.rng, x.dtype, size, hostile=False), x.dtype)
    g.add("LayerNormalization", [x.name, scale, bias], axis=-1)


def batch_norm(g: Graph, x: Value) -> None:
    size = (x.shape[1],)
    operands = [numbers(g.rng, x.dtype, size, hostile=g.chance(0.2)) for _ in range(4)]
    operands[3] = np.abs(operands[3])
    names = [g.constant(operand, x.dtype) for operand in operands]
    g.add("BatchNormalization", [x.name, *names])


def pad(g: Graph, x: Value) -> None:
    rank = len(x.shape)
    pads = [0] * (2 * rank)
    for axis in range(rank - 2 if g.chance(0.8) else 0, rank):
        pads[axis], pads[axis + rank] = g.pick([0, 1, 2]), g.pick([0, 1, 2, -1])
    fill = [g.constant(g.number(x.dtype), x.dtype)] if g.chance(0.7) else []
    mode = g.pick(["constant", "constant", "constant", "edge", "reflect"])
    g.add("Pad", [x.name, g.ints(*pads), *fill], mode=mode)


def window(g: Graph, x: Value) -> dict[str, Any]:
    rank = len(x.shape) - 2
    attrs: dict[str, Any] = {"strides": [g.pick([1, 1, 2])] * rank}
    if g.chance(0.4):
        attrs["pads"] = [1] * (2 * rank)
    elif g.chance(0.2):
        attrs["auto_pad"] = "SAME_UPPER"
    return attrs


def pool(g: Graph, x: Value) -> None:
    attrs = {**window(g, x), "kernel_shape": [g.pick([2, 3])] * (len(x.shape) - 2)}
    op = g.pick(["MaxPool", "AveragePool", "GlobalAveragePool"])
    if op == "AveragePool":
        attrs["count_include_pad"] = g.pick([0, 1])
    g.add(op, [x.name], **({} if op == "GlobalAveragePool" else attrs))


def conv(g: Graph, x: Value) -> None:
    rank, channels = len(x.shape) - 2, x.shape[1]
    shape = (g.pick([1, 2, 8]), channels, *[g.pick([1, 2, 3])] * rank)
    weight = g.constant(numbers(g.rng, x.dtype, shape, hostile=g.chance(0.2)), x.dtype)
    bias = numbers(g.rng, x.dtype, shape[:1], hostile=g.chance(0.2))
    more = [g.constant(bias, x.dtype)] if g.chance(0.5) else []
    g.add("Conv", [x.name, weight, *more], **window(g, x))


def product(g: Graph, x: Value) -> None:
    shape = (x.shape[-1], g.pick([1, 3, 4]))
    weight = g.constant(numbers(g.rng, x.dtype, shape, hostile=g.chance(0.3)), x.dtype)
    alike = [v.name for v in g.values if v.dtype == x.dtype and v.shape[-1:] == x.shape[-2:-1]]
    if g.chance(0.4) and alike:
        g.add("MatMul", [g.pick(alike), x.name])
    elif len(x.shape) == 2 and g.chance(0.5):
        bias = numbers(g.rng, x.dtype, shape[1:], hostile=g.chance(0.3))
        attrs = {"alpha": g.pick([1.0, 0.5, 0.0]), "beta": g.pick([1.0, 2.0, 0.0])}
        g.add("Gemm", [x.name, weight, g.constant(bias, x.dtype)], **attrs)
    else:
        g.add("MatMul", [x.name, weight])


def transpose(g: Graph, x: Value) -> None:
    g.add("Transpose", [x.name], perm=[int(i) for i in g.rng.permutation(len(x.shape))])


def reshape(g: Graph, x: Value) -> None:
    shape = list(x.shape)
    how = g.pick(["flat", "merge", "zero", "split", "same"])
    if how == "flat":
        shape = [-1]
    elif how == "merge":
        shape = [shape[0], -1]
    elif how == "zero":
        shape = [0, -1, *shape[2:]]
    elif how == "split":
        shape = [*shape[:-1], -1, g.pick([1, 2])]
    g.add("Reshape", [x.name, g.ints(*shape)], allowzero=0)


def axes(g: Graph, x: Value) -> None:
    ones = [i for i, size in enumerate(x.shape) if size == 1]
    if ones and g.chance(0.5):
        g.add("Squeeze", [x.name, g.ints(g.pick(ones))])
    else:
        g.add("Unsqueeze", [x.name, g.ints(int(g.rng.integers(len(x.shape) + 1)))])


def expand(g: Graph, x: Value) -> None:
    shape = g.pick([x.shape, (1,), (2, *x.shape), tuple(max(size, 1) for size in x.shape)])
    g.add("Expand", [x.name, g.ints(*shape)])


def cut(g: Graph, x: Value) -> None:
    axis = int(g.rng.integers(len(x.shape)))
    start, end, step = (
        g.pick([0, 0, 1, -1, -3]),
        g.pick([1, 2, 9, -1, 2**63 - 1]),
        g.pick([1, 1, 2, -1]),
    )
    g.add("Slice", [x.name, g.ints(start), g.ints(end), g.ints(axis), g.ints(step)])


def join(g: Graph, x: Value) -> None:
    alike = [v.name for v in g.values if (v.dtype, v.shape) == (x.dtype, x.shape)]
    g.add("Concat", [x.name, g.pick(alike)], axis=int(g.rng.integers(len(x.shape))))


def gather(g: Graph, x: Value) -> None:
    axis = int(g.rng.integers(len(x.shape)))
    places = np.array(g.pick([0, -1, [0], [0, 0], [-1, 0]]), np.int64)
    g.add("Gather", [x.name, g.constant(places, I64)], axis=axis)


def split(g: Graph, x: Value) -> None:
    g.add("Split", [x.name], axis=int(g.rng.integers(len(x.shape))), num_outputs=2)


def extreme(g: Graph, x: Value) -> None:
    axis = int(g.rng.integers(len(x.shape)))
    g.add(g.pick(["ArgMax", "ArgMin"]), [x.name], axis=axis, keepdims=g.pick([0, 1]))


def cumulative(g: Graph, x: Value) -> None:
    axis = g.constant(int(g.rng.integers(len(x.shape))), I64)
    g.add("CumSum", [x.name, axis], reverse=g.pick([0, 1]), exclusive=g.pick([0, 1]))


def shape_of(g: Graph, x: Value) -> None:
    g.add("Shape", [x.name])


TEMPLATES: list[Template] = [
    *[unary] * 5,
    *[binary] * 7,
    *[compare, choose, choose, logic, cast, cast, clip, clip, reduce, reduce, softmax, norm],
    *[batch_norm, pad, pad, pool, pool, conv, conv, conv, product, product, product],
    *[transpose, transpose, reshape, reshape, axes, expand, cut, cut, join, gather, gather],
    *[split, extreme, cumulative, shape_of],
]


def activation(g: Graph, x: Value) -> None:
    """Adds `x * sigmoid(a x)`, which onnxruntime matches by its structure."""
    scaled = x.name
    if g.chance(0.5):
        g.add("Mul", [x.name, g.constant(g.number(x.dtype), x.dtype)])
        scaled = g.values[-1].name
    g.add(g.pick(["Sigmoid", "Tanh", "Erf", "HardSigmoid"]), [scaled])
    g.add("Mul", [x.name, g.values[-1].name])


def gelu(g: Graph, x: Value) -> None:
    """Adds a GELU with possibly unusual constants."""

    def constant(usual: float) -> str:
        shape = g.pick([(), (1,), (1,), x.shape[-1:]])
        number = usual if g.chance(0.7) else g.pick(SPECIAL)
        return g.constant(np.full(shape, number), x.dtype)

    g.add("Div", [x.name, constant(1.4142135)])
    g.add("Erf", [g.values[-1].name])
    g.add("Add", [g.values[-1].name, constant(1.0)])
    g.add("Mul", [x.name, g.values[-1].name])
    g.add("Mul", [g.values[-1].name, constant(0.5)])


def layer_norm(g: Graph, x: Value) -> None:
    """Adds a layer norm with possibly unusual axes, exponent and epsilon."""
    ax, other = g.ints(-1), g.ints(g.pick([-1, -1, -1, 0, 1]))
    g.add("ReduceMean", [x.name, ax], keepdims=1)
    g.add("Sub", [x.name, g.values[-1].name])
    deviation = g.values[-1].name
    g.add("Pow", [deviation, g.constant(g.pick([2.0, 2.0, 3.0]), x.dtype)])
    g.add("ReduceMean", [g.values[-1].name, other], keepdims=1)
    g.add("Add", [g.values[-1].name, g.constant(g.pick([1e-5, 0.0, 1.0]), x.dtype)])
    g.add("Sqrt", [g.values[-1].name])
    g.add("Div", [deviation, g.values[-1].name])
    g.add(
        "Mul",
        [
            g.values[-1].name,
            g.constant(numbers(g.rng, x.dtype, x.shape[-1:], hostile=False), x.dtype),
        ],
    )
    if g.chance(0.7):
        g.add("Add", [g.values[-1].name, g.partner(g.values[-1])])


PATTERNS: list[Template] = [activation, gelu, layer_norm]


def draw(seed: int) -> tuple[onnx.ModelProto, Graph] | None:
    g = Graph(seed)
    shape = g.pick([(1, 2, 4, 4), (1, 8, 5, 5), (2, 3, 4), (3, 4), (2, 4, 4), (4, 4), (1, 4)])
    if g.chance(0.05):
        shape = tuple(0 if i == 0 else size for i, size in enumerate(shape))
    x = g.input(g.pick([FLOAT] * 8 + [HALF, DOUBLE, I64, I32]), shape)
    if g.chance(0.3):
        g.input(x.dtype, shape)
    try:
        if g.chance(0.15):
            g.pick(PATTERNS)(g, x)
            if g.chance(0.3):
                g.pick(TEMPLATES)(g, g.values[-1])
        else:
            for _ in range(g.pick([2, 2, 3])):
                x = g.values[-1] if g.chance(0.8) else g.pick(g.values)
                g.pick(TEMPLATES)(g, x)
    except Exception:
        return None
    read = {name for node in g.nodes for name in node.input}
    made = [value.name for value in g.values if value not in g.inputs]
    outputs = [name for name in made if name not in read or g.chance(0.05)]
    return g.model(outputs), g
