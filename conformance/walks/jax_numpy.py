"""Calls to functions of `jax.numpy`."""

import jax.numpy as jnp
import numpy as np

from conformance.walks.arguments import (
    SPECIAL,
    Table,
    booleans,
    call,
    complexes,
    each,
    floats,
    integers,
    via,
)

F, I, B, C = floats(3, 4), integers(3, 4), booleans(3, 4), complexes(3, 4)
G, J, D, E = (
    floats(3, 4, seed=1),
    integers(3, 4, seed=1),
    booleans(3, 4, seed=1),
    complexes(3, 4, seed=1),
)
V, W, K = floats(6, seed=2), floats(6, seed=3), integers(6, low=0, high=5, seed=2)
U = integers(3, 4, low=0, high=200).astype(np.uint8)
POSITIVE = floats(3, 4, low=0.1, high=5)
N = np.where(F > 1, np.nan, F)  # with gaps
CUBE, LONG = floats(2, 3, 4), floats(4, 6)
SORTED = np.sort(V)

_UNARY = """
    abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh around asin asinh
    atan atanh cbrt ceil conj conjugate copy cos cosh deg2rad degrees exp exp2 expm1 fabs fix floor
    frexp i0 imag iscomplex isfinite isinf isnan isneginf isposinf isreal log log10 log1p log2
    logical_not modf nan_to_num negative positive rad2deg radians real reciprocal rint round sign
    signbit sin sinc sinh spacing sqrt square tan tanh trunc
"""
_BINARY = """
    add arctan2 atan2 copysign divide divmod equal float_power floor_divide fmax fmin fmod greater
    greater_equal heaviside hypot isclose less less_equal logaddexp logaddexp2 logical_and
    logical_or logical_xor maximum minimum mod multiply nextafter not_equal pow power remainder
    subtract true_divide array_equal array_equiv allclose
"""
_REDUCE = """
    all amax amin any argmax argmin count_nonzero max mean min nanargmax nanargmin nanmax nanmean
    nanmin nanprod nanstd nansum nanvar prod ptp std sum var minmax
"""
_CUMULATIVE = "cumprod cumsum nancumprod nancumsum"
_WHOLE_BINARY = "bitwise_and bitwise_or bitwise_xor"
_WHOLE_UNARY = "bitwise_count bitwise_invert bitwise_not invert"
_SHIFTS = "bitwise_left_shift bitwise_right_shift left_shift right_shift"

_ELEMENTWISE = {
    **each(_UNARY, call(SPECIAL), call(F), call(I), call(U), call(B), call(C)),
    **each(
        _BINARY,
        call(F, G),
        call(SPECIAL[:, None], SPECIAL),
        call(I, J),
        call(U, U[::-1]),
        call(B, D),
        call(C, E),
        call(F, I[0]),
    ),
    **each(_WHOLE_BINARY, call(I, J), call(U, U[::-1]), call(B, D)),
    **each(_WHOLE_UNARY, call(I), call(U), call(B)),
    **each(_SHIFTS, call(I, J % 40), call(U, U[::-1] % 12)),
    **each("gcd lcm", call(I, J), call(U, U[::-1])),
    "clip": [call(F, -1, 1), call(SPECIAL, -1, 1), call(I, -2, 3), call(F, G - 1, G + 1)],
    "ldexp": [call(F, I)],
    "where": [
        call(B, F, G),
        call(B, I, F),
        call(B, C, E),
        via(lambda c, x: jnp.where(c, x, 0), B, F),
    ],
    "select": [via(lambda x, y: jnp.select([x > 1, x > 0], [x, y], 7), F, G)],
    "piecewise": [via(lambda x: jnp.piecewise(x, [x < 0, x > 1], [-1, jnp.sin, 0.5]), F)],
    "unwrap": [call(V * 5), call(F * 5, axis=0)],
    "heaviside": [call(F, G), call(SPECIAL[:, None], SPECIAL)],
    "interp": [
        call(V, SORTED, W),
        call(V, SORTED, W, left=-9, right=9),
        call(V, SORTED, W, period=2),
    ],
    "choose": [call(K % 3, [V, W, V + W], mode="clip"), call(K, [V, W], mode="wrap")],
}

