"""Merges two traces of a function, one with a flag set and one without, into one program that takes
the flag as an operand.

Both traces are sequences of equations. Equations that do not depend on the flag are the same in
both and run once. The others are aligned, by their operation and by the module that they belong to.
Aligned equations also run once, on the operands that the flag selects; those between them run in a
`cond`. Any alignment is correct; a good one leaves less inside the `cond`s.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import jax

from jax2onnx import _core, _jax
from jax2onnx._tracing.functions import without_number
from jax2onnx._tracing.jaxpr_keys import Keys
from jax2onnx._tracing.primitives import called_by, fills

# Values with at most this many elements may be computed for either value of the flag: counters and
# keys that several modules share. So may values that only fill an array.
_SMALL = 64

# Traces with more differences than this are aligned only in part.
_DIFFERENCES = 3_000

Side = int
BOTH: tuple[Side, Side] = (0, 1)


@dataclass(eq=False)
class _Equation:
    """An equation with numbered operands and results. Equal values have equal numbers."""

    eqn: Any
    operands: tuple[int, ...]
    results: tuple[int, ...]
    key: object
    levels: tuple[Any, ...]
    column: int = -1


@dataclass(eq=False)
class _Column:
    """Two aligned equations, or equations of each side that have no counterpart.

    Attributes:
        steps: The equations of each side.
        is_match: `True` if each side has one equation, and both compute the same.
        pairs: The values that are selected here, one of each side.
    """

    steps: tuple[list[_Equation], list[_Equation]]
    is_match: bool = False
    pairs: dict[tuple[int, int], None] = field(default_factory=dict)


class _Numbers:
    """Numbers values, so that equal ones have the same number in both traces."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}
        self.values: dict[int, Any] = {}
        self._alive: list[Any] = []

    def of(self, what: object) -> int:
        return self._known.setdefault(what, len(self._known))

    def of_constant(self, key: object, value: Any) -> int:
        self._alive.append(value)  # constants are known by their id
        number = self.of(key)
        self.values[number] = value
        return number


def chosen(which: int, when_true: Any, when_false: Any) -> Any:
    """Returns a closed jaxpr that computes `when_true` or `when_false`, depending on the operand at
    `which`. One of them may be None: then its results are NaN.
    """
    some = when_true if when_true is not None else when_false
    avals = [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in some.in_avals]
    if when_true is None or when_false is None:
        run = _jax.function_of(some)

        def or_nan(*operands: Any) -> Any:
            flag = operands[which]
            valid = flag if when_false is None else ~flag
            return [jax.numpy.where(valid, x, jax.numpy.nan) for x in run(*operands)]

        return jax.make_jaxpr(or_nan)(*avals)
    return jax.make_jaxpr(_Plan(which, when_true, when_false).run)(*avals)


