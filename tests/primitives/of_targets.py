"""One model for each target, of operators that runtimes lack, compute or spell otherwise."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax2onnx import _core
from primitives.operands import Programs, f32, i32, symbolic

# The default is the target of all other programs, and one release stands for the others.
TARGETS = [
    name
    for name in _core.targets()
    if name != "onnxruntime" and (">=" not in name or name == "onnxruntime>=1.17")
]


def _kernel(*shape: int) -> Any:
    return jnp.asarray(np.arange(np.prod(shape)).reshape(shape) % 7 / 8 - 0.5, jnp.float32)


def vision(x: Any) -> Any:
    """Applies convolutions, a batch norm, poolings and a resized skip connection."""
    numbers = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(x, _kernel(3, 3, 2, 4), (1, 1), "SAME", dimension_numbers=numbers)
    y = (y - _kernel(4)) * lax.rsqrt(_kernel(4) ** 2 + 1e-5) * 2 + _kernel(4)
    y = lax.reduce_window(jax.nn.silu(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
    y = jax.image.resize(y, (*x.shape[:3], 4), "nearest")
    y = lax.conv_transpose(y, _kernel(2, 2, 4, 3), (1, 1), "SAME", dimension_numbers=numbers)
    return jax.nn.softmax(y.mean((1, 2)))


def sequence(x: Any, tokens: Any) -> Any:
    """Applies a lookup, a normalisation, a recurrent layer and a masked average."""
    y = _kernel(5, 4)[tokens] + x
    mean = y.mean(-1, keepdims=True)
    y = (y - mean) * lax.rsqrt(jnp.square(y - mean).mean(-1, keepdims=True) + 1e-5)
    w, r, b = _kernel(4, 9), _kernel(3, 9), _kernel(9)

    def step(h: Any, x: Any) -> Any:
        (xr, xz, xn), (hr, hz, hn) = jnp.split(x @ w + b, 3, -1), jnp.split(h @ r + b, 3, -1)
        reset, update = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - update) * jnp.tanh(xn + reset * hn) + update * h
        return h, h

    _, rows = lax.scan(step, jnp.zeros((x.shape[1], 3)), y, reverse=True)
    scores = jnp.where(jnp.tri(x.shape[0], dtype=bool), rows[:, 0] @ rows[:, 0].T, -jnp.inf)
    return jax.nn.gelu(jax.nn.softmax(scores) @ rows[:, 0]), jnp.cumsum(rows, 0)


def data(x: Any, n: Any) -> Any:
    """Sorts, selects, writes, counts and computes with integers."""
    values, places = lax.top_k(x, 2)
    written = x.at[:, places[0]].set(values[0] * 2, mode="drop")
    total = lax.fori_loop(0, 3, lambda i, s: s + x[0, i], 0.0)
    return (
        jnp.sort(x, -1),
        written,
        (n * 7 % 5, n.sum(), n.max(), jnp.argmin(x, -1), x.any()),
        (jnp.round(x), jnp.sinh(x), jax.nn.softplus(x), jnp.pad(x, 1, mode="edge"), total),
    )


_HALF = {"compute": "float16:all"}

OF_TARGETS: Programs = {}
for _target in TARGETS:
    _name = _target.replace("onnxruntime", "ort").translate({ord(c): "_" for c in "->=."})
    _options: dict[str, Any] = {"target": _target}
    OF_TARGETS |= {
        f"conv_general_dilated.of_{_name}": (vision, _options, f32(1, 6, 6, 2)),
        f"scan.of_{_name}": (sequence, _options, f32(4, 2, 4), np.asarray([[0, 3]] * 4, np.int32)),
        f"sort.of_{_name}": (data, _options, f32(3, 4), i32(3)),
    }
OF_TARGETS |= {
    "conv_general_dilated.half_on_cuda": (vision, {"target": "cuda", **_HALF}, f32(1, 6, 6, 2)),
    "scan.half_on_cuda": (sequence, {"target": "cuda", **_HALF}, f32(4, 2, 4), i32(4, 2)),
    "conv_general_dilated.half": (vision, _HALF, f32(1, 6, 6, 2)),
    "scan.of_any_size": (
        lambda x: sequence(x, jnp.zeros(x.shape[:2], jnp.int32)),
        {},
        symbolic("t, b, 4"),
    ),
}