_REDUCTIONS = {
    **each(
        _REDUCE,
        call(F),
        call(N, axis=1),
        call(I, axis=0),
        call(U, axis=-1, keepdims=True),
        call(B, axis=1),
        call(C, axis=1),
    ),
    **each(_CUMULATIVE, call(F), call(N, axis=1), call(I, axis=0), call(C, axis=1), call(B)),
    **each(
        "cumulative_sum cumulative_prod", call(F, axis=1), call(F, axis=0, include_initial=True)
    ),
    **each(
        "median nanmedian",
        call(F),
        call(N, axis=1),
        call(I, axis=0, keepdims=True),
    ),
    **each(
        "quantile nanquantile",
        call(F, 0.3),
        call(N, np.float32([0.1, 0.9]), axis=1),
        call(F, 0.3, axis=0, method="nearest"),
        call(F, 0.3, axis=0, method="lower"),
    ),
    **each("percentile nanpercentile", call(F, 30), call(N, np.float32([10, 90]), axis=1)),
    "average": [call(F), call(F, axis=1, weights=np.abs(G)), call(C, axis=0)],
    "cov": [call(F), call(F, G), call(F, rowvar=False, bias=True), call(C)],
    "corrcoef": [call(F), call(F, rowvar=False)],
    "trapezoid": [call(F), call(F, dx=0.5, axis=0), call(V, SORTED)],
    "apply_along_axis": [via(lambda x: jnp.apply_along_axis(jnp.sort, 0, x), F)],
    "apply_over_axes": [via(lambda x: jnp.apply_over_axes(jnp.sum, x, [0, 2]), CUBE)],
    "histogram": [call(F, 5), call(F, np.float32([-2, 0, 1, 2])), call(F, 4, density=True)],
    "histogram_bin_edges": [call(F, 5), call(F, 5, range=(-1, 1))],
    "histogram2d": [call(V, W, 3), call(V, W, 3, density=True)],
    "histogramdd": [via(lambda x: jnp.histogramdd(x, 3)[0], floats(9, 2))],
    "bincount": [call(K, length=6), call(K, weights=V, length=6), call(K, minlength=8, length=8)],
}

_SHAPES = {
    **each("argsort sort", call(F), call(N, axis=0), call(I, descending=True), call(C), call(B)),
    **each("ravel squeeze flip transpose", call(F), call(I), call(C[:1])),
    **each("fliplr flipud matrix_transpose rot90 atleast_3d", call(F), call(C)),
    **each("atleast_1d atleast_2d", call(F), call(np.float32(3)), call(V)),
    **each("concatenate concat", call([F, G]), call([F, G], axis=1), call([I, F], axis=1)),
    **each("stack", call([F, G]), call([F, G], axis=-1), call([C, F], axis=1)),
    **each("column_stack dstack hstack vstack", call([F, G]), call([V, W])),
    **each("split array_split", call(LONG, 2), call(LONG, [1, 3], axis=1)),
    "dsplit": [call(CUBE, 2)],
    "hsplit": [call(LONG, 3)],
    "vsplit": [call(LONG, 2)],
    "unstack": [call(F), call(F, axis=1)],
    "append": [call(F, G), call(F, G, axis=1)],
    "array_split": [call(LONG, 4, axis=1)],
    "block": [via(lambda a, b: jnp.block([[a, b], [b, a]]), F, G)],
    "broadcast_arrays": [call(F, V[:4])],
    "broadcast_to": [call(V[:4], (3, 4)), call(C[:1], (2, 5, 4))],
    "delete": [call(F, 1, axis=1), call(V, obj=np.int32([0, 2])), call(V, slice(1, 3))],
    "insert": [call(V, 2, 9.0), call(F, 1, W[:4], axis=0)],
    "diag": [call(V), call(F), call(F, 1), call(V, -1)],
    "diagflat": [call(V), call(F, 1)],
    "diagonal": [call(F), call(CUBE, 1, 1, 2)],
    "diag_indices_from": [call(F[:, :3])],
    "diff": [call(F), call(F, 2, axis=0), call(B), call(V, prepend=W[:2])],
    "ediff1d": [call(F), call(V, to_begin=W[:1], to_end=W[:2])],
    "expand_dims": [call(F, 1), call(F, (0, -1))],
    "fill_diagonal": [call(F, 7.0, inplace=False), call(F, G[:, 0], inplace=False)],
    "gradient": [call(V), call(F), call(F, 0.5, axis=0), call(V, SORTED)],
    "moveaxis": [call(CUBE, 0, -1), call(CUBE, (0, 1), (1, 2))],
    "permute_dims": [call(CUBE, (2, 0, 1))],
    "swapaxes": [call(CUBE, 0, 2)],
    "rollaxis": [call(CUBE, 2)],
    "pad": [
        *(call(F, ((1, 2), (2, 1)), mode=m) for m in ("constant", "edge", "reflect", "symmetric")),
        *(call(F, ((1, 2), (2, 1)), mode=m) for m in ("wrap", "linear_ramp", "mean", "maximum")),
        *(call(F, 1, mode=m) for m in ("minimum", "median")),
        call(I, 1, constant_values=5),
    ],
    "repeat": [
        call(F, 2),
        call(F, 3, axis=1),
        call(V, np.int32([1, 0, 2, 1, 1, 3]), total_repeat_length=8),
    ],
    "reshape": [call(F, (2, 6)), call(F, (-1, 3)), call(F, 12, order="F")],
    "resize": [call(F, (2, 3)), call(F, (5, 4))],
    "roll": [
        call(F, 2),
        call(F, (1, -2), axis=(0, 1)),
        via(lambda x, n: jnp.roll(x, n), V, np.int32(2)),
    ],
    "tile": [call(F, 2), call(V, (2, 3))],
    "tril": [call(F), call(F, 1), call(CUBE, -1)],
    "triu": [call(F), call(F, 1), call(CUBE, -1), call(I)],
    "tril_indices_from": [call(F)],
    "triu_indices_from": [call(F, 1)],
    "trace": [call(F), call(CUBE, 1, 1, 2), call(I)],
    "meshgrid": [call(V, W[:3]), call(V, W[:3], indexing="ij", sparse=True)],
    "ix_": [call(K, K[:3])],
    "astype": [call(F, np.int32), call(I, np.float32), call(F, np.bool_), call(F, np.complex64)],
    "packbits": [call(B), call(B, axis=1, bitorder="little")],
    "unpackbits": [call(U), call(U, axis=1, bitorder="little")],
    **each(
        "zeros_like ones_like empty_like", call(F), call(I, dtype=np.float32), call(F, shape=(2,))
    ),
    "full_like": [call(F, 3), call(I, 2.5, dtype=np.float32)],
    **each("array asarray", call(F), call([V, W]), call(I, dtype=np.float32)),
}

