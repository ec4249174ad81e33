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
    "platform_index": (lambda x: lax.platform_dependent(x, cuda=jnp.sin, rocm=jnp.cos), X),
    "rng_uniform": (lambda x: lax.rng_uniform(x[0, 0], x[0, 1], (3,)), X),
    "schur.symbolic": (linalg.schur, MATRIX),
    "svd.part": (lambda x: linalg.svd(x, full_matrices=False, **PART), SQUARE),
    "svd.symbolic": (lambda x: linalg.svd(x, full_matrices=False), MATRIX),
}
