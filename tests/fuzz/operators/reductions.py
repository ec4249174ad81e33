"""Reductions and cumulative operations."""

import numpy as np

from fuzz import arrays
from fuzz.draw import Draw, Reject
from fuzz.operators.ordering import has_nan
from fuzz.program import Kind


def axes_of(draw: Draw, rank: int) -> tuple[int, ...]:
    return tuple(i for i in range(rank) if draw.chance(0.6))


def reduce(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0)
    axes = axes_of(draw, x.rank)
    if x.dtype.kind == "b":
        name = draw.choose(["any", "all"])
        kind = Kind.MOVES
    else:
        names = ["sum", "prod", "mean"] + ["max", "min"] * (x.dtype.kind != "c")
        name = draw.choose(names)
        kind = Kind.MOVES if name in ("max", "min") else Kind.MIXES
    if name in ("max", "min") and 0 in [x.shape[i] for i in axes]:
        raise Reject("nothing to reduce")
    more = f", keepdims={draw.chance(0.3)}"
    draw.add(name, f"jnp.{name}({x.name}, axis={axes}{more})", [x], kind)


def reduce_primitive(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0 and v.dtype.kind in "biu")
    name = draw.choose(["and", "or", "xor"])
    text = f"lax.reduce_{name}({x.name}, {axes_of(draw, x.rank)})"
    draw.add(f"reduce_{name}", text, [x], Kind.MOVES)


def reduce_by_function(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0 and v.dtype.kind in "iu")
    start = draw.fill((), x.dtype)
    text = draw.choose(["a + b", "a * b", "jnp.maximum(a, b)", "a | b", "a ^ b", "a & b"])
    text = f"lax.reduce({x.name}, {start.name}, lambda a, b: {text}, {axes_of(draw, x.rank)})"
    # Only initial values that do not change the result are allowed.
    text = text.replace(start.name, _neutral(text, x.dtype), 1)
    draw.add("reduce", text, [x], Kind.MOVES)


def _neutral(text: str, dtype: np.dtype) -> str:
    limits = np.iinfo(dtype)
    value = 0
    if "a * b" in text:
        value = 1
    elif "maximum" in text:
        value = limits.min
    elif "a & b" in text:
        value = -1 if limits.min else limits.max
    return f"np.array({value}, {dtype.name!r})"


def cumulative(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0 and v.dtype.kind != "b")
    name = draw.choose(["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
    if name in ("cummax", "cummin") and x.dtype.kind == "c":
        raise Reject("complex numbers have no order")
    if name == "cumlogsumexp" and not arrays.is_float(x.dtype):
        raise Reject("floats only")
    axis = draw.integer(0, x.rank - 1)
    text = f"lax.{name}({x.name}, {axis}, reverse={draw.chance(0.5)})"
    kind = Kind.MOVES if name in ("cummax", "cummin") else Kind.MIXES
    draw.add(name, text, [x], kind, slack=1e-6 if name == "cumlogsumexp" else 0)


def window(draw: Draw) -> None:
    x = draw.pick(lambda v: 0 < v.rank < 4 and v.size > 0 and v.dtype.kind not in "bc")
    name = draw.choose(["add", "max", "min"])
    # The treatment of NaN in windows is tested elsewhere.
    if name != "add" and has_nan(draw, x):
        raise Reject("not decided")
    if draw.size in x.shape:
        raise Reject("sizes must be known")
    sizes, strides, padding, base, dilation = [], [], [], [], []
    for n in x.shape:
        low, high = draw.choose([0, 0, 1, 2]), draw.choose([0, 0, 1])
        hole = draw.choose([1, 1, 1, 2])
        spread = n + (n - 1) * (hole - 1) + low + high
        size, step = draw.integer(1, min(spread, 3)), draw.choose([1, 1, 2])
        if (size - 1) * step + 1 > spread:
            step = 1
        sizes.append(size)
        strides.append(draw.choose([1, 1, 2, 3]))
        padding.append((low, high))
        base.append(hole)
        dilation.append(step)
    limits = np.iinfo(x.dtype) if arrays.is_integer(x.dtype) else None
    start = {
        "add": "0",
        "max": str(limits.min) if limits else "-np.inf",
        "min": str(limits.max) if limits else "np.inf",
    }[name]
    start = f"jnp.array({start}, jnp.{x.dtype.name})"
    text = (
        f"lax.reduce_window({x.name}, {start}, lax.{name}, {tuple(sizes)}, {tuple(strides)}, "
        f"{padding}, {tuple(base)}, {tuple(dilation)})"
    )
    draw.add(f"window_{name}", text, [x], Kind.MIXES if name == "add" else Kind.MOVES)


def statistics(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0 and arrays.is_float(v.dtype))
    axis = draw.integer(0, x.rank - 1)
    if x.shape[axis] == 0:
        raise Reject("no numbers")
    names = ["jnp.var", "jnp.std", "jax.nn.softmax", "jax.nn.log_softmax", "jax.nn.logsumexp"]
    name = draw.choose(names)
    draw.add(name.split(".")[-1], f"{name}({x.name}, axis={axis})", [x], Kind.MIXES, slack=1e-6)


def layer_norm(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0 and arrays.is_float(v.dtype) and v.shape[-1] > 1)
    text = f"jax.nn.standardize({x.name}, axis=-1)"
    draw.add("standardize", text, [x], Kind.MIXES, slack=1e-5)


TABLE = [
    (5, reduce),
    (2, reduce_primitive),
    (1, reduce_by_function),
    (4, cumulative),
    (4, window),
    (2, statistics),
    (1, layer_norm),
]
