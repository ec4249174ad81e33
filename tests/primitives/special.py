"""Special functions."""

import numpy as np
from jax import lax

from primitives.operands import Programs, f32, f64, of_lax

ONE = "bessel_i0e bessel_i1e digamma erf erf_inv erfc lgamma"
TWO = "igamma igammac igamma_grad_a zeta"
A, B = np.float32([0.5, 2.25]), np.float32([1.5, 0.75])

PROGRAMS: Programs = {
    **{name: (of_lax(name), f32(2)) for name in ONE.split()},
    **{f"{name}.double": (of_lax(name), f64(2)) for name in ("digamma", "erf", "erfc", "lgamma")},
    "erf_inv.double": (lax.erf_inv, np.array([0.5, -0.999_999, 0.97])),
    **{name: (of_lax(name), A + 1, B) for name in TWO.split()},
    "polygamma": (lax.polygamma, np.float32([1, 2]), B),
    "regularized_incomplete_beta": (lax.betainc, A, B, np.float32([0.25, 0.5])),
}
