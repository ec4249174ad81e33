"""The numbers of the programs in `tests/primitives`; every row of the table must have a program."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conformance import report
from harness.checking import as_tensor
from harness.programs import PROGRAMS, assert_program_close
from jax2onnx import _core, to_onnx
from jax2onnx._checking import jaxpr_bodies
from jax2onnx._checking.runtime import Runnable
from jax2onnx._expansion import expand
from primitives import other_versions, subject
from primitives.operands import numbers, primitives, type_of

OTHERS = {Path(name).name for name in other_versions.PROGRAMS if not name.startswith("errors/")}


def test_every_row_has_a_program() -> None:
    rows = {row.name for row in _core.primitives()}
    assert rows == {subject(name) for name in (*PROGRAMS, *OTHERS)}


def test_python_knows_the_ways_that_the_table_names() -> None:
    assert set(expand.EXPANSIONS) == set(_core.expansions())
    assert set(jaxpr_bodies.BODIES) == set(_core.controls())


def test_the_page_has_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "COVERAGE.md").read_text()
    assert page == report.with_primitives(page), "run `python -m conformance --primitives`"


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if subject(name) not in {*primitives(), "onnx_function"}:
        pytest.skip("this version of JAX does not have the primitive")
    fn, *operands = PROGRAMS[name]
    types = [type_of(operand) for operand in operands]
    wide = any(t.dtype in (jnp.float64, jnp.complex128) for t in types)
    options = request.getfixturevalue("double") if wide else {}
    record = tmp_path / "primitives.jsonl"
    model = to_onnx(fn, types, record_primitive_calls_file=str(record), **options)
    read = {json.loads(line)["primitive"] for line in record.read_text().splitlines()}
    functions = {"onnx_function"} if model.functions else set()
    traced = jax.make_jaxpr(lambda *values: fn(*values))(*types)
    assert subject(name) in {*read, *names(traced.jaxpr), *functions}
    args = numbers(name, operands)
    found = Runnable(model).run([as_tensor(arg) for arg in args])
    leaves = jax.tree_util.tree_leaves(fn(*map(jnp.asarray, args)))
    finite = [np.isfinite(as_tensor(leaf)).any() for leaf in leaves]
    assert all(finite), "compares nothing"
    assert_program_close(name, found, leaves)


def names(jaxpr: Any) -> Iterator[str]:
    """Yields the primitives of a jaxpr and of its inner jaxprs."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for inner in jax.tree_util.tree_leaves(tuple(eqn.params.values())):
            if hasattr(inner, "eqns"):
                yield from names(inner)
            elif hasattr(getattr(inner, "jaxpr", None), "eqns"):
                yield from names(inner.jaxpr)
