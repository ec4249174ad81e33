"""Reductions and updates by functions without ONNX operators, applied to whole arrays."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax2onnx import _jax
from jax2onnx._expansion.keys import Expand, Function, mapped


def _function(eqn: Any) -> Function:
    """Returns the scalar function that an equation reduces with."""
    function: Function = _jax.function_of(eqn.params["jaxpr"], eqn.params.get("consts", ()))
    return function


def _fold_all(eqn: Any) -> Function:
    axes = eqn.params["dimensions"]
    combine = mapped(_function(eqn), len(eqn.outvars[0].aval.shape))

    def function(*operands: Any) -> Any:
        arrays, starts = operands[: len(operands) // 2], operands[len(operands) // 2 :]
        if not axes:
            return arrays  # nothing is combined, not even the initial values
        shape = eqn.outvars[0].aval.shape
        starts = tuple(jnp.broadcast_to(start, shape) for start in starts)
        rows = [jnp.moveaxis(x, axes, range(len(axes))) for x in arrays]
        count = math.prod(rows[0].shape[: len(axes)])
        rows = [x.reshape((count, *shape)) for x in rows]
        if _jax.is_symbolic(count):
            step = lambda carry, row: (tuple(combine(*carry, *row)), None)  # noqa: E731
            return jax.lax.scan(step, starts, rows)[0]
        if count == 0:
            return starts
        return combine(*starts, *(x[0] for x in _fold(jax.vmap(combine), rows, count)))

    return function


def _fold(combine: Function, rows: Sequence[Any], count: int) -> Sequence[Any]:
    """Combines neighbours until one is left."""
    while count > 1:
        even = count // 2 * 2
        left = [x[0:even:2] for x in rows]
        right = [x[1:even:2] for x in rows]
        rest = [x[even:] for x in rows]
        rows = [jnp.concatenate(pair) for pair in zip(combine(*left, *right), rest, strict=True)]
        count -= even // 2
    return rows


def _fold_windows(eqn: Any) -> Function:
    combine = mapped(_function(eqn), len(eqn.params["window_dimensions"]))
    dilation = eqn.params.get("base_dilation") or ()
    is_padded = any(map(any, eqn.params["padding"])) or any(step != 1 for step in dilation)

    def function(*operands: Any) -> Any:
        arrays, starts = operands[: len(operands) // 2], operands[len(operands) // 2 :]
        if is_padded:
            present = np.ones(arrays[0].shape, np.bool_)
            folded = folds(_present(combine), (present, *arrays), (np.False_, *starts))
            return folded[1:]
        return folds(combine, arrays, starts)

    def folds(combine: Function, arrays: Any, fills: Any) -> Any:
        arrays = _slide(combine, arrays, fills, eqn.params)
        starts = (np.True_, *fills[1:]) if is_padded else fills
        pairs = zip(starts, arrays, strict=True)
        return combine(*(jnp.broadcast_to(start, x.shape) for start, x in pairs), *arrays)

    return function


def _present(combine: Function) -> Function:
    """Returns `combine` for elements that may be padding, which XLA leaves out. Each operand
    consists of a predicate and the element's values.
    """

    def function(*operands: Any) -> Any:
        half = len(operands) // 2
        (first, *x), (second, *y) = operands[:half], operands[half:]
        one = [jnp.where(second, b, a) for a, b in zip(x, y, strict=True)]
        pairs = zip(combine(*x, *y), one, strict=True)
        return [first | second, *(jnp.where(first & second, both, a) for both, a in pairs)]

    return function


def _slide(combine: Function, arrays: Any, fills: Any, params: dict[str, Any]) -> Any:
    """Combines the elements of all windows, from the first to the last."""
    sizes, strides = params["window_dimensions"], params["window_strides"]
    dense = (1,) * len(sizes)
    spread, steps = params.get("base_dilation", dense), params.get("window_dilation", dense)
    pads = [(*edges, step - 1) for edges, step in zip(params["padding"], spread, strict=True)]
    arrays = [jax.lax.pad(x, fill, pads) for x, fill in zip(arrays, fills, strict=True)]
    for axis in reversed(range(len(sizes))):
        row = _Row(combine, axis, steps[axis])
        arrays = row.windows(arrays, sizes[axis], strides[axis])
    return arrays


@dataclass(frozen=True)
class _Row:
    """Windows along one axis, whose elements are `step` apart."""

    combine: Function
    axis: int
    step: int

    def windows(self, arrays: Any, size: int, stride: int) -> Any:
        """Returns every `stride`th window."""
        if size > _SMALL:
            return self._part(self._doubled(arrays, size), 0, 1, stride)
        result = self._part(arrays, 0, size, stride)
        for i in range(1, size):
            result = self.combine(*result, *self._part(arrays, i, size, stride))
        return result

    def _doubled(self, arrays: Any, size: int) -> Any:
        """Returns all windows, each made of two that are half as long."""
        if size == 1:
            return arrays
        half = self._doubled(arrays, size // 2)
        rest = size - size // 2
        result = self.combine(
            *self._part(half, 0, rest + 1, 1), *self._part(half, size // 2, rest + 1, 1)
        )
        if size % 2 == 0:
            return result
        return self.combine(*result, *self._part(arrays, size - 1, size, 1))

    def _part(self, arrays: Any, first: int, size: int, stride: int) -> Any:
        """Returns the element `first` of every `stride`th window of `size` elements."""
        start = first * self.step
        end = arrays[0].shape[self.axis] - (size - 1 - first) * self.step
        return [jax.lax.slice_in_dim(x, start, end, stride, self.axis) for x in arrays]


# Larger windows are built by doubling.
_SMALL = 8


# -- windows from which one element is chosen


def _choice(eqn: Any) -> Function:
    """Returns a function that selects one of two numbers, with its associated value."""
    select = eqn.params["select_prim"]

    def combine(x: Any, mine: Any, y: Any, other: Any) -> Any:
        first = select.bind(x, y)
        return jnp.where(first, x, y), jnp.where(first, mine, other)

    return combine


def _worst(eqn: Any, dtype: Any) -> Any:
    """Returns the number that is never selected over another one."""
    largest = eqn.params["select_prim"].name == "ge"
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.array(-jnp.inf if largest else jnp.inf, dtype)
    if dtype == np.bool_:
        return jnp.array(not largest)
    limits = np.iinfo(dtype)
    return jnp.array(limits.min if largest else limits.max, dtype)


def _choose_and_gather(eqn: Any) -> Function:
    combine = _choice(eqn)

    def function(tangents: Any, numbers: Any) -> Any:
        fills = (_worst(eqn, numbers.dtype), jnp.zeros((), tangents.dtype))
        chosen = _slide(combine, (numbers, tangents), fills, eqn.params)
        starts = [jnp.full_like(x, fill) for x, fill in zip(chosen, fills, strict=True)]
        return combine(*starts, *chosen)[1]

    return function


def _choose_and_scatter(eqn: Any) -> Function:
    combine, padding = _choice(eqn), eqn.params["padding"]
    inner = eqn.outvars[0].aval.shape
    shape = tuple(low + n + high for n, (low, high) in zip(inner, padding, strict=True))
    size = math.prod(shape)

    def function(source: Any, numbers: Any) -> Any:
        pads = [(low, high, 0) for low, high in padding]
        numbers = jax.lax.pad(numbers, _worst(eqn, numbers.dtype), pads)
        places = jax.lax.iota(jnp.int32, size).reshape(shape)
        window = dict(eqn.params, padding=[(0, 0)] * len(shape))
        fills = (jnp.zeros((), numbers.dtype), jnp.zeros((), places.dtype))
        _, chosen = _slide(combine, (numbers, places), fills, window)
        nothing = jnp.zeros(size, source.dtype).at[chosen.ravel()]
        add = nothing.max if source.dtype == np.bool_ else nothing.add
        sums = add(source.ravel(), mode="promise_in_bounds").reshape(shape)
        return sums[tuple(slice(low, low + n) for n, (low, _) in zip(inner, padding, strict=True))]

    return function


# -- elements that a function is applied to in place


def _apply(eqn: Any) -> Function:
    scalar = _jax.function_of(eqn.params["update_jaxpr"], eqn.params["update_consts"])
    operand, _, updates = (var.aval for var in eqn.invars)
    nothing = np.zeros((), updates.dtype)
    apply = mapped(lambda x: scalar(x, nothing)[0], len(operand.shape))

    def function(numbers: Any, indices: Any, _: Any) -> Any:
        # An index that occurs several times applies the function several times.
        rounds = jax.lax.scatter_add(
            jnp.zeros(operand.shape, jnp.int32),
            indices,
            jnp.ones(updates.shape, jnp.int32),
            eqn.params["dimension_numbers"],
            mode=eqn.params["mode"],
        )
        if eqn.params["unique_indices"]:
            return jnp.where(rounds > 0, apply(numbers), numbers)

        def once(state: Any) -> Any:
            done, x = state
            return done + 1, jnp.where(rounds > done, apply(x), x)

        last = jnp.max(rounds, initial=0)
        return jax.lax.while_loop(lambda state: state[0] < last, once, (0, numbers))[1]

    return function


def _top_k(eqn: Any) -> Function:
    """Expands an approximate top-k as an exact one, as on all devices except TPUs."""
    axis, count = eqn.params["reduction_dimension"], eqn.outvars[0].aval.shape
    sign = 1 if eqn.params["is_max_k"] else -1

    def function(x: Any) -> Any:
        values, places = jax.lax.top_k(sign * jnp.moveaxis(x, axis, -1), count[axis])
        return jnp.moveaxis(sign * values, -1, axis), jnp.moveaxis(places, -1, axis)

    return function


EXPANSIONS: dict[str, Expand] = {
    "apply": _apply,
    "choose-and-gather": _choose_and_gather,
    "choose-and-scatter": _choose_and_scatter,
    "fold": _fold_all,
    "fold-windows": _fold_windows,
    "top-k": _top_k,
}
