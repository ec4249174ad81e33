"""The result of `verify`."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from jax2onnx import _core
from jax2onnx._checking.compare import Error
from jax2onnx._checking.runtime import Runnable, is_from_onnxruntime
from jax2onnx._checking.source_lines import Line, SourceLines
from jax2onnx._export.result import path_or_bytes
from jax2onnx._python.notebooks import PRE


@dataclass(frozen=True)
class LineError:
    """The error that a line, or a module, contributes to a model.

    Attributes:
        place: `file:line in function`, or the module's path.
        values: The number of values of the model that it computes.
        maximum: The largest difference of a number.
        mean: The mean difference.
        signal_to_noise: In decibels; infinite if nothing differs.
        from_inputs: The smallest signal-to-noise ratio of its values as a device computed them,
            with the errors of all operands; None unless they were recorded on a device.
    """

    place: str
    values: int
    maximum: float
    mean: float
    signal_to_noise: float
    from_inputs: float | None = None


@dataclass(frozen=True, repr=False)
class Verification:
    """The result of `verify`. It is true if the model computes the same as the function.

    Attributes:
        ok: `True` if all compared values agree.
        message: A description of the result.
        value: The name of the first value of the model that differs.
        place: The expression in the user's program that it comes from: `  --> file:line` and an
            excerpt.
        rule: The rule that lowered it, with its line.
        compared: The number of values that were compared.
        skipped: The number of values of the function that were not compared.
        node: The name of the node that computes the value, or of the last of several.
        module: The module that the line runs for.
        certainty: The certainty that this node is the culprit.
        skipped_because: The numbers of values that were not compared, by reason.
        by_line: The error of each line, the largest first.
        by_module: The error of each module, the largest first.
    """

    ok: bool
    message: str
    value: str = ""
    place: str = ""
    rule: str = ""
    compared: int = 0
    skipped: int = 0
    node: str = ""
    module: str = ""
    certainty: str = ""
    skipped_because: Mapping[str, int] = field(default_factory=dict)
    by_line: tuple[LineError, ...] = ()
    by_module: tuple[LineError, ...] = ()

    def __bool__(self) -> bool:
        """Returns `True` if all compared values agree."""
        return self.ok

    def __str__(self) -> str:
        """Returns the message."""
        return self.message

    __repr__ = __str__

    def _repr_html_(self) -> str:
        color = "green" if self.ok else "#b00020"
        text = (
            self.message if self.ok or not self.by_line else f"{self.message}\n\n{self.table(10)}"
        )
        edge = f"border-left:4px solid {color};padding-left:8px"
        return f'<div style="{edge}">{PRE}{escape(text)}</pre></div>'

    def to_json(self) -> str:
        """Returns the result as JSON. Infinite signal-to-noise ratios are null."""
        return json.dumps(_finite(asdict(self)), indent=2)

    def table(self, limit: int = 20) -> str:
        """Formats the errors of lines and modules as tables."""
        parts = []
        recorded = any(row.from_inputs is not None for row in self.by_line)
        for title, rows in (("line", self.by_line), ("module", self.by_module)):
            extra = f" {'from inputs':>11}" if recorded else ""
            parts.append(
                f"{'maximum':>10} {'mean':>10} {'SNR dB':>7}{extra} {'values':>6}  {title}"
            )
            for row in rows[:limit]:
                extra = "" if row.from_inputs is None else f" {row.from_inputs:11.1f}"
                parts.append(
                    f"{row.maximum:10.3g} {row.mean:10.3g} {row.signal_to_noise:7.1f}{extra} "
                    f"{row.values:6}  {row.place}"
                )
            if len(rows) > limit:
                parts.append(f"… {len(rows) - limit} more")
            parts.append("")
        return "\n".join(parts).rstrip()


def _finite(value: Any) -> Any:
    """Replaces numbers that JSON cannot represent by None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _cannot_run(model: Any, error: Exception, what: str) -> Verification:
    """Returns the result for a model that onnxruntime rejects, with the line of the node."""
    reason = str(error).strip()
    explained = _core.explain(path_or_bytes(model), reason)
    lines = [f"[cannot-run] onnxruntime cannot run {what}", f"  {reason}"]
    lines += [explained] if explained else []
    return Verification(ok=False, message="\n".join(lines), place=explained or "")


def answer_of(model: Any, compare: Callable[[], Verification]) -> Verification:
    """Returns the result of a comparison, or a description of the error if onnxruntime cannot load
    the model or a part of it: types in a loop's body may contradict those of its operands.
    """
    try:
        return compare()
    except Exception as error:
        if (refused := Runnable(model).refused()) is not None:
            return _cannot_run(model, refused, "the model")
        if is_from_onnxruntime(error):
            return _cannot_run(model, error, "a part of the model")
        raise


def agreement(
    compared: int, skipped: Mapping[str, int], nan: Sequence[str], *, whole: bool
) -> Verification:
    """Returns the result for a model whose values agree. The headline claims less if not all of it
    ran. `nan` describes the outputs that are NaN on both sides.
    """
    what = "values" if whole else "compared values"
    without = f", {sum(skipped.values())} not compared" if skipped else ""
    lines = [f"all {what} agree: {compared} compared{without}", *skipped_lines(skipped), *nan]
    return Verification(ok=True, message="\n".join(lines))


def skipped_lines(skipped: Mapping[str, int]) -> list[str]:
    """Returns lines with the numbers of values that were not compared, by reason."""
    return [
        f"  not compared: {f'1 value that {why}' if n == 1 else f'{n} values that {_plural(why)}'}"
        for why, n in skipped.items()
    ]


def _plural(why: str) -> str:
    first, space, rest = why.partition(" ")
    return {"has": "have", "is": "are"}.get(first, first) + space + rest


def error_tables(
    errors: Mapping[str, Error],
    source_lines: SourceLines,
    from_inputs: Mapping[str, Error] | None = None,
) -> tuple[tuple[LineError, ...], tuple[LineError, ...]]:
    """Sums the errors of values by line and by module. `from_inputs` has the errors of the same
    values, including those of their operands.
    """
    lines: dict[str, list[tuple[Error, Error | None]]] = {}
    modules: dict[str, list[tuple[Error, Error | None]]] = {}
    for name, error in errors.items():
        found = source_lines.lines(name)
        own = found[0] if found else Line("", 0, "", "")
        pair = error, (from_inputs or {}).get(name)
        lines.setdefault(str(own) or "(unknown line)", []).append(pair)
        modules.setdefault(own.module or "(the model itself)", []).append(pair)
    return _rows(lines.items()), _rows(modules.items())


def _rows(groups: Iterable[tuple[str, list[tuple[Error, Error | None]]]]) -> tuple[LineError, ...]:
    rows = []
    for place, pairs in groups:
        errors = [error for error, _ in pairs]
        # Relative noise adds up, since each value was computed from right operands.
        noise = sum(error.noise for error in errors)
        count = sum(error.count for error in errors)
        mean = sum(error.total for error in errors) / max(count, 1)
        whole = [decibels(error.noise) for _, error in pairs if error is not None]
        rows.append(
            LineError(
                place,
                len(errors),
                max(e.largest for e in errors),
                mean,
                decibels(noise),
                min(whole, default=None),
            )
        )
    return tuple(sorted(rows, key=lambda row: (row.signal_to_noise, -row.maximum, row.place)))


def decibels(noise: float) -> float:
    """Returns the signal-to-noise ratio in decibels of noise relative to the signal."""
    if noise == 0:
        return math.inf
    return -10 * math.log10(noise) if noise < math.inf else -math.inf
