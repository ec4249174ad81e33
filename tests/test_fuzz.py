"""Random programs, the same ones each time; `make fuzz` runs others for longer."""

import numpy as np
import pytest

from fuzz import runtime
from fuzz.check import Seen, check
from fuzz.generate import program
from fuzz.program import Equation, Function, Kind, Program, Value
from fuzz.shrink import reproduction, shrink

PROGRAMS = 72
"""The same on every machine, so that a failure is a change of the code; 45 s of CPU time."""


@pytest.mark.filterwarnings("ignore")
def test_random_programs() -> None:
    seen = Seen()
    for seed in range(PROGRAMS):
        failure = check(program(seed), seen)
        if failure is not None:
            small = shrink(failure)
            pytest.fail(f"seed {seed}, {small.stage}: {small.message}\n\n{reproduction(small)}")
    assert seen.programs > 5
    assert len(seen.operations) > 40


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


def test_a_wrong_operator_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(example()) is None
    export = runtime.export

    def wrong(*args, **options):
        model = export(*args, **options)
        for node in model.graph.node:
            if node.op_type == "Sin":
                node.op_type = "Cos"
        return model

    monkeypatch.setattr(runtime, "export", wrong)
    failure = check(example())
    assert failure is not None
    small = shrink(failure)
    (only,) = small.program.equations
    assert [line.strip() for line in only.lines()][1] == "v4 = lax.sin(v3)"
    assert "v4 = lax.sin(v3)" in reproduction(small)
    compile(reproduction(small), "reproduction", "exec")


def test_a_wrong_rewrite_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    export = runtime.export

    def wrong(program, outputs, *, fuel):
        model = export(program, outputs, fuel=fuel)
        for node in model.graph.node:
            if node.op_type == "Tanh" and fuel is None:
                node.op_type = "Sin"
        return model

    monkeypatch.setattr(runtime, "export", wrong)
    failure = check(example())
    assert failure is not None
    assert failure.stage.startswith("optimised")
    assert len(shrink(failure).program.equations) == 1
