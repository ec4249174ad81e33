"""Finds integer types that onnxruntime's CPU provider runs but computes incorrectly.

Known so far: sums and products of integers are accumulated in double precision and saturate, the
remainder with `fmod=1` and powers are computed in double precision, and 64-bit integers with equal
upper halves are compared by their lower halves as signed numbers.

All results are compared with exact wrap-around arithmetic, on numbers of all magnitudes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime as ort
from measure_kernels import ELEMENT_TYPES, SILENT
from onnx import helper, numpy_helper

TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
ROUNDS = 20
SHAPE = (16, 9)
NEWEST = 26

Arrays = list[np.ndarray]


@dataclass
class Check:
    """An operator on random operands, with its expected result."""

    op: str
    expected: Callable[..., np.ndarray]
    operands: int = 1
    attrs: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[Arrays], Arrays] = lambda arrays: arrays
    constants: list[np.ndarray] = field(default_factory=list)
    variant: str = ""


def numbers(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Draws numbers of every magnitude, extremes, or numbers with equal upper halves."""
    dtype = ELEMENT_TYPES[name][1]
    info, count = np.iinfo(dtype), int(np.prod(shape))
    if info.bits == 64 and rng.integers(2):
        low = -(2**32) if info.min < 0 else 0
        return rng.integers(low, 2**33 + low, shape).astype(dtype)
    width = rng.integers(1, info.bits + 1, count).astype(np.uint64)
    size = rng.integers(0, 2**64 - 1, count, dtype=np.uint64, endpoint=True) >> (64 - width)
    signed = np.where(rng.integers(0, 2, count) == 1, ~size, size).astype(dtype)
    signed[rng.integers(0, count, 2)] = info.min, info.max
    return signed.reshape(shape)


