"""`calibrate` rounds weights so that products on sample inputs change little."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax2onnx import _jax
from jax2onnx._checking.allclose import arguments
from jax2onnx._export.calibrated_weights import CalibratedWeights, WeightRounding
from jax2onnx._export.options import check_options
from jax2onnx._export.to_onnx import convert
from jax2onnx.errors import InvalidInputError

# The least and the largest integer.
_LEAST, _MOST = -8, 7
# Fractions of a block's range that integers may span. A smaller range cuts off the farthest
# elements and rounds all others better.
_RANGES = tuple(np.linspace(0.6, 1.1, 21).tolist())
# The share of the mean that is added to the diagonal of a Hessian.
_DAMPING = 0.01
# Equations that rearrange the elements of a weight for a product.
_LAYOUT = frozenset(("broadcast_in_dim", "copy", "reshape", "squeeze", "transpose"))
# Equations whose bodies run more or less than once.
_CONTROL = frozenset(("cond", "scan", "while"))


def calibrate(
    fn: Callable[..., Any],
    args: Sequence[Any],
    *,
    weights: str | Mapping[str, str] = "int4",
    input_params: Mapping[str, Any] | None = None,
    double: bool = False,
) -> CalibratedWeights:
    """Rounds the 4-bit weights of a function with regard to its inputs.

    The function is computed with JAX, equation by equation. Each weight is rounded when the first
    product reads it, one row after the other: the error of a row is made up for by the rows that
    are not rounded yet, as far as the inputs of the product allow (GPTQ). What follows is computed
    with the rounded weight.

        small = jax2onnx.calibrate(model, [tokens])
        to_onnx(model, inputs, weights=small)

    Weights that are read inside `lax.scan`, gathered, or stored in another format than int4 are
    rounded to the nearest number when the model is exported.

    Args:
        fn: The function, as for `to_onnx`.
        args: The arguments of `fn`: arrays like those that the model will see. A few thousand
            tokens are enough.
        weights: The formats, as in the option `weights` of `to_onnx`.
        input_params: Keyword arguments of `fn`.
        double: Enables 64-bit types.

    Returns:
        The rounded weights, a value of the option `weights` of `to_onnx` and `generation.save`.
    """
    options = check_options(
        model_name="calibration", weights=weights, stacktrace_metadata=False, training="allow"
    )
    options = replace(options, reports=False)
    _check_samples(args, input_params)
    made = convert(fn, args, input_params, options, double=double)
    sizes = {name: _block_size(form) for name, _, _, form, _, _ in made.model.weights}
    wanted = {name: size for name, size in sizes.items() if size is not None}
    with _jax.precision(double=double):
        given = jax.tree.leaves(arguments(args, input_params, double=double))
        run = _Calibration(wanted, made.traced)
        run.evaluate(given)
    if not run.rounded:
        raise InvalidInputError(
            "useless-weights",
            "no weight can be calibrated: none is stored as int4 and read by a product outside of "
            "loops",
            help='choose an int4 format, such as weights="int4"',
        )
    return CalibratedWeights(
        formats=dict(options.weights),
        arrays={row.name: run.rounded[row.name] for row in run.errors},
        by_weight=tuple(run.errors),
    )


def _check_samples(args: Sequence[Any], input_params: Mapping[str, Any] | None) -> None:
    """Raises for samples that say nothing about the inputs of the model."""
    if not isinstance(args, list | tuple):
        raise _bad_samples("the samples are not a list", "pass a list with one entry per argument")
    entries = {f"args[{i}]": arg for i, arg in enumerate(args)}
    entries |= {f"input_params[{name!r}]": arg for name, arg in (input_params or {}).items()}
    empty = []
    for name, entry in entries.items():
        for leaf in jax.tree_util.tree_leaves(entry):
            if not isinstance(leaf, jax.Array | np.ndarray | np.generic | int | float):
                raise _bad_samples(
                    f"`{name}` has {leaf!r}", "pass arrays like those that the model will see"
                )
            empty += [] if np.size(leaf) else [name]
    # Some may be empty, such as the cache of a decoder that starts a text.
    if empty and len(empty) == len(jax.tree_util.tree_leaves(entries)):
        raise _bad_samples(f"`{empty[0]}` has no elements", "pass a few thousand rows")


def _bad_samples(message: str, help: str) -> InvalidInputError:
    return InvalidInputError("bad-samples", message, help=help)


def _block_size(form: str | None) -> int | None:
    name, _, size = (form or "").partition(":")
    return int(size) if name == "int4" else None


@dataclass
class _View:
    """A weight as a product reads it.

    Attributes:
        name: The name of the parameter.
        indices: The index of each element in the flat parameter.
    """

    name: str
    indices: Any


class _Calibration:
    """Evaluates a jaxpr and rounds weights on the way."""

    def __init__(self, sizes: Mapping[str, int], traced: Any) -> None:
        self._sizes = sizes
        self._traced = traced
        self.rounded: dict[str, np.ndarray[Any, Any]] = {}
        self.errors: list[WeightRounding] = []

    def evaluate(self, arguments: Sequence[Any]) -> None:
        closed = self._traced.jaxpr
        views: list[_View | None] = []
        for constant in closed.consts:
            name = self._traced.tree.name_of(constant)
            is_weight = name in self._sizes and jnp.issubdtype(constant.dtype, jnp.floating)
            indices = np.arange(constant.size).reshape(constant.shape) if is_weight else None
            views.append(_View(name, indices) if is_weight else None)
        self._run(closed.jaxpr, [*closed.consts, *arguments], [*views, *(None for _ in arguments)])

    def _run(
        self, jaxpr: Any, values: Sequence[Any], views: Sequence[_View | None]
    ) -> tuple[list[Any], list[_View | None]]:
        variables = [*jaxpr.constvars, *jaxpr.invars]
        known = dict(zip(variables, values, strict=True))
        seen = {v: view for v, view in zip(variables, views, strict=True) if view is not None}

        def value(atom: Any) -> Any:
            if _jax.is_literal(atom):
                return atom.val
            view = seen.get(atom)
            if view is not None and view.name in self.rounded:
                # The weight may have been rounded since.
                whole = self.rounded[view.name].reshape(-1)
                return jnp.asarray(whole[view.indices], known[atom].dtype)
            return known[atom]

        def view(atom: Any) -> _View | None:
            return None if _jax.is_literal(atom) else seen.get(atom)

        for eqn in jaxpr.eqns:
            name = eqn.primitive.name
            operands = [view(v) for v in eqn.invars]
            bodies = _jax.bodies_of(eqn)
            body = _jax.open_jaxpr(bodies[0]) if len(bodies) == 1 else None
            if body is not None and name not in _CONTROL and len(body.invars) == len(eqn.invars):
                consts = list(getattr(bodies[0], "consts", ()))
                given = [*consts, *map(value, eqn.invars)]
                results, found = self._run(body, given, [*(None for _ in consts), *operands])
                known |= dict(zip(eqn.outvars, results, strict=True))
                seen |= {v: f for v, f in zip(eqn.outvars, found, strict=True) if f is not None}
                continue
            if name == "dot_general":
                self._round(eqn, [value(v) for v in eqn.invars], operands)
            results = _jax.bind(eqn, [value(v) for v in eqn.invars])
            known |= dict(zip(eqn.outvars, results, strict=True))
            first = operands[0] if operands else None
            if first is not None and name in _LAYOUT:
                (moved,) = _jax.bind(eqn, [jnp.asarray(first.indices)])
                seen[eqn.outvars[0]] = _View(first.name, np.asarray(moved))
            elif first is not None and name == "convert_element_type":
                seen[eqn.outvars[0]] = first
        return [value(v) for v in jaxpr.outvars], [view(v) for v in jaxpr.outvars]

    def _round(self, eqn: Any, values: Sequence[Any], views: Sequence[_View | None]) -> None:
        """Rounds the weight that a product reads, unless that was done."""
        sides = [i for i, one in enumerate(views) if one is not None]
        (contracted, common) = eqn.params["dimension_numbers"]
        if len(sides) != 1 or any(common):
            return
        side = sides[0]
        view = views[side]
        assert view is not None
        if view.name in self.rounded:
            return
        weight = _as_matrix(np.asarray(values[side], np.float32), contracted[side])
        indices = _as_matrix(view.indices, contracted[side])
        inputs = _as_matrix(jnp.asarray(values[1 - side], jnp.float32), contracted[1 - side])
        if not bool(jnp.isfinite(inputs).all()):
            raise _bad_samples(
                f"the product with `{view.name}` reads NaN or infinity",
                "look for these numbers in the samples and in intermediate values of the function",
            )
        # Elements that are broadcast are read more than once.
        parameter = next(
            c for c in self._traced.jaxpr.consts if self._traced.tree.name_of(c) == view.name
        )
        if indices.size != parameter.size:
            return
        rounded, nearest = _rounded(
            jnp.asarray(weight), jnp.asarray(inputs), self._sizes[view.name]
        )
        results = jnp.linalg.norm(inputs.T @ weight) + 1e-30
        errors = [
            float(jnp.linalg.norm(inputs.T @ (one - weight)) / results)
            for one in (nearest, rounded)
        ]
        if not errors[1] <= errors[0]:
            # Too few inputs say nothing about the others.
            rounded, errors[1] = nearest, errors[0]
        whole = np.asarray(parameter, np.float32).reshape(-1).copy()
        whole[indices.reshape(-1)] = np.asarray(rounded).reshape(-1)
        self.rounded[view.name] = whole.reshape(parameter.shape)
        self.errors.append(WeightRounding(view.name, *errors))


def _as_matrix(array: Any, contracted: Sequence[int]) -> Any:
    """Moves the contracted axes to the front, as the rows of a matrix."""
    others = [axis for axis in range(array.ndim) if axis not in contracted]
    rows = math.prod(array.shape[axis] for axis in contracted)
    return array.transpose((*contracted, *others)).reshape(rows, -1)


@partial(jax.jit, static_argnames="size")
def _rounded(weight: Any, inputs: Any, size: int) -> tuple[Any, Any]:
    """Rounds a matrix in blocks of its columns. `inputs` have one column for each sample. Returns
    the calibrated numbers, and each element rounded to the nearest number.
    """
    rows, columns = weight.shape
    padded = -(-rows // size) * size
    weight = jnp.pad(weight, ((0, padded - rows), (0, 0)))
    hessian = jnp.pad(inputs @ inputs.T, (0, padded - rows))
    diagonal = jnp.diagonal(hessian)
    mean = jnp.maximum(jnp.mean(diagonal[:rows]), 1e-20)
    # Rows that no input reaches may be rounded in any way.
    hessian = hessian + jnp.diag(jnp.where(diagonal == 0, mean, _DAMPING * mean))
    factor = jnp.linalg.cholesky(jnp.linalg.inv(hessian), upper=True)
    importance = 1 / jnp.diagonal(factor) ** 2

    def group(number: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        weight, rounded = state
        start = number * size
        block = jax.lax.dynamic_slice(weight, (start, 0), (size, columns))
        upper = jax.lax.dynamic_slice(factor, (start, 0), (size, padded))
        square = jax.lax.dynamic_slice(upper, (0, start), (size, size))
        shares = jax.lax.dynamic_slice(importance, (start,), (size,))
        scale = _scales(block, shares[:, None])

        def row(i: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            block, found, errors = state
            number = _nearest(block[i], scale)
            error = (block[i] - number) / square[i, i]
            later = jnp.where(jnp.arange(size) > i, square[i], 0)
            return (
                block - later[:, None] * error,
                found.at[i].set(number),
                errors.at[i].set(error),
            )

        zeros = jnp.zeros_like(block)
        _, found, errors = jax.lax.fori_loop(0, size, row, (block, zeros, zeros))
        later = jnp.where(jnp.arange(padded) >= start + size, upper, 0)
        rounded = jax.lax.dynamic_update_slice(rounded, found, (start, 0))
        return weight - later.T @ errors, rounded

    _, rounded = jax.lax.fori_loop(0, padded // size, group, (weight, jnp.zeros_like(weight)))
    blocks = weight.reshape(-1, size, columns)
    nearest = jax.vmap(lambda block: _nearest(block, _scales(block, jnp.ones((size, 1)))))(blocks)
    return rounded[:rows], nearest.reshape(padded, columns)[:rows]


def _nearest(elements: Any, scale: Any) -> Any:
    return jnp.clip(jnp.round(elements / scale), _LEAST, _MOST) * scale


def _scales(block: Any, shares: Any) -> Any:
    """Returns the scale of each column with the least weighted error, as a half float."""
    low, high = jnp.minimum(block.min(0), 0), jnp.maximum(block.max(0), 0)
    whole = jnp.where(high > -low, high, low) / _LEAST

    def of(part: Any) -> tuple[Any, Any]:
        scale = (whole * part).astype(jnp.float16).astype(jnp.float32)
        tiny = float(np.finfo(np.float16).smallest_normal)
        scale = jnp.where(jnp.abs(scale) < tiny, jnp.where(whole == 0, 1.0, tiny), scale)
        return scale, jnp.sum(shares * (_nearest(block, scale) - block) ** 2, 0)

    scales, errors = jax.lax.map(of, jnp.asarray(_RANGES, jnp.float32))
    best = jnp.argmin(errors, 0)
    return jnp.take_along_axis(scales, best[None], 0)[0]
