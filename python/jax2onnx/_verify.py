"""`verify`: finds the first value of a model that differs from JAX's."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jax2onnx import _jax, _result
from jax2onnx._allclose import arguments
from jax2onnx._api import Converted, convert
from jax2onnx._compare import difference, statistics
from jax2onnx._evaluate import Path, Step, evaluate
from jax2onnx._options import FUNCTIONS, Layout, Options
from jax2onnx._runtime import NCHW, Runnable, as_tensor, real_array
from jax2onnx.errors import InvalidInputError

if TYPE_CHECKING:
    from jax2onnx._core import Results

# How many bytes of values are compared in one run of the model.
BATCH = 1 << 28

NHWC = (0, 2, 3, 1)


@dataclass(frozen=True)
class Verification:
    """What `verify` found; true if the model computes what the function computes.

    Attributes:
        ok: Whether all compared values are the same.
        message: What was found, as text.
        value: The name of the first value of the model that differs.
        place: The expression in the user's program that it comes from: `  --> file:line` and an
        excerpt.
        rule: The rule that lowered it, with its line.
        compared: How many values were compared.
        skipped: How many results of equations have no counterpart in the model: they are part of
        another operator, or the model was not made by this export.
    """

    ok: bool
    message: str
    value: str = ""
    place: str = ""
    rule: str = ""
    compared: int = 0
    skipped: int = 0

    def __bool__(self) -> bool:
        """Whether all values are the same."""
        return self.ok

    def __str__(self) -> str:
        """What was found."""
        return self.message


def verify(
    fn: Callable[..., Any],
    model: Any,
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    enable_double_precision: bool = False,
    inputs_as_nchw: Layout = None,
    outputs_as_nchw: Layout = None,
) -> Verification:
    """Compares every value of a model with JAX's, and finds the first one that differs.

    The function is traced and evaluated equation by equation. The model runs in ONNX Runtime
    without optimisations and returns its inner values. They are compared in program order, so the
    first difference is where a mistake is made, not where it becomes visible. For loops, branches
    and ONNX functions, only the results are compared.

    Args:
        fn: The function that the model was exported from.
        model: The model: a path, an `onnx.ModelProto` or an `onnx_ir.Model`.
        inputs: The positional arguments of `fn`, as in `allclose`.
        input_params: The keyword arguments of `fn` that are inputs of the model.
        rtol: The relative tolerance for floats. None means by element type.
        atol: The absolute tolerance for floats. None means by element type.
        enable_double_precision: As in the export.
        inputs_as_nchw: As in the export.
        outputs_as_nchw: As in the export.

    Returns:
        What was found. It is true if nothing differs, and prints as a message.
    """
    with _jax.precision(double=enable_double_precision):
        args, kwargs = arguments(inputs, input_params, double=enable_double_precision)
        runnable = Runnable(model)
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        nchw = _positions(inputs_as_nchw, runnable)
        specs, keywords = jax.tree_util.tree_unflatten(tree, _specs(leaves, runnable, nchw))
        # The functions in the model show how it was exported.
        for functions in FUNCTIONS:
            converted = convert(
                fn,
                specs,
                keywords,
                _options(runnable, functions),
                double=enable_double_precision,
                inputs_as_nchw=inputs_as_nchw,
                outputs_as_nchw=outputs_as_nchw,
                input_names=[value.name for value in runnable.inputs],
                output_names=[value.name for value in runnable.outputs],
                keep_results=True,
            )
            made = _result.skeleton(converted.model)
            if {f.domain for f in runnable.proto.functions} == {f.domain for f in made.functions}:
                break
        return _Comparison(converted, runnable, leaves, rtol, atol).run()


@dataclass(frozen=True)
class _Pair:
    """A value in JAX and its name in the model. The row is None for outputs."""

    name: str
    expected: np.ndarray
    primitive: str
    row: int | None
    result: int


# By path and result: the row, the result in it, and the names of its values in the model.
_ByPath = dict[tuple[Path, int], tuple[int, int, list[str]]]


class _Comparison:
    def __init__(
        self,
        converted: Converted,
        runnable: Runnable,
        leaves: Sequence[Any],
        rtol: float | None,
        atol: float | None,
    ) -> None:
        from jax2onnx import _core

        results = converted.model.results
        assert results is not None
        self._results: Results = results
        self._runnable = runnable
        self._leaves = leaves
        self._outputs_as_nchw = converted.outputs_as_nchw
        self._tolerance = (rtol, atol)
        self._names = _core.same_values(
            converted.model.skeleton(), runnable.proto.SerializeToString()
        )
        self._closed = converted.traced.jaxpr
        self._feeds = [as_tensor(leaf) for leaf in leaves]
        for i in converted.inputs_as_nchw:
            self._feeds[i] = self._feeds[i].transpose(NCHW)
        self._compared = self._skipped = 0

    def run(self) -> Verification:
        batch: list[_Pair] = []
        size = 0
        for pair in self._pairs():
            batch.append(pair)
            size += pair.expected.nbytes
            if size >= BATCH:
                if (found := self._compare(batch)) is not None:
                    return found
                batch, size = [], 0
        if (found := self._compare(batch)) is not None:
            return found
        without = f", {self._skipped} have no counterpart" if self._skipped else ""
        message = f"all values agree: {self._compared} compared{without}"
        return Verification(
            ok=True, message=message, compared=self._compared, skipped=self._skipped
        )

    def _pairs(self) -> Iterator[_Pair]:
        """The values to compare, in program order."""
        results = self._by_path()
        for step in evaluate(self._closed, self._leaves, self._sizes().__getitem__):
            if step.path:
                yield from self._equation(step, results)
            else:
                yield from self._outputs(step)

    def _by_path(self) -> "_ByPath":
        """The results of equations, by the path of the equation and the number of the result."""
        paths: list[Path | None] = []
        found: _ByPath = {}
        for row, (caller, results) in enumerate(self._results.rows()):
            outer = () if caller is None else paths[caller]
            numbers = [made_by[0] for made_by, _ in results if made_by is not None]
            paths.append(None if outer is None or not numbers else (*outer, numbers[0]))
            for result, (made_by, names) in enumerate(results):
                if made_by is not None and outer is not None:
                    number, position = made_by
                    found[(*outer, number), position] = row, result, names
        return found

    def _equation(self, step: Step, results: "_ByPath") -> Iterator[_Pair]:
        for position, value in enumerate(step.values):
            row, result, names = results.get((step.path, position), (0, 0, []))
            known = [self._names[name] for name in names if name in self._names]
            if not known or len(known) != len(names):
                self._skipped += 1
                continue
            array = real_array(value)
            parts = [array.real, array.imag] if len(known) == 2 else [array]
            for name, part in zip(known, parts, strict=True):
                yield _Pair(name, part, step.primitive, row, result)

    def _outputs(self, step: Step) -> Iterator[_Pair]:
        for i, (value, output) in enumerate(zip(step.values, self._runnable.outputs, strict=True)):
            array = as_tensor(value)
            array = array.transpose(NCHW) if i in self._outputs_as_nchw else array
            yield _Pair(output.name, array, "", None, i)

    def _sizes(self) -> dict[str, int]:
        """The sizes of the symbolic dimensions that are a whole dimension of an input."""
        found: dict[str, int] = {}
        for var, leaf in zip(self._closed.jaxpr.invars, self._leaves, strict=True):
            for dim, size in zip(var.aval.shape, leaf.shape, strict=True):
                if _jax.is_symbolic(dim):
                    found.setdefault(str(dim), size)
        return found

    def _compare(self, batch: Sequence[_Pair]) -> Verification | None:
        names = list(dict.fromkeys(pair.name for pair in batch))
        if not names:
            return None
        values = dict(zip(names, self._runnable.run(self._feeds, names), strict=True))
        for pair in batch:
            apart = difference(pair.expected, values[pair.name], *self._tolerance)
            if apart is not None:
                return self._explain(pair, values[pair.name], apart)
            self._compared += 1
        return None

    def _explain(self, pair: _Pair, found: np.ndarray, apart: str) -> Verification:
        place = rule = ""
        what = f"the output `{pair.name}` differs from JAX"
        if pair.row is not None:
            place = self._results.place(pair.row)
            rule = self._results.rule(pair.row, pair.result) or ""
            what = f"`{pair.primitive}` differs from JAX"
        lines = [f"[value-differs] {what}"]
        lines += [place] if place else []
        lines += [f"  value: {pair.name}, {found.dtype}{list(found.shape)}"]
        lines += [f"  rule:  {rule}"] if rule else []
        lines += [
            f"  JAX:   {statistics(pair.expected)}",
            f"  model: {statistics(found)}",
            f"  diff:  {apart}",
            f"  The {self._compared} values before it agree.",
        ]
        return Verification(
            ok=False,
            message="\n".join(lines),
            value=pair.name,
            place=place,
            rule=rule,
            compared=self._compared,
            skipped=self._skipped,
        )


def _options(runnable: Runnable, functions: str) -> Options:
    """The options of the export, as far as the model shows them."""
    opsets = {entry.domain: entry.version for entry in runnable.proto.opset_import}
    return Options(
        model_name=runnable.proto.graph.name or "model",
        opset=opsets.get(""),
        return_mode="proto",
        path=None,
        self_contained=False,
        detail="off",
        source_map=None,
        calls=None,
        record=None,
        record_weights=False,
        functions=functions,
        operators=_operators(runnable),
        normalization_mode="auto",
        assume=_metadata(runnable).get("pkg.jax2onnx.assume", "").split(),
    )


def _metadata(runnable: Runnable) -> dict[str, str]:
    return {entry.key: entry.value for entry in runnable.proto.metadata_props}


def _operators(runnable: Runnable) -> dict[str, str]:
    """The forms that were chosen, as the model's metadata tells: `*=native Gelu=auto`."""
    chosen = _metadata(runnable).get("pkg.jax2onnx.operators", "").split()
    return dict(entry.split("=", 1) for entry in chosen if "=" in entry)


