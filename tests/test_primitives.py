"""One program for every row of the table of primitives: a row without one is an error.

Each is as small as can be. What could go wrong with a primitive is tested beside its relatives in
`tests/rules`.
"""

import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.extend.core.primitives
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.lax import linalg

from checking import assert_close, run
from conformance import report
from jax2onnx import _core, _expand, onnx_function, to_onnx

Program = tuple[Callable[..., Any], tuple[Any, ...]]

X = np.linspace(0.25, 0.75, 6, dtype=np.float32).reshape(2, 3)
Y = np.array([[1.5, -0.5, 2.0], [0.25, 3.0, -1.0]], np.float32)
INTS = np.array([[3, -2, 5], [7, 1, -4]], np.int32)
BITS = np.array([[3, 2, 5], [7, 0, 4]], np.uint32)
BOOLS = np.array([[True, False, True], [False, False, True]])
COMPLEX = (X + 1j * Y).astype(np.complex64)
SQUARE = np.array([[4, 1, 0.5], [1, 3, 0.25], [0.5, 0.25, 2]], np.float32)
SERIES = np.linspace(-1, 1, 8, dtype=np.float32)
IMAGE = (np.arange(32, dtype=np.float32).reshape(1, 4, 4, 2) * 7) % 11
SEEDS = np.arange(4, dtype=np.int32)


def program(fn: Callable[..., Any], *args: Any) -> Program:
    return fn, args


def named(name: str, *args: Any, **params: Any) -> Program:
    """The function of `lax` that has the primitive's name."""
    return (lambda *operands: getattr(lax, name)(*operands, **params)), args


def keys(fn: Callable[[Any], Any]) -> Program:
    """What `fn` makes of an array of PRNG keys."""
    return (lambda seeds: fn(jax.vmap(jax.random.key)(seeds))), (SEEDS,)


def hashed(implementation: str) -> Program:
    return (lambda seed: jax.random.bits(jax.random.key(seed, impl=implementation))), (
        SEEDS[:1].reshape(()),
    )


def mapped(collective: Callable[..., Any]) -> Program:
    return jax.vmap(lambda x: collective(x, "rows"), axis_name="rows"), (X,)


def windows(fn: Any, start: Any) -> Program:
    return (lambda x: lax.reduce_window(x, start, fn, (2,), (1,), "VALID")), (SERIES,)


def pooled(x: Any) -> Any:
    return lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def at(update: str) -> Program:
    return (lambda x, y: getattr(jnp.asarray(x).at[1], update)(y)), (X, Y[0])


@jax.custom_jvp
def with_jvp(x: Any) -> Any:
    return x * 2


with_jvp.defjvp(lambda primals, tangents: (with_jvp(*primals), tangents[0] * 2))


@jax.custom_vjp
def with_vjp(x: Any) -> Any:
    return x * 2


with_vjp.defvjp(lambda x: (with_vjp(x), None), lambda _, g: (g * 2,))


def solve(matrix: Any, b: Any) -> Any:
    return lax.custom_linear_solve(
        lambda x: matrix @ x, b, lambda _, b: jnp.linalg.solve(matrix, b), symmetric=True
    )


def twice(x: Any) -> Any:
    """A function that is a primitive."""
    from jax.experimental.hijax import VJPHiPrimitive

    class Twice(VJPHiPrimitive):
        def __init__(self, aval: Any) -> None:
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        def expand(self, x: Any) -> Any:
            return x * 2

    return Twice(jax.typeof(x))(x)


