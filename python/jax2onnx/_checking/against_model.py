"""Compares two models value by value."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from jax2onnx._checking.compare import Tolerances
from jax2onnx._checking.comparison import Comparison
from jax2onnx._checking.findings import compare_outputs, describe, with_totals
from jax2onnx._checking.graph import Graph
from jax2onnx._checking.locate import GraphPair
from jax2onnx._checking.runtime import Runnable
from jax2onnx._checking.source_lines import SourceLines
from jax2onnx._checking.unexecuted_bodies import not_run
from jax2onnx._checking.verification import Verification, answer_of
from jax2onnx.errors import wrong_arguments

REFERENCE = "the reference"


def compare_models(
    reference: Any, model: Any, arrays: Mapping[str, np.ndarray], tolerances: Tolerances
) -> Verification:
    """Compares a model with another one, given the inputs of that one by name."""
    return answer_of(model, lambda: _compared(reference, model, arrays, tolerances))


def _compared(
    reference: Any, model: Any, arrays: Mapping[str, np.ndarray], tolerances: Tolerances
) -> Verification:
    one, other = Runnable(reference), Runnable(model)
    if len(one.inputs) != len(other.inputs) or len(one.outputs) != len(other.outputs):
        raise wrong_arguments(
            f"the reference has {len(one.inputs)} inputs and {len(one.outputs)} outputs, "
            f"but the model has {len(other.inputs)} and {len(other.outputs)}"
        )
    ordered = [arrays[value.name] for value in one.inputs]
    given, given_other = one.feeds(ordered), other.feeds(ordered)
    tolerances = replace(tolerances, reference=REFERENCE)
    graph, graph_other = Graph.of(one).inlined(), Graph.of(other).inlined()
    pair = GraphPair(
        graph,
        graph_other,
        list(zip(graph.inputs, graph_other.inputs, strict=True)),
        given,
        given_other,
        tolerances,
    )
    comparison = pair.compare()
    source_lines = SourceLines(reference) or SourceLines(model)
    idle = not_run(graph_other, given_other, source_lines)
    comparison.skipped.update(idle)
    if comparison.findings:
        answer = _found(pair, comparison, source_lines)
    else:
        conclusion = "either small errors add up, or a value that was not compared is wrong"
        expected = graph.run(graph.outputs, given, graph.types(graph.outputs, given))
        types = graph_other.types(graph_other.outputs, given_other)
        found = graph_other.run(graph_other.outputs, given_other, types)
        outputs = [
            (b, expected[a], found[b])
            for a, b in zip(graph.outputs, graph_other.outputs, strict=True)
        ]
        answer = compare_outputs(outputs, comparison, tolerances, conclusion, whole=not idle)
    return with_totals(answer, comparison, source_lines, comparison.errors)


def _found(pair: GraphPair, comparison: Comparison, source_lines: SourceLines) -> Verification:
    finding = pair.deepest(comparison.first())
    described = describe(finding, source_lines, REFERENCE)
    headline = f"`{finding.culprit}` differs from the reference"
    return described.answer(headline, finding, comparison.skipped)
