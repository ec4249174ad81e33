"""Writes the programs of `crates/pipeline/filetests`, as JAX traces them.

    python scripts/gen_filetests.py [NAME ...]
    INSTA_UPDATE=always cargo test -p pipeline --test files

The second command adds what the programs become. Without names, all programs are written; files
that are not made here stay as they are. Graphs that would be too long are shown by their operators.
"""

import functools
import gc
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.extend.core import Primitive
from jax.sharding import NamedSharding, PartitionSpec

import jax2onnx
from jax2onnx import Jax2OnnxError, onnx_function, to_onnx

FOLDER = Path(__file__).parent.parent / "crates" / "pipeline" / "filetests"


def spec(dtype: Any, *shape: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


f32 = functools.partial(spec, jnp.float32)
f64 = functools.partial(spec, jnp.float64)
bf16 = functools.partial(spec, jnp.bfloat16)
c64 = functools.partial(spec, jnp.complex64)
i32 = functools.partial(spec, jnp.int32)
u32 = functools.partial(spec, jnp.uint32)
i8 = functools.partial(spec, jnp.int8)
boolean = functools.partial(spec, jnp.bool_)
key = spec(jax.random.key(0).dtype)

X, V, Z, N, B = f32(2, 3), f32(4), c64(2, 3), i32(2, 3), boolean(2, 3)
SQUARE, IMAGE = f32(3, 3), f32(1, 5, 5, 2)
BATCH = export.symbolic_shape("b, 3")


def primitive(name: str) -> Any:
    """The primitive of that name, wherever JAX has it."""
    for found in gc.get_objects():
        if isinstance(found, Primitive) and found.name == name:
            return found
    raise LookupError(name)


def bind(name: str, **params: Any) -> Callable[..., Any]:
    return lambda *operands: primitive(name).bind(*operands, **params)


def programs() -> dict[str, dict[str, tuple[Any, ...]]]:
    """By group and file: a function and its operands."""
    return {
        "elementwise": elementwise(),
        "comparisons": comparisons(),
        "special_functions": special_functions(),
        "types": types(),
        "reductions": reductions(),
        "windows": windows(),
        "movement": movement(),
        "indexing": indexing(),
        "products": products(),
        "linear_algebra": linear_algebra(),
        "control_flow": control_flow(),
        "calls": calls(),
        "random": random(),
        "complex": complex_numbers(),
        "unsupported": unsupported(),
        "variants": variants(),
    }


def elementwise() -> dict[str, tuple[Any, ...]]:
    names = """abs acos acosh asin asinh atan atanh cbrt ceil cos cosh exp exp2 expm1 floor log
        log1p logistic neg rsqrt sign sin sinh sqrt square tan tanh"""
    found: dict[str, tuple[Any, ...]] = {name: (getattr(lax, name), X) for name in names.split()}
    for name in ("add", "atan2", "div", "max", "min", "mul", "nextafter", "pow", "rem", "sub"):
        found[name] = (getattr(lax, name), X, X)
    for name in ("abs", "neg", "sign"):
        found[f"{name}.integers"] = (getattr(lax, name), N)
    for name in ("add", "div", "max", "mul", "rem", "sub"):
        found[f"{name}.integers"] = (getattr(lax, name), N, N)
    for name in ("and", "or", "xor"):
        operator = getattr(lax, f"bitwise_{name}")
        found |= {name: (operator, B, B), f"{name}.integers": (operator, N, N)}
    for name in ("shift_left", "shift_right_arithmetic", "shift_right_logical"):
        found[name] = (getattr(lax, name), N, N)
        found[f"{name}.unsigned"] = (getattr(lax, name), u32(3), u32(3))
    return found | {
        "add_any": (bind("add_any"), X, X),
        "add.bfloat16": (lax.add, bf16(3), bf16(3)),
        "add.symbolic": (lax.add, spec(jnp.float32, *BATCH), spec(jnp.float32, *BATCH)),
        "clamp": (lambda x: lax.clamp(-1.0, x, 1.0), X),
        "clamp.arrays": (lax.clamp, X, X, X),
        "clz": (lax.clz, i32(3)),
        "exp2.double": (lax.exp2, f64(3)),
        "integer_pow": (lambda x: lax.integer_pow(x, 3), X),
        "integer_pow.negative": (lambda x: lax.integer_pow(x, -2), X),
        "is_finite": (lax.is_finite, X),
        "mulhi": (lax.mulhi, u32(3), u32(3)),
        "not": (lax.bitwise_not, B),
        "not.integers": (lax.bitwise_not, N),
        "population_count": (lax.population_count, i32(3)),
        "pow.integer_exponent": (lambda x, n: lax.pow(x, n), X, N),
        "round": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), X),
        "round.to_even": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), X),
        "select_n": (lax.select_n, B, X, X),
        "select_n.integers": (lax.select_n, i32(3), f32(3), f32(3), f32(3)),
    }


def comparisons() -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for name in ("eq", "ge", "gt", "le", "lt", "ne"):
        found |= {name: (getattr(lax, name), X, X), f"{name}.integers": (getattr(lax, name), N, N)}
    for name in ("eq_to", "le_to", "lt_to"):
        found[name] = (bind(name), f32(3), f32(3))
    return found | {
        "eq.bools": (lax.eq, B, B),
        "argmax": (lambda x: lax.argmax(x, 1, jnp.int32), X),
        "argmin": (lambda x: lax.argmin(x, 0, jnp.int32), X),
        "sort": (lambda x: lax.sort(x, dimension=1), X),
        "sort.pairs": (lambda k, v: lax.sort((k, v), dimension=0, num_keys=1), i32(3), f32(3)),
        "top_k": (lambda x: lax.top_k(x, 2), X),
        "approx_top_k": (lambda x: lax.approx_max_k(x, 2), V),
    }


def special_functions() -> dict[str, tuple[Any, ...]]:
    one = "bessel_i0e bessel_i1e digamma erf erf_inv erfc lgamma"
    two = "igamma igammac igamma_grad_a polygamma zeta"
    found: dict[str, tuple[Any, ...]] = {name: (getattr(lax, name), f32(2)) for name in one.split()}
    found |= {name: (getattr(lax, name), f32(2), f32(2)) for name in two.split()}
    found["regularized_incomplete_beta"] = (lax.betainc, f32(2), f32(2), f32(2))
    return found