def described(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose debugging is to be traced but not to be seen."""

    def described(x: Any) -> Any:
        fn(x)
        return x * 2

    return described


def total(name: str) -> Program:
    """A comparison in IEEE's total order, which JAX has no function for."""

    def fn(x: Any, y: Any) -> Any:
        return getattr(jax.extend.core.primitives, f"{name}_p").bind(x, y)

    return fn, (X, Y)


def placed(name: str) -> Program:
    def fn(x: Any) -> Any:
        kinds = jax.sharding.AxisType
        explicit = name == "reshard"
        kind = kinds.Explicit if explicit else kinds.Auto
        mesh = jax.make_mesh((1,), ("data",), axis_types=(kind,))
        rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
        place = jax.sharding.reshard if explicit else lax.with_sharding_constraint
        return place(x, rows) * 2

    return fn, (X,)


UNARY = """
    abs asin asinh acos atan atanh bessel_i0e bessel_i1e cbrt ceil cos cosh digamma erf erf_inv erfc
    exp exp2 expm1 floor is_finite lgamma log log1p logistic neg round rsqrt sign sin sinh sqrt
    square tan tanh
"""
BINARY = "add atan2 div eq ge gt le lt max min mul ne nextafter pow rem sub"
SCALED = "cumlogsumexp cummax cummin cumprod cumsum"
REDUCED = "reduce_max reduce_min reduce_prod reduce_sum"
LOGICAL = "reduce_and reduce_or"

PROGRAMS: dict[str, Program] = {
    **{name: named(name, X) for name in UNARY.split()},
    **{name: named(name, X, Y) for name in BINARY.split()},
    **{name: named(name, X, axis=1) for name in SCALED.split()},
    **{name: named(name, X, axes=(1,)) for name in REDUCED.split()},
    **{name: named(name, BOOLS, axes=(1,)) for name in LOGICAL.split()},
    "acosh": named("acosh", X + 1),
    "add_any": program(jax.grad(lambda x: (jnp.sin(x) * jnp.cos(x)).sum()), X),
    "and": named("bitwise_and", INTS, INTS * 3),
    "approx_top_k": named("approx_max_k", SERIES, k=3),
    "argmax": named("argmax", X, axis=1, index_dtype=np.int32),
    "argmin": named("argmin", X, axis=1, index_dtype=np.int32),
    "bitcast_convert_type": named("bitcast_convert_type", X, new_dtype=np.int32),
    "broadcast_in_dim": named("broadcast_in_dim", X, shape=(4, 2, 3), broadcast_dimensions=(1, 2)),
    "call_hi_primitive": program(lambda x: twice(x), X),
    "cholesky": program(linalg.cholesky, SQUARE),
    "cholesky_update": program(linalg.cholesky_update, np.linalg.cholesky(SQUARE).T, X[0]),
    "clamp": program(lambda x: lax.clamp(np.float32(0.3), x, np.float32(0.6)), X),
    "clz": named("clz", BITS),
    "complex": named("complex", X, Y),
    "concatenate": program(lambda x, y: lax.concatenate([x, y], 0), X, Y),
    "cond": program(lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), X),
    "conj": named("conj", COMPLEX),
    "conv_general_dilated": program(
        lambda x, w: lax.conv(x, w, (1, 1), "VALID"), IMAGE, np.ones((3, 4, 2, 1), np.float32)
    ),
    "convert_element_type": named("convert_element_type", X, new_dtype=np.int32),
    "closed_call": program(lambda x: lax.reduce(x, 0.0, lambda a, b: a + b + a * b, (1,)), X),
    "copy": program(jnp.array, X),
    "custom_jvp_call": program(with_jvp, X),
    "custom_linear_solve": program(solve, SQUARE, X[0]),
    "custom_vjp_call": program(with_vjp, X),
    "debug_callback": program(described(lambda x: jax.debug.callback(lambda _: None, x)), X),
    "debug_print": program(described(lambda x: jax.debug.print("{}", x)), X),
    "device_put": program(lambda x: jax.device_put(x, jax.devices()[0]), X),
    "dot_general": program(lambda x, y: x @ y.T, X, Y),
    "dynamic_slice": program(lambda x, i: lax.dynamic_slice(x, (i, 0), (1, 2)), X, np.int32(1)),
    "dynamic_update_slice": program(
        lambda x, y, i: lax.dynamic_update_slice(x, y, (i, 0)), X, Y[:1, :2], np.int32(1)
    ),
    "eq_to": total("eq_to"),
    "eig": program(lambda x: linalg.eig(x)[0].real.sum(), SQUARE),
    "empty": program(lambda x: x + 0 * lax.empty((2, 3), np.float32).shape[0], X),
    "eigh": program(lambda x: jnp.linalg.eigvalsh(x), SQUARE),
    "fft": program(jnp.fft.fft, SERIES),
    "gather": program(lambda x, i: x[i], X, np.array([1, 0], np.int32)),
    "geqrf": program(lambda x: jnp.linalg.qr(x, mode="raw"), SQUARE),
    "hessenberg": program(lambda x: linalg.hessenberg(x)[0], SQUARE),
    "householder_product": program(linalg.householder_product, SQUARE, X[0]),
    "igamma": named("igamma", X, X + 1),
    "igamma_grad_a": named("igamma_grad_a", X, X + 1),
    "igammac": named("igammac", X, X + 1),
    "imag": named("imag", COMPLEX),
    "integer_pow": named("integer_pow", X, y=3),
    "iota": program(lambda x: x + lax.iota(np.float32, 3), X),
    "iota_2x32_shape": program(
        lambda s: jax.random.bits(jax.random.key(s), (3,)), SEEDS[:1].reshape(())
    ),
    "jit": program(jax.jit(jnp.sin), X),
    "le_to": total("le_to"),
    "lt_to": total("lt_to"),
    "lu": program(lambda x: linalg.lu(x)[0], SQUARE),
    "lu_pivots_to_permutation": program(
        lambda x: linalg.lu_pivots_to_permutation(x, 3), np.array([1, 2], np.int32)
    ),
    "mulhi": named("mulhi", BITS << 28, BITS << 28),
    "not": named("bitwise_not", INTS),
    "onnx_function": program(onnx_function(lambda x: jnp.sin(x)), X),
    "optimization_barrier": named("optimization_barrier", X),
    "or": named("bitwise_or", INTS, INTS * 3),
    "ormqr": program(lambda a, t, c: linalg.ormqr(a, t, c), SQUARE, X[0], SQUARE),
    "pad": program(lambda x: lax.pad(x, np.float32(1), ((1, 0, 0), (0, 1, 1))), X),
    "platform_index": program(lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), X),
    "pmax": mapped(lax.pmax),
    "pmin": mapped(lax.pmin),
    "polygamma": named("polygamma", np.ones_like(X), X),
    "population_count": named("population_count", BITS),
    "psum": mapped(lax.psum),
    "qr": program(lambda x: jnp.abs(jnp.linalg.qr(x)[1]), SQUARE),
    "real": named("real", COMPLEX),
    "reduce": program(lambda x: lax.reduce(x, 1.0, lambda a, b: a + b, (1,)), X),
    "reduce_precision": named("reduce_precision", X, exponent_bits=5, mantissa_bits=3),
    "reduce_window": windows(lambda a, b: a + b, 1.0),
    "reduce_window_max": windows(lax.max, -np.inf),
    "reduce_window_min": windows(lax.min, np.inf),
    "reduce_window_sum": windows(lax.add, 0.0),
    "reduce_xor": named("reduce_xor", INTS, axes=(1,)),
    "regularized_incomplete_beta": named("betainc", X, X + 1, X),
    "remat2": program(jax.checkpoint(jnp.sin), X),
    "reshard": placed("reshard"),
    "reshape": named("reshape", X, new_sizes=(3, 2)),
    "rev": named("rev", X, dimensions=(1,)),
    "rng_bit_generator": hashed("rbg"),
    "scan": program(lambda x: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(3), x), X),
    "scatter": at("set"),
    "scatter-add": at("add"),
    "scatter-max": at("max"),
    "scatter-min": at("min"),
    "scatter-mul": at("multiply"),
    "scatter-sub": at("subtract"),
    "schur": program(lambda x: jnp.abs(linalg.schur(x + 0j)[0]), np.triu(SQUARE)),
    "select_and_gather_add": program(
        lambda x, y: jax.jvp(pooled, (x,), (y,))[1], IMAGE, IMAGE[:, ::-1]
    ),
    "select_and_scatter_add": program(jax.grad(lambda x: (pooled(x) ** 2).sum()), IMAGE),
    "select_n": named("select_n", BOOLS, X, Y),
    "sharding_constraint": placed("sharding_constraint"),
    "shift_left": named("shift_left", BITS, BITS),
    "shift_right_arithmetic": named("shift_right_arithmetic", INTS, np.ones_like(INTS)),
    "shift_right_logical": named("shift_right_logical", BITS, BITS),
    "slice": named("slice", X, start_indices=(0, 1), limit_indices=(2, 3)),
    "sort": named("sort", Y, dimension=1),
    "split": named("split", X, sizes=(1, 2), axis=1),
    "squeeze": named("squeeze", X[None], dimensions=(0,)),
    "stack": program(lambda x, y: lax.stack([x, y]), X, Y),
    "svd": program(lambda x: jnp.linalg.svd(x, compute_uv=False), SQUARE),
    "symmetric_product": program(
        lambda a, c: linalg.symmetric_product(a, c, symmetrize_output=True), SQUARE, SQUARE
    ),
    "tile": named("tile", X, reps=(2, 1)),
    "top_k": named("top_k", SERIES, k=3),
    "transpose": named("transpose", X, permutation=(1, 0)),
    "triangular_solve": program(
        lambda a, b: linalg.triangular_solve(a, b, left_side=True, lower=True),
        np.linalg.cholesky(SQUARE),
        Y.T,
    ),
    "tridiagonal": program(lambda x: jnp.abs(linalg.tridiagonal(x)[2]), SQUARE),
    "tridiagonal_solve": program(
        linalg.tridiagonal_solve, np.float32([0, 1, 2]), X[1] + 3, np.float32([2, 1, 0]), Y.T
    ),
    "unstack": program(lambda x: lax.unstack(x), X),
    "while": program(lambda x: lax.while_loop(lambda v: v.sum() < 9, lambda v: v * 2, x), X),
    "xor": named("bitwise_xor", INTS, INTS * 3),
    "zeta": named("zeta", X + 2, X),
    # PRNG keys
    "random_bits": keys(jax.vmap(jax.random.bits)),
    "random_clone": keys(lambda k: jax.random.key_data(jax.random.clone(k))),
    "random_fold_in": keys(lambda k: jax.random.key_data(jax.random.fold_in(k[0], 7))),
    "random_gamma": keys(lambda k: jax.random.gamma(k[0], np.float32(2))),
    "random_seed": keys(jax.random.key_data),
    "random_split": keys(lambda k: jax.random.key_data(jax.random.split(k[0]))),
    "random_unwrap": keys(jax.random.key_data),
    "random_wrap": program(
        lambda data: jax.random.bits(jax.random.wrap_key_data(data)), np.array([1, 2], np.uint32)
    ),
    "philox2x32": hashed("philox2x32"),
    "philox4x32": hashed("philox4x32"),
    "threefry2x32": hashed("threefry2x32"),
    "threefry4x32": hashed("threefry4x32"),
}

