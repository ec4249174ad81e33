"""Compares the values of a graph with a reference, each computed from the reference's operands.

A wrong node therefore affects only its own results, and rounding errors do not add up.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jax2onnx._checking import graph
from jax2onnx._checking.compare import Error, Tolerances, coarser, error_of, unrounded, within
from jax2onnx._checking.graph import Graph, Type

if TYPE_CHECKING:
    import onnx

# The number of differing values whose operands are kept.
_KEPT = 16

_INTEGER_OPS = ("MatMulInteger", "ConvInteger", "MatMulNBits", "DynamicQuantizeLSTM")
_QUANTISED = ("QLinear", "QGemm", "QAttention", "QuantizeLinear", "DequantizeLinear", "DynamicQ")


@dataclass(frozen=True)
class Expected:
    """The expected value of a node's result.

    Attributes:
        name: Its name in the graph.
        array: The reference's value.
        reference: Its name in the reference.
        tag: Data of the caller.
        precision: The coarsest type that the reference computes it in.
    """

    name: str
    array: np.ndarray
    reference: str
    tag: Any = None
    precision: str = "float64"


@dataclass(frozen=True)
class Outcome:
    """A compared value.

    Attributes:
        number: Its position in the order of the reference.
        expected: The expected value.
        found: The value; None if it cannot be computed.
        apart: A description of the difference; empty if the values agree.
        error: The error, for floats.
        precision: The coarsest type of the computation.
        operands: The values that it was computed from, for the first values that differ.
        unfit: `True` if an operand is beyond the range of its element type in the graph, so that
            the value cannot be right.
    """

    number: int
    expected: Expected
    found: np.ndarray | None
    apart: str
    error: Error | None
    precision: str
    operands: dict[str, np.ndarray]
    unfit: bool = False


class CutGraph:
    """A graph that is cut at the values of a reference.

    `stops` are the values that the reference provides. `kept` lists for each of them the operands
    of the reference, which are kept until then. `times` counts the comparisons of a value, which
    may match several values of the reference. `typed` are the constants that have the same types in
    the reference.
    """

    def __init__(
        self,
        graph: Graph,
        given: Mapping[str, np.ndarray],
        types: Mapping[str, Type],
        stops: "set[str]",
        kept: Mapping[str, Sequence[str]],
        times: Mapping[str, int],
        tolerances: Tolerances,
        typed: "set[str]",
    ) -> None:
        self.graph = graph
        self._typed = typed
        self.stops = stops
        self._given = given
        self._types = types
        self._kept = kept
        self._times = Counter(times)
        # Computed values that will be compared again, and comparisons that wait for the next batch.
        self._results: dict[str, np.ndarray | str] = {}
        self._again: list[tuple[int, Expected]] = []
        self._tolerances = tolerances
        # The reference's values that are still needed, the number of operands that each target
        # lacks, the targets that wait for a value, and the number of targets that read it.
        self._values: dict[str, np.ndarray] = {}
        self._missing: dict[str, int] = {}
        self._waiting: defaultdict[str, list[str]] = defaultdict(list)
        self._users: Counter[str] = Counter()
        self._operands: dict[str, list[str]] = {}
        self._expected: defaultdict[str, list[tuple[int, Expected]]] = defaultdict(list)
        self._ready: list[str] = []
        self._count = self._differing = self.left = 0
        for target in stops:
            self._enter(target)

    def nodes(self, target: str) -> "list[onnx.NodeProto]":
        """Returns the nodes that compute a value from values of the reference."""
        nodes, _ = self.graph.needed([target], self.stops)
        return [self.graph.nodes[node] for node in nodes]

    def operands(self, target: str) -> list[str]:
        """Returns the values of the reference that a value is computed from."""
        _, given = self.graph.needed([target], self.stops)
        return [name for name in given if name in self.stops]

    def explains(self, inner: Expected, outcome: Outcome) -> bool:
        """Returns `True` if the reference's value of `inner` makes a value right that differs."""
        target = outcome.expected
        given = dict(self._given) | outcome.operands | {inner.name: inner.array}
        try:
            found = self.graph.run([target.name], given, self._types, self.stops | {inner.name})
        except Exception:
            return False
        right = found[target.name]
        return self._tolerances.difference(target.array, right, outcome.precision) is None

    def compare(self, expected: Iterator[Expected]) -> Iterator[Outcome]:
        """Compares all values as soon as their operands are known."""
        size = 0
        for entry in expected:
            self._arrive(entry)
            size += entry.array.nbytes
            if size >= graph.BATCH:
                yield from self._flush()
                size = 0
        yield from self._flush()
        # The reference has no value for an operand of these.
        self.left = sum(map(len, self._expected.values()))

    def _enter(self, target: str) -> None:
        own = [name for name in self.operands(target) if name not in self._given]
        others = [n for n in self._kept.get(target, ()) if n in self.stops and n != target]
        operands = list(dict.fromkeys((*own, *others)))
        self._operands[target] = operands
        self._missing[target] = sum(name not in self._values for name in operands)
        for name in operands:
            self._users[name] += 1
            if name not in self._values:
                self._waiting[name].append(target)

    def _arrive(self, entry: Expected) -> None:
        self._count += 1
        if entry.name in self._results:
            self._again.append((self._count, entry))
            return
        if entry.name not in self._operands:
            self._enter(entry.name)
        if not self._expected[entry.name] and not self._missing[entry.name]:
            self._ready.append(entry.name)
        self._expected[entry.name].append((self._count, entry))
        if entry.name not in self.stops or entry.name in self._values:
            return
        self._values[entry.name] = entry.array
        for target in self._waiting.pop(entry.name, ()):
            self._missing[target] -= 1
            if not self._missing[target] and self._expected[target]:
                self._ready.append(target)

    def _flush(self) -> Iterator[Outcome]:
        targets, self._ready = list(dict.fromkeys(self._ready)), []
        again, self._again = self._again, []
        for number, expected in again:
            yield self._outcome(number, expected, self._results[expected.name])
            self._times[expected.name] -= 1
            if not self._times[expected.name]:
                del self._results[expected.name]
        for target, result in self._computed(targets):
            entries = self._expected.pop(target)
            self._times[target] -= len(entries)
            if self._times[target] > 0:
                self._results[target] = result
            for number, expected in entries:
                yield self._outcome(number, expected, result)
            for name in self._operands.pop(target):
                self._users[name] -= 1
                if not self._users[name] and not self._expected.get(name):
                    self._values.pop(name, None)

    def _computed(self, targets: Sequence[str]) -> Iterator[tuple[str, np.ndarray | str]]:
        """Yields the values, or the reasons that they cannot be computed, each on its own."""
        if not targets:
            return
        try:
            given = dict(self._given) | self._values
            results = self.graph.run(targets, given, self._types, self.stops)
        except Exception as error:
            if len(targets) == 1:
                yield targets[0], f"onnxruntime cannot compute it: {str(error).strip()}"
                return
            half = len(targets) // 2
            yield from self._computed(targets[:half])
            yield from self._computed(targets[half:])
            return
        yield from results.items()

    def _outcome(self, number: int, expected: Expected, result: np.ndarray | str) -> Outcome:
        nodes = self.nodes(expected.name)
        precision = self._precision(expected.name, expected.array, nodes)
        precision = coarser(precision, expected.precision)
        limits = self._tolerances
        if isinstance(result, str):
            found, apart, error = None, result, None
        else:
            found, error = result, error_of(within(expected.array, result.dtype), result)
            apart = limits.difference(expected.array, found, precision) or ""
            if not apart and limits.rtol is None and limits.atol is None:
                apart = unrounded(expected.array, found, limits.reference) or ""
        operands: dict[str, np.ndarray] = {}
        if apart and self._differing < _KEPT:
            self._differing += 1
            known = dict(self._given) | self._values
            operands = {n: known[n] for n in self._needed(expected.name) if n in known}
        unfit = bool(apart) and self._is_unfit(expected.name)
        if not apart:
            # Drop values that agree.
            expected, found = Expected(expected.name, _NOTHING, expected.reference), None
        return Outcome(number, expected, found, apart, error, precision, operands, unfit)

    def _is_unfit(self, target: str) -> bool:
        """Returns `True` if an operand is beyond the range of its element type in the graph."""
        known = [n for n in self.operands(target) if n in self._values and n in self._types]
        return any(not _fits(self._values[name], self._types[name].dtype) for name in known)

    def _needed(self, target: str) -> list[str]:
        _, given = self.graph.needed([target], self.stops)
        return list(dict.fromkeys((*given, *self._operands.get(target, ()), *self._given)))

    def _precision(self, target: str, array: np.ndarray, nodes: "Sequence[onnx.NodeProto]") -> str:
        """Returns the coarsest type that a value is computed in. Operands are exact unless their
        type in the graph is coarser than in the reference.
        """
        read = (name for node in nodes for name in node.input)
        names = [target, *(name for name in read if not self._is_exact(name))]
        codes = [self._types[name].code for name in names if name in self._types]
        constants = [n for n in names if n in self.graph.constants and n not in self._typed]
        codes += [self.graph.constants[n].data_type for n in constants]
        return computed_in(array.dtype.name, codes, nodes)

    def _is_exact(self, name: str) -> bool:
        """Returns `True` if a value of the reference has its element type in the graph, too."""
        array = self._values.get(name, self._given.get(name))
        if array is None or (name in self.graph.producers and name not in self.stops):
            return False
        return name not in self._types or self._types[name].dtype == array.dtype


def computed_in(dtype: str, codes: Sequence[int], nodes: "Sequence[onnx.NodeProto]") -> str:
    """Returns the coarsest of a type, of types given by ONNX's codes, and of the types in nodes."""
    import onnx

    casts = [a.i for n in nodes if n.op_type == "Cast" for a in n.attribute if a.name == "to"]
    floats = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    found = dtype
    for code in {*codes, *casts}:
        if code in floats or code >= onnx.TensorProto.BFLOAT16:
            found = coarser(found, onnx.helper.tensor_dtype_to_np_dtype(code).name)
    if any(n.op_type in _INTEGER_OPS or n.op_type.startswith(_QUANTISED) for n in nodes):
        found = "int8"
    return found


def _fits(array: np.ndarray, dtype: np.dtype[Any]) -> bool:
    return np.array_equal(within(array, dtype), array, equal_nan=True)


_NOTHING = np.zeros(0, np.float32)