_INDEXING = {
    "take": [
        call(F, K % 3, axis=0),
        call(F, K),
        call(V, I, mode="clip"),
        call(V, I, mode="wrap"),
        call(V, I, mode="fill"),
        call(V, I),
    ],
    "take_along_axis": [call(F, J % 4, axis=1), call(V, I[0], axis=0, mode="clip")],
    "put": [call(V, K[:3], W[:3], inplace=False)],
    "put_along_axis": [call(F, J % 4, G, axis=1, inplace=False)],
    "place": [call(F, B, W, inplace=False)],
    "compress": [call(booleans(3), F, axis=0, size=2), call(booleans(12), F, size=5)],
    "extract": [call(B, F, size=5)],
    "searchsorted": [
        call(SORTED, F),
        call(SORTED, F, side="right"),
        call(SORTED, F, method="compare_all"),
        call(SORTED, F, method="sort"),
        call(np.sort(K), I),
    ],
    "digitize": [call(F, SORTED), call(F, SORTED[::-1], right=True)],
    **each("argwhere nonzero flatnonzero", call(B, size=7), call(I, size=20, fill_value=-1)),
    "argpartition": [via(lambda x: jnp.take_along_axis(x, jnp.argpartition(x, 2), -1)[..., 2], F)],
    "partition": [via(lambda x: jnp.partition(x, 2)[..., 2], F)],
    "lexsort": [call((K, V)), call((I, F))],
    "sort_complex": [call(C), call(F)],
    "top_k": [via(lambda x: jnp.top_k(x, 2), F)],
    "unique": [
        call(K, size=6),
        call(K, size=4, fill_value=-1, return_inverse=True, return_counts=True, return_index=True),
        call(I % 2, axis=0, size=3),
    ],
    **each("unique_all unique_counts unique_inverse unique_values", call(K, size=6)),
    **each("intersect1d union1d setdiff1d setxor1d", call(K, K[:3] + 1, size=6)),
    "isin": [call(I, K), call(F, V), call(I, K, invert=True)],
    "ravel_multi_index": [call((K % 3, K % 4), (3, 4), mode="clip")],
    "unravel_index": [call(K, (3, 4))],
    "polyval": [call(V, F), call(V, W, unroll=1)],
}

