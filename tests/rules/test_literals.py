"""Numbers that a jaxpr holds as literals, in every form that JAX gives them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from harness.checking import run
from jax2onnx import to_onnx

NUMBERS = [
    *(np.dtype(dtype).type(1) for dtype in ("int8", "int16", "int32", "uint8", "uint16")),
    np.int32(-(2**31)),
    np.uint32(2**32 - 1),
    np.float16(0.1),
    np.float32(0.1),
    np.float32(np.inf),
    np.array(7, np.int32),
    np.array(0.1, np.float32),
    np.array([0.1, -0.0], np.float32),
    np.bool_(True),
    jnp.float32(0.1),
]


def _max_with(literal: Any) -> Any:
    return lambda x: lax.max_p.bind(x, literal)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{number!r}")
def test_every_form(number: Any) -> None:
    fn = _max_with(number)
    x = jnp.zeros(np.shape(number), jnp.asarray(number).dtype)
    (found,) = run(to_onnx(fn, [x]), [x])
    expected = np.asarray(fn(x))
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("name", "number", "dtype"), [("Int", 7, "int32"), ("Float", 0.1, "f4")])
def test_numbers_of_jax(name: str, number: Any, dtype: str) -> None:
    """Newer versions have classes for typed Python numbers."""
    literals = pytest.importorskip("jax._src.literals")
    typed = getattr(literals, f"Typed{name}")(number, np.dtype(dtype))
    x = jnp.zeros((), dtype)
    jaxpr = jax.make_jaxpr(_max_with(typed))(x)
    assert isinstance(jaxpr.eqns[0].invars[1], jax.extend.core.Literal)
    (found,) = run(to_onnx(_max_with(typed), [x]), [x])
    assert found == np.asarray(number, dtype)
