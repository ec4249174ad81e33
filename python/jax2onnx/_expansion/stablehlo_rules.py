"""The `jax.lax` function of each operation of StableHLO, by the name of the operation."""

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax2onnx._expansion import stablehlo_linalg
from jax2onnx._expansion.stablehlo_operations import (
    Operation,
    constant_of,
    dtype_of,
    materialized,
    sizes_of,
    text_of,
)


def _compare(op: Operation, a: Any, b: Any) -> Any:
    if op.word("compare_type") == "TOTALORDER":
        a, b = _ordered(a), _ordered(b)
    names = {"EQ": lax.eq, "NE": lax.ne, "LT": lax.lt, "LE": lax.le, "GT": lax.gt, "GE": lax.ge}
    return names[op.word("comparison_direction")](a, b)


def _ordered(x: Any) -> Any:
    """Returns integers in the total order of floats."""
    if not jnp.issubdtype(x.dtype, np.floating):
        return x
    kind = np.dtype(f"int{8 * x.dtype.itemsize}")
    bits = lax.bitcast_convert_type(x, kind)
    return jnp.where(bits < 0, bits ^ np.iinfo(kind).max, bits)


def _on_bools(numbers: Any, bools: Any) -> Any:
    """Returns the rule of an operation that is another function of booleans."""
    return lambda _, a, b: bools(a, b) if a.dtype == bool else numbers(a, b)


def _dot_general(op: Operation, a: Any, b: Any) -> Any:
    axes = op.numbers("dot_dimension_numbers", "DotDimensionNumbers")
    contracted = (axes.lhs_contracting_dimensions, axes.rhs_contracting_dimensions)
    batched = (axes.lhs_batching_dimensions, axes.rhs_batching_dimensions)
    numbers = tuple(tuple(tuple(side) for side in pair) for pair in (contracted, batched))
    return lax.dot_general(a, b, numbers, preferred_element_type=op.dtype)  # type: ignore[arg-type]


def _dynamic_slice(op: Operation, x: Any, *starts: Any) -> Any:
    return lax.dynamic_slice(x, starts, op.ints("slice_sizes"), allow_negative_indices=False)


def _dynamic_update_slice(_: Operation, x: Any, update: Any, *starts: Any) -> Any:
    return lax.dynamic_update_slice(x, update, starts, allow_negative_indices=False)


def _real_dynamic_slice(op: Operation, x: Any, starts: Any, limits: Any, strides: Any) -> Any:
    if not isinstance(starts, np.ndarray) and set(sizes_of(strides)) == {1}:
        end = op.op.operands[2].owner
        if end.operation.name == "stablehlo.add" and end.operands[0] == op.op.operands[1]:
            sizes = sizes_of(op.value(end.operands[1]))
            each = [starts[i] for i in range(x.ndim)]
            return lax.dynamic_slice(x, each, sizes, allow_negative_indices=False)
    return lax.slice(x, sizes_of(starts), sizes_of(limits), sizes_of(strides))


def _gather(op: Operation, x: Any, indices: Any, sizes: Any = None) -> Any:
    axes = op.numbers("dimension_numbers", "GatherDimensionNumbers")
    indices = _with_last(indices, axes.index_vector_dim)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(axes.offset_dims),
        collapsed_slice_dims=tuple(axes.collapsed_slice_dims),
        start_index_map=tuple(axes.start_index_map),
        operand_batching_dims=tuple(axes.operand_batching_dims),
        start_indices_batching_dims=tuple(axes.start_indices_batching_dims),
    )
    taken = op.ints("slice_sizes") if sizes is None else sizes_of(sizes)
    return lax.gather(x, indices, numbers, taken, mode=lax.GatherScatterMode.CLIP)


def _with_last(indices: Any, axis: int) -> Any:
    """Moves the axis of index vectors to the end, where JAX has it."""
    if axis == indices.ndim:
        return lax.expand_dims(indices, [axis])
    return jnp.moveaxis(indices, axis, -1)