def types() -> dict[str, tuple[Any, ...]]:
    return {
        "bitcast_convert_type": (lambda x: lax.bitcast_convert_type(x, jnp.int32), X),
        "convert_element_type": (lambda x: lax.convert_element_type(x, jnp.int32), X),
        "convert_element_type.to_bool": (lambda x: lax.convert_element_type(x, jnp.bool_), X),
        "convert_element_type.narrow": (lambda x: lax.convert_element_type(x, jnp.int8), N),
        "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 10), f32(3)),
        "copy": (bind("copy"), X),
        "device_put": (jax.device_put, X),
        "stop_gradient": (bind("stop_gradient"), X),
        "optimization_barrier": (lambda x, n: lax.optimization_barrier((x, n)), X, N),
        "sharding_constraint": (constrained, X),
        "dim_as_value": (lambda x: x * x.shape[0], spec(jnp.float32, *BATCH)),
        "iota": (lambda: lax.broadcasted_iota(jnp.int32, (2, 3), 1),),
        "empty": (lambda: lax.empty((2, 3), jnp.float32),),
    }


def constrained(x: Any) -> Any:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
    return lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec("d")))


def reductions() -> dict[str, tuple[Any, ...]]:
    of_numbers = ("reduce_max", "reduce_min", "reduce_prod", "reduce_sum")
    found: dict[str, tuple[Any, ...]] = {}
    for name in of_numbers:
        found[name] = (functools.partial(getattr(lax, name), axes=(1,)), X)
        found[f"{name}.integers"] = (functools.partial(getattr(lax, name), axes=(0, 1)), N)
    for name in ("reduce_and", "reduce_or", "reduce_xor"):
        found[name] = (functools.partial(getattr(lax, name), axes=(1,)), B)
        found[f"{name}.integers"] = (functools.partial(getattr(lax, name), axes=(1,)), N)
    for name in ("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"):
        found[name] = (functools.partial(getattr(lax, name), axis=1), X)
        found[f"{name}.reverse"] = (functools.partial(getattr(lax, name), axis=0, reverse=True), X)
    return found | {
        "reduce": (lambda x: lax.reduce(x, 1.0, lax.add, (1,)), X),
        "closed_call.reduce": (
            lambda x: lax.reduce((x, x), (0.0, 1.0), _sum_and_product, (1,)),
            f32(2, 2),
        ),
    }


def _sum_and_product(a: Any, b: Any) -> Any:
    return a[0] + b[0], a[1] * b[1]


def windows() -> dict[str, tuple[Any, ...]]:
    def window(init: Any, function: Any, padding: str = "VALID") -> Callable[..., Any]:
        return lambda x: lax.reduce_window(x, init, function, (1, 2, 2, 1), (1, 2, 2, 1), padding)

    def gathered(x: Any) -> Any:
        return jax.jvp(window(-jnp.inf, lax.max), (x,), (x,))[1]

    def scattered(x: Any) -> Any:
        return jax.grad(lambda x: window(-jnp.inf, lax.max)(x).sum())(x)

    image = f32(1, 4, 4, 1)
    return {
        "reduce_window_max": (window(-jnp.inf, lax.max), image),
        "reduce_window_max.same": (window(-jnp.inf, lax.max, "SAME"), f32(1, 5, 5, 1)),
        "reduce_window_min": (window(jnp.inf, lax.min), image),
        "reduce_window_sum": (window(0.0, lax.add), image),
        "reduce_window": (window(1.0, lax.mul), f32(1, 2, 4, 1)),
        "select_and_gather_add": (gathered, f32(1, 2, 4, 1)),
        "select_and_scatter_add": (scattered, f32(1, 2, 4, 1)),
        "conv_general_dilated": (_convolve, IMAGE, f32(3, 3, 2, 4)),
        "conv_general_dilated.strided": (
            lambda x, k: lax.conv_general_dilated(
                x, k, (2,), [(1, 0)], rhs_dilation=(2,), dimension_numbers=("NCH", "OIH", "NCH")
            ),
            f32(1, 2, 8),
            f32(4, 2, 3),
        ),
        "conv_general_dilated.grouped": (
            lambda x, k: lax.conv_general_dilated(
                x,
                k,
                (1, 1),
                "SAME",
                dimension_numbers=("NCHW", "OIHW", "NCHW"),
                feature_group_count=2,
            ),
            f32(1, 4, 5, 5),
            f32(4, 2, 3, 3),
        ),
        "conv_general_dilated.transposed": (
            lambda x, k: lax.conv_transpose(
                x, k, (2,), "SAME", dimension_numbers=("NHC", "HIO", "NHC")
            ),
            f32(1, 4, 2),
            f32(3, 2, 5),
        ),
    }


def _convolve(x: Any, k: Any) -> Any:
    return lax.conv_general_dilated(
        x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def movement() -> dict[str, tuple[Any, ...]]:
    symbolic = spec(jnp.float32, *BATCH)
    return {
        "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (0, 2)), f32(2, 4)),
        "broadcast_in_dim.symbolic": (lambda x: jnp.broadcast_to(x, (2, *x.shape)), symbolic),
        "concatenate": (lambda x, y: lax.concatenate((x, y), 1), X, f32(2, 1)),
        "pad": (lambda x: lax.pad(x, 0.0, ((1, 2, 0), (0, 0, 0))), X),
        "pad.inside": (lambda x: lax.pad(x, 0.0, ((0, 0, 1), (-1, 0, 2))), X),
        "reshape": (lambda x: lax.reshape(x, (3, 2)), X),
        "reshape.symbolic": (lambda x: x.reshape(-1), symbolic),
        "rev": (lambda x: lax.rev(x, (1,)), X),
        "slice": (lambda x: lax.slice(x, (0, 1), (2, 3)), X),
        "slice.strided": (lambda x: lax.slice(x, (0,), (4,), (2,)), V),
        "split": (lambda x: lax.split(x, (1, 2), axis=1), X),
        "squeeze": (lambda x: lax.squeeze(x, (1,)), f32(2, 1, 3)),
        "stack": (bind("stack", axis=1), X, X),
        "unstack": (bind("unstack", axis=1), X),
        "tile": (bind("tile", reps=(2, 1)), X),
        "transpose": (lambda x: lax.transpose(x, (1, 0)), X),
    }


def indexing() -> dict[str, tuple[Any, ...]]:
    at = lambda name: lambda x, i, u: getattr(x.at[i], name)(u)  # noqa: E731
    operands = (f32(4, 3), i32(2), f32(2, 3))
    return {
        "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 0), (1, 2)), X, i32()),
        "dynamic_update_slice": (
            lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 1)),
            X,
            f32(1, 2),
            i32(),
        ),
        "gather": (lambda x, i: x[i], f32(4, 3), i32(2)),
        "gather.columns": (lambda x, i: x[:, i], f32(4, 3), i32(2)),
        "gather.points": (lambda x, i, j: x[i, j], f32(4, 3), i32(2), i32(2)),
        "gather.along_axis": (lambda x, i: jnp.take_along_axis(x, i, 1), f32(4, 3), i32(4, 2)),
        "gather.fill": (lambda x, i: x.at[i].get(mode="fill", fill_value=7.0), f32(4), i32(2)),
        "scatter": (at("set"), *operands),
        "scatter-add": (at("add"), *operands),
        "scatter-max": (at("max"), *operands),
        "scatter-min": (at("min"), *operands),
        "scatter-mul": (at("multiply"), *operands),
        "scatter-sub": (at("subtract"), *operands),
        "scatter-add.points": (
            lambda x, i, j, u: x.at[i, j].add(u),
            f32(4, 3),
            i32(2),
            i32(2),
            f32(2),
        ),
    }