class _Plan:
    """A schedule that runs two traces as one."""

    def __init__(self, which: int, when_true: Any, when_false: Any) -> None:
        self._which = which
        self._numbers = _Numbers()
        self._inputs = [self._numbers.of(("input", i)) for i in range(len(when_true.in_avals))]
        keys = Keys()
        calls = [_calls_in(closed.jaxpr, keys) for closed in (when_true, when_false)]
        readers = [
            _Reader(self._numbers, keys, other, self._inputs) for other in (calls[1], calls[0])
        ]
        self._outputs: tuple[list[int], list[int]]
        self._outputs = readers[0].read(when_true), readers[1].read(when_false)
        sides = [
            _live(reader.steps, outputs)
            for reader, outputs in zip(readers, self._outputs, strict=True)
        ]
        common = {n for s in sides[0] for n in s.results} & {n for s in sides[1] for n in s.results}
        self._free: dict[int, _Equation] = {}
        rest: list[list[_Equation]] = [[], []]
        for side in BOTH:
            for step in sides[side]:
                if step.results and common.issuperset(step.results) and not step.eqn.effects:
                    for number in step.results:
                        self._free.setdefault(number, step)
                else:
                    rest[side].append(step)
        self._columns = _columns(*rest)
        self._rename_calls(sides)
        while self._conflict():
            pass

    # --- planning ---------------------------------------------------------------------------

    def _rename_calls(self, sides: Sequence[Sequence[_Equation]]) -> None:
        """Gives calls that both traces make the same number."""
        first = {(s.key, s.results): s for s in sides[0]}
        same = [(first[s.key, s.results], s) for s in sides[1] if (s.key, s.results) in first]
        same += [(c.steps[0][0], c.steps[1][0]) for c in self._columns if c.is_match]
        renamed: dict[str, Any] = {}
        for one, other in same:
            for level, number in zip(one.levels, other.levels, strict=True):
                renamed.setdefault(number.name, level)
        for step in sides[1]:
            step.levels = tuple(renamed.get(level.name, level) for level in step.levels)

    def _conflict(self) -> bool:
        """Assigns selections of values to columns. Returns `True` if the plan had to be changed."""
        producers: tuple[dict[int, _Equation], dict[int, _Equation]] = ({}, {})
        for index, column in enumerate(self._columns):
            column.pairs = {}
            for side in BOTH:
                for step in column.steps[side]:
                    step.column = index
                    producers[side].update(dict.fromkeys(step.results, step))
        # A selected value can be read by every later column. The first iteration finds these
        # values.
        known: tuple[set[int], set[int]] = (set(), set())
        for _ in range(2):
            conflict: tuple[int, int, Side, int] | None = None
            for index, pair in self._selections():
                at = [self._column_of(producers[side], pair[side]) for side in BOTH]
                if self._is_matched(producers, pair):
                    continue
                last = max(at)
                for side, first, number in zip(BOTH, at, pair, strict=True):
                    early = 0 <= first < last and not self._columns[first].is_match
                    if early and number not in known[side]:
                        conflict = conflict or (first, last, side, number)
                if last < 0 or self._columns[last].is_match:
                    gaps = [i for i in range(last + 1, index) if not self._columns[i].is_match]
                    if not gaps:
                        self._columns.insert(index, _Column(([], [])))
                        return True
                    last = gaps[-1]
                self._columns[last].pairs[pair] = None
                for side in BOTH:
                    known[side].add(pair[side])
        for index, column in enumerate(self._columns):
            for side in BOTH if not column.is_match else ():
                for number in (n for step in column.steps[side] for n in step.operands):
                    first = self._column_of(producers[side], number)
                    outside = 0 <= first < index and not self._columns[first].is_match
                    if outside and number not in known[side]:
                        conflict = conflict or (first, index, side, number)
        if conflict is None:
            return False
        first, last, side, number = conflict
        if not self._lift(producers[side], number):
            self._fuse(first, last)
        return True

    def _selections(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yields the pairs of different values that aligned equations or outputs read, with the
        column that reads them.
        """
        for index, column in enumerate(list(self._columns)):
            if column.is_match:
                (one,), (other,) = column.steps
                for pair in zip(one.operands, other.operands, strict=True):
                    if pair[0] != pair[1]:
                        yield index, pair
        for pair in zip(*self._outputs, strict=True):
            if pair[0] != pair[1]:
                yield len(self._columns), pair

    def _column_of(self, producers: Mapping[int, _Equation], number: int) -> int:
        """Returns the column that computes a value, or -1 if it does not depend on the flag."""
        return -1 if number in self._free or number not in producers else producers[number].column

    def _is_matched(
        self, producers: tuple[dict[int, _Equation], dict[int, _Equation]], pair: tuple[int, int]
    ) -> bool:
        """Returns `True` if two values are the same result of aligned equations."""
        one, other = (producers[side].get(pair[side]) for side in BOTH)
        if one is None or other is None or one.column != other.column:
            return False
        is_match = self._columns[one.column].is_match
        return is_match and one.results.index(pair[0]) == other.results.index(pair[1])

    def _lift(self, producers: Mapping[int, _Equation], number: int) -> bool:
        """Computes small values independently of the flag. Returns `False` if one is not small."""
        found: dict[int, _Equation] = {}
        todo = [number]
        while todo:
            number = todo.pop()
            if number in self._free or number not in producers or number in found:
                continue
            step = producers[number]
            if self._columns[step.column].is_match or not _is_small(step.eqn):
                return False
            found.update(dict.fromkeys(step.results, step))
            todo.extend(step.operands)
        self._free.update(found)
        lifted = set(found.values())
        for column in self._columns:
            for side in BOTH:
                column.steps[side][:] = [s for s in column.steps[side] if s not in lifted]
        return True

    def _fuse(self, first: int, last: int) -> None:
        """Merges columns into one, whose equations stay in each branch."""
        columns = self._columns[first : last + 1]
        steps = tuple([s for column in columns for s in column.steps[side]] for side in BOTH)
        self._columns[first : last + 1] = [_Column((steps[0], steps[1]))]

    # --- running ----------------------------------------------------------------------------

    def run(self, *operands: Any) -> list[Any]:
        """Computes the results for the value of the flag."""
        flag = operands[self._which]
        free = {**self._numbers.values, **dict(zip(self._inputs, operands, strict=True))}
        by_side: tuple[dict[int, Any], dict[int, Any]] = ({}, {})
        by_pair: dict[tuple[int, int], Any] = {}
        for column in self._columns:
            for side in BOTH:
                for step in column.steps[side]:
                    self._prepare(free, step.operands)
            for pair in column.pairs:
                self._prepare(free, pair)
            if column.is_match:
                (one,), (other,) = column.steps
                read = zip(one.operands, other.operands, strict=True)
                values = [by_pair[pair] if pair[0] != pair[1] else free[pair[0]] for pair in read]
                results = _computed(one, values)
                pairs = list(zip(one.results, other.results, strict=True))
            elif column.pairs or any(s.eqn.effects for side in BOTH for s in column.steps[side]):
                results = _conditional(flag, column, free, by_side)
                pairs = list(column.pairs)
            else:
                continue
            by_pair.update(zip(pairs, results, strict=True))
            for side in BOTH:
                by_side[side].update(zip((pair[side] for pair in pairs), results, strict=True))
        self._prepare(free, (n for pair in zip(*self._outputs, strict=True) for n in pair))
        outputs = zip(*self._outputs, strict=True)
        return [by_pair[pair] if pair[0] != pair[1] else free[pair[0]] for pair in outputs]

    def _prepare(self, free: dict[int, Any], numbers: Any) -> None:
        """Computes values that do not depend on the flag, unless they are known."""
        todo = [n for n in numbers if n in self._free and n not in free]
        while todo:
            step = self._free[todo[-1]]
            missing = [n for n in step.operands if n not in free]
            if todo[-1] in free:
                todo.pop()
            elif missing:
                todo.extend(missing)
            else:
                free.update(
                    zip(
                        step.results, _computed(step, [free[n] for n in step.operands]), strict=True
                    )
                )


def _conditional(
    flag: Any, column: _Column, free: dict[int, Any], by_side: tuple[dict[int, Any], dict[int, Any]]
) -> list[Any]:
    """Runs a column as a `cond` on the flag."""
    steps = [*column.steps[0], *column.steps[1]]
    shared = _shared_levels(steps)

    def branch(side: Side) -> Any:
        def run() -> list[Any]:
            values = {**free, **by_side[side]}
            for step in column.steps[side]:
                read = [values[n] for n in step.operands]
                values.update(zip(step.results, _computed(step, read, shared), strict=True))
            return [values[pair[side]] for pair in column.pairs]

        return run

    around = _jax.as_if_in(steps[0].eqn, steps[0].levels[:shared]) if steps else nullcontext()
    with around:
        results: list[Any] = jax.lax.cond(flag, branch(0), branch(1))
    return results


def _computed(step: _Equation, operands: list[Any], outer: int = 0) -> list[Any]:
    with _jax.as_if_in(step.eqn, step.levels[outer:]):
        return _jax.bind(step.eqn, operands)


def _shared_levels(steps: Sequence[_Equation]) -> int:
    count = 0
    for levels in zip(*(step.levels for step in steps), strict=False):
        if any(level != levels[0] for level in levels):
            break
        count += 1
    return count


class _Reader:
    """Numbers the equations of one trace. Calls that the other trace does not make are inlined."""

    def __init__(
        self, numbers: _Numbers, keys: Keys, others: set[object], inputs: Sequence[int]
    ) -> None:
        self._numbers = numbers
        self._keys = keys
        self._others = others
        self._inputs = inputs
        self.steps: list[_Equation] = []

    def read(self, closed: Any) -> list[int]:
        """Reads a closed jaxpr and returns the numbers of its results."""
        return self._inline(closed, self._inputs, ())

    def _inline(self, closed: Any, operands: Sequence[int], levels: tuple[Any, ...]) -> list[int]:
        jaxpr = _jax.open_jaxpr(closed)
        known: dict[Any, int] = dict(zip(jaxpr.invars, operands, strict=True))
        for var, value in zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=True):
            known[var] = self._numbers.of_constant(("array", id(value)), value)

        def number(atom: Any) -> int:
            if not _jax.is_literal(atom):
                return known[atom]
            return self._numbers.of_constant(self._keys.of_literal(atom), atom.val)

        for eqn in jaxpr.eqns:
            inputs = tuple(number(atom) for atom in eqn.invars)
            own = (*levels, *_jax.levels(eqn))
            key = self._keys.of_equation(eqn)
            inner = called_by(eqn)
            if inner is not None and key not in self._others:
                results = tuple(self._inline(inner, inputs, own))
            else:
                results = self._add(eqn, inputs, key, own)
            known.update(zip(eqn.outvars, results, strict=True))
        return [number(atom) for atom in jaxpr.outvars]

    def _add(
        self, eqn: Any, inputs: tuple[int, ...], key: object, levels: tuple[Any, ...]
    ) -> tuple[int, ...]:
        again = len(self.steps) if eqn.effects else None
        what = (key, inputs, again)
        results = tuple(self._numbers.of((what, i)) for i in range(len(eqn.outvars)))
        literals = tuple(
            self._keys.of_literal(atom) if _jax.is_literal(atom) else None for atom in eqn.invars
        )
        # Equations of different modules are not aligned.
        alike = (key, literals, tuple(without_number(level.name) for level in levels))
        self.steps.append(_Equation(eqn, inputs, results, alike, levels))
        return results


def _calls_in(jaxpr: Any, keys: Keys) -> set[object]:
    """Returns the keys of a jaxpr's calls, including nested ones."""
    found: set[object] = set()
    for eqn in jaxpr.eqns:
        inner = called_by(eqn)
        if inner is not None:
            found.add(keys.of_equation(eqn))
            found |= _calls_in(_jax.open_jaxpr(inner), keys)
    return found


def _live(steps: Sequence[_Equation], outputs: Sequence[int]) -> list[_Equation]:
    """Returns the equations that the outputs depend on, without repetitions."""
    needed, found = set(outputs), []
    for step in reversed(steps):
        if step.eqn.effects or not needed.isdisjoint(step.results):
            needed.update(step.operands)
            found.append(step)
    seen: set[tuple[int, ...]] = set()
    once = []
    for step in reversed(found):
        if not step.results or step.results not in seen:
            seen.add(step.results)
            once.append(step)
    return once


def _columns(one: list[_Equation], other: list[_Equation]) -> list[_Column]:
    columns: list[_Column] = []
    numbers: dict[object, int] = {}
    keys = [[numbers.setdefault(s.key, len(numbers)) for s in side] for side in (one, other)]
    i = j = 0
    aligned = _core.common_subsequence(keys[0], keys[1], _DIFFERENCES)
    for a, b in [*aligned, (len(one), len(other))]:
        if a > i or b > j:
            columns.append(_Column((one[i:a], other[j:b])))
        if a < len(one):
            columns.append(_Column(([one[a]], [other[b]]), is_match=True))
        i, j = a + 1, b + 1
    return columns


def _is_small(eqn: Any) -> bool:
    if eqn.effects or fills(eqn):
        return not eqn.effects
    sizes = [list(var.aval.shape) for var in eqn.outvars]
    known = all(isinstance(d, int) for shape in sizes for d in shape)
    return known and all(math.prod(shape) <= _SMALL for shape in sizes)