def _specs(leaves: Sequence[Any], runnable: Runnable, nchw: Sequence[int]) -> list[Any]:
    """The types of the arguments, with the model's symbolic dimensions."""
    if len(leaves) != len(runnable.inputs):
        raise InvalidInputError(
            "wrong-arguments",
            f"the model has {len(runnable.inputs)} inputs, but the function has {len(leaves)}",
        )
    constraints = _metadata(runnable).get("pkg.jax2onnx.constraints", "").splitlines()
    scope = jax.export.SymbolicScope(constraints)
    specs = []
    for i, (leaf, declared) in enumerate(zip(leaves, runnable.inputs, strict=True)):
        dims: list[Any] = [dim.dim_param or None for dim in declared.type.tensor_type.shape.dim]
        if i in nchw and len(dims) == len(NHWC):
            dims = [dims[axis] for axis in NHWC]
        # Complex numbers and keys have one more axis in the model.
        symbols = (*dims[: leaf.ndim], *[None] * (leaf.ndim - len(dims)))
        shape = tuple(
            jax.export.symbolic_shape(s, scope=scope)[0] if s else size
            for s, size in zip(symbols, leaf.shape, strict=True)
        )
        weak = bool(getattr(leaf, "weak_type", False))
        specs.append(SimpleNamespace(shape=shape, dtype=leaf.dtype, weak_type=weak))
    return specs


def _positions(layout: Layout, runnable: Runnable) -> list[int]:
    """The positions of inputs. The conversion rejects anything else."""
    names = [value.name for value in runnable.inputs]
    return [i for i, name in enumerate(names) if name in (layout or ()) or i in (layout or ())]
