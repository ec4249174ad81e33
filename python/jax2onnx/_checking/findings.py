"""Descriptions of differences: the value, its source line, and the certainty of the finding."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from jax2onnx._checking.compare import (
    Error,
    Tolerances,
    coarser,
    not_finite,
    same_nan,
    statistics,
)
from jax2onnx._checking.comparison import Comparison, Finding
from jax2onnx._checking.source_lines import Line, SourceLines, is_inlined
from jax2onnx._checking.verification import (
    Verification,
    agreement,
    error_tables,
    skipped_lines,
)

if TYPE_CHECKING:
    import onnx

# The number of operands, constants and nodes that are listed.
_LISTED = 4


@dataclass(frozen=True)
class Described:
    """A finding in words."""

    lines: list[str]
    place: str
    rule: str
    node: str
    module: str
    certainty: str

    def answer(self, what: str, finding: Finding, skipped: Mapping[str, int]) -> Verification:
        """Returns the result of `verify`, with a headline."""
        lines = [f"[value-differs] {what}"]
        lines += [self.place] if self.place else []
        lines += [*self.lines, *skipped_lines(skipped)]
        return Verification(
            ok=False,
            message="\n".join(lines),
            value=finding.outcome.expected.name,
            place=self.place,
            rule=self.rule,
            node=self.node,
            module=self.module,
            certainty=self.certainty,
        )


def with_totals(
    answer: Verification,
    comparison: Comparison,
    source_lines: SourceLines,
    errors: Mapping[str, Error],
    from_inputs: Mapping[str, Error] | None = None,
    *,
    differing: int = 0,
) -> Verification:
    """Adds the numbers of values to a result, and the errors of values by line and by module."""
    by_line, by_module = error_tables(errors, source_lines, from_inputs)
    return replace(
        answer,
        compared=comparison.compared + differing,
        skipped=comparison.skipped.total(),
        skipped_because=dict(comparison.skipped),
        by_line=by_line,
        by_module=by_module,
    )


def compare_outputs(
    outputs: Iterable[tuple[str, np.ndarray, np.ndarray]],
    comparison: Comparison,
    tolerances: Tolerances,
    conclusion: str,
    certainty: str = "",
    *,
    whole: bool,
) -> Verification:
    """Compares the outputs that a model computes from its own values, after all values agreed.

    `outputs` are names with the expected and the computed array. `conclusion` explains a
    difference. `whole` is `True` if every part of the model ran.
    """
    reference = tolerances.reference
    nan = []
    for name, expected, found in outputs:
        precision = coarser(comparison.precision, expected.dtype.name)
        apart = tolerances.difference(expected, found, precision)
        if apart is not None:
            lines = [
                f"[errors-add-up] the output `{name}` differs from {reference}",
                *statistics_lines(reference, expected, found, apart),
                "  Every compared value agrees when it is computed from the right operands, so "
                f"{conclusion}.",
                "  `by_line` and `by_module` show how much each line and each module adds.",
                *skipped_lines(comparison.skipped),
            ]
            message = "\n".join(lines)
            return Verification(ok=False, message=message, value=name, certainty=certainty)
        if shared := same_nan(name, expected):
            nan.append(shared)
    return agreement(comparison.compared, comparison.skipped, nan, whole=whole)


def statistics_lines(
    reference: str,
    expected: np.ndarray,
    found: np.ndarray | None,
    apart: str,
    subject: str = "model",
) -> list[str]:
    """Returns lines with the statistics of two arrays, and their difference."""
    label = f"{reference.removeprefix('the ')}:"
    width = max(len(label), len(subject) + 1)
    text = [f"  {label:{width}} {statistics(expected)}"]
    if found is not None:
        text.append(f"  {f'{subject}:':{width}} {statistics(found)}")
    return [*text, f"  {'diff:':{width}} {apart}"]


def describe(finding: Finding, source_lines: SourceLines, reference: str) -> Described:
    """Describes a value that differs, with its node, line and operands."""
    outcome = finding.outcome
    name = source_lines.known(*_names_of_line(finding), outcome.expected.name)
    node = finding.nodes[-1] if finding.nodes else None
    lines = source_lines.lines(name)
    place = source_lines.excerpt(name)
    rule = source_lines.rule(name)
    module = lines[0].module if lines else ""
    text = [f"  inside: {what}{_at(source_lines, value)}" for what, value in finding.inside]
    text += [f"  value: {outcome.expected.name}, {_type(outcome.found, outcome.expected.array)}"]
    if node is not None:
        text.append(f"  node:  {node_text(node)}")
        if finding.references and not _same_kind(finding):
            text.append(f"         {reference} has {_kinds(finding.references)} here")
    fused = _fused_lines(finding, source_lines) or _merged_lines(finding, lines)
    text += [f"  {'lines: ' if i == 0 else '       '}{line}" for i, line in enumerate(fused)]
    text += [f"  module: {module}"] if module else []
    text += [f"  rule:  {rule}"] if rule else []
    text += [f"  constant {n} differs: {how}" for n, how in finding.constants.items()]
    text += operand_lines(finding.operands)
    text += _numbers(finding, reference)
    certainty = _certainty(finding, len(fused))
    text.append(f"  confidence: {certainty}")
    return Described(text, place, rule, name_of(node), module, certainty)


def _names_of_line(finding: Finding) -> list[str]:
    """Returns the names, best first, that lead to the line of a finding: the only node that reads a
    changed constant, the node of an inlined function, the value.
    """
    value = finding.outcome.expected.reference
    if reader := _reader(finding):
        return [reader.name, value]
    # The value has the name of the call's result.
    made = (node.name for node in finding.references if value in node.output)
    return [*(name for name in made if is_inlined(name)), value]


def _reader(finding: Finding) -> "onnx.NodeProto | None":
    """Returns the only one of several references that reads a changed constant, if there is one."""
    changed = finding.constants.keys()
    readers = [node for node in finding.references if not changed.isdisjoint(node.input)]
    return readers[0] if len(readers) == 1 and len(finding.references) > 1 else None


def _at(source_lines: SourceLines, name: str) -> str:
    lines = source_lines.lines(name)
    return f", {lines[0]}" if lines and lines[0].file else ""


def _type(found: np.ndarray | None, expected: np.ndarray) -> str:
    array = expected if found is None else found
    return f"{array.dtype}{list(array.shape)}"


def _numbers(finding: Finding, reference: str) -> list[str]:
    outcome = finding.outcome
    expected, found = outcome.expected.array, outcome.found
    text = statistics_lines(reference, expected, found, outcome.apart)
    if found is not None and (wrong := not_finite(expected, found)):
        finite = all(_is_finite(array) for array in finding.operands.values())
        text.append(
            f"  The model's first numbers that are not finite: {wrong}; "
            + ("all operands are finite." if finite else "some operands are not finite, either.")
        )
    return text


def _is_finite(array: np.ndarray) -> bool:
    return array.dtype.kind in "iub" or bool(np.isfinite(array.astype(np.float64)).all())


def operand_lines(operands: Mapping[str, np.ndarray]) -> list[str]:
    """Returns lines with the statistics of operands."""
    names = list(operands)
    text = [f"  operand {name}: {statistics(operands[name])}" for name in names[:_LISTED]]
    return text + [f"  and {len(names) - _LISTED} more operands"] * (len(names) > _LISTED)


def _fused_lines(finding: Finding, source_lines: SourceLines) -> list[str]:
    """Returns the lines that the model computes at once, but the reference in several nodes."""
    if len(finding.nodes) > len(finding.references):
        return []
    made = (name for node in finding.references for name in node.output if name)
    known = (source_lines.lines(name) for name in made)
    lines = list(dict.fromkeys(str(lines[0]) for lines in known if lines and lines[0].file))
    return lines if len(lines) > 1 else []


def _merged_lines(finding: Finding, lines: Sequence[Line]) -> list[str]:
    """Returns the lines of a node that the export made of several, if constants of it changed."""
    if not finding.constants:
        return []
    merged = list(dict.fromkeys(str(line) for line in lines if line.file))
    return merged if len(merged) > 1 else []


def _certainty(finding: Finding, lines: int) -> str:
    count, others = len(finding.nodes), finding.others
    guessed = finding.by_name and not finding.keeps_names
    known = "likely" if guessed else "nearly certain" if finding.by_use else "certain"
    if finding.constants:
        known = "likely" if guessed else "certain"
        sure = f"{known}: this constant was changed, and this value is computed from it."
        if lines:
            which = "of which this one reads" if _reader(finding) else "and one of them reads"
            sure += f" The node computes {lines} lines at once, {which} the constant."
    elif count <= 1:
        sure = f"{known}: the result of this node is wrong although its operands are right."
        if lines:
            sure += f" It computes {lines} lines at once, and one of them is meant."
    else:
        sure = candidates_sentence(finding.nodes, "values that agree")
    if guessed:
        sure += " The value was matched by its name, and the models name their values differently."
    elif finding.by_name and count and finding.references and not _same_kind(finding):
        sure += " The value was matched by its name."
    if finding.by_use:
        sure += " The value was matched by the node that reads it."
    return f"{sure} " + others_sentence(others, "values", "the right operands")


def candidates_sentence(nodes: "Sequence[onnx.NodeProto]", ends: str) -> str:
    """Returns a sentence that lists the nodes between values that are known."""
    shown = ", ".join(name_of(node) for node in nodes[:_LISTED])
    more = f" and {len(nodes) - _LISTED} more" if len(nodes) > _LISTED else ""
    return f"it is one of {len(nodes)} nodes between {ends}: {shown}{more}."


def others_sentence(others: int, values: str, operands: str) -> str:
    """Returns a sentence about the other values."""
    if others:
        verb = f"{values} differ" if others > 1 else f"{values.removesuffix('s')} differs"
        return f"{others} other {verb} even with {operands}."
    return f"All other {values} agree, given {operands}."


def _same_kind(finding: Finding) -> bool:
    return _kinds(finding.nodes) == _kinds(finding.references)


def _kinds(nodes: "Sequence[onnx.NodeProto]") -> str:
    return ", ".join(node.op_type for node in nodes[-_LISTED:])


def name_of(node: "onnx.NodeProto | None") -> str:
    """Returns the name of a node, or of its first result."""
    if node is None:
        return ""
    return node.name or next((name for name in node.output if name), node.op_type)


def node_text(node: "onnx.NodeProto") -> str:
    """Returns a node as text: `name = Op(operands)`."""
    return f"{name_of(node)} = {node.op_type}({', '.join(node.input)})"
