"""What cannot be converted."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import linalg

from primitives.operands import Programs, X, f32, symbolic


def callback(x: Any) -> Any:
    return jax.pure_callback(np.sin, x, x)


SQUARE, MATRIX = f32(3, 3), symbolic("b, b")
PART = {"subset_by_index": (0, 1)}
PROGRAMS: Programs = {
    "pure_callback": (callback, X),
    "eigh.part": (lambda x: linalg.eigh(x, **PART), SQUARE),
    "eigh.symbolic": (linalg.eigh, MATRIX),
    "fft.symbolic": (jnp.fft.fft, symbolic("b", jnp.complex64)),
    "platform_index": (lambda x: lax.platform_dependent(x, cuda=jnp.sin, rocm=jnp.cos), X),
    "reduce_xor.symbolic": (
        lambda n: lax.reduce_xor(n, (0,)),
        symbolic("b", jnp.int32),
    ),
    "schur": (lambda x: linalg.schur(x), SQUARE),
    "svd.part": (lambda x: linalg.svd(x, full_matrices=False, **PART), SQUARE),
    "svd.symbolic": (lambda x: linalg.svd(x, full_matrices=False), MATRIX),
}
