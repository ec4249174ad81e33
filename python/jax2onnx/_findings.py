"""Says what differs, where it is, and how sure that is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jax2onnx._compare import not_finite, statistics
from jax2onnx._locate import Finding
from jax2onnx._places import Places
from jax2onnx._verification import Verification, said_skipped

if TYPE_CHECKING:
    import onnx

# How many operands, constants and nodes are listed.
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
        """What `verify` answers, with a headline."""
        lines = [f"[value-differs] {what}"]
        lines += [self.place] if self.place else []
        lines += [*self.lines, *said_skipped(skipped)]
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


def describe(finding: Finding, places: Places, others: int, reference: str) -> Described:
    """A value that differs, with the node that computes it, its line, and its operands.

    `others` is how many other values differ on their own.
    """
    outcome = finding.outcome
    name = places.known(outcome.expected.reference, outcome.expected.name)
    node = finding.nodes[-1] if finding.nodes else None
    lines = places.lines(name)
    place = places.excerpt(name)
    rule = places.rule(name)
    module = lines[0].module if lines else ""
    text = [f"  inside: {what}{_at(places, value)}" for what, value in finding.inside]
    text += [f"  value: {outcome.expected.name}, {_type(outcome.found, outcome.expected.array)}"]
    if node is not None:
        text.append(f"  node:  {_node(node)}")
        if finding.references and not _same_kind(finding):
            text.append(f"         {reference} has {_kinds(finding.references)} here")
    text += [f"  module: {module}"] if module else []
    text += [f"  rule:  {rule}"] if rule else []
    text += [f"  constant {n} differs: {how}" for n, how in finding.constants.items()]
    text += _operands(finding.operands)
    text += _numbers(finding, reference)
    certainty = _certainty(finding, others)
    text.append(f"  sure:  {certainty}")
    return Described(text, place, rule, _name(node), module, certainty)


def _at(places: Places, name: str) -> str:
    lines = places.lines(name)
    return f", {lines[0]}" if lines and lines[0].file else ""


def _type(found: np.ndarray | None, expected: np.ndarray) -> str:
    array = expected if found is None else found
    return f"{array.dtype}{list(array.shape)}"


def _numbers(finding: Finding, reference: str) -> list[str]:
    outcome = finding.outcome
    expected, found = outcome.expected.array, outcome.found
    label = f"{reference.removeprefix('the ')}:"
    width = max(len(label), len("model:"))
    text = [f"  {label:{width}} {statistics(expected)}"]
    if found is not None:
        text.append(f"  {'model:':{width}} {statistics(found)}")
    text.append(f"  {'diff:':{width}} {outcome.apart}")
    if found is not None and (wrong := not_finite(expected, found)):
        finite = all(_is_finite(array) for array in finding.operands.values())
        text.append(
            f"  The model's first numbers that are not finite: {wrong}; "
            + ("all operands are finite." if finite else "not all operands are finite, either.")
        )
    return text


def _is_finite(array: np.ndarray) -> bool:
    return array.dtype.kind in "iub" or bool(np.isfinite(array.astype(np.float64)).all())


def _operands(operands: Mapping[str, np.ndarray]) -> list[str]:
    names = list(operands)
    text = [f"  operand {name}: {statistics(operands[name])}" for name in names[:_LISTED]]
    return text + [f"  and {len(names) - _LISTED} more operands"] * (len(names) > _LISTED)


def _certainty(finding: Finding, others: int) -> str:
    count = len(finding.nodes)
    if finding.constants:
        sure = "certain: this constant was changed, and this value is computed from it."
    elif count <= 1:
        known = "nearly certain" if finding.by_use else "certain"
        sure = f"{known}: this node gets the right operands and returns something else."
    else:
        shown = ", ".join(_name(node) for node in finding.nodes[:_LISTED])
        more = f" and {count - _LISTED} more" if count > _LISTED else ""
        sure = f"it is one of {count} nodes between values that agree: {shown}{more}."
    if finding.by_name and count and finding.references and not _same_kind(finding):
        sure += " The value was found by its name."
    if finding.by_use:
        sure += " The value was found by the node that reads it."
    if others:
        verb = "values differ" if others > 1 else "value differs"
        return f"{sure} {others} other {verb} even with the right operands."
    return f"{sure} All other values agree, given the right operands."


def _same_kind(finding: Finding) -> bool:
    return _kinds(finding.nodes) == _kinds(finding.references)


def _kinds(nodes: "Sequence[onnx.NodeProto]") -> str:
    return ", ".join(node.op_type for node in nodes[-_LISTED:])


def _name(node: "onnx.NodeProto | None") -> str:
    if node is None:
        return ""
    return node.name or next((name for name in node.output if name), node.op_type)


def _node(node: "onnx.NodeProto") -> str:
    return f"{_name(node)} = {node.op_type}({', '.join(node.input)})"