def products() -> dict[str, tuple[Any, ...]]:
    def product(*numbers: Any) -> Callable[..., Any]:
        return lambda a, b: lax.dot_general(a, b, numbers)

    return {
        "dot_general": (jnp.matmul, X, f32(3, 4)),
        "dot_general.batch": (jnp.matmul, f32(5, 2, 3), f32(5, 3, 4)),
        "dot_general.inner": (jnp.dot, V, V),
        "dot_general.outer": (product(((), ()), ((), ())), f32(2), f32(3)),
        "dot_general.many_axes": (
            product(((0, 2), (1, 0)), ((1,), (2,))),
            f32(2, 5, 3),
            f32(3, 2, 5),
        ),
        "dot_general.integers": (
            lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32),
            i8(2, 3),
            i8(3, 4),
        ),
        "dot_general.symbolic": (jnp.matmul, spec(jnp.float32, *BATCH), f32(3, 4)),
    }


def linear_algebra() -> dict[str, tuple[Any, ...]]:
    linalg = lax.linalg
    return {
        "cholesky": (linalg.cholesky, f32(2, 2)),
        "cholesky_update": (linalg.cholesky_update, f32(2, 2), f32(2)),
        "custom_linear_solve": (_solve, SQUARE, f32(3)),
        "eig": (linalg.eig, f32(2, 2)),
        "eigh": (linalg.eigh, f32(2, 2)),
        "geqrf": (bind("geqrf"), f32(2, 2)),
        "hessenberg": (linalg.hessenberg, SQUARE),
        "householder_product": (linalg.householder_product, f32(3, 2), f32(2)),
        "lu": (linalg.lu, f32(2, 2)),
        "lu_pivots_to_permutation": (lambda p: linalg.lu_pivots_to_permutation(p, 3), i32(2)),
        "ormqr": (bind("ormqr", left=True, transpose=False), f32(3, 2), f32(2), f32(3, 1)),
        "qr": (lambda x: linalg.qr(x, full_matrices=False), f32(2, 2)),
        "schur": (linalg.schur, c64(2, 2)),
        "svd": (lambda x: linalg.svd(x, full_matrices=False), f32(2, 2)),
        "symmetric_product": (
            lambda a, c: linalg.symmetric_product(a, c, alpha=2.0, beta=0.5),
            f32(2, 3),
            f32(2, 2),
        ),
        "triangular_solve": (
            lambda a, b: linalg.triangular_solve(a, b, left_side=True, lower=True),
            SQUARE,
            f32(3, 2),
        ),
        "tridiagonal": (lambda a: linalg.tridiagonal(a, lower=True), SQUARE),
        "tridiagonal_solve": (linalg.tridiagonal_solve, f32(3), f32(3), f32(3), f32(3, 1)),
        "fft": (lambda x: lax.fft(x, "RFFT", (4,)), V),
        "fft.inverse": (lambda x: lax.fft(x, "IFFT", (4,)), c64(4)),
    }


def _solve(a: Any, b: Any) -> Any:
    solve = lambda _, b: b / jnp.diag(a)  # noqa: E731
    return lax.custom_linear_solve(lambda x: a @ x, b, solve, solve)


def control_flow() -> dict[str, tuple[Any, ...]]:
    def carried(x: Any) -> Any:
        return lax.scan(lambda c, row: (jnp.sin(c) + row, c), x[0], x, reverse=True)

    def mapped(x: Any) -> Any:
        return lax.map(lambda row: jnp.sin(row).sum(), x)

    def looped(n: Any, x: Any) -> Any:
        return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] * 2), (n, x))

    branches = [jnp.sin, jnp.cos, lambda x: x]
    return {
        "cond": (lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), boolean(), X),
        "cond.switch": (lambda i, x: lax.switch(i, branches, x), i32(), X),
        "scan": (carried, X),
        "closed_call.map": (mapped, X),
        "while": (looped, i32(), X),
        "scan.counted": (lambda x: lax.fori_loop(0, 3, lambda i, x: x + i, x), f32(2)),
        "platform_index": (
            lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
            X,
        ),
    }


def calls() -> dict[str, tuple[Any, ...]]:
    @jax.custom_jvp
    def own_jvp(x: Any) -> Any:
        return jnp.sin(x)

    own_jvp.defjvp(lambda primals, tangents: (own_jvp(*primals), tangents[0]))

    @jax.custom_vjp
    def own_vjp(x: Any) -> Any:
        return jnp.sin(x)

    own_vjp.defvjp(lambda x: (own_vjp(x), None), lambda _, g: (g,))

    @onnx_function
    def layer(x: Any) -> Any:
        return jnp.sin(x) * 2

    def printing(x: Any) -> Any:
        jax.debug.print("x is {}", x)
        jax.debug.callback(lambda _: None, x)
        return x + 1

    def over_rows(collective: Any) -> Callable[..., Any]:
        return jax.vmap(lambda x: collective(x, "rows"), axis_name="rows", out_axes=None)

    return {
        "jit": (lambda x: jax.jit(jnp.sin)(x), X),
        "remat2": (jax.checkpoint(lambda x: jnp.sin(x) * 2), X),
        "custom_jvp_call": (own_jvp, X),
        "custom_vjp_call": (own_vjp, X),
        "onnx_function": (lambda x: layer(layer(x)), X),
        "debug_print": (printing, X),
        "debug_callback": (printing, X),
        "psum": (over_rows(lax.psum), X),
        "pmax": (over_rows(lax.pmax), X),
        "pmin": (over_rows(lax.pmin), X),
    }


