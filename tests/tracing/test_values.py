"""Python code that needs values which are known only at run time: suggested alternatives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax2onnx import to_onnx

COUNT = jax.ShapeDtypeStruct((), jnp.int32)


@pytest.mark.parametrize(
    ("fn", "spec", "advice"),
    [
        (lambda n: jnp.arange(n), COUNT, "mask the rest (jnp.arange(10) < n)"),
        (lambda x: jnp.compress(x > 0, x), (5,), "pass `size=`"),
        (lambda x: jnp.nonzero(x), (5,), "pass `size=`"),
        (lambda x: x[x > 0], (5,), "jnp.where(mask, x, 0)"),
        (lambda x: x if x[0] > 0 else -x, (5,), "jax.lax.cond instead of `if`"),
        (lambda n: sum(range(n)), COUNT, "jax.lax.fori_loop"),
        (lambda x: np.sin(x), (5,), "use jax.numpy"),
    ],
)
def test_errors_about_values_have_advice(fn: Any, spec: Any, advice: str) -> None:
    with pytest.raises(Exception, match=r"traced array|concrete") as caught:
        to_onnx(fn, [spec])
    (note,) = [note for note in caught.value.__notes__ if "help" in note]
    assert advice in note
