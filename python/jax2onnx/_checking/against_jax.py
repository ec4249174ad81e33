"""Compares a model with a jaxpr, equation by equation."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jax2onnx import _jax
from jax2onnx._checking import jaxpr_bodies
from jax2onnx._checking.compare import Error, Tolerances, difference
from jax2onnx._checking.comparison import Comparison, Finding
from jax2onnx._checking.cut_graph import CutGraph, Expected, Outcome, computed_in
from jax2onnx._checking.evaluate import EquationResult, Path, evaluate, paths, variable_sizes
from jax2onnx._checking.findings import compare_outputs, describe, with_totals
from jax2onnx._checking.graph import Graph, Type, as_types
from jax2onnx._checking.locate import GraphPair, different_constants, operands_of
from jax2onnx._checking.matched_graphs import Compared, MatchedGraphs
from jax2onnx._checking.matching import GONE, INSIDE, Match, match
from jax2onnx._checking.runtime import NCHW, Runnable, as_tensor, real_array, sizes_of
from jax2onnx._checking.source_lines import SourceLines
from jax2onnx._checking.unexecuted_bodies import not_run
from jax2onnx._checking.verification import Verification
from jax2onnx._export.result import skeleton, to_proto

if TYPE_CHECKING:
    from jax2onnx._core import Model, Results


@dataclass(frozen=True)
class Subject:
    """A jaxpr with its arguments, and the model that it is converted to."""

    closed: Any
    leaves: Sequence[Any]
    model: "Model"
    inputs_as_nchw: Sequence[int]
    outputs_as_nchw: Sequence[int]


@dataclass(frozen=True)
class _Tag:
    """The equation that computes a value. Outputs have no row."""

    step: EquationResult
    row: int | None
    result: int


# By path and position of the result: the row, the result in it, and the names of its values in the
# conversion.
_ByPath = dict[tuple[Path, int], tuple[int, int, list[str]]]


class JaxComparison(MatchedGraphs):
    """The comparison of a model with JAX."""

    def __init__(
        self,
        subject: Subject,
        runnable: Runnable,
        tolerances: Tolerances,
        without_functions: Callable[[], Subject] | None = None,
    ) -> None:
        results = subject.model.results
        assert results is not None
        self._results: Results = results
        self._subject = subject
        self._without_functions = without_functions
        made = skeleton(subject.model)
        self._source_lines = SourceLines(made)
        self._reference = Runnable(made)
        one, other = Graph.of(self._reference), Graph.of(runnable)
        feeds = [as_tensor(leaf) for leaf in subject.leaves]
        for i in subject.inputs_as_nchw:
            feeds[i] = feeds[i].transpose(NCHW)
        self.given = runnable.feeds(feeds)
        self._reference_given = self._reference.feeds(feeds)
        self._inputs = list(zip(one.inputs, other.inputs, strict=True))
        matches = match(one, other, self._inputs)
        matches |= {a: Match(b, by_name=False) for a, b in self._inputs}
        super().__init__(one, other, matches, self.given, tolerances)
        self._types = _declared(self._reference)
        names = [entry.name for entry in matches.values()]
        self._other_types = other.types([*names, *other.outputs], self.given)
        self._skipped: Counter[str] = Counter()
        self._outputs: list[np.ndarray] = []

    def run(self) -> Verification:
        return self._answer(self._settled())

    def _final(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Returns the outputs' names, with JAX's values and the model's."""
        values = self.other.run(self.other.outputs, self.given, self._other_types)
        pairs = zip(self.other.outputs, self._outputs, strict=True)
        return [(name, expected, values[name]) for name, expected in pairs]

    def _compared(self) -> Compared:
        self._skipped.clear()
        self._outputs.clear()
        by_path = self._by_path()
        names = [name for _, _, names in by_path.values() for name in names]
        times = Counter(self.matches[name].name for name in names if name in self.matches)
        times.update(self.other.outputs)
        cut = self._cut(names, times)
        comparison = Comparison(skipped=self._skipped)
        return Compared(comparison, comparison.differing(cut, self._expected(by_path)), cut)

    def _answer(self, compared: Compared) -> Verification:
        comparison, found, cut = compared.comparison, compared.wrong, compared.cut
        errors = comparison.errors
        idle = not_run(self.other, self.given, self._source_lines)
        self._skipped.update(idle)
        if self.other.functions:
            errors = self._inside_functions(errors)
        if found:
            others = len({outcome.expected.name for outcome in found} - {found[0].expected.name})
            answer = self._explained(found[0], others, cut)
        else:
            answer = compare_outputs(
                self._final(),
                comparison,
                self._tolerances,
                "no node is wrong: small errors add up",
                "certain: no node is wrong, small errors add up.",
                whole=not idle,
            )
        return with_totals(answer, comparison, self._source_lines, errors)

    def values(self, wanted: "set[str]") -> dict[str, np.ndarray]:
        """Returns JAX's arrays for values of the model, by name, where there are any."""
        by_path = self._by_path()
        self._select(name for _, _, names in by_path.values() for name in names)
        found = self._expected(by_path)
        return {entry.name: entry.array for entry in found if entry.name in wanted}

    def _inside_functions(self, errors: Mapping[str, Error]) -> dict[str, Error]:
        """Replaces the errors of calls by those inside functions, relative to the conversion."""
        graph = Graph.of(Runnable(to_proto(self._subject.model)))
        pair = GraphPair(
            graph.inlined(),
            self.other.inlined(),
            self._inputs,
            self._reference_given,
            self.given,
            self._tolerances,
        )
        calls = {name for node in self.one.nodes if self.one.function(node) for name in node.output}
        inner = pair.compare().errors
        found = {name: error for name, error in inner.items() if name not in self.one.producers}
        found |= {name: inner[name] for name in calls if name in inner}
        return {name: error for name, error in errors.items() if name not in calls} | found

    def _by_path(self) -> _ByPath:
        """Returns the results of equations, by the equation's path and the result's number."""
        known: list[Path | None] = []
        found: _ByPath = {}
        # A body that runs once is part of the main graph, but JAX runs it as a whole.
        evaluated = set(paths(self._subject.closed))
        for row, (caller, results) in enumerate(self._results.rows()):
            outer = () if caller is None else known[caller]
            numbers = [made_by[0] for made_by, _ in results if made_by is not None]
            known.append(None if outer is None or not numbers else (*outer, numbers[0]))
            for result, (made_by, names) in enumerate(results):
                if made_by is not None and outer is not None:
                    number, position = made_by
                    if (*outer, number) in evaluated:
                        found[(*outer, number), position] = row, result, names
        return found

    def _expected(self, by_path: _ByPath) -> Iterator[Expected]:
        """Yields the values to compare, in program order."""
        program = self._subject.closed, self._subject.leaves
        for step in evaluate(*program, variable_sizes(*program).__getitem__):
            if step.path:
                yield from self._equation(step, by_path)
            else:
                yield from self._results_of_all(step)

    def _equation(self, step: EquationResult, by_path: _ByPath) -> Iterator[Expected]:
        for position, value in enumerate(step.values):
            known = by_path.get((step.path, position))
            row, result, names = known or (0, 0, [])
            inside = known is None and bool(self.one.functions)
            why = INSIDE if inside else self._why_none(names)
            if why is not None:
                self._skipped[why] += 1
                continue
            array = real_array(value)
            parts = [array.real, array.imag] if len(names) == 2 else [array]
            for name, part in zip(names, parts, strict=True):
                tag = _Tag(step, row, result)
                yield Expected(self.matches[name].name, part, name, tag)

    def _why_none(self, names: Sequence[str]) -> str | None:
        """Returns the reason that the result of an equation is not compared, or None."""
        if not names:
            return GONE
        # Inputs and constants that match need no comparison of their types.
        made = (name for name in names if name in self.one.producers or name not in self.matches)
        return next(filter(None, map(self._why_not, made)), None)

    def _results_of_all(self, step: EquationResult) -> Iterator[Expected]:
        pairs = zip(step.values, self.one.outputs, self.other.outputs, strict=True)
        for i, (value, name, other) in enumerate(pairs):
            array = as_tensor(value)
            array = array.transpose(NCHW) if i in self._subject.outputs_as_nchw else array
            array = self._reference.at_boundary(self._reference.outputs[i], array)
            self._outputs.append(array)
            yield Expected(other, array, name, _Tag(step, None, i))

    def _explained(self, outcome: Outcome, others: int, cut: CutGraph) -> Verification:
        """Decides whether a rule is wrong or the model was changed after the export."""
        name = outcome.expected.reference
        graph = Graph.of(Runnable(to_proto(self._subject.model)))
        stops = self._fitting
        given = dict(self._reference_given)
        for one in stops:
            if self.matches[one].name in outcome.operands:
                given[one] = outcome.operands[self.matches[one].name]
        nodes, read = graph.needed([name], stops)
        references = [graph.nodes[node] for node in nodes]
        entry = self.matches.get(name)
        wrong = cut.nodes(outcome.expected.name)
        finding = Finding(
            outcome,
            wrong,
            references,
            different_constants(graph, self.other, wrong, references, "JAX"),
            operands_of(wrong, outcome),
            by_name=entry is None or entry.by_name,
            keeps_names=self.keeps_names,
            others=others,
        )
        if not references or any(value not in given for value in read):
            return self._of_rule(finding)
        right = graph.run([name], given, self._types, stops)[name]
        # The export may compute in a coarser type than the model.
        made = [n for node in references for n in node.output if n in self._types]
        exported = computed_in(outcome.precision, [self._types[n].code for n in made], references)
        if difference(outcome.expected.array, right, precision=exported) is not None:
            return self._of_rule(finding)
        return self._of_model(finding, graph, given)

    def _of_model(
        self, finding: Finding, graph: Graph, given: Mapping[str, np.ndarray]
    ) -> Verification:
        """Describes a difference that is not in the exported model: the model was changed since."""
        outcome = finding.outcome
        stops = {self.matches[name].name for name in self._fitting}
        one = graph.part(outcome.expected.reference, self._fitting)
        other = self.other.part(outcome.expected.name, stops)
        given_other = dict(self.given) | as_types(outcome.operands, self._other_types)
        inputs = [(name, self.matches[name].name) for name in one.inputs if name in self.matches]
        pair = GraphPair(
            one,
            other,
            inputs,
            given,
            given_other,
            replace(self._tolerances, reference="the export"),
            keep_names=self.keeps_names,
        )
        comparison = pair.compare()
        if comparison.findings:
            finding = pair.deepest(comparison.first(finding.others))
        described = describe(finding, self._source_lines, "the export")
        return described.answer(f"`{finding.culprit}` differs from JAX", finding, self._skipped)

    def _of_rule(self, finding: Finding) -> Verification:
        """Describes a difference that is in the exported model: a rule or a rewrite is wrong."""
        tag: _Tag = finding.outcome.expected.tag
        if (inner := self._inside(tag, finding)) is not None:
            return inner
        described = describe(finding, self._source_lines, "JAX")
        if tag.row is None:
            what = f"the output `{finding.outcome.expected.name}` differs from JAX"
            return described.answer(what, finding, self._skipped)
        rule = self._results.rule(tag.row, tag.result) or ""
        lines = [line for line in described.lines if not line.startswith("  rule:")]
        lines = [*lines[:2], f"  rule:  {rule}", *lines[2:]]
        place = self._results.place(tag.row) or described.place
        described = replace(described, place=place, rule=rule, lines=lines)
        return described.answer(f"`{tag.step.primitive}` differs from JAX", finding, self._skipped)

    def _inside(self, tag: _Tag, finding: Finding) -> Verification | None:
        """Returns the difference inside a loop, a branch or a function of the program, or None."""
        if tag.step.equation is not None:
            return self._in_body(tag.step)
        calls = [node for node in finding.references if self.one.function(node) is not None]
        if calls and self._without_functions is not None:
            subject = self._without_functions()
            runnable = Runnable(to_proto(subject.model))
            answer = JaxComparison(subject, runnable, self._tolerances).run()
            return None if answer else answer
        return None

    def _in_body(self, step: EquationResult) -> Verification | None:
        """Returns the difference in the first iteration or branch whose results differ, or None."""
        known: dict[int, tuple[Model, Runnable] | None] = {}
        for body in jaxpr_bodies.body_runs(step.equation, step.operands):
            if id(body.closed) not in known:
                model = jaxpr_bodies.converted(body.closed)
                made = None if model is None else (model, Runnable(to_proto(model)))
                known[id(body.closed)] = made
            converted = known[id(body.closed)]
            if converted is None:
                return None
            subject = Subject(body.closed, body.leaves, converted[0], (), ())
            if self._agrees(subject, converted[1]):
                continue
            answer = JaxComparison(subject, converted[1], self._tolerances).run()
            if not answer:
                head, _, rest = answer.message.partition("\n")
                message = f"{head}\n  inside: {body.what} `{step.primitive}`\n{rest}"
                return replace(answer, message=message)
        return None

    def _agrees(self, subject: Subject, runnable: Runnable) -> bool:
        """Returns `True` if the results of a body agree with JAX's."""
        expected = _jax.function_of(subject.closed)(*subject.leaves)
        found = runnable.run([as_tensor(leaf) for leaf in subject.leaves])
        return all(
            self._tolerances.difference(as_tensor(a), b) is None
            for a, b in zip(expected, found, strict=True)
        )


def _declared(runnable: Runnable) -> dict[str, Type]:
    graph = runnable.proto.graph
    values = (*graph.input, *graph.value_info, *graph.output)
    return {v.name: Type(v.type.tensor_type.elem_type, tuple(sizes_of(v))) for v in values}