def random() -> dict[str, tuple[Any, ...]]:
    raw = u32(2)
    return {
        "random_wrap": (lambda k: jax.random.key_data(jax.random.wrap_key_data(k)), raw),
        "random_unwrap": (jax.random.key_data, key),
        "random_bits": (lambda k: jax.random.bits(k, (3,)), key),
        "random_split": (lambda k: jax.random.key_data(jax.random.split(k)), key),
        "random_fold_in": (lambda k, i: jax.random.key_data(jax.random.fold_in(k, i)), key, i32()),
        "random_seed": (lambda s: jax.random.key_data(jax.random.key(s)), i32()),
        "random_clone": (lambda k: jax.random.key_data(jax.random.clone(k)), key),
        "random_gamma": (lambda k, a: jax.random.gamma(k, a), key, f32(2)),
        "threefry2x32": (bind("threefry2x32"), u32(), u32(), u32(2), u32(2)),
        "rng_bit_generator": (lambda k: lax.rng_bit_generator(k, (3,)), u32(4)),
        "iota_2x32_shape": (bind("iota_2x32_shape", shape=(2, 3)),),
        **{name: (_bits, spec(jax.random.key(0, impl=name).dtype)) for name in IMPLEMENTATIONS},
        "jit.uniform": (jax.jit(lambda k: jax.random.uniform(k, (3,))), key),
    }


IMPLEMENTATIONS = ("philox2x32", "philox4x32", "threefry4x32")


def _bits(k: Any) -> Any:
    return jax.random.bits(k, (3,))


def complex_numbers() -> dict[str, tuple[Any, ...]]:
    one = """abs acos acosh asin asinh atan atanh conj cos cosh exp expm1 imag log log1p logistic
        neg real rsqrt sign sin sinh sqrt square tan tanh"""
    two = "add div eq mul ne pow sub"
    found: dict[str, tuple[Any, ...]] = {
        f"{name}.complex": (getattr(lax, name), c64(2))
        for name in one.split()
        if name != "is_finite"
    }
    found |= {f"{name}.complex": (getattr(lax, name), c64(2), c64(2)) for name in two.split()}
    movement_of = {
        "broadcast_in_dim": lambda z: lax.broadcast_in_dim(z, (2, 2, 3), (1, 2)),
        "concatenate": lambda z: lax.concatenate((z, z), 0),
        "cumsum": lambda z: lax.cumsum(z, 1),
        "gather": lambda z: z[jnp.array([1, 0])],
        "integer_pow": lambda z: lax.integer_pow(z, 3),
        "pad": lambda z: lax.pad(z, 1j + z.dtype.type(0), ((1, 0, 0), (0, 0, 0))),
        "reduce_prod": lambda z: lax.reduce_prod(z, (1,)),
        "reduce_sum": lambda z: lax.reduce_sum(z, (1,)),
        "reshape": lambda z: z.reshape(3, 2),
        "rev": lambda z: lax.rev(z, (0,)),
        "select_n": lambda z: jnp.where(z.real > 0, z, -z),
        "slice": lambda z: z[:, 1:],
        "transpose": lambda z: z.T,
        "while": lambda z: lax.while_loop(lambda z: z.real.sum() < 9, lambda z: z * z, z),
        "scan": lambda z: lax.scan(lambda c, row: (c * row, c), z[0], z),
        "cond": lambda z: lax.cond(z.real.sum() > 0, jnp.conj, lambda z: z * 2, z),
        "scatter-add": lambda z: z.at[jnp.array([1, 0])].add(z),
        "dynamic_slice": lambda z: lax.dynamic_slice(z, (0, 1), (2, 2)),
        "sort": lambda z: lax.sort(z, dimension=1),
        "add_any": lambda z: primitive("add_any").bind(z, z),
        "copy": lambda z: primitive("copy").bind(z),
        "device_put": jax.device_put,
        "stop_gradient": lambda z: primitive("stop_gradient").bind(z),
        "optimization_barrier": lambda z: lax.optimization_barrier((z, z.real)),
        "dynamic_update_slice": lambda z: lax.dynamic_update_slice(z, z[:1, :2], (1, 0)),
        "exp2": lambda z: lax.exp2(z),
        "max": lambda z: lax.max(z, z[::-1]),
        "min": lambda z: lax.min(z, z[::-1]),
        "reduce_max": lambda z: lax.reduce_max(z, (1,)),
        "reduce_min": lambda z: lax.reduce_min(z, (0,)),
        "scatter": lambda z: z.at[jnp.array([1, 0])].set(z),
        "scatter-max": lambda z: z.at[jnp.array([1, 0])].max(z),
        "scatter-min": lambda z: z.at[jnp.array([1, 0])].min(z),
        "scatter-mul": lambda z: z.at[jnp.array([1, 0])].multiply(z),
        "scatter-sub": lambda z: z.at[jnp.array([1, 0])].subtract(z),
        "split": lambda z: lax.split(z, (1, 2), axis=1),
        "stack": lambda z: primitive("stack").bind(z, z, axis=0),
        "unstack": lambda z: primitive("unstack").bind(z, axis=0),
        "tile": lambda z: primitive("tile").bind(z, reps=(2, 1)),
        "custom_linear_solve": lambda z: _solve(jnp.eye(3) + z[0], z[1]),
        "remat2": jax.checkpoint(lambda z: jnp.sin(z) * 2),
        "bitcast_convert_type": lambda z: lax.bitcast_convert_type(z, jnp.complex64),
        "cumprod": lambda z: lax.cumprod(z, 1),
        "cumlogsumexp": lambda z: lax.cumlogsumexp(z, 1),
        "cummax": lambda z: lax.cummax(z, 1),
        "reduce_window_sum": lambda z: lax.reduce_window(z, 0j, lax.add, (1, 2), (1, 1), "VALID"),
    }
    found |= {f"{name}.complex": (function, Z) for name, function in movement_of.items()}
    return found | {
        "complex": (lax.complex, X, X),
        "convert_element_type.complex": (lambda x: lax.convert_element_type(x, jnp.complex64), X),
        "conj": (lax.conj, c64(2)),
        "real": (lax.real, c64(2)),
        "imag": (lax.imag, c64(2)),
        "dot_general.complex": (jnp.matmul, Z, c64(3, 2)),
        "cholesky.complex": (lax.linalg.cholesky, c64(2, 2)),
    }


