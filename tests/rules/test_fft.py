"""Fourier transforms of all kinds and lengths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from harness.checking import assert_close, check_sizes, run
from jax2onnx import to_onnx

# Tables, powers of two, products, and primes that are short, long and very long.
LENGTHS = [1, 2, 17, 64, 65, 67, 128, 134, 1009]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def check(fn, *args):
    """Compares with JAX; errors are relative to the largest number of a transform."""
    found = run(to_onnx(fn, list(args)), args)
    expected = [np.asarray(x) for x in fn(*args)]
    scale = max(np.abs(x).max(initial=1e-30) for x in expected)
    assert_close([x / scale for x in found], [x / scale for x in expected])
    for one, other in zip(found, expected, strict=True):
        assert np.abs(one - other).max(initial=0) <= 2e-6 * scale


def transform(kind, *lengths):
    def fn(*parts):
        x = lax.complex(*parts) if len(parts) == 2 else parts[0]
        found = lax.fft_p.bind(x, fft_type=kind, fft_lengths=lengths)
        return [found.real, found.imag] if jnp.iscomplexobj(found) else [found]

    return fn


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length):
    pair = normal(3, length), normal(3, length, seed=1)
    check(transform(lax.FftType.FFT, length), *pair)
    check(transform(lax.FftType.IFFT, length), *pair)
    check(transform(lax.FftType.RFFT, length), pair[0])
    half = normal(3, length // 2 + 1), normal(3, length // 2 + 1, seed=1)
    check(transform(lax.FftType.IRFFT, length), *half)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_several_axes(axes):
    shape = (2, 6, 5, 8)
    lengths = shape[-axes:]
    pair = normal(*shape), normal(*shape, seed=1)
    check(transform(lax.FftType.FFT, *lengths), *pair)
    check(transform(lax.FftType.IFFT, *lengths), *pair)
    check(transform(lax.FftType.RFFT, *lengths), pair[0])
    for last in [14, 15]:
        check(transform(lax.FftType.IRFFT, *lengths[:-1], last), *pair)


@pytest.mark.parametrize("length", [12, 128])
def test_a_single_signal(length):
    check(transform(lax.FftType.FFT, length), normal(length), normal(length, seed=1))
    check(transform(lax.FftType.RFFT, length), normal(length))


def test_no_signals():
    check(transform(lax.FftType.FFT, 4), normal(0, 4), normal(0, 4))
    check(transform(lax.FftType.IRFFT, 6), normal(0, 4), normal(0, 4))


def test_convolution():
    def convolve(x, y):
        product = jnp.fft.rfft(x) * jnp.fft.rfft(y)
        return [lax.fft_p.bind(product, fft_type=lax.FftType.IRFFT, fft_lengths=(40,))]

    check(convolve, normal(3, 40), normal(3, 40, seed=1))


def over_any_length(shape, constraints=()):
    return [
        jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, constraints=constraints), "float32")
    ]


@pytest.mark.slow
def test_a_symbolic_length():
    runs = [[normal(2, length)] for length in (1, 2, 3, 8, 64, 70, 97, 1000)]
    for fn in (jnp.fft.fft, jnp.fft.ifft, jnp.fft.rfft, jnp.fft.ihfft):

        def parts(x, fn=fn):
            found = fn(x)
            return found.real, found.imag

        check_sizes(parts, over_any_length("b, n"), *runs)


@pytest.mark.parametrize("inverse", [jnp.fft.irfft, jnp.fft.hfft])
def test_an_inverse_of_symbolic_length(inverse):
    runs = [[normal(2, length)] for length in (2, 3, 9, 36, 100)]
    check_sizes(inverse, over_any_length("b, n", ["n >= 2"]), *runs)
    check_sizes(lambda x: inverse(lax.complex(x, -x)), over_any_length("b, n", ["n >= 2"]), *runs)


@pytest.mark.slow
def test_there_and_back():
    runs = [[normal(2, length)] for length in (2, 3, 9, 36, 100)]
    specs = over_any_length("b, n", ["n >= 2"])
    check_sizes(lambda x: lax.fft(jnp.fft.rfft(x), "IRFFT", x.shape[-1:]), specs, *runs)
    check_sizes(lambda x: jnp.fft.ifft2(jnp.fft.fft2(x)).real, specs, *runs)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("inverse", [False, True])
def test_real_numbers_in_batches_of_any_size(length, inverse):
    def fn(x):
        z = jnp.fft.ifft(x) if inverse else jnp.fft.fft(x)
        return z.real, z.imag

    model = to_onnx(fn, [("B", length)])
    x = normal(3, length)
    found, expected = run(model, [x]), [np.asarray(part) for part in fn(x)]
    scale = max(np.abs(part).max(initial=1e-30) for part in expected)
    assert_close([part / scale for part in found], [part / scale for part in expected])


def test_no_product_with_zeros():
    """The imaginary parts of real numbers are not transformed."""
    model = to_onnx(lambda x: jnp.fft.fft2(x).real, [("B", 8, 16)])
    assert [node.op_type for node in model.graph.node].count("MatMul") == 4
    assert "Expand" not in {node.op_type for node in model.graph.node}
