"""The gamma function's family, error functions, Bessel functions and incomplete integrals."""

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
import pytest
from jax import export, lax

from harness.checking import check_model, check_sizes, op_types, run
from harness.every_number import FLOATS, INF, NAN, assert_near, results
from jax2onnx import to_onnx

ENDS = [0.0, -0.0, INF, -INF, NAN]
# The error of JAX itself, relative to the result.
ERROR = {np.float16: 3e-3, np.float32: 5e-6, np.float64: 2e-14}


def grid(*axes, dtype=np.float32):
    return [part.ravel().astype(dtype) for part in np.meshgrid(*axes)]


def check(functions, args, rtol=1e-5, atol=0.0):
    for name, found, expected in results(functions, args):
        assert_near(name, found, expected, rtol, atol)


@pytest.mark.parametrize("dtype", FLOATS)
def test_gamma_function(dtype):
    places = [1e-30, 1e-3, 0.3, 0.5, 1, 1.4616, 1.7, 2, 3, 7.25, 40, 171, 3e4]
    x = np.array([*places, *(-x for x in places), -0.5, -1, -2, -3.7, *ENDS], dtype)
    check({"lgamma": lax.lgamma}, [x], ERROR[dtype], ERROR[dtype])
    # Its value at zero has changed between versions of JAX.
    check({"digamma": lax.digamma}, [x[x != 0]], ERROR[dtype], ERROR[dtype])


def test_gamma_function_overflows_where_that_of_jax_does():
    x = np.array([1e36, 1e38, -1e38, -8388609.0], np.float32)
    check({"lgamma": lax.lgamma}, [x])


@pytest.mark.parametrize("dtype", FLOATS)
def test_error_functions(dtype):
    x = np.concatenate([np.linspace(-6, 9, 301), ENDS]).astype(dtype)
    check({"erf": lax.erf}, [x], ERROR[dtype])
    check({"erfc": lax.erfc}, [x], max(ERROR[dtype], 100 * np.finfo(dtype).eps))
    inside = np.concatenate([np.linspace(-0.99, 0.99, 99), 1 - np.logspace(-1, -7, 30)])
    x = np.array([*inside, *-inside, 1, -1, 1.5, 1e-30, *ENDS], dtype)
    check({"erf_inv": lax.erf_inv}, [x], ERROR[dtype])


def test_complementary_error_function_does_not_vanish_early():
    model = to_onnx(lax.erfc, [(2,)], enable_double_precision=True)
    (found,) = run(model, [np.array([6.5, 26.0])])
    np.testing.assert_allclose(found, [3.842148327120647e-20, 5.663192408856143e-296], rtol=1e-12)