def variants() -> dict[str, tuple[Any, ...]]:
    """Other types, shapes and parameters: one for each way that a rule can take."""
    linalg = lax.linalg
    converted = {
        "bool_to_float": (B, jnp.float32),
        "float_to_unsigned": (X, jnp.uint8),
        "float_to_bfloat16": (X, jnp.bfloat16),
        "bfloat16_to_float": (bf16(3), jnp.float32),
        "integer_to_float": (N, jnp.float32),
        "integer_to_bool": (N, jnp.bool_),
        "unsigned_to_signed": (u32(3), jnp.int8),
        "float_to_half": (X, jnp.float16),
        "float_to_float8": (X, jnp.float8_e4m3fn),
        "integer_to_complex": (N, jnp.complex64),
    }
    bits = {
        "to_bytes": (f32(2), jnp.uint8),
        "from_bytes": (spec(jnp.uint8, 2, 4), jnp.float32),
        "bfloat16": (bf16(2), jnp.uint16),
        "double": (f64(2), jnp.int64),
        "unsigned": (u32(2), jnp.int32),
        "half_to_float": (spec(jnp.float16, 3, 2), jnp.float32),
    }
    transforms = {
        "fft.odd": ("FFT", (3,), c64(3)),
        "fft.prime": ("FFT", (7,), c64(2, 7)),
        "fft.two_axes": ("FFT", (2, 4), c64(2, 4)),
        "fft.real_odd": ("RFFT", (5,), f32(5)),
        "fft.real_inverse": ("IRFFT", (6,), c64(4)),
        "fft.real_two_axes": ("RFFT", (2, 4), f32(2, 4)),
        "fft.inverse_two_axes": ("IRFFT", (2, 4), c64(2, 3)),
        "fft.double": ("FFT", (2,), spec(jnp.complex128, 2)),
    }
    b = spec(jnp.float32, *BATCH)
    convolution = functools.partial(lax.conv_general_dilated, window_strides=(1,), padding="SAME")
    plain = ("NCH", "OIH", "NCH")
    windowed = functools.partial(lax.reduce_window, window_dimensions=(1, 3), window_strides=(1, 1))
    lowest = np.iinfo(np.int32).min
    windowed_by_21 = lambda x: lax.reduce_window(  # noqa: E731
        x, lowest, lax.max, (21,), (1,), "VALID", window_dilation=(2,)
    )
    one_way = {
        "argmax.integers": (lambda n: lax.argmax(n, 0, jnp.int32), N),
        "argmax.bools": (lambda n: lax.argmax(n, 1, jnp.int32), B),
        "argmin.double": (lambda x: lax.argmin(x, 0, jnp.int64), f64(3)),
        "argmax.symbolic": (lambda x: lax.argmax(x, 1, jnp.int32), b),
        "cumsum.integers": (lambda n: lax.cumsum(n, 1), N),
        "cumsum.symbolic": (lambda x: lax.cumsum(x, 0), b),
        "cumprod.integers": (lambda n: lax.cumprod(n, 1), N),
        "cummax.integers": (lambda n: lax.cummax(n, 0, reverse=True), N),
        "cummin.symbolic": (lambda x: lax.cummin(x, 0), b),
        "cumlogsumexp.symbolic": (lambda x: lax.cumlogsumexp(x, 0), b),
        "dynamic_slice.many": (
            lambda x, i, j: lax.dynamic_slice(x, (i, j), (1, 2)),
            X,
            i32(),
            i32(),
        ),
        "dynamic_slice.known": (lambda x: lax.dynamic_slice(x, (1, 1), (1, 2)), X),
        "dynamic_slice.unsigned": (lambda x, i: lax.dynamic_slice(x, (i,), (2,)), V, u32()),
        "dynamic_slice.symbolic": (lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, 1), b, i32()),
        "scatter.row": (lambda x, u, i: x.at[i].set(u), X, f32(3), i32()),
        "dynamic_update_slice.all": (
            lambda x, u, i, j: lax.dynamic_update_slice(x, u, (i, j)),
            X,
            f32(1, 2),
            i32(),
            i32(),
        ),
        "gather.clip": (lambda x, i: x.at[i].get(mode="clip"), f32(4, 3), i32(2)),
        "gather.promise": (
            lambda x, i: x.at[i].get(mode="promise_in_bounds"),
            f32(4, 3),
            i32(2),
        ),
        "gather.batch": (jax.vmap(lambda x, i: x[i]), f32(2, 4), i32(2, 3)),
        "gather.windows": (
            jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,)), (None, 0)),
            V,
            i32(3),
        ),
        "gather.bools": (lambda x, i: x[i], B, i32(2)),
        "gather.integers_fill": (lambda x, i: x.at[i].get(mode="fill"), N, i32(2)),
        "gather.symbolic": (lambda x, i: x[i], b, i32(2)),
        "scatter.drop": (lambda x, i, u: x.at[i].set(u, mode="drop"), V, i32(2), f32(2)),
        "scatter.clip": (lambda x, i, u: x.at[i].set(u, mode="clip"), V, i32(2), f32(2)),
        "scatter.unique": (lambda x, i, u: x.at[i].set(u, unique_indices=True), V, i32(2), f32(2)),
        "scatter.columns": (lambda x, i, u: x.at[:, i].set(u), X, i32(2), f32(2, 2)),
        "scatter.batch": (jax.vmap(lambda x, i, u: x.at[i].set(u)), X, i32(2, 1), f32(2, 1)),
        "scatter.bools": (lambda x, i, u: x.at[i].set(u), boolean(4), i32(2), boolean(2)),
        "scatter-add.integers": (lambda x, i, u: x.at[i].add(u), i32(4), i32(2), i32(2)),
        "scatter-add.batch": (jax.vmap(lambda x, i, u: x.at[i].add(u)), X, i32(2, 2), f32(2, 2)),
        "scatter-add.windows": (
            lambda x, i, u: x.at[jnp.stack([i, i + 1])].add(u),
            V,
            i32(),
            f32(2),
        ),
        "scatter-mul.integers": (lambda x, i, u: x.at[i].multiply(u), i32(4), i32(2), i32(2)),
        "sort.descending": (lambda x: -lax.sort(-x), V),
        "sort.two_keys": (lambda k, v: lax.sort((k, v), num_keys=2), i32(3), f32(3)),
        "sort.bools": (lambda x: lax.sort(x), boolean(3)),
        "sort.stable_integers": (lambda x: lax.sort(x, is_stable=False), u32(3)),
        "sort.double": (lax.sort, f64(3)),
        "top_k.integers": (lambda n: lax.top_k(n, 1), N),
        "pad.negative": (lambda x: lax.pad(x, 1.0, ((-1, 0, 0), (2, -1, 0))), X),
        "pad.integers": (lambda n, v: lax.pad(n, v, ((1, 0, 0), (0, 1, 0))), N, i32()),
        "pad.bools": (lambda x: lax.pad(x, False, ((0, 1, 0), (0, 0, 0))), B),
        "pad.symbolic": (lambda x: lax.pad(x, 0.0, ((1, 1, 0), (0, 0, 1))), b),
        "conv_general_dilated.two_groups_of_batches": (
            lambda x, k: convolution(x, k, dimension_numbers=plain, batch_group_count=2),
            f32(4, 2, 5),
            f32(4, 2, 3),
        ),
        "conv_general_dilated.dilated_input": (
            lambda x, k: lax.conv_general_dilated(
                x, k, (1,), [(1, 2)], lhs_dilation=(2,), dimension_numbers=plain
            ),
            f32(1, 2, 4),
            f32(3, 2, 3),
        ),
        "conv_general_dilated.pointwise": (
            lambda x, k: convolution(x, k, dimension_numbers=plain),
            f32(1, 2, 4),
            f32(3, 2, 1),
        ),
        "conv_general_dilated.integers": (
            lambda x, k: convolution(x, k, dimension_numbers=plain),
            i32(1, 2, 4),
            i32(3, 2, 3),
        ),
        "conv_general_dilated.complex": (
            lambda x, k: convolution(x, k, dimension_numbers=plain),
            c64(1, 2, 4),
            c64(3, 2, 3),
        ),
        "conv_general_dilated.negative_padding": (
            lambda x, k: lax.conv_general_dilated(x, k, (1,), [(-1, 1)], dimension_numbers=plain),
            f32(1, 2, 5),
            f32(3, 2, 3),
        ),
        "conv_general_dilated.three_axes": (
            lambda x, k: lax.conv_general_dilated(x, k, (1, 2, 1), "VALID"),
            f32(1, 1, 3, 3, 3),
            f32(1, 1, 2, 2, 2),
        ),
        "conv_general_dilated.symbolic": (
            lambda x, k: convolution(x, k, dimension_numbers=plain),
            spec(jnp.float32, *export.symbolic_shape("b, 2, 8")),
            f32(3, 2, 3),
        ),
        "reduce_window_sum.dilated": (
            lambda x: windowed(x, 0.0, lax.add, padding="SAME", window_dilation=(1, 2)),
            f32(2, 6),
        ),
        "reduce_window_sum.integers": (
            lambda x: windowed(x, 0, lax.add, padding="VALID"),
            i32(2, 6),
        ),
        "reduce_window_max.base_dilated": (
            lambda x: windowed(x, -jnp.inf, lax.max, padding="SAME", base_dilation=(1, 2)),
            f32(2, 4),
        ),
        "reduce_window_max.integers": (
            lambda x: windowed(x, np.iinfo(np.int32).min, lax.max, padding="SAME"),
            i32(2, 4),
        ),
        "reduce_window_min.negative_padding": (
            lambda x: windowed(x, jnp.inf, lax.min, padding=((0, 0), (-1, 1))),
            f32(2, 6),
        ),
        "reduce_window_max.long": (
            lambda x: windowed_by_21(x),
            i32(50),
        ),
        "reduce_window.long": (
            lambda x: lax.reduce_window(x, 1.0, lax.mul, (13,), (1,), "SAME"),
            f32(20),
        ),
        "reduce_max.bools": (lambda x: lax.reduce_max(x, (1,)), B),
        "reduce_max.symbolic": (lambda x: lax.reduce_max(x, (0,)), b),
        "reduce_sum.bfloat16": (lambda x: lax.reduce_sum(x, (0,)), bf16(4)),
        "reduce_sum.unsigned": (lambda x: lax.reduce_sum(x, (0,)), u32(4)),
        "reduce_prod.symbolic": (lambda x: lax.reduce_prod(x, (0, 1)), b),
        "reduce_and.unsigned": (lambda x: lax.reduce_and(x, (0,)), u32(5)),
        "rng_bit_generator.threefry": (
            lambda k: lax.rng_bit_generator(k, (2, 3), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY),
            u32(4),
        ),
        "rng_bit_generator.bytes": (
            lambda k: lax.rng_bit_generator(k, (5,), dtype=np.uint8),
            u32(4),
        ),
        "iota.columns": (lambda: lax.broadcasted_iota(jnp.float32, (2, 3), 0),),
        "iota.symbolic": (lambda x: lax.iota(jnp.int32, x.shape[0]), b),
        "select_n.scalar": (lambda p, x, y: lax.select_n(p, x, y), boolean(), X, X),
        "clamp.integers": (lambda n: lax.clamp(0, n, 7), N),
        "rem.unsigned": (lax.rem, u32(3), u32(3)),
        "div.unsigned": (lax.div, u32(3), u32(3)),
        "max.bools": (lax.max, B, B),
        "min.integers": (lax.min, N, N),
        "integer_pow.integers": (lambda n: lax.integer_pow(n, 4), N),
        "sign.unsigned": (lax.sign, u32(3)),
        "mulhi.signed": (lax.mulhi, N, N),
        "nextafter.bfloat16": (lax.nextafter, bf16(2), bf16(2)),
        "population_count.bytes": (lax.population_count, spec(jnp.uint8, 3)),
        "clz.bytes": (lax.clz, spec(jnp.uint8, 3)),
        "reduce_precision.bfloat16": (lambda x: lax.reduce_precision(x, 8, 7), f32(3)),
        "reduce_precision.half": (lambda x: lax.reduce_precision(x, 4, 3), bf16(3)),
        "round.double": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), f64(3)),
        "broadcast_in_dim.scalar": (lambda x: lax.broadcast_in_dim(x, (2, 3), ()), f32()),
        "reshape.split": (lambda x: x.reshape(x.shape[0], 1, 3), b),
        "split.symbolic": (lambda x: lax.split(x, (1, 2), axis=1), b),
        "concatenate.symbolic": (lambda x: lax.concatenate((x, x), 0), b),
        "transpose.symbolic": (lambda x: x.T, b),
        "dim_as_value.sum": (lambda x: x * (2 * x.shape[0] + x.shape[0] // 2), b),
        "scan.symbolic": (lambda x: lax.scan(lambda c, r: (c + r, c), jnp.zeros(3), x), b),
        "scan.constants": (
            lambda w, x: lax.scan(lambda c, r: (c @ w + r, None), x[0], x)[0],
            SQUARE,
            f32(2, 3),
        ),
        "scan.unrolled": (lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x[:1]), X),
        "while.condition_constants": (
            lambda n, x: lax.while_loop(lambda s: s.sum() < n, lambda s: s * 2, x),
            f32(),
            V,
        ),
        "cond.results": (
            lambda p, x: lax.cond(p, lambda x: (x, x[0] + 1), lambda x: (-x, x[1]), x),
            boolean(),
            V,
        ),
        "cholesky.batch": (linalg.cholesky, f32(2, 3, 3)),
        "eig.left": (lambda a: linalg.eig(a, compute_left_eigenvectors=True), f32(2, 2)),
        "eig.values": (
            lambda a: linalg.eig(
                a, compute_left_eigenvectors=False, compute_right_eigenvectors=False
            ),
            SQUARE,
        ),
        "eig.complex": (linalg.eig, c64(2, 2)),
        "eigh.batch": (linalg.eigh, f32(2, 3, 3)),
        "eigh.complex": (linalg.eigh, c64(2, 2)),
        "geqrf.tall": (bind("geqrf"), f32(3, 2)),
        "hessenberg.complex": (linalg.hessenberg, c64(3, 3)),
        "householder_product.complex": (linalg.householder_product, c64(3, 2), c64(2)),
        "lu.wide": (linalg.lu, f32(2, 3)),
        "lu.complex": (linalg.lu, c64(2, 2)),
        "lu.batch": (linalg.lu, f32(2, 3, 3)),
        "ormqr.right": (bind("ormqr", left=False, transpose=True), f32(3, 2), f32(2), f32(1, 3)),
        "qr.full": (lambda x: linalg.qr(x, full_matrices=True), f32(3, 2)),
        "qr.complex": (lambda x: linalg.qr(x, full_matrices=False), c64(2, 2)),
        "qr.pivoting": (lambda x: linalg.qr(x, pivoting=True), f32(2, 2)),
        "svd.full": (lambda x: linalg.svd(x, full_matrices=True), f32(3, 2)),
        "svd.values": (lambda x: linalg.svd(x, compute_uv=False), f32(2, 3)),
        "svd.complex": (lambda x: linalg.svd(x, full_matrices=False), c64(2, 2)),
        "triangular_solve.right": (
            lambda a, b: linalg.triangular_solve(a, b, lower=False, transpose_a=True),
            SQUARE,
            f32(2, 3),
        ),
        "triangular_solve.unit": (
            lambda a, b: linalg.triangular_solve(a, b, left_side=True, unit_diagonal=True),
            SQUARE,
            f32(3, 1),
        ),
        "triangular_solve.complex": (
            lambda a, b: linalg.triangular_solve(
                a, b, left_side=True, lower=True, conjugate_a=True, transpose_a=True
            ),
            c64(2, 2),
            c64(2, 1),
        ),
        "tridiagonal.complex": (lambda a: linalg.tridiagonal(a, lower=False), c64(3, 3)),
        "dot_general.bfloat16": (jnp.matmul, bf16(2, 3), bf16(3, 4)),
        "dot_general.bools": (lambda a, b: jnp.matmul(a, b), B, boolean(3, 4)),
        "dot_general.wide_integers": (jnp.matmul, N, i32(3, 4)),
        "dot_general.symbolic_inner": (lambda x: x.T @ x, b),
        "custom_linear_solve.transposed": (
            lambda a, b: jax.grad(lambda b: _solve(a, b).sum())(b),
            SQUARE,
            f32(3),
        ),
        "random_bits.bytes": (lambda k: jax.random.bits(k, (3,), np.uint8), key),
        "random_wrap.rbg": (
            lambda k: jax.random.key_data(jax.random.wrap_key_data(k, impl="rbg")),
            u32(4),
        ),
        "onnx_function.constants": (_layers, f32(2, 5)),
    }
    return (
        {f"convert_element_type.{n}": (_to(to), x) for n, (x, to) in converted.items()}
        | {f"bitcast_convert_type.{n}": (_as(to), x) for n, (x, to) in bits.items()}
        | {n: (functools.partial(_fft, kind, size), x) for n, (kind, size, x) in transforms.items()}
        | one_way
    )


