"""Compares two models value by value."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from jax2onnx._compare import coarser, difference, statistics
from jax2onnx._findings import describe
from jax2onnx._graphs import Graph
from jax2onnx._locate import Comparison, Pair
from jax2onnx._not_run import not_run
from jax2onnx._pieces import Tolerances
from jax2onnx._places import Places
from jax2onnx._runtime import Runnable
from jax2onnx._verification import (
    Verification,
    agreement,
    answering,
    error_tables,
    said_skipped,
)
from jax2onnx.errors import InvalidInputError

REFERENCE = "the reference"


def compare_models(
    reference: Any, model: Any, arrays: Mapping[str, np.ndarray], tolerances: Tolerances
) -> Verification:
    """Compares a model with another one, given the inputs of that one by name."""
    answers: list[Verification] = []
    with answering(model, answers):
        answers.append(_compared(reference, model, arrays, tolerances))
    return answers[0]


def _compared(
    reference: Any, model: Any, arrays: Mapping[str, np.ndarray], tolerances: Tolerances
) -> Verification:
    one, other = Runnable(reference), Runnable(model)
    if len(one.inputs) != len(other.inputs) or len(one.outputs) != len(other.outputs):
        raise InvalidInputError(
            "wrong-arguments",
            f"the reference has {len(one.inputs)} inputs and {len(one.outputs)} outputs, "
            f"but the model has {len(other.inputs)} and {len(other.outputs)}",
        )
    ordered = [arrays[value.name] for value in one.inputs]
    given, given_other = one.feeds(ordered), other.feeds(ordered)
    graph, graph_other = Graph.of(one).inlined(), Graph.of(other).inlined()
    pair = Pair(
        graph,
        graph_other,
        list(zip(graph.inputs, graph_other.inputs, strict=True)),
        given,
        given_other,
        replace(tolerances, reference=REFERENCE),
    )
    comparison = pair.compare()
    places = Places(reference)
    places = places or Places(model)
    idle = not_run(graph_other, given_other, places)
    comparison.skipped.update(idle)
    by_line, by_module = error_tables(comparison.errors, places)
    if comparison.findings:
        answer = _found(pair, comparison, places)
    else:
        answer = _added_up(pair, comparison, given, given_other, tolerances, whole=not idle)
    return replace(
        answer,
        compared=comparison.compared - len(comparison.findings),
        skipped=comparison.skipped.total(),
        skipped_because=dict(comparison.skipped),
        by_line=by_line,
        by_module=by_module,
    )


def _found(pair: Pair, comparison: Comparison, places: Places) -> Verification:
    first, others = comparison.findings[0], len(comparison.findings) - 1
    finding = pair.deepest(first)
    described = describe(finding, places, others, REFERENCE)
    single = len(finding.nodes) == 1
    what = finding.nodes[0].op_type if single else finding.outcome.expected.name
    headline = f"`{what}` differs from the reference"
    return described.answer(headline, finding, comparison.skipped)


def _added_up(
    pair: Pair,
    comparison: Comparison,
    given: Mapping[str, np.ndarray],
    given_other: Mapping[str, np.ndarray],
    tolerances: Tolerances,
    *,
    whole: bool,
) -> Verification:
    """Whether the outputs agree when the models compute all values themselves."""
    one, other = pair.one, pair.other
    expected = one.run(one.outputs, given, one.types(one.outputs, given))
    found = other.run(other.outputs, given_other, other.types(other.outputs, given_other))
    skipped = said_skipped(comparison.skipped)
    precision = comparison.precision
    for a, b in zip(one.outputs, other.outputs, strict=True):
        apart = difference(
            expected[a],
            found[b],
            tolerances.rtol,
            tolerances.atol,
            precision=coarser(precision, expected[a].dtype.name),
            reference=REFERENCE,
        )
        if apart is not None:
            lines = [
                f"[errors-add-up] the output `{b}` differs from the reference",
                f"  reference: {statistics(expected[a])}",
                f"  model:     {statistics(found[b])}",
                f"  diff:      {apart}",
                "  Every compared value agrees when it is computed from the right operands, so "
                "small errors add up, or the mistake is in what was not compared.",
                *skipped,
            ]
            return Verification(ok=False, message="\n".join(lines), value=b)
    return agreement(comparison.compared, comparison.skipped, whole=whole)