_SCATTERS: dict[str | None, Any] = {
    "second": lax.scatter,
    "subtract": lax.scatter_sub,
    "add": lax.scatter_add,
    "multiply": lax.scatter_mul,
    "minimum": lax.scatter_min,
    "maximum": lax.scatter_max,
}


def _scatter(op: Operation, x: Any, indices: Any, updates: Any) -> Any:
    axes = op.numbers("scatter_dimension_numbers", "ScatterDimensionNumbers")
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(axes.update_window_dims),
        inserted_window_dims=tuple(axes.inserted_window_dims),
        scatter_dims_to_operand_dims=tuple(axes.scattered_dims_to_operand_dims),
        operand_batching_dims=tuple(axes.input_batching_dims),
        scatter_indices_batching_dims=tuple(axes.scatter_indices_batching_dims),
    )
    if (scatter := _SCATTERS.get(op.body() or _extreme(op))) is None:
        raise NotImplementedError("its function is not supported")
    return scatter(
        x,
        _with_last(indices, axes.index_vector_dim),
        updates,
        numbers,
        indices_are_sorted=op.flag("indices_are_sorted"),
        unique_indices=op.flag("unique_indices"),
        mode=lax.GatherScatterMode.FILL_OR_DROP,
    )


def _extreme(op: Operation) -> str | None:
    """Returns the name of a maximum or minimum of complex numbers, which is several operations."""
    if not jnp.issubdtype(op.dtype, np.complexfloating):
        return None
    numbers = _samples(op.dtype)
    numbers = numbers[~np.isnan(numbers)]
    a, b = map(np.ravel, np.meshgrid(numbers, numbers))
    with jax.ensure_compile_time_eval():
        (found,) = jax.vmap(op.region(0))(a, b)
        for name, function in (("maximum", lax.max), ("minimum", lax.min)):
            if np.array_equal(found, function(a, b)):
                return name
    return None


_MONOIDS: dict[str | None, Any] = {
    "add": lax.add,
    "multiply": lax.mul,
    "maximum": lax.max,
    "minimum": lax.min,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
}


def _combined(op: Operation, count: int) -> Any:
    """Returns the function of a reduction, which JAX recognises if it is one of its own."""
    if count == 1 and (monoid := _MONOIDS.get(op.body())) is not None:
        return monoid
    block = op.block
    if count == 1:
        return lambda a, b: op.run(block, a, b)[0]
    return lambda a, b: tuple(op.run(block, *a, *b))


def _reduce(op: Operation, *given: Any) -> Any:
    count = len(given) // 2
    xs, starts, axes = given[:count], given[count:], op.ints("dimensions")
    pick = (lambda some: some[0]) if count == 1 else tuple
    return lax.reduce(pick(xs), pick(starts), _combined(op, count), axes)


def _reduce_window(op: Operation, *given: Any) -> Any:
    rank = given[0].ndim
    ones = (1,) * rank
    windows = (
        op.ints("window_dimensions"),
        op.ints("window_strides", ones),
        op.matrix("padding", rank),
        op.ints("base_dilations", ones),
        op.ints("window_dilations", ones),
    )
    return _reduced_windows(op, given, windows)


def _dynamic_reduce_window(op: Operation, *given: Any) -> Any:
    sizes, strides, base, dilations = (sizes_of(value) for value in given[-5:-1])
    edges = sizes_of(given[-1])
    padding = list(zip(edges[::2], edges[1::2], strict=True))
    return _reduced_windows(op, given[:-5], (sizes, strides, padding, base, dilations))


def _reduced_windows(op: Operation, given: Sequence[Any], windows: Sequence[Any]) -> Any:
    count = len(given) // 2
    xs, starts = given[:count], given[count:]
    if count == 1 and (found := _cumulated(op, xs[0], starts[0], windows)) is not None:
        return found
    pick = (lambda some: some[0]) if count == 1 else tuple
    return lax.reduce_window(pick(xs), pick(starts), _combined(op, count), *windows)