def _to(dtype: Any) -> Callable[..., Any]:
    return lambda x: lax.convert_element_type(x, dtype)


def _as(dtype: Any) -> Callable[..., Any]:
    return lambda x: lax.bitcast_convert_type(x, dtype)


def _fft(kind: str, size: Any, x: Any) -> Any:
    return lax.fft(x, kind, size)


@onnx_function
def _layer(x: Any, w: Any) -> Any:
    return jnp.sin(x) @ w


def _layers(x: Any) -> Any:
    first, second = np.arange(50, dtype=np.float32).reshape(2, 5, 5)
    return _layer(_layer(x, jnp.asarray(first)), jnp.asarray(second))


def unsupported() -> dict[str, tuple[Any, ...]]:
    def callback(x: Any) -> Any:
        return jax.pure_callback(np.sin, x, x)

    matrix = spec(jnp.float32, *export.symbolic_shape("b, b"))
    part = {"subset_by_index": (0, 1)}
    return {
        "pure_callback": (callback, X),
        "eigh.part": (lambda x: lax.linalg.eigh(x, **part), SQUARE),
        "eigh.symbolic": (lax.linalg.eigh, matrix),
        "fft.symbolic": (jnp.fft.fft, spec(jnp.complex64, *export.symbolic_shape("b"))),
        "platform_index": (lambda x: lax.platform_dependent(x, cuda=jnp.sin, rocm=jnp.cos), X),
        "reduce_xor.symbolic": (
            lambda n: lax.reduce_xor(n, (0,)),
            spec(jnp.int32, *export.symbolic_shape("b")),
        ),
        "schur": (lambda x: lax.linalg.schur(x), SQUARE),
        "svd.part": (lambda x: lax.linalg.svd(x, full_matrices=False, **part), SQUARE),
        "svd.symbolic": (lambda x: lax.linalg.svd(x, full_matrices=False), matrix),
    }