def wrapped(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Reduces Python integers modulo the width of `dtype`."""
    modulus = 1 << (8 * dtype.itemsize)
    return (
        np.array([int(v) % modulus for v in values.flat], np.uint64)
        .reshape(values.shape)
        .astype(dtype)
    )


def elementwise(function: Callable[[int, int], int]) -> Callable[..., np.ndarray]:
    exact = np.vectorize(function, otypes=[object])
    return lambda a, b: wrapped(exact(a.astype(object), b.astype(object)), a.dtype)


def divisible(arrays: Arrays) -> Arrays:
    """Avoids division by zero, and divisions whose result overflows."""
    a, b = arrays
    b = np.where(b == 0, 1, b).astype(b.dtype)
    overflows = (a == np.iinfo(a.dtype).min) & (b.astype(np.int64) == -1)
    return [np.where(overflows, 1, a).astype(a.dtype), b]


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def bounds(arrays: Arrays) -> Arrays:
    low, high = sorted([arrays[1].flat[0], arrays[2].flat[0]])
    return [arrays[0], np.array(low, arrays[0].dtype), np.array(high, arrays[0].dtype)]


def shifts(arrays: Arrays) -> Arrays:
    bits = 8 * arrays[1].dtype.itemsize
    return [arrays[0], (arrays[1] % bits).astype(arrays[1].dtype)]


def squares(arrays: Arrays) -> Arrays:
    return [arrays[0], np.full_like(arrays[1], 2)]


def scatter(function: np.ufunc) -> Callable[..., np.ndarray]:
    def expected(data: np.ndarray, updates: np.ndarray) -> np.ndarray:
        result = data.copy()
        function.at(result, ROWS[:, 0], updates)
        return result

    return expected


ROWS = np.array([[2], [0], [2], [5]])
AXES = [np.array([0]), np.array([1]), np.array([0, 1])]


def checks() -> list[Check]:
    binary: list[tuple[str, np.ufunc]] = [
        ("Add", np.add),
        ("Sub", np.subtract),
        ("Mul", np.multiply),
        ("Max", np.maximum),
        ("Min", np.minimum),
        ("BitwiseAnd", np.bitwise_and),
        ("BitwiseOr", np.bitwise_or),
        ("BitwiseXor", np.bitwise_xor),
        ("Equal", np.equal),
        ("Greater", np.greater),
        ("GreaterOrEqual", np.greater_equal),
        ("Less", np.less),
        ("LessOrEqual", np.less_equal),
    ]
    found = [Check(op, function, 2) for op, function in binary]
    found += [
        Check("Abs", np.abs),
        Check("Neg", np.negative),
        Check("Sign", np.sign),
        Check("BitwiseNot", np.invert),
        Check("Relu", lambda a: np.maximum(a, 0).astype(a.dtype)),
        Check("Div", elementwise(quotient), 2, prepare=divisible),
        Check("Mod", elementwise(lambda a, b: a % b), 2, prepare=divisible, variant="0"),
        Check(
            "Mod",
            elementwise(lambda a, b: a - b * quotient(a, b)),
            2,
            attrs={"fmod": 1},
            prepare=divisible,
            variant="1",
        ),
        Check("Pow", lambda a, _: a * a, 2, prepare=squares),
        Check("BitShift", np.left_shift, 2, attrs={"direction": "LEFT"}, prepare=shifts),
        Check("BitShift", np.right_shift, 2, attrs={"direction": "RIGHT"}, prepare=shifts),
        Check("Clip", lambda a, low, high: np.clip(a, low, high), 3, prepare=bounds),
        Check("MatMul", lambda a, b: a @ b, 2, prepare=lambda ab: [ab[0], ab[1].T.copy()]),
        Check("Einsum", lambda a, b: a @ b.T, 2, attrs={"equation": "ij,kj->ik"}),
    ]
    for axes in AXES:
        found += [reduction(op, axes, function) for op, function in REDUCTIONS.items()]
    for axis in (0, 1):
        found += axis_checks(axis)
    for name, ufunc in {
        "add": np.add,
        "mul": np.multiply,
        "max": np.maximum,
        "min": np.minimum,
    }.items():
        found.append(
            Check(
                "ScatterND",
                scatter(ufunc),
                2,
                attrs={"reduction": name},
                prepare=lambda ab: [ab[0], ab[1][: len(ROWS)]],
                constants=[ROWS],
                variant=name,
            )
        )
    return found


REDUCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "ReduceL1": lambda a, axes: np.sum(np.abs(a), axes, dtype=a.dtype, keepdims=True),
    "ReduceMax": lambda a, axes: np.max(a, axes, keepdims=True),
    "ReduceMin": lambda a, axes: np.min(a, axes, keepdims=True),
    "ReduceProd": lambda a, axes: np.prod(a, axes, dtype=a.dtype, keepdims=True),
    "ReduceSum": lambda a, axes: np.sum(a, axes, dtype=a.dtype, keepdims=True),
    "ReduceSumSquare": lambda a, axes: np.sum(a * a, axes, dtype=a.dtype, keepdims=True),
}


def reduction(op: str, axes: np.ndarray, function: Callable[..., np.ndarray]) -> Check:
    return Check(op, lambda a: function(a, tuple(axes.tolist())), constants=[axes])


def axis_checks(axis: int) -> list[Check]:
    where = [np.array(axis)]
    largest = np.array([3])
    flags = {"axis": axis, "keepdims": 0}
    return [
        Check("CumSum", lambda a: np.cumsum(a, axis, dtype=a.dtype), constants=where),
        Check("CumProd", lambda a: np.cumprod(a, axis, dtype=a.dtype), constants=where),
        Check("ArgMax", lambda a: np.argmax(a, axis), attrs=flags),
        Check("ArgMin", lambda a: np.argmin(a, axis), attrs=flags),
        Check(
            "TopK",
            lambda a: np.flip(np.sort(a, axis), axis).take(range(3), axis),
            attrs={"axis": axis},
            constants=[largest],
        ),
    ]


def session(check: Check, arrays: Arrays) -> ort.InferenceSession:
    """Builds a session that applies the operator to inputs of these types."""
    given = [
        helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for i, a in enumerate(arrays)
    ]
    constants = [numpy_helper.from_array(c, f"c{i}") for i, c in enumerate(check.constants)]
    names = [i.name for i in given]
    # Constants follow the data; indices are between data and updates.
    names[1:1] = [c.name for c in constants]
    results = ["y", "i"] if check.op == "TopK" else ["y"]
    node = helper.make_node(check.op, names, results, **check.attrs)
    graph = helper.make_graph(
        [node], "g", given, [helper.make_empty_tensor_value_info("y")], constants
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", NEWEST)], ir_version=13)
    options = ort.SessionOptions()
    options.log_severity_level = SILENT
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def is_wrong(check: Check, name: str) -> bool:
    """Returns `True` if the kernel runs and gives a wrong result."""
    rng = np.random.default_rng(0)
    built = None
    for _ in range(ROUNDS):
        arrays = check.prepare([numbers(rng, name, SHAPE) for _ in range(check.operands)])
        try:
            built = built or session(check, arrays)
        except Exception:  # no kernel, so there is no result to judge
            return False
        got = built.run(["y"], {f"x{i}": a for i, a in enumerate(arrays)})[0]
        with np.errstate(all="ignore"):
            if not np.array_equal(got, check.expected(*arrays)):
                return True
    return False


def wrong_types() -> dict[tuple[str, str], set[str]]:
    """Returns the integer types that are wrong, by operator and variant (see `measure_kernels`)."""
    ort.set_default_logger_severity(SILENT)
    found: dict[tuple[str, str], set[str]] = {}
    for check in checks():
        bad = {name for name in TYPES if is_wrong(check, name)}
        if bad:
            found.setdefault((check.op, check.variant), set()).update(bad)
    # `ScatterElements` is `ScatterND` with different indices.
    for (op, variant), bad in list(found.items()):
        if op == "ScatterND":
            found["ScatterElements", variant] = bad
    return found


if __name__ == "__main__":
    for (op, variant), bad in sorted(wrong_types().items()):
        print(op, variant, *sorted(bad))