_CUMULATIVE = {
    "add": (lax.cumsum, 0.0),
    "multiply": (lax.cumprod, 1.0),
    "maximum": (lax.cummax, -np.inf),
    "minimum": (lax.cummin, np.inf),
}


def _cumulated(op: Operation, x: Any, start: Any, windows: Sequence[Any]) -> Any:
    """Returns the cumulative reduction that windows compute, or None. Each window then ends at its
    element and begins before all others.
    """
    sizes, strides, padding, base, dilations = windows
    function, identity = _CUMULATIVE.get(op.body() or "", (None, 0.0))
    axes = [axis for axis in range(x.ndim) if not (sizes[axis] == 1 and padding[axis] == (0, 0))]
    if function is None or len(axes) != 1 or {*strides, *base, *dilations} != {1}:
        return None
    (axis,) = axes
    size = x.shape[axis]
    ways = [(size - 1, 0), (0, size - 1)]
    if sizes[axis] != size or padding[axis] not in ways or not isinstance(start, np.ndarray):
        return None
    if not jnp.issubdtype(x.dtype, np.floating) and not np.isfinite(identity):
        limits: Any = jnp.iinfo(x.dtype)  # type: ignore[no-untyped-call]
        identity = limits.min if identity < 0 else limits.max
    return function(x, axis, reverse=ways.index(padding[axis]) == 1) if start == identity else None


def _select_and_scatter(op: Operation, x: Any, source: Any, start: Any) -> Any:
    """Returns the derivative of a maximum or minimum over windows."""
    first, second = (list(region.blocks[0].operations) for region in op.op.regions)
    names = [(operations[0].operation.name, len(operations)) for operations in (first, second)]
    is_known = names == [("stablehlo.compare", 2), ("stablehlo.add", 2)]
    direction = Operation(first[0], op.module, {}).word("comparison_direction")
    directions = {"GE": (lax.max, -np.inf), "LE": (lax.min, np.inf)}
    is_zero = isinstance(start, np.ndarray) and not start.any()
    if not is_known or direction not in directions or not is_zero:
        raise NotImplementedError("it is not the derivative of a maximum or a minimum")
    function, identity = directions[direction]
    rank = x.ndim
    sizes = op.ints("window_dimensions", (1,) * rank)
    strides, padding = op.ints("window_strides", (1,) * rank), op.matrix("padding", rank)

    def pooled(x: Any) -> Any:
        return lax.reduce_window(x, np.array(identity, x.dtype), function, sizes, strides, padding)

    return jax.vjp(pooled, x)[1](source)[0]


def _convolution(op: Operation, x: Any, kernel: Any) -> Any:
    axes = op.numbers("dimension_numbers", "ConvDimensionNumbers")
    rank = x.ndim - 2
    ones = (1,) * rank
    if any(op.ints("window_reversal")):
        raise NotImplementedError("its window is reversed")
    sides = (
        (axes.input_batch_dimension, axes.input_feature_dimension, *axes.input_spatial_dimensions),
        (
            axes.kernel_output_feature_dimension,
            axes.kernel_input_feature_dimension,
            *axes.kernel_spatial_dimensions,
        ),
        (
            axes.output_batch_dimension,
            axes.output_feature_dimension,
            *axes.output_spatial_dimensions,
        ),
    )
    return lax.conv_general_dilated(
        x,
        kernel,
        op.ints("window_strides", ones),
        op.matrix("padding", rank),
        op.ints("lhs_dilation", ones),
        op.ints("rhs_dilation", ones),
        lax.ConvDimensionNumbers(*(tuple(side) for side in sides)),
        op.integer("feature_group_count", 1),
        op.integer("batch_group_count", 1),
        preferred_element_type=op.dtype,
    )


