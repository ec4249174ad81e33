"""Compares a model with a jaxpr, equation by equation."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jax2onnx import _jax
from jax2onnx._checking import jaxpr_bodies
from jax2onnx._checking.compare import Error, difference
from jax2onnx._checking.comparison import Comparison, Finding
from jax2onnx._checking.cut_graph import CutGraph, Expected, Outcome, Tolerances, computed_in
from jax2onnx._checking.evaluate import EquationResult, Path, evaluate, paths
from jax2onnx._checking.findings import compare_outputs, describe
from jax2onnx._checking.graph import Graph, Type, as_types
from jax2onnx._checking.locate import (
    GraphPair,
    different_constants,
    kept_operands,
)
from jax2onnx._checking.matching import (
    ABSENT,
    GONE,
    INSIDE,
    MISNAMED,
    RESHAPED,
    Match,
    comparable,
    keeps_names,
    match,
    same_shape,
    same_types,
)
from jax2onnx._checking.misnamed import Compared, compare_without_names
from jax2onnx._checking.runtime import NCHW, Runnable, as_tensor, real_array
from jax2onnx._checking.source_lines import SourceLines
from jax2onnx._checking.unexecuted_bodies import not_run
from jax2onnx._checking.verification import Verification, error_tables
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


class JaxComparison:
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
        self._tolerances = tolerances
        self._without_functions = without_functions
        made = skeleton(subject.model)
        self._source_lines = SourceLines(made)
        self._reference = Runnable(made)
        self._one, self._other = Graph.of(self._reference), Graph.of(runnable)
        feeds = [as_tensor(leaf) for leaf in subject.leaves]
        for i in subject.inputs_as_nchw:
            feeds[i] = feeds[i].transpose(NCHW)
        self._given = runnable.feeds(feeds)
        self._reference_given = self._reference.feeds(feeds)
        self._inputs = list(zip(self._one.inputs, self._other.inputs, strict=True))
        self._matches = match(self._one, self._other, self._inputs)
        self._matches |= {a: Match(b, by_name=False) for a, b in self._inputs}
        self._types = _declared(self._reference)
        names = [entry.name for entry in self._matches.values()]
        self._other_types = self._other.types([*names, *self._other.outputs], self._given)
        self._skipped: Counter[str] = Counter()
        self._outputs: list[np.ndarray] = []
        self._misnamed: set[str] = set()
        self._keeps_names = keeps_names(self._one, self._other, self._matches)

    @property
    def given(self) -> Mapping[str, np.ndarray]:
        """The inputs of the model, by name."""
        return self._given

    def run(self) -> Verification:
        """Compares all values."""
        if self._keeps_names:
            return self._answer(self._compared())
        names = self._misnamed
        return self._answer(compare_without_names(self._one, self._matches, names, self._compared))

    def _final(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Returns the outputs' names, with JAX's values and the model's."""
        values = self._other.run(self._other.outputs, self._given, self._other_types)
        pairs = zip(self._other.outputs, self._outputs, strict=True)
        return [(name, expected, values[name]) for name, expected in pairs]

    def _compared(self) -> Compared:
        self._skipped.clear()
        self._outputs.clear()
        by_path = self._by_path()
        usable = self._usable({n for _, _, names in by_path.values() for n in names})
        self._fitting = {name for name in usable if self._fits(name)}
        names = [name for _, _, names in by_path.values() for name in names]
        times = Counter(self._matches[name].name for name in names if name in self._matches)
        times.update(self._other.outputs)
        cut = CutGraph(
            self._other,
            self._given,
            self._other_types,
            {usable[name].name for name in self._fitting},
            kept_operands(self._one, usable, self._fitting),
            times,
            self._tolerances,
            same_types(self._one, self._other, self._matches),
        )
        comparison = Comparison(skipped=self._skipped)
        return Compared(comparison, comparison.differing(cut, self._expected(by_path, usable)), cut)

    def _answer(self, compared: Compared) -> Verification:
        comparison, found, cut = compared.comparison, compared.wrong, compared.cut
        errors = comparison.errors
        idle = not_run(self._other, self._given, self._source_lines)
        self._skipped.update(idle)
        if self._other.functions:
            errors = self._inside_functions(errors)
        tables = error_tables(errors, self._source_lines)
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
        return replace(
            answer,
            compared=comparison.compared,
            skipped=self._skipped.total(),
            skipped_because=dict(self._skipped),
            by_line=tables[0],
            by_module=tables[1],
        )

    def values(self, wanted: "set[str]") -> dict[str, np.ndarray]:
        """Returns JAX's arrays for values of the model, by name, where there are any."""
        by_path = self._by_path()
        usable = self._usable({n for _, _, names in by_path.values() for n in names})
        self._fitting = {name for name in usable if self._fits(name)}
        found = self._expected(by_path, usable)
        return {entry.name: entry.array for entry in found if entry.name in wanted}

    def _inside_functions(self, errors: Mapping[str, Error]) -> dict[str, Error]:
        """Replaces the errors of calls by those of the values inside the called functions, relative
        to the conversion.
        """
        graph = Graph.of(Runnable(to_proto(self._subject.model)))
        pair = GraphPair(
            graph.inlined(),
            self._other.inlined(),
            self._inputs,
            self._reference_given,
            self._given,
            self._tolerances,
        )
        calls = {
            name for node in self._one.nodes if self._one.function(node) for name in node.output
        }
        inner = pair.compare().errors
        found = {name: error for name, error in inner.items() if name not in self._one.makers}
        found |= {name: inner[name] for name in calls if name in inner}
        return {name: error for name, error in errors.items() if name not in calls} | found

    def _usable(self, names: "set[str]") -> dict[str, Match]:
        """Returns the counterparts of the values of the conversion that can be compared."""
        usable = {}
        for name in names:
            entry = self._matches.get(name)
            if entry is None or name not in self._one.makers:
                continue
            other = self._other_types.get(entry.name)
            if comparable(self._types.get(name), other) is None:
                usable[name] = entry
        return usable

    def _fits(self, name: str) -> bool:
        other = self._other_types[self._matches[name].name]
        return same_shape(self._types[name], other)

    def _by_path(self) -> _ByPath:
        """Returns the results of equations, by the path of the equation and the number of the
        result.
        """
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

    def _expected(self, by_path: _ByPath, usable: Mapping[str, Match]) -> Iterator[Expected]:
        """Yields the values to compare, in program order."""
        sizes = self._sizes().__getitem__
        for step in evaluate(self._subject.closed, self._subject.leaves, sizes):
            if step.path:
                yield from self._equation(step, by_path, usable)
            else:
                yield from self._results_of_all(step)

    def _equation(
        self, step: EquationResult, by_path: _ByPath, usable: Mapping[str, Match]
    ) -> Iterator[Expected]:
        for position, value in enumerate(step.values):
            known = by_path.get((step.path, position))
            row, result, names = known or (0, 0, [])
            inside = known is None and bool(self._one.functions)
            why = INSIDE if inside else self._why_not(names, usable)
            if why is not None:
                self._skipped[why] += 1
                continue
            array = real_array(value)
            parts = [array.real, array.imag] if len(names) == 2 else [array]
            for name, part in zip(names, parts, strict=True):
                tag = _Tag(step, row, result)
                yield Expected(self._matches[name].name, part, name, tag)

    def _why_not(self, names: Sequence[str], usable: Mapping[str, Match]) -> str | None:
        """Returns the reason that the result of an equation is not compared, or None."""
        if not names:
            return GONE
        for name in names:
            if name not in self._matches:
                return MISNAMED if name in self._misnamed else ABSENT
            if name in self._one.makers and name not in usable:
                other = self._other_types.get(self._matches[name].name)
                return comparable(self._types.get(name), other)
            if name in usable and name not in self._fitting and not self._same_operator(name):
                doubtful = self._matches[name].by_name and not self._keeps_names
                return MISNAMED if doubtful else RESHAPED
        return None

    def _same_operator(self, name: str) -> bool:
        if self._matches[name].by_name and not self._keeps_names:
            return False
        ours = self._one.nodes[self._one.makers[name]]
        theirs = self._other.nodes[self._other.makers[self._matches[name].name]]
        return ours.op_type == theirs.op_type

    def _results_of_all(self, step: EquationResult) -> Iterator[Expected]:
        pairs = zip(step.values, self._one.outputs, self._other.outputs, strict=True)
        for i, (value, name, other) in enumerate(pairs):
            array = as_tensor(value)
            array = array.transpose(NCHW) if i in self._subject.outputs_as_nchw else array
            array = self._reference.at_boundary(self._reference.outputs[i], array)
            self._outputs.append(array)
            yield Expected(other, array, name, _Tag(step, None, i))

    def _sizes(self) -> dict[str, int]:
        """Returns the sizes of dimension variables, which follow from the shapes of the inputs."""
        pairs = zip(self._subject.closed.jaxpr.invars, self._subject.leaves, strict=True)
        return _jax.variables(
            (dim, size)
            for var, leaf in pairs
            for dim, size in zip(var.aval.shape, leaf.shape, strict=True)
        )

    def _explained(self, outcome: Outcome, others: int, cut: CutGraph) -> Verification:
        """Decides whether a rule is wrong or the model was changed after the export."""
        name = outcome.expected.reference
        graph = Graph.of(Runnable(to_proto(self._subject.model)))
        stops = self._fitting
        given = dict(self._reference_given)
        for one in stops:
            if self._matches[one].name in outcome.operands:
                given[one] = outcome.operands[self._matches[one].name]
        nodes, read = graph.needed([name], stops)
        references = [graph.nodes[node] for node in nodes]
        entry = self._matches.get(name)
        finding = Finding(
            outcome,
            cut.nodes(outcome.expected.name),
            references,
            different_constants(
                graph, self._other, cut.nodes(outcome.expected.name), references, "JAX"
            ),
            {},
            by_name=entry is None or entry.by_name,
            keeps_names=self._keeps_names,
            others=others,
        )
        finding = replace(finding, operands=_read(finding, outcome.operands))
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
        stops = {self._matches[name].name for name in self._fitting}
        one = graph.part(outcome.expected.reference, self._fitting)
        other = self._other.part(outcome.expected.name, stops)
        given_other = dict(self._given) | as_types(outcome.operands, self._other_types)
        inputs = [(name, self._matches[name].name) for name in one.inputs if name in self._matches]
        pair = GraphPair(
            one,
            other,
            inputs,
            {name: given[name] for name in given},
            given_other,
            replace(self._tolerances, reference="the export"),
            keep_names=self._keeps_names,
        )
        comparison = pair.compare()
        if comparison.findings:
            finding = pair.deepest(comparison.first(finding.others))
        described = describe(finding, self._source_lines, "the export")
        # A single node is to blame, or else one of several before the value.
        single = len(finding.nodes) == 1
        what = finding.nodes[0].op_type if single else finding.outcome.expected.name
        return described.answer(f"`{what}` differs from JAX", finding, self._skipped)

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
        calls = [node for node in finding.references if self._one.function(node) is not None]
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
        limits = self._tolerances
        return all(
            difference(as_tensor(a), b, limits.rtol, limits.atol) is None
            for a, b in zip(expected, found, strict=True)
        )


def _read(finding: Finding, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = {name for node in finding.nodes for name in node.input}
    return {name: array for name, array in operands.items() if name in names}


def _declared(runnable: Runnable) -> dict[str, Type]:
    """Returns the types that a model declares."""
    graph = runnable.proto.graph
    found = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        tensor = value.type.tensor_type
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        found[value.name] = Type(tensor.elem_type, tuple(sizes))
    return found
