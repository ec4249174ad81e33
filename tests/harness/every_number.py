"""Numbers of every magnitude, and joint comparison of functions: one export, one compilation."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np

from harness.checking import run
from jax2onnx import to_onnx

INF, NAN = np.inf, np.nan
FLOATS = [np.float16, np.float32, np.float64]


def precision(dtype: Any) -> AbstractContextManager[object]:
    """Returns a context in which JAX supports numbers of this type."""
    if np.dtype(dtype).itemsize < 8:
        return nullcontext()
    return jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64()


def floats(dtype: Any) -> np.ndarray:
    """Returns numbers of every magnitude, numbers near one, and the extremes."""
    info, rng = np.finfo(dtype), np.random.default_rng(0)
    size = np.exp2(rng.uniform(info.minexp, info.maxexp - 1e-3, 300))
    near = np.concatenate([rng.uniform(-1, 1, 100), 1 + np.exp2(rng.uniform(info.negep, 0, 50))])
    ends = [0, 1, 0.5, 2.5, info.max, INF, NAN, info.eps]
    numbers = np.concatenate([size, near, ends]).astype(dtype)
    return np.concatenate([numbers, -numbers])


def results(
    functions: Mapping[str, Callable[..., Any]], args: Sequence[np.ndarray]
) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Yields the results of the model and of JAX for the same arguments, by name."""

    def together(*args: Any) -> list[Any]:
        return [fn(*args) for fn in functions.values()]

    wide = any(x.dtype.itemsize == 8 for x in args)
    with precision(np.float64 if wide else np.float32):
        found = run(to_onnx(together, list(args), enable_double_precision=wide), args)
        expected = [np.asarray(x) for x in jax.jit(together)(*args)]
    return list(zip(functions, found, expected, strict=True))


def assert_near(
    name: str, found: np.ndarray, expected: np.ndarray, rtol: float, atol: float = 0
) -> None:
    """Checks relative closeness, except that JAX flushes subnormal numbers to zero."""
    assert found.dtype == expected.dtype
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected, err_msg=name)
        return
    atol = max(atol, 2 * float(np.finfo(expected.dtype).smallest_normal))
    wide = [x.astype(np.longdouble) for x in (found, expected)]
    np.testing.assert_allclose(*wide, rtol=rtol, atol=atol, err_msg=name)
