"""`quantize` finds the weights that can be stored in few bits within a tolerance."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jax2onnx._checking.runtime import dtype_of, session_of
from jax2onnx._export.source_map import SourceMap
from jax2onnx._export.to_onnx import to_onnx
from jax2onnx._tuning.tolerance import feeds_of, fewest, floats, relative_error
from jax2onnx.errors import InvalidInputError

if TYPE_CHECKING:
    import onnx

    Arrays = Mapping[str, "np.ndarray[Any, Any]"]


@dataclass(frozen=True)
class WeightError:
    """The error of storing a single weight in few bits.

    Attributes:
        name: The name of the parameter.
        line: The line of Python that reads it: `file:line in function`.
        error: The error of the outputs if only this weight is stored in few bits.
        format: The format that was chosen for it.
    """

    name: str
    line: str
    error: float
    format: str


@dataclass(frozen=True)
class Quantization:
    """The result of `quantize`. Errors are root mean squares over all outputs, relative to the
    outputs with JAX's weights.

    Attributes:
        weights: The format of each weight: the option `weights` of `to_onnx`.
        error: The error with these weights.
        error_of_all: The error if all weights were stored in few bits.
        size: The bytes of the weights.
        size_of_all: The bytes if all of them were stored in few bits.
        size_of_none: The bytes without quantisation.
        by_weight: The error of each weight, the largest first.
    """

    weights: dict[str, str]
    error: float
    error_of_all: float
    size: int
    size_of_all: int
    size_of_none: int
    by_weight: tuple[WeightError, ...]

    def __str__(self) -> str:
        """Formats a table of the weights with the largest errors."""
        rows = [
            f"{'error':>10} {'bytes':>12}",
            f"{self.error_of_all:10.3g} {self.size_of_all:12,}  all in few bits",
            f"{self.error:10.3g} {self.size:12,}  chosen",
            f"{0:10} {self.size_of_none:12,}  none",
            "",
            f"{'error':>10} {'format':>12}  weight",
        ]
        rows += [
            f"{row.error:10.3g} {row.format:>12}  {row.name}  ({row.line})"
            for row in self.by_weight[:20]
        ]
        if len(self.by_weight) > 20:
            rows.append(f"… {len(self.by_weight) - 20} more")
        return "\n".join(rows)


def quantize(
    fn: Callable[..., Any],
    args: Sequence[Any],
    *,
    tolerance: float,
    weights: str = "int4",
    otherwise: str = "int8",
    inputs: Sequence[Any] | None = None,
    **options: Any,
) -> Quantization:
    """Finds the weights that can be stored in few bits so that the outputs stay within a tolerance.

    Each weight is first stored in few bits alone, which shows its error. Then the weights with the
    largest errors, and only as many as necessary, get more bits.

    Args:
        fn: The function to convert, as for `to_onnx`.
        args: The arguments of `fn` to compare on: arrays like those that the model will see.
        tolerance: The largest error, relative to the size of the outputs: 0.01 is one per cent.
        weights: The format with few bits, as in the option `weights` of `to_onnx`.
        otherwise: The format for weights that lose too much in few bits; "keep" leaves them.
        inputs: The `inputs` of `to_onnx`, if they are not those of `args`.
        options: Further options of `to_onnx`.

    Returns:
        The result, with the option for `to_onnx` in `Quantization.weights`.
    """
    specs = args if inputs is None else inputs
    feeds = feeds_of(args, options)
    whole = to_onnx(fn, specs, stacktrace_metadata="sourcemap", **options)
    few, more = (_contents(to_onnx(fn, specs, weights=w, **options)) for w in (weights, otherwise))
    candidates = [name for name in few if name in _names(whole)]
    if not candidates:
        raise InvalidInputError(
            "unsuitable-weights",
            f"no weight of the model can be stored as {weights}",
            help="weights are matrices that products read",
        )
    trial = _Trial(whole, candidates, feeds)
    alone = {name: trial.error({name: few[name][0]}) for name in candidates}
    order = sorted(candidates, key=lambda name: -alone[name])

    def chosen(count: int) -> dict[str, "np.ndarray[Any, Any]"]:
        """Returns all weights, with more bits for the first `count`."""
        better = {name: more[name][0] for name in order[:count] if name in more}
        return {**better, **{name: few[name][0] for name in order[count:]}}

    if (error := trial.error(chosen(len(order)))) > tolerance:
        raise InvalidInputError(
            "unreachable-tolerance",
            f"with all weights as {otherwise}, the error is {error:.3g}, more than the tolerance "
            f"of {tolerance:.3g}",
            help='allow a larger error, or pass otherwise="keep"',
        )
    least = fewest(len(order), lambda count: trial.error(chosen(count)), tolerance)
    formats = dict.fromkeys(order[:least], otherwise)
    sizes = {t.name: len(t.raw_data) for t in whole.graph.initializer}
    total = sum(sizes.values())

    def size(formats: Mapping[str, str]) -> int:
        stored = {name: few[name][1] for name in candidates}
        for name in formats:
            stored[name] = more[name][1] if name in more else sizes[name]
        return total + sum(stored[name] - sizes[name] for name in candidates)

    lines = SourceMap.load(whole)
    return Quantization(
        weights={**formats, **dict.fromkeys(order[least:], weights)},
        error=trial.error(chosen(least)),
        error_of_all=trial.error(chosen(0)),
        size=size(formats),
        size_of_all=size({}),
        size_of_none=total,
        by_weight=tuple(
            WeightError(name, _line(lines, whole, name), alone[name], formats.get(name, weights))
            for name in order
        ),
    )


class _Trial:
    """A model whose weights are inputs, so that each of them can be tried without the others."""

    def __init__(
        self, model: "onnx.ModelProto", names: Sequence[str], feeds: Sequence[Any]
    ) -> None:
        import onnx

        copy = deepcopy(model)
        own = list(model.graph.input)
        tensors = {t.name: t for t in copy.graph.initializer if t.name in set(names)}
        self._whole = {n: onnx.numpy_helper.to_array(tensors[n]) for n in names}
        for name in names:
            tensor = tensors[name]
            info = onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))
            copy.graph.input.append(info)
            copy.graph.initializer.remove(tensor)
        self._session = session_of(copy, None, optimised=True)
        # The model may take other types than the function, such as token ids of 64 bits.
        self._feeds = {
            value.name: feed.astype(dtype_of(value), copy=False)
            for value, feed in zip(own, feeds, strict=True)
        }
        self._right = self._run({})

    def _run(self, weights: "Arrays") -> list["np.ndarray[Any, Any]"]:
        return floats(self._session.run(None, {**self._feeds, **self._whole, **weights}))

    def error(self, weights: "Arrays") -> float:
        """Returns the error of the outputs with these weights, relative to their size."""
        return relative_error(self._run(weights), self._right)


def _contents(model: "onnx.ModelProto") -> dict[str, tuple["np.ndarray[Any, Any]", int]]:
    """Returns the weights that are stored in fewer bits, as floats, with their sizes in bytes."""
    import onnx

    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    found = {}
    for name, tensor in tensors.items():
        values = onnx.numpy_helper.to_array(tensor)
        parts = [tensors.get(f"{name}/{part}") for part in ("scale", "zero_point")]
        scale, zero = (None if p is None else onnx.numpy_helper.to_array(p) for p in parts)
        size = sum(len(part.raw_data) for part in [tensor, *parts] if part is not None)
        if scale is not None:
            axis, block, values = _blocks(model, name, values, scale, zero)
            wide = [_repeated(part, block, axis, values.shape[axis]) for part in (scale, zero)]
            if zero is not None and values.dtype == np.float32:
                wide[1] = wide[1] / 16  # in the upper half of a byte
            centred = np.asarray(values, np.float32) - wide[1]
            found[name] = (centred * wide[0], size)
        elif values.dtype.name in ("float16", "bfloat16") and values.ndim > 1:
            found[name] = (values.astype(np.float32), size)
    return found


def _blocks(
    model: "onnx.ModelProto", name: str, values: Any, scale: Any, zero: Any
) -> tuple[int, int, Any]:
    """Returns the axis along which blocks run, their size, and the integers. Four-bit integers of
    rows, which are stored in the halves of bytes, are returned as floats.
    """
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] == name:
            axis, block = (
                next(a.i for a in node.attribute if a.name == key) for key in ("axis", "block_size")
            )
            return axis, block, values
    nodes = model.graph.node
    bytes_of = {n.output[0] for n in nodes if n.op_type == "Gather" and n.input[0] == name}
    if any(n.op_type == "BitShift" and n.input[0] in (name, *bytes_of) for n in nodes):
        nibbles = np.concatenate([values & 15, values >> 4], -1).astype(np.float32)
        values = np.where(nibbles > 7, nibbles - 16, nibbles) if zero is None else nibbles
    return values.ndim - 1, values.shape[-1] // scale.shape[-1], values


def _repeated(part: Any, block: int, axis: int, length: int) -> "np.ndarray[Any, Any]":
    if part is None:
        return np.zeros((), np.float32)
    repeated = np.repeat(np.asarray(part, np.float32), block, axis=axis)
    return repeated[(slice(None),) * axis + (slice(length),)]


def _names(model: "onnx.ModelProto") -> set[str]:
    return {tensor.name for tensor in model.graph.initializer if tensor.data_type == 1}


def _line(lines: SourceMap, model: "onnx.ModelProto", name: str) -> str:
    """Returns the line that reads a weight."""
    for node in model.graph.node:
        if name in node.input:
            for source in lines.lookup(node.output[0]):
                if (frame := source.site) is not None:
                    return f"{frame.file}:{frame.line} in {frame.function}"
    return ""
