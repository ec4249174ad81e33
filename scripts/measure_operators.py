"""Measures the speed and accuracy of ONNX's own operators in onnxruntime, against elementary forms.

Each operator is exported from JAX twice, as one node and decomposed, and both models run in turn.
The table that `operators="auto"` follows is
`crates/optimize/src/targets/onnxruntime/measured.rs`:

    python scripts/measure_operators.py            prints the figures and writes the table,
                                                   and that of errors in
                                                   docs/operator-measurements.md
    python scripts/measure_operators.py Relu Gelu  measures these only and leaves both alone
    python scripts/measure_operators.py --errors   measures errors and writes both tables with the
                                                   gains that are known
    python scripts/measure_operators.py --cuda     measures the CUDA provider and prints the
                                                   figures. Where they change the choice,
                                                   targets/cuda/measured.rs has a row

Run it on a quiet machine. A gain is the time of the elementary form divided by that of the native
form. Each time is the best of many runs, on one thread and on all threads; on a GPU, both columns
have the time with inputs and results on the device. An error is the largest
difference from JAX in float64. The error of the native form is divided by that of the elementary
form, and the median over several samples counts. On hostile numbers, the largest ratio counts, and
an elementary form that is more exact than a few roundings gains nothing by that. A form agrees with
JAX if NaN and infinities occur in the same elements.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnxruntime as ort
import tables

import jax2onnx
from jax2onnx._export import options as checked_options

TARGETS = Path(__file__).parent.parent / "crates/optimize/src/targets"
TABLE = TARGETS / "onnxruntime/measured.rs"


class Device:
    """The device that models run on."""

    target: str | None = None
    """The target of `--cuda`; `None` for models without a target."""


# The largest acceptable ratio of errors.
MOST_ERROR = 1.2
# The largest acceptable ratio on hostile numbers, where a single number decides.
MOST_HOSTILE_ERROR = 4.0
# On hostile numbers, this many roundings of the largest result, or of one, do not count as an
# error.
ROUNDINGS = 4
DTYPES = {
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
}
SHAPE = (64, 1024)
ROUNDS = 15
SAMPLES = 5
SPECIALS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 90.0, -90.0, 1e-7, -1e-7)


def _mean_square(x: Any) -> Any:
    return jnp.mean(jnp.square(x), -1, keepdims=True)


def _layer_norm(x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = _mean_square(x - mean)
    return (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * _like(x, 1.5)) + _like(x, 0.25)


def _like(x: Any, value: float) -> Any:
    """Returns a parameter with numbers around `value`. Equal numbers would become a scalar."""
    return (value * np.linspace(0.8, 1.2, x.shape[-1])).astype(x.dtype)


def _images(x: Any) -> Any:
    if x.ndim == 4:
        return x
    side = math.isqrt(x.size // 256)
    return x.reshape(4, side, side, 64)


def _instance_norm(x: Any) -> Any:
    images = _images(x)
    mean = images.mean((1, 2), keepdims=True)
    variance = jnp.square(images - mean).mean((1, 2), keepdims=True)
    scale = jax.lax.rsqrt(variance + 1e-5) * _like(images, 1.5)
    return (images - mean) * scale + _like(images, 0.25)


def _attention(x: Any) -> Any:
    # Values are finite, so that NaN among masked keys cannot reach the result.
    values = np.linspace(-1, 1, x.size).reshape(1, 128, 8, 64).astype(x.dtype)
    heads = x.reshape(1, 128, 8, 64)
    scores = jnp.einsum("bthd,bshd->bhts", heads, heads) * 0.125
    masked = jnp.where(jnp.tri(128, dtype=bool), scores, jnp.finfo(x.dtype).min)
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(masked), values)


def _single_query(x: Any) -> Any:
    """Computes attention over a cache, of which a part is filled."""
    heads = np.linspace(0.8, 1.2, 16)[:, None].astype(x.dtype)
    keys = x.reshape(1, 1024, 1, 64) * heads
    values = x.reshape(1, 1024, 1, 64) * heads[::-1]
    scores = jnp.einsum("bthd,bshd->bhts", keys[:, :1], keys) * 0.125
    masked = jnp.where(np.arange(1024) < 900, scores, jnp.finfo(x.dtype).min)
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(masked), values)


def _shared_heads(x: Any) -> Any:
    queries = x.reshape(1, 128, 2, 4, 64)
    keys = queries[:, :, :, 0]
    scores = jnp.einsum("btgnd,bsgd->bgnts", queries, keys) * 0.125
    masked = jnp.where(jnp.tri(128, dtype=bool), scores, jnp.finfo(x.dtype).min)
    values = np.linspace(-1, 1, keys.size).reshape(keys.shape).astype(x.dtype)
    return jnp.einsum("bgnts,bsgd->btgnd", jax.nn.softmax(masked), values)


def _rotary(x: Any) -> Any:
    heads = x.reshape(2, 32, 16, 64)
    angles = np.arange(32)[:, None] / 10000 ** (np.arange(32) / 32)
    cos, sin = (f(angles)[:, None].astype(x.dtype) for f in (np.cos, np.sin))
    first, second = jnp.split(heads, 2, -1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def _resize(method: str, rows: int, columns: int) -> Callable[[Any], Any]:
    return lambda x: jax.image.resize(x.reshape(2, 64, 32, 16), (2, rows, columns, 16), method)


def _group_norm(x: Any) -> Any:
    images = _images(x)
    groups = images.reshape(*images.shape[:3], 8, 8)
    mean = groups.mean((1, 2, 4), keepdims=True)
    variance = jnp.square(groups - mean).mean((1, 2, 4), keepdims=True)
    normal = ((groups - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(images.shape)
    return normal * _like(normal, 1.5) + _like(normal, 0.25)


def _split_group_norm(x: Any) -> Any:
    """Normalises groups as Keras does: parameters per group, and the mean subtracted last."""
    images = _images(x)
    groups = images.reshape(*images.shape[:3], 8, 8)
    mean = groups.mean((1, 2, 4), keepdims=True)
    variance = jnp.square(groups - mean).mean((1, 2, 4), keepdims=True)
    scale, bias = (_like(images, value).reshape(8, 8) for value in (1.5, 0.25))
    factor = jax.lax.rsqrt(variance + 1e-5) * scale
    return groups * factor + (-mean * factor + bias)


def _weights(rows: int, columns: int, dtype: Any) -> Any:
    values = np.random.default_rng(rows + columns).standard_normal((rows, columns))
    return (values / np.sqrt(rows)).astype(dtype)


def _lstm(state: Any, x: Any, h: Any) -> Any:
    i, f, g, o = jnp.split(x + h, 4, -1)
    cell = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(cell), cell


def _gru(state: Any, x: Any, h: Any) -> Any:
    (xr, xz, xn), (hr, hz, hn) = jnp.split(x, 3, -1), jnp.split(h, 3, -1)
    z = jax.nn.sigmoid(xz + hz)
    return ((1 - z) * jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn) + z * state[0],)


def _recurrent(cell: Callable[..., Any], gates: int, count: int) -> Any:
    """Returns two forms of a layer: the usual one, and one without a bias, which preserves NaN."""

    def layer(x: Any, is_biased: bool) -> Any:
        xs = jnp.swapaxes(x[1::4].reshape(16, 8, 128), 0, 1)
        w, r, b = (_weights(rows, gates * 128, x.dtype) for rows in (128, 128, 1))
        if not is_biased:
            xs = jnp.pad(xs, ((0, 0), (0, 0), (0, 1)), constant_values=1)
            w, b = np.concatenate([w, b]), np.zeros(1, x.dtype)

        def step(state: Any, x: Any) -> Any:
            state = cell(state, x @ w + b[0] if is_biased else x @ w, state[0] @ r)
            return state, state[0]

        zeros = jnp.zeros((16, 128), x.dtype)
        return jax.lax.scan(step, (zeros,) * count, xs)[1]

    return lambda x: layer(x, True), lambda x: layer(x, False)


def _masked_softmax(x: Any) -> Any:
    # Scores are computed, because only then can a mask work in place.
    heads = x.reshape(1, 128, 64, 8)
    scores = jnp.einsum("bthd,bshd->bhts", heads, heads) * 0.25
    hidden = jnp.finfo(x.dtype).min
    return jax.nn.softmax(jnp.where(jnp.tri(128, dtype=bool), scores, hidden))


def _moved(split: tuple[int, ...], perm: tuple[int, ...], to: tuple[int, ...]) -> Any:
    return lambda x: x.reshape(split).transpose(perm).reshape(to)


# The operator, the attribute that distinguishes its forms, and a function that JAX decomposes; or
# two functions, if the native form is written differently.
CASES: dict[tuple[str, str], Any] = {
    ("Attention", ""): _attention,
    ("Celu", ""): lambda x: jax.nn.celu(x, 2.0),
    ("Clip", ""): lambda x: jnp.clip(x, -1, 2),
    ("DepthToSpace", ""): _moved((4, 2, 2, 16, 16, 16), (0, 3, 4, 1, 5, 2), (4, 16, 32, 32)),
    ("DepthToSpace", "CRD"): _moved((4, 16, 2, 2, 16, 16), (0, 1, 4, 2, 5, 3), (4, 16, 32, 32)),
    ("Elu", ""): jax.nn.elu,
    ("Gelu", ""): lambda x: jax.nn.gelu(x, approximate=False),
    ("Gelu", "tanh"): jax.nn.gelu,
    ("GroupNormalization", "groups"): _split_group_norm,
    ("GRU", ""): _recurrent(_gru, 3, 1),
    ("HardSigmoid", ""): jax.nn.hard_sigmoid,
    ("HardSwish", ""): jax.nn.hard_swish,
    ("InstanceNormalization", ""): _instance_norm,
    ("InstanceNormalization", "groups"): _group_norm,
    ("LSTM", ""): _recurrent(_lstm, 4, 2),
    ("LayerNormalization", ""): _layer_norm,
    ("LeakyRelu", ""): jax.nn.leaky_relu,
    ("LogSoftmax", ""): jax.nn.log_softmax,
    ("Mish", ""): jax.nn.mish,
    ("PRelu", ""): lambda x: jnp.where(x >= 0, x, x * _slope(x)),
    ("RNN", ""): _recurrent(lambda _, x, h: (jnp.tanh(x + h),), 1, 1),
    ("RMSNormalization", ""): lambda x: x * jax.lax.rsqrt(_mean_square(x) + 1e-6) * _like(x, 1.5),
    ("ReduceL2", ""): lambda x: jnp.sqrt(jnp.sum(x * x, -1)),
    ("ReduceLogSumExp", ""): lambda x: jax.nn.logsumexp(x, -1),
    ("ReduceMean", ""): lambda x: jnp.mean(x, -1),
    ("ReduceSumSquare", ""): lambda x: jnp.sum(x * x, -1),
    ("Relu", ""): jax.nn.relu,
    ("Resize", "linear"): _resize("linear", 112, 60),
    ("Resize", "linear, antialias"): _resize("linear", 42, 20),
    ("Resize", "cubic"): _resize("cubic", 112, 60),
    ("Resize", "cubic, antialias"): _resize("cubic", 42, 20),
    ("RotaryEmbedding", ""): _rotary,
    ("Selu", ""): jax.nn.selu,
    ("Softmax", ""): jax.nn.softmax,
    ("Softplus", ""): jax.nn.softplus,
    ("Softsign", ""): jax.nn.soft_sign,
    ("SpaceToDepth", ""): _moved((4, 64, 8, 2, 8, 2), (0, 3, 5, 1, 2, 4), (4, 256, 8, 8)),
    ("Trilu", ""): lambda x: jnp.tril(x.reshape(4, 128, 128)),
    ("Trilu", "softmax"): _masked_softmax,
}

# Cases whose speed on a GPU depends on the number of blocks that its kernel is divided into.
CUDA_CASES: dict[tuple[str, str], Any] = {
    ("Attention", "one query"): _single_query,
    ("Attention", "shared heads"): _shared_heads,
}

# The forms of other operators that an operator contains.
PARTS = {"Attention": {"Softmax": "native"}, "Trilu": {"Softmax": "native"}}

# Shapes of operands that must be images from the start.
SHAPES = {
    "DepthToSpace": (4, 64, 16, 16),
    "GroupNormalization": (4, 16, 16, 64),
    "SpaceToDepth": (4, 64, 16, 16),
}


# Reductions, which are also measured on long rows.
LONG_SHAPE = (1, 1 << 20)
LONG_SHAPES = {"GroupNormalization": (4, 64, 64, 64)}
REDUCTIONS = {
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "LogSoftmax",
    "RMSNormalization",
    "ReduceL2",
    "ReduceLogSumExp",
    "ReduceMean",
    "ReduceSumSquare",
    "Softmax",
}


def _slope(x: Any) -> Any:
    return np.linspace(0.1, 0.4, x.shape[-1]).astype(x.dtype)


@dataclass(frozen=True)
class Row:
    """The measurements of an operator for one element type."""

    operator: str
    variant: str
    dtype: str
    one: float
    all: float
    error: float
    hostile: float
    agrees: bool

    def rust(self) -> str:
        """Formats the row for the table."""
        figures = f"{self.one:.2f}, {self.all:.2f}, [{self.error:.2f}, {self.hostile:.2f}]"
        agrees = str(self.agrees).lower()
        return f'    row("{self.operator}", "{self.variant}", {self.dtype}, {figures}, {agrees}),'


def export(
    fn: Callable[[Any], Any], shape: tuple[int, ...], dtype: np.dtype[Any], operators: Any
) -> Any:
    """Exports the function. Types that NumPy lacks are cast at the boundary."""
    double = dtype == np.float64
    if dtype == ml_dtypes.bfloat16:
        small = fn
        fn = lambda x: small(x.astype(jnp.bfloat16)).astype(jnp.float32)  # noqa: E731
    spec = jax.ShapeDtypeStruct(shape, jnp.float16 if dtype == np.float16 else jnp.float32)
    inputs = [shape if double else spec]
    return jax2onnx.to_onnx(
        fn, inputs, operators=operators, enable_double_precision=double, target=Device.target
    )


def runtime_of(model: Any, threads: int) -> ort.InferenceSession:
    """Loads a model."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    provider = "CUDAExecutionProvider" if Device.target else "CPUExecutionProvider"
    runtime = ort.InferenceSession(model.SerializeToString(), options, [provider])
    if runtime.get_providers()[0] != provider:
        raise RuntimeError(f"onnxruntime cannot load {provider}")
    return runtime