@pytest.mark.parametrize("dtype", FLOATS)
def test_bessel(dtype):
    x = np.array([*np.linspace(-30, 30, 121), 8, -8, 1e-20, 1e4, *ENDS], dtype)
    check({"i0e": lax.bessel_i0e, "i1e": lax.bessel_i1e}, [x], ERROR[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeta(dtype):
    x = [1, 1.1, 2, 2.5, 3, 7, 20, 0.5, 0, -1, NAN]
    q = [1e-3, 0.5, 1, 2.5, 10, 50, 0, -0.5, -1, -2, -2.5, NAN, INF]
    check({"zeta": lax.zeta}, grid(x, q, dtype=dtype), 10 * ERROR[dtype])
    m = [0, 1, 2, 3, 6, 0.5, -1, NAN]
    x = [1e-2, 0.5, 1, 2.5, 10, 50, -0.5, -1, -2.5, NAN, INF]
    check({"polygamma": lax.polygamma}, grid(m, x, dtype=dtype), 20 * ERROR[dtype])


def test_polygamma_of_constant_orders():
    orders = {str(n): lambda x, n=n: special.polygamma(n, x) for n in (0, 1, 4)}
    check(orders, [np.array([0.3, 1.0, 4.5, 30.0, -2.5], np.float32)], 1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_incomplete_integrals(dtype):
    error = 20 * ERROR[dtype]
    places = [0, 1e-3, 0.1, 0.5, 1, 1.1, 2, 3.7, 10, 30, 100, -1, NAN, INF]
    gamma = {"lower": lax.igamma, "upper": lax.igammac, "slope": lax.igamma_grad_a}
    # JAX's answer for an infinite order has changed between versions.
    check(gamma, grid(places[:-1], places, dtype=dtype), error, error)
    places = [0, 1e-3, 0.5, 1, 2, 5.5, 30, -1, NAN, INF]
    x = [0, 1e-3, 0.3, 0.5, 0.8, 0.99, 1, -0.1, 1.1, NAN]
    check({"beta": lax.betainc}, grid(places, places, x, dtype=dtype), error, error)


def test_bfloat16_is_rounded_once():
    x = np.arange(2**16, dtype=np.uint16).view(jnp.bfloat16).astype(np.float32)
    x = x[np.isfinite(x) & ((x == 0) | (np.abs(x) > 1e-37))]
    names = ["lgamma", "digamma", "erfc", "log1p", "expm1", "cbrt"]

    def narrow(name):
        return lambda x: getattr(lax, name)(x.astype(jnp.bfloat16)).astype(jnp.float32)

    for name, found, expected in results({name: narrow(name) for name in names}, [x]):
        normal = (np.abs(expected) > 1e-37) & ((x != 0) | (name != "digamma"))
        assert_near(name, found[normal], expected[normal], 2**-7, 2e-6)


def test_operands_of_different_shapes():
    mixed = {
        "igamma": lambda x: special.gammainc(2.0, x),
        "betainc": lambda x: special.betainc(2.0, x, 0.5),
        "vmap": lambda x: jax.vmap(special.gammaincc, in_axes=(0, None))(x[:, 0], x[0]),
    }
    check(mixed, [np.array([[0.3, 1.5, 4.0], [0.1, 2.0, 9.0]], np.float32)], 1e-4, 1e-6)


ALL = {
    "lgamma": lax.lgamma,
    "erfc": lax.erfc,
    "i1e": lax.bessel_i1e,
    "igamma": lambda x: lax.igamma(x, x + 1),
    "igamma_grad_a": lambda x: lax.igamma_grad_a(x, x + 1),
    "betainc": lambda x: lax.betainc(x, x + 1, x / 2),
}


@pytest.mark.parametrize("shape", [(), (2, 0, 3)])
def test_scalars_and_nothing(shape):
    check(ALL, [np.full(shape, 0.6, np.float32)], 1e-4)


@pytest.mark.slow
def test_symbolic_sizes():
    (batch,) = export.symbolic_shape("batch")
    spec = jax.ShapeDtypeStruct((batch, 2), np.float32)
    together = jax.jit(lambda x: [fn(x) for fn in ALL.values()])
    check_sizes(together, [spec], *([np.full((n, 2), 0.7, np.float32)] for n in (3, 0)))


@pytest.mark.slow
def test_derivatives():
    functions = {
        "lgamma": lax.lgamma,
        "digamma": lax.digamma,
        "erf_inv": lax.erf_inv,
        "i0e": lax.bessel_i0e,
        "i1e": lax.bessel_i1e,
        "igamma by a": lambda x: lax.igamma(x, jnp.full_like(x, 1.5)),
        "igammac by x": lambda x: lax.igammac(jnp.full_like(x, 1.5), x),
        "betainc": lambda x: lax.betainc(jnp.full_like(x, 1.5), jnp.full_like(x, 2.5), x),
    }

    def derivative(fn):
        return jax.grad(lambda x: fn(x).sum())

    slopes = {name: derivative(fn) for name, fn in functions.items()}
    slopes["samples"] = lambda x: lax.random_gamma_grad(2 * x, x + 0.5)
    check(slopes, [np.linspace(0.05, 0.95, 19, dtype=np.float32)], 1e-4, 1e-5)


@pytest.mark.slow
def test_functions_made_of_them():
    names = ["entr", "exp1", "i0", "log_ndtr", "ndtri"]
    functions = {name: getattr(special, name) for name in names}
    check(functions, [np.linspace(0.05, 0.95, 19, dtype=np.float32)], 1e-4, 1e-6)


def test_gelu_scales_by_a_plain_error_function():
    x = np.linspace(-6, 6, 25, dtype=np.float32)
    ops = op_types(check_model(lambda x: jax.nn.gelu(x, approximate=False), [x]))
    assert "Exp" not in ops
    assert len(ops) <= 6
