"""Compares the values that a device computed with JAX's.

A device computes from its own operands, which may be wrong already. So each value is compared with
what onnxruntime computes on the CPU from the device's operands: this tells where an error is made.
Values computed from the inputs, by JAX or else on the CPU, tell how far the device has departed.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jax2onnx._checking.against_jax import JaxComparison
from jax2onnx._checking.compare import (
    Error,
    Tolerances,
    coarser,
    difference,
    error_of,
    not_finite,
)
from jax2onnx._checking.comparison import Comparison
from jax2onnx._checking.cut_graph import CutGraph, Expected, Outcome
from jax2onnx._checking.dump import Dump
from jax2onnx._checking.findings import (
    candidates_sentence,
    name_of,
    node_text,
    operand_lines,
    others_sentence,
    statistics_lines,
    with_totals,
)
from jax2onnx._checking.graph import Graph, Type
from jax2onnx._checking.runtime import Runnable, is_float
from jax2onnx._checking.source_lines import SourceLines
from jax2onnx._checking.verification import Verification, skipped_lines

if TYPE_CHECKING:
    import onnx

CPU = "onnxruntime on the CPU"

# The name of the reference in texts such as "1.0 in onnxruntime, 2.0 on the device".
_RUNTIME = "onnxruntime"

# The reason for values without a recording.
UNRECORDED = "is not in the dump"

# The number of nodes that are listed.
_LISTED = 4


# Creates the comparison of the model on the CPU with JAX.
AgainstJax = Callable[[], JaxComparison]


def compare_device(
    model: Any, dump: Dump, tolerances: Tolerances, jax: AgainstJax | None = None
) -> Verification:
    """Compares the values in a dump with JAX's, or with the CPU's if there is no function."""
    return _DeviceComparison(model, dump, tolerances, jax).run()


class _DeviceComparison:
    def __init__(
        self, model: Any, dump: Dump, tolerances: Tolerances, jax: AgainstJax | None
    ) -> None:
        self._dump, self._tolerances, self._jax = dump, tolerances, jax
        runnable = Runnable(model)
        dump.check(model, runnable)
        self._graph = Graph.of(runnable)
        self._source_lines = SourceLines(model)
        inputs = dump.inputs(runnable)
        self._given = runnable.feeds(inputs)
        self._types = self._graph.types(list(self._graph.producers), self._given)
        producers = self._graph.producers
        recorded = [name for name in dump.arrays if name in producers]
        self._device = {
            name: _widened(dump.arrays[name], self._types.get(name))
            for name in sorted(recorded, key=producers.__getitem__)
        }
        self._reference = "JAX" if jax is not None else CPU

    def run(self) -> Verification:
        cut = CutGraph(
            self._graph,
            self._given,
            self._types,
            set(self._device),
            {},
            Counter(list(self._device)),
            replace(self._tolerances, reference="the device"),
            set(self._graph.constants),
        )
        comparison = Comparison()
        expected = (Expected(name, array, name) for name, array in self._device.items())
        found = comparison.differing(cut, expected)
        unrecorded = sum(
            bool(name) and name not in self._device
            for node in self._graph.nodes
            if node.op_type != "Constant"
            for name in node.output
        )
        if unrecorded:
            comparison.skipped[UNRECORDED] += unrecorded
        from_inputs, departed = self._departures(comparison.precision)
        if found:
            answer = self._device_differs(found, cut, departed)
        elif departed and (wrong := self._model_differs()) is not None:
            answer = wrong
        elif departed:
            answer = self._adds_up(departed)
        else:
            answer = self._agrees(comparison)
        skipped = skipped_lines(comparison.skipped)
        if self._jax is None:
            skipped.append(f"  no function is given, so the reference is {CPU}, not JAX")
        answer = replace(answer, message="\n".join([answer.message, *skipped]))
        errors, lines = comparison.errors, self._source_lines
        return with_totals(answer, comparison, lines, errors, from_inputs, differing=len(found))

    def _departures(
        self, precision: str
    ) -> tuple[dict[str, Error], dict[str, tuple[np.ndarray, str]]]:
        """Returns the errors of values as the device computed them from the inputs, and the
        expected arrays and differences of those that differ.
        """
        errors: dict[str, Error] = {}
        departed: dict[str, tuple[np.ndarray, str]] = {}
        known: dict[str, np.ndarray] = {}
        if self._jax is not None:
            against_jax = self._jax()
            self._dump.check_inputs(against_jax.given)
            known = against_jax.values(set(self._device))
            known = {n: a for n, a in known.items() if a.shape == self._device[n].shape}
        others = {name for name in self._device if name not in known}
        computed = self._graph.values(others, self._given, self._types)
        for name, array in (*known.items(), *(computed if others else ())):
            found = self._device[name]
            if (error := error_of(array, found)) is not None:
                errors[name] = error
            apart = self._tolerances.difference(
                array,
                found,
                coarser(precision, array.dtype.name),
                reference="JAX" if name in known else _RUNTIME,
                where="on the device",
            )
            if apart is not None:
                departed[name] = array, apart
        return errors, departed

    def _device_differs(
        self, found: list[Outcome], cut: CutGraph, departed: Mapping[str, tuple[np.ndarray, str]]
    ) -> Verification:
        outcome = found[0]
        name, device = outcome.expected.name, outcome.expected.array
        nodes = cut.nodes(name)
        node = nodes[-1] if nodes else None
        lines = self._source_lines.lines(name)
        place, rule = self._source_lines.excerpt(name), self._source_lines.rule(name)
        module = lines[0].module if lines else ""
        what = node.op_type if len(nodes) == 1 and node is not None else name
        text = [f"[device-differs] `{what}` differs on the device{self._runtime()}"]
        text += [place] if place else []
        text.append(f"  value: {name}, {device.dtype}{list(device.shape)}")
        text += [f"  node:  {node_text(node)}"] if node is not None else []
        text += [f"  module: {module}"] if module else []
        text += [f"  rule:  {rule}"] if rule else []
        places = self._places(nodes) if len(nodes) > 1 else []
        text += [f"  lines: {', '.join(places)}"] if places else []
        read = {n for one in nodes for n in one.input}
        operands = {n: a for n, a in outcome.operands.items() if n in read}
        text += operand_lines(operands)
        if outcome.found is None:
            text.append(f"  {outcome.apart}")
        else:
            words = {"reference": _RUNTIME, "where": "on the device"}
            apart = self._tolerances.difference(outcome.found, device, outcome.precision, **words)
            text += statistics_lines("CPU", outcome.found, device, apart or "", "device")
            if wrong := not_finite(outcome.found, device):
                text.append(f"  Not finite on the device alone: {wrong}.")
            text += _coarser_lines(outcome.found, device, outcome.precision)
        if self._jax is not None and name in departed:
            text.append(f"  from the inputs: {departed[name][1]}")
        certainty = _certainty(nodes, len(found) - 1)
        text.append(f"  confidence: {certainty}")
        if len(nodes) > 1:
            inner = [n.name for n in nodes[:-1] if n.name and n.op_type != "Constant"]
            flags = [f"--line {p}" for p in places] or [f"--node {n}" for n in inner]
            text.append(f"  help: watch more: jax2onnx probe MODEL {' '.join(flags[:_LISTED])}")
        return Verification(
            ok=False,
            message="\n".join(text),
            value=name,
            place=place,
            rule=rule,
            node=name_of(node),
            module=module,
            certainty=certainty,
        )

    def _places(self, nodes: "Sequence[onnx.NodeProto]") -> list[str]:
        """Returns the lines of nodes, in the order of the program."""
        lines = (line for node in nodes for line in self._source_lines.lines(node.output[0])[:1])
        return list(dict.fromkeys(f"{line.file}:{line.line}" for line in lines if line.file))

    def _model_differs(self) -> Verification | None:
        """Returns the comparison of the model with JAX on the CPU, if they differ there, too."""
        answer = None if self._jax is None else self._jax().run()
        if answer is None or answer:
            return None
        head = "the device computes what the model says, but the model differs from JAX"
        return replace(answer, message=f"[model-differs] {head}\n{answer.message}")

    def _adds_up(self, departed: Mapping[str, tuple[np.ndarray, str]]) -> Verification:
        outputs = [name for name in self._graph.outputs if name in departed]
        name = outputs[0] if outputs else min(departed, key=self._graph.producers.__getitem__)
        kind = "output" if outputs else "value"
        expected, apart = departed[name]
        reference = self._reference if self._jax is not None else "CPU"
        text = [
            f"[errors-add-up] the {kind} `{name}` differs from {self._reference}"
            f"{self._runtime(' on')}",
            *statistics_lines(reference, expected, self._device[name], apart, "device"),
            f"  Every recorded value agrees with {CPU} when that computes it from the device's "
            "operands, so small errors add up.",
        ]
        certainty = "certain: no operation of the device is wrong, small errors add up."
        return Verification(ok=False, message="\n".join(text), value=name, certainty=certainty)

    def _agrees(self, comparison: Comparison) -> Verification:
        text = f"all recorded values agree with {self._reference}: {comparison.compared} compared"
        return Verification(ok=True, message=f"{text}{self._runtime(',')}")

    def _runtime(self, before: str = "") -> str:
        if not self._dump.runtime:
            return ""
        return f"{before} {self._dump.runtime}" if before else f" ({self._dump.runtime})"


def _widened(array: np.ndarray, declared: Type | None) -> np.ndarray:
    """Converts integers and booleans to the type in the model, if this changes no number. Some
    devices have only integers of 32 bits, or return booleans as bytes.
    """
    if declared is None or array.dtype.kind not in "iub" or declared.dtype.kind not in "iub":
        return array
    converted = array.astype(declared.dtype)
    return converted if np.array_equal(converted.astype(array.dtype), array) else array


def _coarser_lines(expected: np.ndarray, device: np.ndarray, precision: str) -> list[str]:
    """Returns a line if the difference is explained by a coarser type than the model has."""
    if not is_float(device.dtype):
        return []
    why = "the device may compute in a smaller type than the model has"
    return [
        f"  The numbers agree within the tolerance of {coarse}: {why}."
        for coarse in ("float16", "bfloat16")
        if coarser(precision, coarse) != precision
        and difference(expected, device, precision=coarse) is None
    ][:1]


def _certainty(nodes: "Sequence[onnx.NodeProto]", others: int) -> str:
    if len(nodes) <= 1:
        sure = f"certain: {CPU} computes something else from the same operands."
    else:
        sure = candidates_sentence(nodes, "recorded values")
    return f"{sure} " + others_sentence(others, "recorded values", "the device's operands")
