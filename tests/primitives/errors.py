"""Programs that cannot be converted."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import linalg

from primitives.operands import BATCH, Programs, X, f32


def callback(x: Any) -> Any:
    return jax.pure_callback(np.sin, x, x)


SQUARE = f32(3, 3)
PART = {"subset_by_index": (0, 1)}
PROGRAMS: Programs = {
    "pure_callback": (callback, X),
    "eigh.part": (lambda x: linalg.eigh(x, **PART), SQUARE),
    "platform_index": (lambda x: lax.platform_dependent(x, cuda=jnp.sin, rocm=jnp.cos), X),
    "reshape.counts": (lambda x: lax.reshape(x, (x.shape[0], x.shape[0])), BATCH),
    "rng_uniform": (lambda x: lax.rng_uniform(x[0, 0], x[0, 1], (3,)), X),
    "svd.part": (lambda x: linalg.svd(x, full_matrices=False, **PART), SQUARE),
    "svd.symbolic": (lambda x: linalg.svd(x, full_matrices=False), BATCH),
}
