"""Writes onnxruntime's results of operators on constants. The optimiser must agree with them.

    python scripts/gen_folded_operators.py

The results of transcendental functions are computed in double precision and rounded once.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

TABLE = Path(__file__).parents[1] / "crates/optimize/src/rewrites/fold_constants/operators.txt"
RESULTS = {"TopK": 2, "Split": 2}
WIDE = {
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Exp": np.exp,
    "Log": np.log,
    "Pow": np.power,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Tan": np.tan,
    "Tanh": np.tanh,
}

Case = tuple[str, tuple[np.ndarray, ...], int, dict[str, Any]]


def floats(numbers: Any) -> np.ndarray:
    return np.array(numbers, np.float32)


def i32(numbers: Any) -> np.ndarray:
    return np.array(numbers, np.int32)


def i64(*numbers: Any) -> np.ndarray:
    return np.array(numbers, np.int64)


X, Y = floats([[3, -1.5, 2], [0.5, 4, -6]]), floats([[1, -2, 2], [0.25, 8, -6]])
N, M = i32([[7, -3, 5], [0, 9, -8]]), i32([[2, 5, 5], [3, -4, 3]])
BOTH = np.stack([N, M])
CUBE = i32(np.arange(24).reshape(2, 3, 4) * 7 % 23 - 11)
U, V = (np.array(u, np.uint8) for u in ([[7, 3, 5], [0, 9, 200]], [[2, 1, 0], [3, 4, 1]]))
P, Q = (np.array(p, np.bool_) for p in ([1, 0, 1, 0], [1, 1, 0, 0]))
ODD = floats([-2.5, -0.5, 0, 0.5, 1.5, 2.25])
ZERO, ONE = np.array(0, np.int64), np.array(1, np.int64)


def case(op: str, *operands: np.ndarray, result: int = 0, **attributes: Any) -> Case:
    return op, operands, result, attributes


def elementwise() -> list[Case]:
    found = []
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        found += [case(op, X, Y), case(op, N, M)]
    for op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        found += [case(op, X, Y), case(op, N, M)]
    found += [case("Sum", X, Y, X), case("Mod", N, M), case("Mod", N, M, fmod=1)]
    found += [
        case(op, *uv) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor") for uv in ((U, V), (N, M))
    ]
    found += [case("BitwiseNot", U), case("BitwiseNot", N)]
    found += [case("BitShift", U, V, direction=d) for d in ("LEFT", "RIGHT")]
    found += [case(op, P, Q) for op in ("And", "Or", "Xor", "Equal")] + [case("Not", P)]
    found += [case(op, ODD) for op in ("Abs", "Neg", "Floor", "Ceil", "Round", "Relu")]
    found += [case(op, ODD) for op in ("IsNaN", "IsInf")]
    found += [case("Sign", ODD[ODD != 0])] + [case(op, N) for op in ("Abs", "Neg", "Sign")]
    found += [case("Sqrt", floats([4, 0.25, 0])), case("Reciprocal", floats([4, -0.5, 3]))]
    for op in ("Sin", "Cos", "Tan", "Sinh", "Cosh", "Tanh", "Exp", "Atan", "Asinh", "Sigmoid"):
        found.append(case(op, floats([-0.75, 0, 1.5])))
    found += [case(op, floats([-0.75, 0, 0.5])) for op in ("Asin", "Acos", "Atanh")]
    found += [case("Acosh", floats([1, 1.5, 3])), case("Log", floats([0.5, 1, 7]))]
    found += [case("Pow", floats([0.5, 2, 3]), floats([2, -1, 0.5]))]
    found += [case("Where", np.array([[1, 0, 1]], np.bool_), N, M)]
    found += [case("Clip", N, i32(-2), i32(5)), case("Clip", X, floats(-1), floats(2.5))]
    found += [case("Cast", ODD, to=6), case("Cast", ODD, to=9), case("Cast", N, to=1)]
    found += [case("Cast", P, to=7), case("Cast", N, to=9)]
    found += [case("Cast", floats([300, -1, 65504]), to=10)]
    cubes = [CUBE[:, :1], CUBE[0], CUBE[0, 0], CUBE[:, :, :1]]
    found += [case(op, CUBE, part.copy()) for op in ("Sub", "Less") for part in cubes]
    found += [case("Sub", part.copy(), CUBE) for part in cubes]
    found += [
        case("Where", CUBE[:, :1] > 0, CUBE, CUBE[0]),
        case("Where", CUBE > 0, N[0, :1], CUBE),
    ]
    return [*found, case("Cast", np.array([1.5, -3.25]), to=1)]


def reductions() -> list[Case]:
    found = []
    for op in ("Sum", "Mean", "Max", "Min", "Prod", "SumSquare"):
        found += [case(f"Reduce{op}", X, i64(1)), case(f"Reduce{op}", X, i64(0), keepdims=0)]
        found += [case(f"Reduce{op}", X, i64(-1, 0), keepdims=0)]
    found += [case(f"Reduce{op}", N, i64(1), keepdims=0) for op in ("Sum", "Max", "Min", "Prod")]
    for axes in (i64(1), i64(0, 2), i64(-2, -1), i64(0, 1, 2)):
        found += [case("ReduceSum", CUBE, axes, keepdims=keep) for keep in (0, 1)]
        found += [case("ReduceMax", CUBE, axes, keepdims=0)]
    found += [case("ReduceSum", CUBE), case("ReduceMin", CUBE, keepdims=0)]
    found += [case("ArgMax", CUBE, axis=1, keepdims=keep) for keep in (0, 1)]
    found += [case("CumSum", CUBE, ONE, reverse=reverse) for reverse in (0, 1)]
    found += [case("TopK", CUBE, i64(2), axis=1, result=r) for r in (0, 1)]
    ties = floats([[3, 5, 5, 1], [2, 2, 1, 1]])
    for op in ("ArgMax", "ArgMin"):
        found += [case(op, ties, axis=1, select_last_index=last) for last in (0, 1)]
        found += [case(op, ties, axis=0, keepdims=0)]
        found += [case(op, ties.astype(np.int32), axis=-1, keepdims=0)]
    for both in ({"exclusive": e, "reverse": r} for e in (0, 1) for r in (0, 1)):
        found += [case("CumSum", N, ONE, **both), case("CumSum", X, ZERO, **both)]
    rows, columns = floats([[3, 1, 7, 5], [2, 8, 4, 6]]), i32([[3, 1], [7, 5], [2, 8]])
    for which in ({"result": r, "largest": largest} for largest in (0, 1) for r in (0, 1)):
        found += [case("TopK", rows, i64(2), **which)]
        found += [case("TopK", columns, i64(2), axis=0, **which)]
    return found


def products() -> list[Case]:
    found = [case("MatMul", X, Y.T.copy()), case("MatMul", N, M.T.copy())]
    found += [case("MatMul", np.stack([X, Y]), Y.T.copy())]
    found += [case("MatMul", X[0], Y.T.copy()), case("MatMul", X, Y[1])]
    image, rows = np.arange(32).reshape(1, 2, 4, 4), np.arange(30).reshape(2, 3, 5) % 7
    image, rows = floats(image), floats(rows)
    kernel = floats(np.arange(36).reshape(2, 2, 3, 3) * 5 % 11 - 5)
    small = kernel[:, :, :2, :2].copy()
    found += [case("Conv", image, kernel), case("Conv", image, kernel, pads=[1, 0, 2, 1])]
    found += [case("Conv", image, kernel, strides=[2, 1], pads=[1, 1, 1, 1])]
    found += [case("Conv", image, small, dilations=[2, 1])]
    found += [case("Conv", image, floats(np.arange(16).reshape(4, 1, 2, 2) - 7), group=2)]
    images, pairs = floats(np.arange(128).reshape(2, 4, 4, 4) % 13), kernel.reshape(4, 1, 3, 3)
    pairs = np.concatenate([pairs, pairs[::-1]], 1)
    found += [
        case("Conv", images, pairs, group=2),
        case("Conv", images, pairs, group=2, strides=[1, 3]),
    ]
    found += [case("MatMul", CUBE, CUBE.transpose(0, 2, 1).copy()), case("MatMul", N, CUBE)]
    vectors = floats(np.arange(18).reshape(2, 3, 3) % 5 - 2)
    return [*found, case("Conv", rows, vectors, pads=[1, 1])]


def places() -> list[Case]:
    found = [case("Gather", N, np.array([[2, 0]]), axis=1), case("Gather", N, np.array(-1))]
    found += [case("GatherElements", N, np.array([[0, -1], [2, 1]]), axis=1)]
    found += [case("GatherElements", N, np.array([[1, 0, 1]]), axis=0)]
    found += [case("GatherND", N, np.array([[1, 2], [0, -1]]))]
    found += [case("GatherND", N, np.array([[1], [0]]))]
    found += [case("GatherND", BOTH, np.array([[1], [0]]), batch_dims=1)]
    twice = np.array([[1, 0], [-1, 2]])
    found += [case("Gather", CUBE, twice, axis=axis) for axis in (-2, 2)]
    found += [case("GatherElements", CUBE, CUBE[:, :2] % 3, axis=1)]
    found += [case("GatherND", CUBE, twice % 2), case("GatherND", CUBE, twice, batch_dims=1)]
    found += [
        case("ScatterElements", CUBE, CUBE[:, :2] % 4, CUBE[:, 1:] * 10, axis=-1, reduction="add")
    ]
    found += [case("Slice", CUBE, i64(2, 3), i64(0, -5), i64(1, 2), i64(-1, -2))]
    found += [case("Split", CUBE, i64(1, 2), result=r, axis=-2) for r in (0, 1)]
    for reduction in ("none", "add", "mul", "max", "min"):
        at, new = np.array([[1, 2], [0, 0], [0, 1]]), i32([10, 20, -30])
        found += [case("ScatterND", N, at, new, reduction=reduction)]
        at, new = np.array([[0, 2], [1, -3]]), i32([[10, 20], [-30, 4]])
        found += [case("ScatterElements", N, at, new, axis=1, reduction=reduction)]
    found += [case("ScatterND", X, np.array([[1]]), floats([[9, 8, 7]]), reduction="add")]
    found += [case("ScatterElements", X, np.array([[1, 0, 1]]), floats([[9, 8, 7]]), axis=0)]
    found += [case("Slice", N, i64(0, 2), i64(2, -9), i64(0, 1), i64(1, -2))]
    found += [case("Slice", N, i64(1), i64(99)), case("Slice", N, i64(-2), i64(-1), i64(-1))]
    found += [case("Split", N, i64(1, 2), result=r, axis=1) for r in (0, 1)]
    return found + [case("Split", N, result=r, axis=0, num_outputs=2) for r in (0, 1)]


def layouts() -> list[Case]:
    found = [case("Pad", N, i64(0, 1, 1, 0), i32(9)), case("Pad", N, i64(1, -1), i32(0), i64(1))]
    found += [case("Tile", N, i64(2, 1)), case("Tile", N, i64(1, 2))]
    found += [case("Expand", N[:, :1].copy(), i64(2, 2, 3))]
    found += [case("Concat", N, M, axis=0), case("Concat", N, M, N, axis=-1)]
    found += [case("Transpose", BOTH, perm=[2, 0, 1]), case("Flatten", BOTH, axis=2)]
    found += [case("Reshape", N, i64(3, -1)), case("Reshape", N, i64(0, 1, 3))]
    found += [case("Transpose", CUBE, perm=p) for p in ([1, 2, 0], [2, 1, 0], [0, 2, 1])]
    found += [case("Pad", CUBE, i64(1, 2), i32(5), i64(-2)), case("Tile", CUBE, i64(1, 2, 2))]
    found += [case("Concat", CUBE, CUBE[:, :1].copy(), axis=1), case("Expand", N, i64(2, 1, 3))]
    found += [case("Trilu", CUBE, np.array(k), upper=u) for k in (-2, 2) for u in (0, 1)]
    found += [case("Squeeze", N[None, :, :1].copy(), i64(0)), case("Unsqueeze", N, i64(0, -1))]
    for upper in (0, 1):
        found += [case("Trilu", N, upper=upper), case("Trilu", N, ONE, upper=upper)]
        found += [case("Trilu", N, np.array(-1), upper=upper)]
    found += [case("Range", np.array(2), np.array(11), np.array(4))]
    found += [case("Range", i32(5), i32(-2), i32(-3))]
    found += [case("Size", N), case("Shape", BOTH, start=1), case("Shape", BOTH, start=-2, end=-1)]
    return [*found, case("ConstantOfShape", i64(2, 3))]


def written(array: np.ndarray) -> str:
    """Formats a tensor in ONNX text syntax."""
    code = helper.np_dtype_to_tensor_dtype(array.dtype)
    dtype = onnx.TensorProto.DataType.Name(code).lower()
    shape = f"[{','.join(map(str, array.shape))}]" if array.ndim else ""
    whole = array.dtype.kind != "f"
    numbers = (
        str(int(v)) if whole else np.format_float_positional(v, trim="0") for v in array.flat
    )
    return f"{dtype}{shape} {{{', '.join(numbers)}}}"


def attribute(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def computed(node: onnx.NodeProto, operands: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    if node.op_type in WIDE:
        wide = WIDE[node.op_type](*(x.astype(np.float64) for x in operands))
        return [wide.astype(np.float32)]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(node.input, operands, strict=True)
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "g", inputs, outputs)
    imports = [helper.make_opsetid("", 23)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return list(session.run(None, dict(zip(node.input, operands, strict=True))))


def main() -> None:
    texts = []
    for op, operands, result, attributes in (
        *elementwise(),
        *reductions(),
        *products(),
        *places(),
        *layouts(),
    ):
        names = [f"c{i}" for i in range(len(operands))]
        results = ["r" if i == result else f"unused{i}" for i in range(RESULTS.get(op, 1))]
        found = computed(helper.make_node(op, names, results, **attributes), operands)
        constants = [
            f"{name} = Constant <value = {written(x)}> ()"
            for name, x in zip(names, operands, strict=True)
        ]
        given = ", ".join(f"{key} = {attribute(value)}" for key, value in attributes.items())
        node = f"{', '.join(results)} = {op}{f' <{given}>' if given else ''} ({', '.join(names)})"
        texts.append("\n".join([*constants, node, f"    {written(found[result])}", ""]))
    TABLE.write_text("\n".join(texts))


if __name__ == "__main__":
    main()
