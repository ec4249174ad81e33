"""`mixed_precision` finds the lines that can compute in a small float within a tolerance."""

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jax2onnx._checking.runtime import Runnable
from jax2onnx._export.result import bodies_of
from jax2onnx._export.source_map import SourceMap
from jax2onnx._export.to_onnx import to_onnx
from jax2onnx._tuning.tolerance import feeds_of, fewest, floats, relative_error
from jax2onnx.errors import InvalidInputError

if TYPE_CHECKING:
    import onnx

# ONNX's codes of the small floats.
_SMALL = {"float16": 10, "bfloat16": 16}


@dataclass(frozen=True)
class LinePrecision:
    """The error of computing a single line in a small float.

    Attributes:
        line: The line of Python: `file:line in function`.
        error: The part of the error that goes away if only this line computes in float32.
        dtype: The type that was chosen for it.
    """

    line: str
    error: float
    dtype: str


@dataclass(frozen=True)
class MixedPrecision:
    """The result of `mixed_precision`. Errors are root mean squares over all outputs, relative to
    the outputs in float32.

    Attributes:
        compute: The type of each line: the option `compute` of `to_onnx`.
        error: The error with this option.
        error_of_all: The error if all lines computed in the small float.
        by_line: The error of each line, the largest first.
    """

    compute: dict[str, str]
    error: float
    error_of_all: float
    by_line: tuple[LinePrecision, ...]

    def __str__(self) -> str:
        """Formats a table of the lines with the largest errors."""
        wide = sum(row.dtype == "float32" for row in self.by_line)
        rows = [
            f"{'error':>10}  lines in float32",
            f"{self.error_of_all:10.3g}  none",
            f"{self.error:10.3g}  {wide} of {len(self.by_line)}",
            "",
            f"{'error':>10} {'computes in':>12}  line",
        ]
        rows += [f"{row.error:10.3g} {row.dtype:>12}  {row.line}" for row in self.by_line[:20]]
        if len(self.by_line) > 20:
            rows.append(f"… {len(self.by_line) - 20} more")
        return "\n".join(rows)


def mixed_precision(
    fn: Callable[..., Any],
    args: Sequence[Any],
    *,
    tolerance: float,
    compute: str = "float16",
    inputs: Sequence[Any] | None = None,
    **options: Any,
) -> MixedPrecision:
    """Finds the lines that can compute in a small float with outputs within a tolerance.

    Each line is first computed in float32 alone, which shows its error. Then the lines with the
    largest errors, and only as many as necessary, stay in float32. The model is exported once for
    each line.

    Args:
        fn: The function to convert, as for `to_onnx`.
        args: The arguments of `fn` to compare on: arrays like those that the model will see.
        tolerance: The largest error, relative to the size of the outputs: 0.01 is one per cent.
        compute: The small float, as in the option `compute` of `to_onnx`.
        inputs: The `inputs` of `to_onnx`, if they are not those of `args`.
        options: Further options of `to_onnx`.

    Returns:
        The result, with the option for `to_onnx` in `MixedPrecision.compute`.
    """
    specs = args if inputs is None else inputs
    feeds = feeds_of(args, options)

    def outputs(model: "onnx.ModelProto") -> list[Any]:
        return floats(Runnable(model).run(feeds))

    right = outputs(to_onnx(fn, specs, **options))
    options = {**options, "stacktrace_metadata": "sourcemap"}
    small = to_onnx(fn, specs, compute=compute, **options)
    lines = _lines(small, compute.partition(":")[0])
    error_of_all = relative_error(outputs(small), right)

    @functools.cache
    def error(wide: tuple[str, ...]) -> float | None:
        """Returns the error if these lines compute in float32; None if no other line is left."""
        if not wide:
            return error_of_all
        try:
            model = to_onnx(fn, specs, compute=_option(wide, compute), **options)
        except InvalidInputError as problem:
            if problem.code == "nothing-computes":
                return None
            raise
        return relative_error(outputs(model), right)

    def error_or_none_left(wide: tuple[str, ...]) -> float:
        found = error(wide)
        return 0.0 if found is None else found

    # The errors of lines do not depend on one another, so their squares add up.
    saved = {
        line: max(error_of_all**2 - error_or_none_left((line,)) ** 2, 0.0) ** 0.5 for line in lines
    }
    order = tuple(sorted(lines, key=lambda line: -saved[line]))
    # At least one line has to compute in the small float.
    most = max(len(order) - 1, 0)
    while error(order[:most]) is None:
        most -= 1
    least_error = error_or_none_left(order[:most])
    if least_error > tolerance:
        left = len(order) - most
        raise InvalidInputError(
            "unreachable-tolerance",
            f"with {left} of {len(order)} lines in {compute}, the error is {least_error:.3g}, more "
            f"than the tolerance of {tolerance:.3g}",
            help="allow a larger error, or compute everything in float32",
        )
    count = fewest(most, lambda count: error_or_none_left(order[:count]), tolerance)
    wide = order[:count]
    return MixedPrecision(
        compute=_option(wide, compute),
        error=error_or_none_left(wide),
        error_of_all=error_of_all,
        by_line=tuple(
            LinePrecision(line, saved[line], "float32" if line in wide else compute)
            for line in order
        ),
    )


def _option(wide: Sequence[str], compute: str) -> dict[str, str]:
    return {**dict.fromkeys(wide, "float32"), "*": compute}


def _lines(model: "onnx.ModelProto", dtype: str) -> list[str]:
    """Returns the lines that compute in a small float, as keys of the option `compute`."""
    small = {
        value.name
        for graph in (model.graph, *model.functions)
        for body in bodies_of(graph)
        for value in body.value_info
        if value.type.tensor_type.elem_type == _SMALL[dtype]
    }
    found: dict[str, None] = {}
    for node, sources in SourceMap.load(model).lookup_model(model):
        if node.op_type == "Cast" or not small & set(node.output):
            continue
        if sources and (frame := sources[0].site) is not None:
            found[f"{os.path.basename(frame.file)}:{frame.line} in {frame.function}"] = None
    return list(found)