def run_on_device(model: Any, x: np.ndarray) -> Callable[[], None]:
    """Returns a function that runs the model once, with its input and result on the GPU."""
    runtime = runtime_of(model, 1)
    binding = runtime.io_binding()
    value = ort.OrtValue.ortvalue_from_numpy(x, "cuda", 0)
    binding.bind_ortvalue_input(runtime.get_inputs()[0].name, value)
    binding.bind_output(runtime.get_outputs()[0].name, "cuda")

    def run() -> None:
        runtime.run_with_iobinding(binding)
        binding.synchronize_outputs()

    return run


def session(model: Any, threads: int) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function that runs the model."""
    runtime = runtime_of(model, threads)
    name = runtime.get_inputs()[0].name
    return lambda x: runtime.run(None, {name: x})[0]


def boundary(x: np.ndarray) -> np.ndarray:
    """Converts an array to the model's input type."""
    return x.astype(np.float32) if x.dtype == ml_dtypes.bfloat16 else x


def gain(elementary: Any, native: Any, threads: int, x: np.ndarray) -> float:
    """Returns the speed-up of the native form."""
    best = [np.inf, np.inf]
    if Device.target:
        runs = [run_on_device(model, x) for model in (elementary, native)]
        for _ in range(ROUNDS * 10):
            for i, run_once in enumerate(runs):
                begin = time.perf_counter()
                for _ in range(3):
                    run_once()
                best[i] = min(best[i], time.perf_counter() - begin)
        return best[0] / best[1]
    for _ in range(ROUNDS):
        for i, model in enumerate((elementary, native)):
            # One session at a time, because idle threads of another session would keep cores busy.
            run = session(model, threads)
            run(x)
            begin = time.perf_counter()
            for _ in range(3):
                run(x)
            best[i] = min(best[i], time.perf_counter() - begin)
    return best[0] / best[1]