def _sort(op: Operation, *given: Any) -> Any:
    """Sorts by the first operands that the comparison reads, if it compares them as JAX does."""
    block = op.op.regions[0].blocks[0]
    read = {operand for inner in block.operations for operand in inner.operands}
    keys = 1 + max((i // 2 for i, a in enumerate(block.arguments) if a in read), default=0)
    before = op.region(0)
    samples = [_samples(x.dtype) for x in given[:keys]]
    rows = [row.ravel() for row in np.meshgrid(*samples, *samples)]
    left, right = rows[:keys], rows[keys:]
    rest = [np.zeros(left[0].shape, x.dtype) for x in given[keys:] for _ in range(2)]
    pairs = [side for pair in zip(left, right, strict=True) for side in pair]
    # The results of JAX's comparison of the samples, and those that compare equal.
    wanted, equal = np.zeros(left[0].shape, bool), np.ones(left[0].shape, bool)
    sides = (chain.from_iterable(map(_parts, side)) for side in (left, right))
    for a, b in zip(*sides, strict=True):
        less = np.array(_rank(a) < _rank(b))
        wanted |= equal & less
        equal &= np.array(_rank(a) == _rank(b))
    with jax.ensure_compile_time_eval():
        (found,) = jax.vmap(before)(*pairs, *rest)
    axis, stable = op.integer("dimension", -1), op.flag("is_stable")
    found = np.array(found)
    descending = np.array_equal(found[~equal], ~wanted[~equal])
    if not descending and not np.array_equal(found, wanted):
        raise NotImplementedError("its comparison is not supported")
    axis %= given[0].ndim

    def turned(arrays: Sequence[Any]) -> list[Any]:
        return [lax.rev(x, [axis]) for x in arrays] if descending else list(arrays)

    # Turned around, a stable sort keeps the order of equal elements.
    return turned(lax.sort(turned(given), dimension=axis, is_stable=stable, num_keys=keys))


def _samples(dtype: Any) -> np.ndarray:
    """Returns numbers of which different comparisons compute different results."""
    if dtype.kind == "b":
        return np.array([False, True])
    if jnp.issubdtype(dtype, np.complexfloating):
        real, imaginary = np.meshgrid([-1.5, -0.0, 0.0, np.inf, np.nan], [0.0, -1.0, np.nan])
        numbers = np.empty(real.shape, dtype)
        numbers.real, numbers.imag = real, imaginary
        return numbers.ravel()
    if jnp.issubdtype(dtype, np.floating):
        return np.array([-np.inf, -2, -1.5, -0.0, 0.0, 0.25, 3, np.inf, np.nan]).astype(dtype)
    limits: Any = jnp.iinfo(dtype)  # type: ignore[no-untyped-call]
    return np.array([limits.min, limits.max, 0, 1, 5]).astype(dtype)


def _parts(x: np.ndarray) -> list[np.ndarray]:
    """Returns the numbers by which JAX compares, one after the other."""
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def _rank(x: np.ndarray) -> np.ndarray:
    """Returns numbers in JAX's order: zeros are equal, and NaN are equal and last."""
    if x.dtype.kind in "iub":
        return x
    wide = x.astype(np.float64)
    return np.where(np.isnan(wide), 1e9, np.clip(wide, -1e6, 1e6))


def _while(op: Operation, *given: Any) -> Any:
    condition, body = op.region(0), op.region(1)
    start = [jnp.asarray(value) for value in given]
    return lax.while_loop(lambda state: condition(*state)[0], lambda state: body(*state), start)


def _case(op: Operation, index: Any) -> Any:
    branches = [op.region(number) for number in range(len(op.op.regions))]
    # An index beyond all branches takes the last one.
    wrong = (index < 0) | (index >= len(branches))
    index = jnp.where(wrong, len(branches) - 1, index)
    return lax.switch(index, [_arrays(branch) for branch in branches])


def _if(op: Operation, condition: Any) -> Any:
    return lax.cond(condition, _arrays(op.region(0)), _arrays(op.region(1)))


def _arrays(branch: Any) -> Any:
    return lambda: [jnp.asarray(value) for value in branch()]


def _call(op: Operation, *given: Any) -> Any:
    name = "callee" if "callee" in op.op.attributes else "decomposition"
    block = op.module.functions[text_of(op.op.attributes[name])]
    return op.module.values(block, given, {})[1]


def _iota(op: Operation) -> Any:
    return lax.broadcasted_iota(op.dtype, op.shape, op.integer("iota_dimension"))


def _dynamic_iota(op: Operation, sizes: Any) -> Any:
    return lax.broadcasted_iota(op.dtype, sizes_of(sizes), op.integer("iota_dimension"))


def _dynamic_pad(_: Operation, x: Any, fill: Any, low: Any, high: Any, inside: Any) -> Any:
    return lax.pad(x, fill, list(zip(*map(sizes_of, (low, high, inside)), strict=True)))


def _pad(op: Operation, x: Any, fill: Any) -> Any:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return lax.pad(x, fill, list(zip(*map(op.ints, names), strict=True)))


def _broadcast(op: Operation, x: Any, sizes: Any = None) -> Any:
    shape = op.shape if sizes is None else sizes_of(sizes)
    return lax.broadcast_in_dim(x, shape, op.ints("broadcast_dimensions"))


def _slice(op: Operation, x: Any) -> Any:
    names = ("start_indices", "limit_indices", "strides")
    return lax.slice(x, *map(op.ints, names))


def _fft(op: Operation, x: Any) -> Any:
    return lax.fft(x, getattr(lax.FftType, op.word("fft_type")), op.ints("fft_length"))


def _random_bits(op: Operation, key: Any) -> Any:
    kind = op.op.results[1].type
    algorithm = getattr(lax.RandomAlgorithm, f"RNG_{op.word('rng_algorithm', 'DEFAULT')}")
    words = key
    if key.dtype == np.uint64:
        words = lax.bitcast_convert_type(key, np.uint32).reshape(-1)
    after, bits = lax.rng_bit_generator(words, tuple(kind.shape), dtype_of(kind), algorithm)
    if key.dtype == np.uint64:
        after = lax.bitcast_convert_type(after.reshape(-1, 2), np.uint64)
    return [after, bits]


def _custom_call(op: Operation, *given: Any) -> Any:
    target = text_of(op.op.attributes["call_target_name"])
    if not op.op.results:
        return []  # an assertion
    if target == "stablehlo.dynamic_reduce_window":
        return _dynamic_reduce_window(op, *given)
    given = tuple(map(materialized, given, (operand.type for operand in op.op.operands)))
    if target in ("Sharding", "annotate_device_placement", "xla.sdy.FuncResultSharding"):
        return given[0]
    if target == "ApproxTopK":
        return _approx_top_k(op, given[0])
    if (rule := stablehlo_linalg.RULES.get(re.sub(r"^lapack_[sdcz]|_ffi$", "", target))) is None:
        raise NotImplementedError(f"`{target}` is not supported")
    config = "mhlo.backend_config"
    options = str(op.op.attributes[config]) if config in op.op.attributes else ""
    # Programs with symbolic sizes pass these as further operands.
    return rule(options, *given[: stablehlo_linalg.OPERANDS.get(rule, 1)])


def _approx_top_k(op: Operation, x: Any) -> Any:
    """Returns the largest or smallest elements, which the name of the comparison tells apart."""
    given = op.op.attributes["mhlo.backend_config"]
    is_largest = "top_k_gt_" in str(op.op.attributes["called_computations"])
    function = lax.approx_max_k if is_largest else lax.approx_min_k
    return function(
        x,
        given["top_k"].value,
        given["reduction_dim"].value,
        given["recall_target"].value,
        given["reduction_input_size_override"].value,
        given["aggregate_to_topk"].value,
    )


def _plain(function: Any) -> Any:
    """Returns the rule of an operation without attributes."""
    return lambda _, *given: function(*given)


# Operations with the name of a function in `jax.lax`, which take only operands.
_PLAIN = re.findall(
    r"\w+",
    """abs acos acosh asin asinh atan atan2 atanh bessel_i1e cbrt ceil clamp complex conj
    cosh digamma erf erf_inv erfc floor imag is_finite lgamma log logistic polygamma real
    rsqrt select shift_left shift_right_arithmetic shift_right_logical sign sinh sqrt
    square tan tanh zeta""",
)

RULES: dict[str, Callable[..., Any]] = {
    **{name: _plain(getattr(lax, name)) for name in _PLAIN},
    "add": _on_bools(lax.add, lax.bitwise_or),
    "and": _plain(lax.bitwise_and),
    "bitcast_convert": lambda op, x: lax.bitcast_convert_type(x, op.dtype),
    "broadcast_in_dim": _broadcast,
    "call": _call,
    "case": _case,
    "cholesky": lambda op, x: stablehlo_linalg.cholesky(x, lower=op.flag("lower")),
    "compare": _compare,
    "composite": _call,
    "concatenate": lambda op, *xs: lax.concatenate(xs, op.integer("dimension")),
    "constant": constant_of,
    "convert": lambda op, x: lax.convert_element_type(x, op.dtype),
    "convolution": _convolution,
    "cosine": _plain(lax.cos),
    "count_leading_zeros": _plain(lax.clz),
    "custom_call": _custom_call,
    "divide": _plain(lax.div),
    "dot_general": _dot_general,
    "dynamic_broadcast_in_dim": _broadcast,
    "dynamic_gather": _gather,
    "dynamic_iota": _dynamic_iota,
    "dynamic_pad": _dynamic_pad,
    "dynamic_reshape": lambda _, x, sizes: lax.reshape(x, sizes_of(sizes)),
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "exponential": _plain(lax.exp),
    "exponential_minus_one": _plain(lax.expm1),
    "fft": _fft,
    "gather": _gather,
    "if": _if,
    "iota": _iota,
    "log_plus_one": _plain(lax.log1p),
    "maximum": _on_bools(lax.max, lax.bitwise_or),
    "minimum": _on_bools(lax.min, lax.bitwise_and),
    "multiply": _on_bools(lax.mul, lax.bitwise_and),
    "negate": _plain(lax.neg),
    "next_after": _plain(lax.nextafter),
    "not": _plain(lax.bitwise_not),
    "optimization_barrier": lambda _, *xs: list(xs),
    "or": _plain(lax.bitwise_or),
    "pad": _pad,
    "popcnt": _plain(lax.population_count),
    "power": _plain(lax.pow),
    "real_dynamic_slice": _real_dynamic_slice,
    "reduce": _reduce,
    "reduce_precision": lambda op, x: lax.reduce_precision(
        x, op.integer("exponent_bits"), op.integer("mantissa_bits")
    ),
    "reduce_window": _reduce_window,
    "remainder": _plain(lax.rem),
    "reshape": lambda op, x: lax.reshape(x, op.shape),
    "reverse": lambda op, x: lax.rev(x, op.ints("dimensions")),
    "rng_bit_generator": _random_bits,
    "round_nearest_afz": lambda _, x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "round_nearest_even": lambda _, x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "scatter": _scatter,
    "select_and_scatter": _select_and_scatter,
    "sharding_constraint": lambda _, x: x,
    "sine": _plain(lax.sin),
    "slice": _slice,
    "sort": _sort,
    "subtract": _plain(lax.sub),
    "top_k": lambda op, x: lax.top_k(x, op.integer("k")),
    "transpose": lambda op, x: lax.transpose(x, op.ints("permutation")),
    "triangular_solve": lambda op, a, b: stablehlo_linalg.triangular_solve(
        a,
        b,
        left_side=op.flag("left_side"),
        lower=op.flag("lower"),
        unit_diagonal=op.flag("unit_diagonal"),
        transpose=op.word("transpose_a"),
    ),
    "while": _while,
    "xor": _plain(lax.bitwise_xor),
}

# The index of the first operand that may be a size, for operations that take sizes or pass them on.
SIZES_FROM = {
    "call": 0,
    "composite": 0,
    "custom_call": 0,
    "dynamic_broadcast_in_dim": 1,
    "dynamic_gather": 2,
    "dynamic_iota": 0,
    "dynamic_pad": 2,
    "dynamic_reshape": 1,
    "real_dynamic_slice": 1,
}