def renamed() -> dict[str, tuple[str, dict[str, str]]]:
    """Programs that this version of JAX does not make: one that is alike, and what is replaced."""
    call = {" jit[": " {}[", " jaxpr=": " call_jaxpr=", "[jaxpr=": "[call_jaxpr="}
    calls = ("closed_call", "core_call", "call_hi_primitive")
    named = lambda name: {old: new.format(name) for old, new in call.items()}  # noqa: E731
    return {
        **{f"calls/{name}": ("calls/jit", named(name)) for name in calls},
        "calls/eval_jaxpr": ("calls/jit", {" jit[": " eval_jaxpr["}),
        "calls/pjit": ("calls/jit", {" jit[": " pjit["}),
        "calls/checkpoint": ("calls/remat2", {" remat2[": " checkpoint["}),
        "calls/remat": ("calls/remat2", {" remat2[": " remat["}),
        "calls/custom_vjp_call_jaxpr": (
            "calls/custom_vjp_call",
            {" custom_vjp_call[": " custom_vjp_call_jaxpr[", "call_jaxpr=": "fun_jaxpr="},
        ),
        "elementwise/log2": ("elementwise/log", {" log[": " log2["}),
        "elementwise/one_minus_square": ("elementwise/square", {" square ": " one_minus_square "}),
        "special_functions/polynomial": ("elementwise/clamp.arrays", {" clamp ": " polynomial "}),
        **{
            f"complex/{name}.complex": ("complex/remat2.complex", {" remat2[": f" {name}["})
            for name in ("checkpoint", "remat", "pjit")
        },
        "complex/log2.complex": ("complex/log.complex", {" log[": " log2["}),
        "complex/one_minus_square.complex": (
            "complex/square.complex",
            {" square ": " one_minus_square "},
        ),
        "complex/polynomial.complex": ("complex/add.complex", {" add a b": " polynomial a b b"}),
        "complex/atan2.complex": ("complex/add.complex", {" add ": " atan2 "}),
        "complex/copy_p.complex": ("complex/copy.complex", {" copy ": " copy_p "}),
        "unsupported/psum": ("calls/psum", {"axes=(0,)": 'axes=("d",)'}),
        "unsupported/round": ("elementwise/round", {"AWAY_FROM_ZERO": "UPWARD", "=0": "=7"}),
        "unsupported/schur.sorted": (
            "linear_algebra/schur",
            {"sort_eig_vals=False": "sort_eig_vals=True"},
        ),
        # Not what JAX makes: a parameter that is missing, and a result of the wrong type.
        "unsupported/transpose.missing_parameter": (
            "movement/transpose",
            {"[permutation=(1, 0)]": ""},
        ),
        "unsupported/neg.wrong_type": ("elementwise/neg", {"b:f32[2,3]": "b:f32[3,2]"}),
        "types/empty2": ("types/empty", {" empty[": " empty2["}),
        "types/copy_p": ("types/copy", {" copy ": " copy_p "}),
        "types/reshard": ("types/sharding_constraint", {" sharding_constraint[": " reshard["}),
    }


