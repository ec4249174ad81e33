"""Bodies of loops and branches, converted on their own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax

from jax2onnx import _core, _jax
from jax2onnx._export.lowering_rules import registered
from jax2onnx._export.options import Boundary, Options
from jax2onnx._tracing.primitives import control
from jax2onnx.errors import Jax2OnnxError

if TYPE_CHECKING:
    from jax2onnx._core import Model


@dataclass(frozen=True)
class Body:
    """An iteration of a loop, or a branch that is taken."""

    what: str
    closed: Any
    leaves: Sequence[Any]


def body_runs(eqn: Any, operands: Sequence[Any]) -> Iterator[Body]:
    """Yields the runs of an equation's bodies, in order."""
    if (how := control(eqn)) is not None:
        yield from BODIES[how](eqn.params, operands)


def _branch(params: Any, operands: Sequence[Any]) -> Iterator[Body]:
    number = min(max(int(operands[0]), 0), len(params["branches"]) - 1)
    yield Body(f"branch {number} of", params["branches"][number], operands[1:])


def _scan(params: Any, operands: Sequence[Any]) -> Iterator[Body]:
    constants, count = _jax.scan_operands(params)
    body = params["jaxpr"]
    run = jax.jit(_jax.function_of(body))
    carried = list(operands[constants : constants + count])
    rows = operands[constants + count :]
    length = int(params["length"])
    for number in range(length):
        at = length - 1 - number if params["reverse"] else number
        leaves = [*operands[:constants], *carried, *(row[at] for row in rows)]
        yield Body(f"iteration {number} of", body, leaves)
        carried = list(run(*leaves))[:count]


def _while(params: Any, operands: Sequence[Any]) -> Iterator[Body]:
    in_condition, in_body = params["cond_nconsts"], params["body_nconsts"]
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    goes_on, run = (jax.jit(_jax.function_of(jaxpr)) for jaxpr in (condition, body))
    carried = list(operands[in_condition + in_body :])
    number = 0
    while True:
        asked = [*operands[:in_condition], *carried]
        yield Body(f"the condition of iteration {number} of", condition, asked)
        if not bool(goes_on(*asked)[0]):
            return
        leaves = [*operands[in_condition : in_condition + in_body], *carried]
        yield Body(f"iteration {number} of", body, leaves)
        carried = list(run(*leaves))
        number += 1


# The runs of bodies, by the name of the control flow in the table of primitives.
BODIES = {"branches": _branch, "iterations": _scan, "while": _while}


def converted(closed: Any) -> "Model | None":
    """Converts a body to a model. Returns None if it cannot be converted."""
    jaxpr = closed.jaxpr
    try:
        return _core.convert(
            closed,
            Options(
                model_name="body",
                detail="sourcemap",
                functions="none",
                source_text=True,
                keep_results=True,
            ),
            Boundary(
                input_names=[f"in_{i}" for i in range(len(jaxpr.invars))],
                output_names=[f"out_{i}" for i in range(len(jaxpr.outvars))],
            ),
            name_of=lambda _: None,
            rules=registered(),
        )
    except Jax2OnnxError:
        return None