def reference(fn: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """Computes the function with JAX in float64."""
    with jax.enable_x64(True):
        return np.asarray(jax.jit(fn)(jnp.asarray(x.astype(np.float64))))


def same_kind(y: np.ndarray, expected: np.ndarray) -> bool:
    """Returns `True` if NaN and infinities occur in the same elements."""
    y, expected = y.astype(np.float64), expected.astype(np.float64)
    same_nan = np.array_equal(np.isnan(y), np.isnan(expected))
    infinite = [np.where(np.isinf(v), np.sign(v), 0) for v in (y, expected)]
    return bool(same_nan and np.array_equal(*infinite))


def specials(dtype: np.dtype[Any]) -> np.ndarray:
    """Returns rows with one or two special values, and rows that consist of them."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(SHAPE)
    for i, value in enumerate(SPECIALS):
        x[i, 3], x[i + 10, ::7], x[i + 20, :] = value, value, value
    x[40, 0], x[40, 1] = np.inf, -np.inf
    x[41, 0], x[41, 1] = np.nan, np.inf
    return x.astype(dtype)


def relative_error(fn: Callable[[Any], Any], forms: Any, x: np.ndarray) -> float:
    """Returns the error of the second form divided by that of the first."""
    exact = reference(fn, x)
    # Smaller errors are down to luck.
    rounding = float(np.abs(exact).max()) * float(ml_dtypes.finfo(x.dtype).eps) / 8
    results = [run(boundary(x)).astype(np.float64) for run in forms]
    elementary, native = (max(float(np.abs(y - exact).max()), rounding) for y in results)
    return native / elementary


def hostile_samples(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[list[np.ndarray]]:
    """Yields numbers that cancel, vanish or differ widely in magnitude. Each list counts as one
    sample, because the sum of a single constant may happen to be exact.
    """
    rng = np.random.default_rng(7)
    normal = rng.standard_normal(shape)
    digits = -math.log2(float(ml_dtypes.finfo(dtype).eps))
    # The spread is still a few units in the last place of the mean.
    large = {7: 30.0, 10: 300.0}.get(round(digits), 1e4)
    top, tiny = (300.0, 1e-3) if dtype == np.float16 else (1e6, 1e-6)
    samples = [
        [normal + 3],
        [normal + large],
        [normal - large],
        [normal * tiny],
        [normal * top],
        [1 + normal * 2.0 ** (4 - digits)],
        [normal * 10 ** rng.uniform(-2, 2, shape)],
        [np.linspace(0, 100, normal.size).reshape(shape)],
        [np.full(shape, number) for number in (0.1, 3.3, 33.3, 255.3, 333.3, 1234.7, 9984.7)],
    ]
    for alike in samples:
        yield [x.astype(dtype) for x in alike]


def hostile_ratio(fn: Callable[[Any], Any], forms: Any, xs: list[np.ndarray]) -> float:
    """Returns the error of the second form divided by that of the first, or by a few roundings."""
    worst = [0.0, 0.0]
    for x in xs:
        exact = reference(fn, x)
        size = max(1.0, float(np.abs(exact).max()))
        least = ROUNDINGS * size * float(ml_dtypes.finfo(x.dtype).eps)
        for i, run in enumerate(forms):
            y = np.nan_to_num(run(boundary(x)).astype(np.float64), nan=np.inf)
            error = max(float(np.abs(y - exact).max()), least)
            # For results of different magnitudes, the relative error counts.
            worst[i] = max(worst[i], error / size)
    elementary, native = worst
    # Both may overflow.
    return 1.0 if elementary == np.inf else native / elementary


def hostile_error(operator: str, fns: Any, forms: Any, dtype: np.dtype[Any]) -> float:
    """Returns the largest ratio of errors on hostile numbers, including long rows."""
    fn, _ = spellings(fns)
    ratios = [hostile_ratio(fn, forms, xs) for xs in hostile_samples(shape_of(operator), dtype)]
    if operator in REDUCTIONS:
        shape = LONG_SHAPES.get(operator, LONG_SHAPE)
        models = forms_of(operator, fns, shape, dtype, rest_of(operator))
        forms = [session(model, 1) for model in models]
        ratios += [hostile_ratio(fn, forms, xs) for xs in hostile_samples(shape, dtype)]
    return min(max(ratios), 1e9)


def spellings(fns: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Returns the function to measure, and its variant for the native form."""
    return fns if isinstance(fns, tuple) else (fns, fns)


def forms_of(
    operator: str, fns: Any, shape: tuple[int, ...], dtype: np.dtype[Any], rest: dict[str, str]
) -> tuple[Any, Any]:
    """Exports models without and with the operator."""
    fn, native_fn = spellings(fns)
    native = export(native_fn, shape, dtype, rest | {operator: "measured"})
    return export(fn, shape, dtype, rest), native


def both_forms(operator: str, fns: Any) -> Iterator[tuple[str, np.dtype[Any], tuple[Any, Any]]]:
    """Exports models without and with the operator, for each type that has a native form."""
    for name, dtype in DTYPES.items():
        # Nobody serves models in float64 on a GPU.
        if Device.target and name == "F64":
            continue
        models = forms_of(operator, fns, shape_of(operator), dtype, rest_of(operator))
        if operator in {node.op_type for node in models[1].graph.node}:
            yield name, dtype, models


def rest_of(operator: str) -> dict[str, str]:
    """Returns the forms of all other operators."""
    return {"*": "elementary", **PARTS.get(operator, {})}


def shape_of(operator: str) -> tuple[int, ...]:
    return SHAPES.get(operator, SHAPE)


def sample(index: int, operator: str, dtype: np.dtype[Any]) -> np.ndarray:
    numbers = np.random.default_rng(index).standard_normal(shape_of(operator))
    return numbers.astype(dtype)


def error_of(operator: str, fn: Callable[[Any], Any], forms: Any, dtype: np.dtype[Any]) -> float:
    """Returns the median relative error of several samples."""
    errors = [relative_error(fn, forms, sample(i, operator, dtype)) for i in range(SAMPLES)]
    return float(np.median(errors))


Gains = dict[tuple[str, str, str], tuple[float, float]]


def known_gains() -> Gains:
    """Returns the gains in the table, by operator, variant and type."""
    lines = re.findall(r'row\("(\w+)", "([^"]*)", (\w+), ([\d.]+), ([\d.]+),', TABLE.read_text())
    return {(op, variant, dtype): (float(a), float(b)) for op, variant, dtype, a, b in lines}


def measure(operator: str, variant: str, fns: Any, gains: Gains) -> Iterator[Row]:
    """Yields one row for each type that has a native form. Known gains are not measured again."""
    fn, _ = spellings(fns)
    for name, dtype, (elementary, native) in both_forms(operator, fns):
        forms = [session(model, 1) for model in (elementary, native)]
        x = boundary(sample(0, operator, dtype))
        odd = specials(dtype).reshape(shape_of(operator))
        with jax.enable_x64(dtype == np.float64):
            expected = np.asarray(jax.jit(fn)(jnp.asarray(odd)))
        known = gains.get((operator, variant, name))
        one, all_ = known or (gain(elementary, native, 1, x),) * 2
        if not known and not Device.target:
            all_ = gain(elementary, native, os.cpu_count() or 1, x)
        yield Row(
            operator,
            variant,
            name,
            one,
            all_,
            error_of(operator, fn, forms, dtype),
            hostile_error(operator, fns, forms, dtype),
            same_kind(forms[1](boundary(odd)), expected),
        )


HEAD = """\
//! The speed and accuracy of ONNX's own operators in onnxruntime {version}, relative to elementary
//! operators. Generated by `python scripts/measure_operators.py`.

use tensor::DType::{{BF16, F16, F32, F64}};

use crate::targets::measured::{{Row, row}};

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
"""


def write_errors(rows: Iterable[Row]) -> None:
    """Writes the error table in the documentation."""
    known = {(row.operator, row.variant, row.dtype): row for row in rows}
    lines = [f"onnxruntime {ort.__version__}:", ""]
    lines.append(f"| operator | {' | '.join(str(dtype) for dtype in DTYPES.values())} |")
    lines.append("|---" * (len(DTYPES) + 1) + "|")
    for operator, variant in sorted(CASES, key=lambda case: (case[0].lower(), case[1])):
        found = [known.get((operator, variant, name)) for name in DTYPES]
        title = f"`{operator}`, {variant}" if variant else f"`{operator}`"
        lines.append(f"| {title} | {' | '.join(map(cell, found))} |")
    tables.write("errors", __file__, "\n".join(lines) + "\n")


def cell(row: Row | None) -> str:
    """Formats the errors on normal and on hostile numbers."""
    if row is None:
        return "–"
    pairs = ((row.error, MOST_ERROR), (row.hostile, MOST_HOSTILE_ERROR))
    return ", ".join(ratio(error, most) for error, most in pairs)


def ratio(error: float, most: float) -> str:
    """Formats a ratio, in bold if it is too large."""
    text = f"{error:.2f}" if error < 100 else f"{error:.0e}" if error < 1e9 else "∞"
    return f"**{text}**" if error > most else text


def show(row: Row) -> None:
    """Prints a row."""
    title = f"{row.operator} {row.variant}"
    print(
        f"{title:24} {row.dtype:5} {row.one:9.2f} {row.all:6.2f} {row.error:7.2f}",
        f"{row.hostile:10.2f}  {row.agrees}",
        flush=True,
    )


def write(rows: list[Row]) -> None:
    """Writes the table."""
    body = "\n".join(row.rust() for row in sorted(rows, key=lambda row: row.operator))
    TABLE.write_text(f"{HEAD.format(version=ort.__version__)}{body}\n];\n")
    write_errors(rows)


def prepare(of_cuda: bool) -> None:
    """Prepares a process."""
    Device.target = "cuda" if of_cuda else None
    # Also measures inexact forms.
    checked_options.FORMS = (*checked_options.FORMS, "measured")


def measure_on_gpu(operator: str, variant: str) -> list[Row]:
    """Measures one operator, in a process of its own."""
    return list(measure(operator, variant, (CASES | CUDA_CASES)[operator, variant], {}))


def main() -> int:
    """Measures, prints, and writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", help="measure these only, and write nothing")
    parser.add_argument("--errors", action="store_true", help="keep the known gains")
    parser.add_argument("--cuda", action="store_true", help="measure the CUDA provider")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share a GPU")
    options = parser.parse_args()
    prepare(options.cuda)
    chosen = options.operators
    rows = []
    print(f"{'operator':24} type   1 thread   all   error    hostile  agrees")
    cases = CASES | CUDA_CASES if options.cuda else CASES
    cases = {case: fns for case, fns in cases.items() if not chosen or case[0] in chosen}
    if options.cuda:
        with ProcessPoolExecutor(options.jobs, initializer=prepare, initargs=(True,)) as pool:
            for found in pool.map(measure_on_gpu, *zip(*cases, strict=True)):
                rows += found
                for row in found:
                    show(row)
    else:
        gains = known_gains() if options.errors else {}
        for (operator, variant), fns in cases.items():
            for row in measure(operator, variant, fns, gains):
                show(row)
                rows.append(row)
    if not (chosen or options.cuda):
        write(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