_PRODUCTS = {
    "dot": [call(F, G.T), call(V, W), call(C, E.T), call(CUBE, F.T), call(I, J.T)],
    "matmul": [call(F, G.T), call(CUBE, G.T), call(U, U.T), call(C, V[:4])],
    "inner": [call(F, G), call(V, W)],
    "outer": [call(V, W), call(K, K)],
    **each("vdot", call(C, E), call(V, W)),
    **each("vecdot", call(F, G), call(C, E), call(CUBE, CUBE, axis=1)),
    "matvec": [call(F, V[:4]), call(CUBE, V[:4])],
    "vecmat": [call(V[:3], F)],
    "tensordot": [call(CUBE, CUBE.T, 1), call(CUBE, F, axes=((1, 2), (0, 1))), call(F, G, 0)],
    "kron": [call(F, G), call(V, W)],
    "cross": [call(F[:, :3], G[:, :3]), call(F.T, G.T), call(V[:2], W[:2])],
    "einsum": [
        call("ij,kj->ik", F, G),
        call("ij,jk,kl->il", F, G.T, F),
        call("bij->bji", CUBE),
        call("ii->i", F[:, :3]),
        call("...i,...i", CUBE, F),
    ],
    "convolve": [call(V, W[:3]), call(V, W[:3], mode="same"), call(K, K, mode="valid")],
    "correlate": [call(V, W[:3]), call(V, W[:3], mode="full"), call(C[0], E[0])],
    "poly": [call(V[:4]), call(floats(3, 3) + floats(3, 3).T)],
    "polyadd": [call(V, W[:3])],
    "polysub": [call(V, W[:3])],
    "polymul": [call(V, W[:3])],
    "polyder": [call(V, 2)],
    "polyint": [call(V, 2), call(V, k=3)],
    "polydiv": [call(V, W[:3])],
    "polyfit": [call(SORTED, W, 2), call(SORTED, W, 1, w=np.abs(V))],
    "roots": [via(lambda p: jnp.sort(jnp.abs(jnp.roots(p, strip_zeros=False))), V[:4])],
    "vander": [call(V), call(V, 3, increasing=True)],
    "frompyfunc": [via(lambda x, y: jnp.frompyfunc(lambda a, b: a * b + b, 2, 1)(x, y), F, G)],
    "vectorize": [via(lambda x, y: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(x, y), F, G)],
}

_MAKERS = {
    **each("zeros ones empty", call((2, 3)), call(4, np.int32), call((), np.bool_)),
    **each("eye", call(3), call(3, 4, 1, dtype=np.int32)),
    **each("bartlett blackman hamming hanning", call(6), call(1)),
    "kaiser": [call(6, 2.0)],
    "identity": [call(3)],
    "tri": [call(3), call(3, 4, 1)],
    "arange": [call(5), call(2, 9, 3), call(0, 1, 0.25)],
    "linspace": [call(0, 1, 5), call(V, W, 4), call(V, W, 4, endpoint=False, axis=1)],
    "logspace": [call(0, 2, 5), call(V, W, 4)],
    "geomspace": [call(1, 8, 4), call(POSITIVE, POSITIVE + 1, 4)],
    "full": [call((2, 3), 7), via(lambda x: jnp.full((2, 3), x), np.float32(2))],
    "fromfunction": [
        via(lambda x: jnp.fromfunction(lambda i, j: x * i + j, (3, 4)), np.float32(2))
    ],
    "indices": [call((2, 3)), call((2, 3), sparse=True)],
    "diag_indices": [call(3)],
    "tril_indices": [call(3), call(3, 1, 4)],
    "triu_indices": [call(3), call(3, 1, 4)],
    "mask_indices": [via(lambda x: x[jnp.mask_indices(3, jnp.triu, size=6)], F[:, :3])],
}

TABLE = Table(
    calls={
        **_ELEMENTWISE,
        **_REDUCTIONS,
        **_SHAPES,
        **_INDEXING,
        **_PRODUCTS,
        **_MAKERS,
    },
    without_arrays="""
        array_repr array_str broadcast_shapes can_cast einsum_path from_dlpack frombuffer fromfile
        fromiter fromstring get_printoptions iscomplexobj isdtype isrealobj isscalar issubdtype
        iterable load ndim printoptions promote_types result_type save savez set_printoptions shape
        size trim_zeros
        """,
)
