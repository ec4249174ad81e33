"""Matches the values of two graphs."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jax2onnx import _core
from jax2onnx._checking.graph import Graph, Type
from jax2onnx._checking.runtime import is_float

# Constants of at least this many bytes are matched by name.
_LARGE = 1024

# Commutative operators, whose operands may be swapped.
_COMMUTATIVE = ("Add", "Mul", "Max", "Min", "Sum", "Mean", "And", "Or", "Xor", "Equal")

# The reasons that a value is not compared.
INSIDE = "is inside a function, whose results are compared"
GONE = "became part of another operator"
ABSENT = "has no counterpart in the model"
RETYPED = "has a different element type in the model"
RESHAPED = "has a different shape in the model"
NOT_A_TENSOR = "is not a tensor"
UNFIT = "has operands beyond the range of the element type in the model"
LEFT = "is computed from values without a counterpart"
MISNAMED = "has the name of another value in the model"


@dataclass(frozen=True)
class Match:
    """The counterpart of a value.

    Attributes:
        name: Its name.
        by_name: `True` if only the names are the same, not the computations.
        by_use: `True` if the values are matched only by their position in matched consumers.
    """

    name: str
    by_name: bool
    by_use: bool = False


def match(
    one: Graph, other: Graph, inputs: Sequence[tuple[str, str]], *, by_use: bool = False
) -> dict[str, Match]:
    """Returns the counterparts in `other` of the values and constants of `one`. `inputs` are the
    pairs of corresponding inputs.

    Values match if the same operators compute them from the same operands. Other values are matched
    by name, which most tools preserve when they replace operators. With `by_use`, values also match
    by their consumers, which does not prove that they are the same.
    """
    same = _core.same_values(
        _skeleton(one, [pair[0] for pair in inputs]),
        _skeleton(other, [pair[1] for pair in inputs]),
    )
    found = {
        name: Match(same[name], by_name=False)
        for ours, theirs in ((one.producers, other.producers), (one.constants, other.constants))
        for name in ours
        if same.get(name) in theirs
    }
    taken = {entry.name for entry in found.values()}
    for ours, theirs in ((one.producers, other.producers), (one.constants, other.constants)):
        for name in ours:
            if name not in found and name in theirs and name not in taken:
                found[name] = Match(name, by_name=True)
                taken.add(name)
    found.update(_inlined(one, other, found, taken))
    for name, counterpart in zip(one.outputs, other.outputs, strict=False):
        if name in one.producers and counterpart in other.producers:
            found.setdefault(name, Match(counterpart, by_name=True))
    if by_use:
        _add_by_use(one, other, found)
    return found


def _add_by_use(one: Graph, other: Graph, found: dict[str, Match]) -> None:
    """Adds operands of nodes whose results match, if the same operators compute them."""
    taken = {entry.name for entry in found.values()}
    todo = [name for name in found if name in one.producers]
    while todo:
        name = todo.pop()
        ours = one.nodes[one.producers[name]]
        theirs = other.nodes[other.producers[found[name].name]]
        if (ours.op_type, len(ours.input)) != (theirs.op_type, len(theirs.input)):
            continue
        pairs = list(zip(ours.input, theirs.input, strict=True))
        if ours.op_type in _COMMUTATIVE:
            left = [n for n in dict.fromkeys(ours.input) if n not in found]
            right = [n for n in dict.fromkeys(theirs.input) if n not in taken]
            pairs = list(zip(left, right, strict=True)) if len(left) == len(right) == 1 else []
        for a, b in pairs:
            if a in found or b in taken or a not in one.producers or b not in other.producers:
                continue
            kinds = (one.nodes[one.producers[a]].op_type, other.nodes[other.producers[b]].op_type)
            if kinds[0] == kinds[1]:
                found[a] = Match(b, by_name=False, by_use=True)
                taken.add(b)
                todo.append(a)


def _inlined(
    one: Graph, other: Graph, found: Mapping[str, Match], taken: "set[str]"
) -> dict[str, Match]:
    """Matches values of functions that a runtime inlined, call by call in order."""
    ours, theirs = defaultdict(list), defaultdict(list)
    for name in one.producers:
        if ":/" in name:
            ours[name[name.rindex(":/") + 1 :]].append(name)
    for name in other.producers:
        if (original := _core.before_inlining(name)) is not None:
            theirs[original].append(name)
    pairs = [
        pair
        for name, calls in ours.items()
        if len(calls) == len(theirs.get(name, ()))
        for pair in zip(calls, theirs[name], strict=True)
    ]
    return {
        name: Match(counterpart, by_name=True)
        for name, counterpart in pairs
        if name not in found and counterpart not in taken
    }


# An exported node's name: its module and operator, and a number if there are several.
_EXPORTED = re.compile(r"(/(?:.*/)?([A-Za-z]+))(?:_([0-9]+))?")


def keeps_names(one: Graph, other: Graph, matches: Mapping[str, Match]) -> bool:
    """Returns `True` if equal names mean the same value in two graphs: one was made from the other
    by a tool, or both by the same export.

    Two exports of a program with different options number their values differently. Then `other`
    has nodes with such names that `one` lacks, or numbers fewer nodes without a gap, or the same
    value has another value's name.
    """
    ours, theirs = _numbered(one), _numbered(other)
    for family, numbers in theirs.items():
        known = ours.get(family, set())
        if not numbers <= known or (numbers < known and max(numbers) < len(numbers)):
            return False
    return not any(
        entry.name != name and entry.name in one.producers and not _is_own(matches, entry.name)
        for name, entry in matches.items()
        if name in one.producers and not entry.by_name
    )


def _numbered(graph: Graph) -> dict[str, set[int]]:
    """Returns the numbers of the nodes that an export named after their modules and operators."""
    found: dict[str, set[int]] = defaultdict(set)
    for node in graph.nodes:
        form = _EXPORTED.fullmatch(node.name)
        if form and form[2] == node.op_type:
            found[form[1]].add(int(form[3] or 0))
    return found


def _is_own(matches: Mapping[str, Match], name: str) -> bool:
    return name in matches and matches[name].name == name


def comparable(one: Type | None, other: Type | None) -> str | None:
    """Returns the reason that two values cannot be compared, or None."""
    if one is None or other is None:
        return NOT_A_TENSOR
    if one.code != other.code and not (is_float(one.dtype) and is_float(other.dtype)):
        return RETYPED
    return None


def same_shape(one: Type, other: Type) -> bool:
    """Returns `True` if two values can have the same shape."""
    if one.dims is None or other.dims is None:
        return True
    return len(one.dims) == len(other.dims) and all(
        a is None or b is None or a == b for a, b in zip(one.dims, other.dims, strict=True)
    )


def same_types(one: Graph, other: Graph, matches: Mapping[str, Match]) -> "set[str]":
    """Returns the constants of `other` whose counterparts in `one` have the same element types."""
    pairs = ((name, entry.name) for name, entry in matches.items() if name in one.constants)
    return {
        theirs
        for ours, theirs in pairs
        if theirs in other.constants
        and one.constants[ours].data_type == other.constants[theirs].data_type
    }


def _skeleton(graph: Graph, inputs: Iterable[str]) -> bytes:
    import onnx

    model = onnx.ModelProto(ir_version=graph.ir_version)
    for domain, version in graph.opsets.items():
        model.opset_import.add(domain=domain, version=version)
    for name in inputs:
        model.graph.input.add(name=name)
    model.graph.node.extend(graph.nodes)
    read = {name for node in range(len(graph.nodes)) for name in graph.reads(node)}
    for name in sorted(read):
        tensor = graph.constants.get(name)
        if tensor is None:
            continue
        small = model.graph.initializer.add(name=name, data_type=tensor.data_type)
        small.dims.extend(tensor.dims)
        if len(tensor.raw_data) < _LARGE:
            small.raw_data = tensor.raw_data
    serialised: bytes = model.SerializeToString()
    return serialised
