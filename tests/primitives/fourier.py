"""Fourier transforms."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from primitives.operands import Programs, V, c64, f32, spec, symbolic


def fft(kind: str, *sizes: int) -> Callable[..., Any]:
    return lambda x: lax.fft(x, kind, sizes)


PROGRAMS: Programs = {
    "fft": (fft("RFFT", 4), V),
    "fft.inverse": (fft("IFFT", 4), c64(4)),
    "fft.symbolic": (jnp.fft.fft, symbolic("b", jnp.complex64)),
    "fft.odd": (fft("FFT", 3), c64(3)),
    "fft.long": (fft("FFT", 128), c64(128)),
    "fft.long_real": (fft("RFFT", 128), f32(128)),
    "fft.prime": (fft("FFT", 7), c64(2, 7)),
    "fft.long_prime": (fft("FFT", 131), c64(131)),
    "fft.factors": (fft("FFT", 2 * 67), c64(2 * 67)),
    "fft.two_axes": (fft("FFT", 2, 4), c64(2, 4)),
    "fft.real_odd": (fft("RFFT", 5), f32(5)),
    "fft.real_inverse": (fft("IRFFT", 6), c64(4)),
    "fft.real_inverse_long": (fft("IRFFT", 128), c64(65)),
    "fft.real_inverse_long_prime": (fft("IRFFT", 131), c64(66)),
    "fft.real_two_axes": (fft("RFFT", 2, 4), f32(2, 4)),
    "fft.inverse_two_axes": (fft("IRFFT", 2, 4), c64(2, 3)),
    "fft.double": (fft("FFT", 2), spec(jnp.complex128, 2)),
}