# What the installed version of JAX does not put into a jaxpr, and who does.
ABSENT = {
    "checkpoint": "older versions of JAX",
    "copy_p": "older versions of JAX",
    "core_call": "older versions of JAX",
    "custom_vjp_call_jaxpr": "older versions of JAX",
    "dim_as_value": "symbolic sizes: test_symbolic.py",
    "empty2": "kernels of Pallas",
    "eval_jaxpr": "jax2tf",
    "log2": "newer versions of JAX",
    "one_minus_square": "newer versions of JAX",
    "pjit": "older versions of JAX",
    "polynomial": "newer versions of JAX",
    "remat": "older versions of JAX",
    "stop_gradient": "older versions of JAX",
}


def test_every_row_has_a_program() -> None:
    assert {row.name for row in _core.primitives()} == {*PROGRAMS, *ABSENT}
    assert not PROGRAMS.keys() & ABSENT.keys()


def test_every_way_of_expanding_is_one_of_the_tables() -> None:
    assert set(_expand.WAYS) == set(_core.expansions())


def test_the_page_has_the_table() -> None:
    page = (Path(__file__).parent.parent / "docs" / "COVERAGE.md").read_text()
    assert page == report.with_primitives(page), "run `python -m conformance --primitives`"


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program(name: str, tmp_path: Path) -> None:
    if name not in _PRIMITIVES and name != "onnx_function":
        pytest.skip("this version of JAX does not have it")
    fn, args = PROGRAMS[name]
    record = tmp_path / "primitives.jsonl"
    model = to_onnx(fn, list(args), record_primitive_calls_file=str(record))
    read = {json.loads(line)["primitive"] for line in record.read_text().splitlines()}
    traced = jax.make_jaxpr(lambda *operands: fn(*operands))(*args)
    functions = {"onnx_function"} if model.functions else set()
    assert name in {*read, *names(traced.jaxpr), *functions}
    expected = jax.tree_util.tree_leaves(fn(*args))
    assert_close(run(model, args), expected)


_PRIMITIVES = {p.name for p in gc.get_objects() if isinstance(p, jax.extend.core.Primitive)}


def names(jaxpr: Any) -> Iterator[str]:
    """The primitives of a jaxpr and of those inside it."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for inner in jax.tree_util.tree_leaves(tuple(eqn.params.values())):
            if hasattr(inner, "eqns"):
                yield from names(inner)
            elif hasattr(getattr(inner, "jaxpr", None), "eqns"):
                yield from names(inner.jaxpr)