LONGEST = 120
"""Graphs of more lines than this are shown by their operators."""


def write(name: str, program: str) -> None:
    path = FOLDER / f"{name}.jaxpr"
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = "error" if name.startswith("unsupported/") else "lower"
    if kind == "lower" and is_long(program):
        kind = "operators"
    old = path.read_text() if path.exists() else ""
    _, gives, expected = old.partition("// gives:\n")
    path.write_text(f"// test: {kind}\n{program}{gives}{expected}")


def is_long(program: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source, model = Path(folder) / "a.jaxpr", Path(folder) / "a.onnx"
        source.write_text(program)
        if jax2onnx._core.main(["convert", str(source), "-o", str(model)]) != 0:
            return False
        import onnx

        def count(graph: Any) -> int:
            inner = [a.g for n in graph.node for a in n.attribute if a.HasField("g")]
            return len(graph.node) + sum(map(count, inner))

        return count(onnx.load(model).graph) > LONGEST


def trace(function: Any, *operands: Any) -> str:
    """The program of a function, without what does not matter to a rule."""
    wide = (jnp.float64, jnp.complex128)
    double = any(o.dtype in wide for o in operands)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.jaxpr"
        try:
            to_onnx(
                function,
                operands,
                record=path,
                record_weights=True,
                enable_double_precision=double,
            )
        except Jax2OnnxError as error:
            print(f"  {str(error).splitlines()[0]}", file=sys.stderr)
        text = path.read_text()
    text = re.sub(r"\Amodel\[\n.*?\n\]\n", "", text, flags=re.DOTALL)
    text = re.sub(r"\nframes\n.*", "\n", text, flags=re.DOTALL)
    text = re.sub(r"\nentry #.*", "\n", text, flags=re.DOTALL)
    return re.sub(r' ::(?: "[^"]*")?(?: #\d+)?', "", text)


def main(names: list[str]) -> None:
    for group, files in programs().items():
        for name, (function, *operands) in files.items():
            path = f"{group}/{name}"
            if names and name not in names and path not in names:
                continue
            try:
                write(path, trace(function, *operands))
            except Exception as error:
                print(f"{path}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
    for name, (source, replaced) in renamed().items():
        if names and name not in names:
            continue
        text = (FOLDER / f"{source}.jaxpr").read_text().partition("// gives:\n")[0]
        program = text.partition("\n")[2]
        for old, new in replaced.items():
            program = program.replace(old, new)
        write(name, program)


if __name__ == "__main__":
    main(sys.argv[1:])
