"""A fixed set of random programs; `make fuzz` runs others for longer."""

import json
from collections import Counter
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import onnx
import pytest

from fuzz import compare, worker
from fuzz.__main__ import Search
from fuzz.check import Seen, check
from fuzz.generate import program
from fuzz.program import Equation, Function, Kind, Program, Value
from fuzz.shrink import shrunk
from jax2onnx._core import Model
from jax2onnx._export import result

PROGRAMS = 72
"""The same on every machine, so that a failure is a change of the code; 45 s of CPU time."""

TOGETHER = 8
"""How many programs a case has."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "first",
    [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(TOGETHER, PROGRAMS, TOGETHER))],
)
def test_random_programs(first: int) -> None:
    seen = Seen()
    for seed in range(first, first + TOGETHER):
        failure = check(program(seed), seen)
        if failure is not None:
            pytest.fail(f"seed {seed}\n{shrunk(failure)}")
    assert seen.programs > TOGETHER // 2
    assert len(seen.operations) > 20


@pytest.mark.filterwarnings("ignore")
def test_random_programs_in_half_precision() -> None:
    seen = Seen()
    for seed in range(50_000, 50_006):
        failure = check(program(seed, half=True), seen)
        if failure is not None:
            pytest.fail(f"seed {seed}\n{shrunk(failure)}")
    assert seen.programs > 3


def test_every_rounding_to_float16_counts() -> None:
    operands = [Value(n, (3,), np.dtype("float16")) for n in ("x0", "v1")]
    add = Equation("add", "lax.add(x0, v1)", operands, Kind.ROUNDS)
    add.outputs = [Value("v2", (3,), np.dtype("float16"))]
    x = np.array([0.5, 1, 2], "float16")
    values = {"x0": x, "v1": x}
    (exact,) = add.run(values, 0)
    near = np.nextafter(exact, np.float16(9))
    # Inside a program, the runtime may keep an operand in float32.
    assert compare.wrong(add, values, [near], 0) is None
    assert compare.wrong(add, values, [exact], 0, alone=True) is None
    assert compare.wrong(add, values, [near], 0, alone=True) is not None


def value(name: str) -> Value:
    return Value(name, (3,), np.dtype("float32"))


def equation(result: str, text: str, *operands: str, functions: list[Function] = ()) -> Equation:
    found = Equation(text, text, [value(n) for n in operands], Kind.CLOSE, list(functions))
    found.outputs = [value(result)]
    return found


def example() -> Program:
    inner = [equation("v4", "lax.sin(v3)", "v3"), equation("v5", "lax.exp(v4)", "v4")]
    f6 = Function("f6", [value("v3")], inner, "v5", [value("v5")])
    equations = [
        equation("v1", "lax.add(x0, x0)", "x0"),
        equation("v2", "lax.tanh(v1)", "v1"),
        equation("v7", "jax.jit(f6)(v2)", "v2", functions=[f6]),
        equation("v8", "lax.neg(v7)", "v7"),
    ]
    return Program({"x0": np.array([0.5, 1, 2], "float32")}, {}, equations, double=False)


def plant(
    monkeypatch: pytest.MonkeyPatch, old: str, new: str, *, rewrite: str | None = None
) -> None:
    """Exports one operator instead of another, or only after a rewrite was applied."""
    to_proto = result.to_proto

    def wrong(model: Model) -> onnx.ModelProto:
        proto = to_proto(model)
        for node in proto.graph.node:
            if node.op_type == old and (rewrite is None or rewrite in model.applied):
                node.op_type = new
                node.ClearField("attribute")
        return proto

    monkeypatch.setattr(result, "to_proto", wrong)


def test_a_wrong_operator_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(example()) is None
    plant(monkeypatch, "Sin", "Cos")
    failure = check(example())
    assert failure is not None
    script = shrunk(failure)
    assert "# verdict: the lowering rule `sin`" in script
    assert "    a = lax.sin(v2)\n    return (a,)" in script
    compile(script, "script", "exec")


@pytest.mark.slow
def test_a_wrong_rewrite_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "Gelu", "Relu", rewrite="Gelu")
    equations = [
        equation("v1", "lax.sin(x0)", "x0"),
        equation("v2", "jax.nn.gelu(v1)", "v1"),
        equation("v3", "lax.cos(v2)", "v2"),
    ]
    drawn = Program({"x0": np.array([0.5, 1, 2], "float32")}, {}, equations, double=False)
    failure = check(drawn)
    assert failure is not None
    assert failure.stage.startswith("optimised")
    script = shrunk(failure)
    assert "# verdict: the rewrite `Gelu`" in script
    assert "lax.cos" not in script


@pytest.mark.slow
def test_rejections_by_jax_are_skipped() -> None:
    refused = Counter()
    assert program(882, refused).equations
    assert any("scatter_mul gradients" in reason for reason in refused)


@pytest.mark.parametrize(
    ("numbers", "dtype", "allowed"),
    [
        ([1, 2, 4], "float32", False),
        # The mean of the squares overflows, but the mean of the squared differences may not.
        ([0, 3e38, 0], "float32", True),
        # The difference of two squares is close to their rounding error in bfloat16.
        ([-1.484375, -1.53125, -1.53125, -1.484375], "bfloat16", True),
    ],
)
def test_a_variance_by_another_formula(numbers: list[float], dtype: str, allowed: bool) -> None:
    x = np.array(numbers, jnp.dtype(dtype))
    equation = Equation(
        "standardize", "jax.nn.standardize(x0)", [Value("x0", x.shape, x.dtype)], Kind.MIXES
    )
    equation.outputs = [Value("v1", x.shape, x.dtype)]
    drawn = Program({"x0": x}, {}, [equation], False, 0)
    expected = equation.run(drawn.inputs, 0)
    found = [np.where(np.isnan(expected[0]), 0, expected[0] / 8).astype(x.dtype)]
    bad = compare.wrong_as_a_whole(drawn, ["v1"], expected, found, 0)
    assert bool(bad) != allowed


def test_zeros_that_pad_are_multiplied_or_not() -> None:
    text = "lax.conv_general_dilated(x0, x1, (1,), [(1, 1)])"
    operands = [Value(n, (1, 1, 2), np.dtype("float32")) for n in ("x0", "x1")]
    conv = Equation("conv", text, operands, Kind.MIXES)
    conv.outputs = [Value("v2", (1, 1, 3), np.dtype("float32"))]
    values = {"x0": np.ones((1, 1, 2), "float32"), "x1": np.array([[[np.nan, 1]]], "float32")}
    (expected,) = conv.run(values, 0)
    passed_over = Counter()
    other = np.where(np.isnan(expected), expected, np.nan).astype("float32")
    assert compare.wrong(conv, values, [other], 0, passed_over) is None
    assert passed_over.total() == (not np.isnan(expected).all())
    finite = {**values, "x1": np.ones((1, 1, 2), "float32")}
    assert compare.wrong(conv, finite, [other], 0, passed_over) is not None


def test_failures_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plant(monkeypatch, "Sin", "Cos")
    monkeypatch.setattr(worker, "program", lambda *_, **__: example())
    state = tmp_path / "state.json"
    checking = worker.Worker(state, tmp_path / "kept")
    for seed in (1, 2):  # the search goes on
        checking.run(seed)
    (file,) = (tmp_path / "kept").iterdir()
    assert json.loads(state.read_text())["failures"] == {file.name: 2}
    assert "a = lax.sin(v2)" in file.read_text()
    compile(file.read_text(), file.name, "exec")


@pytest.mark.parametrize(("stage", "ours"), [("draw", 0), ("compare", 0), ("convert", 1)])
def test_a_crash_is_counted_where_it_happens(stage: str, ours: int, tmp_path: Path) -> None:
    search = Search(0, 1, 1, tmp_path)
    search._ended({"seed": 3, "stage": stage}, -6, "aborted")
    assert (search.failures.total(), search.passed_over.total()) == (ours, 1 - ours)
