"""Complex numbers: two real values each, a trailing axis of two at the model's boundary."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from harness.checking import as_tensor, check_model, check_sizes, op_types, run
from jax2onnx import UnsupportedError, to_onnx
from jax2onnx.errors import InvalidInputError


def normal(*shape, seed=0, dtype=np.complex64):
    rng = np.random.default_rng(seed)
    return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def plane(values, dtype=np.complex64):
    """Returns all numbers whose components are among the values."""
    part = np.float32 if dtype == np.complex64 else np.float64
    re, im = np.meshgrid(np.array(values, part), np.array(values, part))
    result = np.empty(re.size, dtype)
    result.real, result.imag = re.ravel(), im.ravel()
    return result


Z, W = jnp.asarray(normal(4, 3)), jnp.asarray(normal(4, 3, seed=1))
WHOLE = jnp.round(Z), jnp.round(W)


def check(fn, *args, within, **options):
    """Compares errors relative to each number; numbers that are not finite must be equal."""
    found = run(to_onnx(fn, list(args), **options), args)
    expected = jax.tree_util.tree_leaves(jax.jit(fn)(*args))
    for one, other in zip(found, expected, strict=True):
        parts = as_tensor(other)
        np.testing.assert_array_equal(kind(one), kind(parts))
        finite = np.isfinite(np.asarray(other))
        size = np.maximum(np.abs(np.asarray(other)[finite]), 1e-30)
        errors = np.abs(one[finite] - parts[finite])
        errors = errors.max(-1) if np.iscomplexobj(other) else errors
        assert (errors / size).max(initial=0) < within


def kind(x):
    return np.where(np.isnan(x), np.nan, np.where(np.isinf(x), x, 0))


FAMILIES = {
    "modulus": [lax.abs, lax.sign],
    "powers": [lax.reciprocal, lax.rsqrt, lax.sqrt, lax.square],
    "exponential": [lax.exp, lax.exp2, lax.expm1, lax.log, lax.log1p, lax.logistic],
    "trigonometric": [lax.cos, lax.sin, lax.tan],
    "hyperbolic": [lax.cosh, lax.sinh, lax.tanh],
    "inverse": [lax.acos, lax.acosh, lax.asin, lax.asinh, lax.atan, lax.atanh],
}


def every(*functions):
    return lambda z: [fn(z) for fn in functions]


@pytest.mark.parametrize("family", FAMILIES)
def test_functions(family, double):
    usual = [-12.5, -3, -1, -0.6, -1e-3, 0.1, 0.7, 1, 2.5, 8]
    fn = every(*FAMILIES[family])
    # JAX loses digits of hyperbolic functions near zero.
    check(fn, plane(usual), within=5e-5)
    check(fn, plane(usual, np.complex128), within=1e-10, **double)


def test_no_square_overflows():
    fn = every(lax.abs, lax.asin, lax.atan, lax.exp, lax.log, lax.log1p, lax.sqrt, lax.sign)
    check(fn, plane([1e-30, -1e-20, 1, 1e18, -1e25, 3e38]), within=2e-6)


def test_infinities_and_zeros():
    fn = every(lax.abs, lax.acos, lax.asin, lax.exp, lax.log, lax.sqrt)
    check(fn, plane([0, 1.5, -2, np.inf, -np.inf]), within=1e-5)


def test_branch_cuts():
    points = plane([-2, -0.5, 0.5, 2])[:4]
    cut = np.concatenate([points.real + 0j, np.conj(points.real + 0j)]).astype(np.complex64)
    fn = every(lax.acos, lax.acosh, lax.asin, lax.atanh, lax.log, lax.rsqrt, lax.sqrt)
    check(fn, cut, within=1e-6)
    check(
        every(lax.asinh, lax.atan),
        np.stack([cut.imag, cut.real], -1).view(np.complex64),
        within=1e-6,
    )


def test_quotients():
    values = [1e-36, -1e-20, 1, -3, 1e19, 2e38]
    left, right = np.meshgrid(plane(values), plane(values))
    check(lax.div, left, right, within=1e-6)
    check(lax.div, normal(9), plane([np.inf, -np.inf, 2]), within=1e-6)
    check(lax.div, normal(9), np.zeros(9, np.complex64), within=1)


def test_division_by_real_numbers_needs_no_more_than_real_divisions():
    for fn in (lambda z: z / 3.0, lambda z: z / jnp.abs(z).astype(z.dtype)):
        assert op_types(check_model(fn, [Z])).count("Div") <= 3


@pytest.mark.parametrize("exponent", [-3, -1, 0, 1, 2, 5])
def test_integer_powers(exponent):
    check_model(lambda z: lax.integer_pow(z, exponent), [Z])


def test_powers():
    check_model(lax.pow, [Z, W])
    check_model(lambda z: z**2.5, [Z])
    check_model(lambda z: 2.0**z, [Z])
    check_model(lax.pow, [Z, np.arange(-6, 6, dtype=np.int32).reshape(4, 3)])
    zero = np.zeros(3, np.complex64)
    check_model(lax.pow, [zero, np.array([0, 2, 1j], np.complex64)])


ELEMENTWISE = {
    "parts": lambda z, w: (z.real, w.imag, lax.complex(z.imag, w.real), z.conj()),
    "logarithm": lambda z, w: jnp.log2(z),
    "unstacked": lambda z, w: [*jnp.unstack(z), *jnp.unstack(w, axis=-1)],
    "sums": lambda z, w: (z + w, z - w, -z, z + 1, 2j - w),
    "products": lambda z, w: (z * w, z * 3, 1j * z),
    "equality": lambda z, w: (z == w, z != w, z == z, z != 0),
    "order": lambda z, w: (jnp.maximum(z, w), jnp.minimum(z, w)),
    "choice": lambda z, w: (jnp.where(z.real > 0, z, w), lax.select_n(jnp.int32(1), z, w)),
    "types": lambda z, w: [z.real.astype(z.dtype), *map(z.astype, [jnp.float32, jnp.int32])],
    "truth": lambda z, w: (z.astype(bool), lax.convert_element_type(z, bool)),
    "bits": lambda z, w: lax.bitcast_convert_type(z, jnp.complex64),
    "constants": lambda z, w: z + jnp.full((4, 3), 1 + 2j) * lax.iota(jnp.complex64, 3),
    "logarithm of a sum": lambda z, w: jnp.logaddexp(z, w),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.filterwarnings("ignore:.*omplex")
def test_elementwise(name):
    check_model(ELEMENTWISE[name], list(WHOLE))
    check_model(ELEMENTWISE[name], [Z, W])


MOVEMENT = {
    "shape": lambda z: (z.T, z.reshape(6, 2), z[None], z.ravel(), jnp.broadcast_to(z, (2, 4, 3))),
    "slices": lambda z: (z[1:3], z[::-1], z[::2, 1], *jnp.split(z, 2)),
    "pad": lambda z: jnp.pad(z, ((1, 2), (0, 1)), constant_values=1j),
    "pieces": lambda z: (jnp.concatenate([z, z.real]), jnp.stack([z, z]), jnp.tile(z, (2, 2))),
    "window": lambda z: lax.dynamic_slice(z, (1, 0), (2, 2)),
    "triangle": lambda z: jnp.tril(z),
    "sums": lambda z: (z.sum(), z.mean(0), jnp.cumsum(z, 0), jnp.var(z)),
    "products": lambda z: (jnp.prod(z), jnp.prod(z, 1), jnp.cumprod(z, 1), jnp.prod(z[:0], 0)),
    "extrema": lambda z: (z.max(), z.min(1), lax.cummax(z, 0), lax.cummin(z, 1, reverse=True)),
    "logarithms of sums": lambda z: (jax.nn.logsumexp(z, 0), lax.cumlogsumexp(z, 0)),
    "sort": lambda z: (jnp.sort(z, 0), jnp.argsort(z, 0), lax.sort((z, z.real), num_keys=1)),
    "reduction": lambda z: lax.reduce(z, np.complex64(2j), lax.mul, (0,)),
}


@pytest.mark.parametrize("name", MOVEMENT)
def test_movement_and_reduction(name):
    for z in (Z, WHOLE[0]):
        check_model(MOVEMENT[name], [z])


def test_nan_come_last():
    z = np.array([1 + 1j, np.nan, 2, complex(1, np.nan), -1], np.complex64)
    check_model(jnp.sort, [z])


INDICES = np.array([0, 2, 2, 9], np.int32)
SCATTERS = {
    "set": lambda z, i, w: z.at[i].set(1j),
    "add": lambda z, i, w: z.at[i].add(w),
    "subtract": lambda z, i, w: z.at[i].subtract(w),
    "multiply": lambda z, i, w: z.at[i].multiply(w),
    "max": lambda z, i, w: z.at[i].max(w),
    "min, one column": lambda z, i, w: z.at[i, 1].min(w[:, 0]),
    "multiply, at different places": lambda z, i, w: z.at[i].multiply(w, unique_indices=True),
    "multiply, one window": lambda z, i, w: z.at[1:3].multiply(w[:2]),
    "multiply, all": lambda z, i, w: z.at[:].multiply(w),
    "multiply, clipped": lambda z, i, w: z.at[i].multiply(w, mode="clip"),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_scatter(name):
    indices = np.array([3, 0, 9, 1], np.int32) if "different" in name else INDICES
    check_model(SCATTERS[name], [Z, indices, W])


@pytest.mark.parametrize("fill", [None, 2.5, 3 - 4j])
def test_gather_fills_with_complex_numbers(fill):
    def fn(z, i):
        return jnp.take(z, i, axis=0, mode="fill", fill_value=fill), z[i]

    check_model(fn, [Z, INDICES])


LINEAR = {
    "matrices": lambda a, b: (a @ b, a.real @ b, a @ b.imag, jnp.vdot(a, a)),
    "batches": lambda a, b: jnp.einsum("ij,kj->jik", a, b.T.conj()),
    "convolution": lambda a, b: (
        jnp.convolve(a[0], b[0]),
        lax.conv(a[None, None], b[None, None], (1, 1), "SAME"),
    ),
    "integers": lambda a, b: jnp.matmul(a, jnp.arange(6).reshape(3, 2)),
    "windows": lambda a, b: (
        lax.reduce_window(a, np.complex64(0), lax.add, (2, 2), (1, 1), "SAME"),
        lax.reduce_window(a, np.complex64(1j), lax.mul, (3, 1), (1, 2), "VALID"),
        lax.reduce_window(a, np.complex64(-np.inf), lax.max, (2, 2), (2, 1), "SAME"),
    ),
    "solve": lambda a, b: jnp.linalg.solve(a[:3], b),
    "transform": lambda a, b: (jnp.fft.fft(a), jnp.fft.irfft(b, 5), jnp.fft.rfft2(a.real)),
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear(name):
    check_model(LINEAR[name], [Z, normal(3, 4, seed=3)])


def test_a_long_window_of_products():
    check_model(
        lambda z: lax.reduce_window(z, np.complex64(1), lax.mul, (20,), (1,), "VALID"), [normal(40)]
    )


CALLS = {
    "branches": lambda z: lax.cond(z.real.sum() > 0, lambda y: y * 2j, jnp.conj, z),
    "while": lambda z: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * z), (0, z)),
    "scan": lambda z: lax.scan(lambda c, x: (c * x, c + x), jnp.ones(3, jnp.complex64), z),
    "map": lambda z: lax.map(lambda row: jnp.exp(row).sum(), z),
    "checkpoint": jax.checkpoint(jnp.sin),
    "barrier": lambda z: lax.optimization_barrier((z, z.real, jnp.arange(3))),
    "gradient": jax.grad(lambda z: jnp.abs(jnp.sqrt(z) / (z + 1)).sum()),
    "holomorphic": jax.grad(lambda z: (jnp.sin(z) ** 2 / jnp.cosh(z)).sum(), holomorphic=True),
    "tangents": lambda z: jax.jvp(jnp.tanh, (z,), (z * 1j,)),
    "vectorised": jax.vmap(lambda row: jnp.vdot(row, row)),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_and_derivatives(name):
    check_model(CALLS[name], [Z])


def test_boundary():
    check_model(lambda z: z, [Z])
    check_model(lambda z, w: (w, z, {"sum": z + w}), [Z, W])
    check_model(lambda z: z * 2j + 1, [normal()])
    check_model(lambda z: jnp.exp(z), [normal(0, 3)])
    weights = normal(3, 2, seed=4)
    model = check_model(lambda z: z @ weights, [Z])
    (output,) = model.graph.output
    assert [dim.dim_value for dim in output.type.tensor_type.shape.dim] == [4, 2, 2]


def test_a_constant_is_there_once():
    weights = jnp.asarray(normal(3, 3, seed=4))
    layer = jax.jit(lambda z: z @ weights)
    model = check_model(lambda z: layer(layer(z)) + z @ weights, [Z])
    assert len([x for x in model.graph.initializer if list(x.dims) == [3, 3]]) == 2


SYMBOLIC = {
    "function": lambda z: jnp.log(z) / (z + 1),
    "products": lambda z: (jnp.prod(z, 0), jnp.cumprod(z, 0), lax.cumprod(z, 0, reverse=True)),
    "order": lambda z: (jnp.sort(z, 0), z.max(0), lax.cummax(z, 0)),
    "matrices": lambda z: z @ z.conj().T,
    "ones": lambda z: z + jnp.ones(z.shape, z.dtype),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes(name):
    spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 3"), np.complex64)
    check_sizes(SYMBOLIC[name], [spec], [normal(2, 3)], [normal(5, 3)])


@pytest.mark.parametrize("option", ["inputs_as_nchw", "outputs_as_nchw"])
def test_complex_numbers_are_not_nchw(option):
    with pytest.raises(InvalidInputError, match="only real values can be NCHW"):
        to_onnx(lambda z: z * 2, [normal(1, 2, 3, 4)], **{option: [0]})


def test_operations_undefined_for_complex_numbers_are_refused():
    with pytest.raises(UnsupportedError, match="complex numbers have no order to clamp by"):
        to_onnx(lambda z, w: lax.clamp(z, w, z), [Z, W])
