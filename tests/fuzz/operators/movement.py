"""Data movement."""

import math
from collections.abc import Sequence

import numpy as np

from fuzz import arrays
from fuzz.draw import Draw, Reject
from fuzz.program import Kind, Value, multiple


def move(draw: Draw, op: str, text: str, *operands: Value, is_tuple: bool = False) -> None:
    draw.add(op, text, operands, Kind.MOVES, is_tuple=is_tuple)


def reshape(draw: Draw) -> None:
    x = draw.pick()
    left, shape = x.size, []
    if left == 0:
        shape = [int(n) for n in draw.rng.permutation(x.shape)]
    while left > 1 and len(shape) < 5:
        factors = [n for n in (2, 3, 4, 5, 6, draw.size, left) if n and left % n == 0]
        factor = draw.choose(factors)
        shape.append(factor)
        left //= factor
        if draw.chance(0.2):
            shape.append(1)
    if left > 1:
        shape.append(left)
    if not all(count(x.shape, draw.size, b) == count(shape, draw.size, b) for b in (11, 13)):
        # JAX does not check this.
        raise Reject("it holds for one size only")
    move(draw, "reshape", f"lax.reshape({x.name}, {draw.dims(shape)})", x)


def count(shape: Sequence[int], size: int, other: int) -> int:
    """Returns the number of elements for another value of the symbolic size."""
    parts = (multiple(n, size) for n in shape)
    return math.prod(factor * other + offset for factor, offset in parts)


def transpose(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 1)
    order = tuple(int(i) for i in draw.rng.permutation(x.rank))
    move(draw, "transpose", f"lax.transpose({x.name}, {order})", x)


def broadcast_in_dim(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank < 4)
    shape = list(x.shape)
    places = list(range(x.rank))
    for _ in range(draw.integer(0, 2)):
        at = draw.integer(0, len(shape))
        shape.insert(at, draw.choose(draw.static))
        places = [p + (p >= at) for p in places]
    for p in places:
        if shape[p] == 1 and draw.chance(0.5):
            shape[p] = draw.choose(draw.static)
    text = f"lax.broadcast_in_dim({x.name}, {draw.dims(shape)}, {tuple(places)})"
    move(draw, "broadcast_in_dim", text, x)


def slice_(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0)
    starts, limits, strides = [], [], []
    for n in x.shape:
        whole = n == draw.size or draw.chance(0.4)
        start = 0 if whole else draw.integer(0, n)
        limit = n if whole else draw.integer(start, n)
        starts.append(start)
        limits.append(limit)
        strides.append(1 if n == draw.size else draw.choose([1, 1, 2, 3]))
    text = f"lax.slice({x.name}, {tuple(starts)}, {draw.dims(limits)}, {tuple(strides)})"
    move(draw, "slice", text, x)


def index(draw: Draw) -> None:
    """Adds indexing in Python's syntax: `x[1, ::-1, None, ..., -1]`."""
    x = draw.pick(lambda v: v.rank > 0 and v.size > 0)
    parts = []
    for n in x.shape[: draw.integer(1, x.rank)]:
        if n == draw.size:
            parts.append(":")
        else:
            step = draw.choose(["", "::-1", "::2", str(draw.integer(-n, n - 1)), f"{n // 2}:"])
            parts.append(step or ":")
        if draw.chance(0.15):
            parts.append("None")
    move(draw, "index", f"{x.name}[{', '.join(parts)}]", x)


def rev(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0)
    axes = tuple(i for i in range(x.rank) if draw.chance(0.6))
    move(draw, "rev", f"lax.rev({x.name}, {axes})", x)


def concatenate(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0)
    axis = draw.integer(0, x.rank - 1)
    others = [x]
    for _ in range(draw.integer(0, 2)):
        shape = list(x.shape)
        if shape[axis] != draw.size:
            shape[axis] = draw.choose(draw.static)
        others.append(draw.fill(tuple(shape), x.dtype))
    names = ", ".join(v.name for v in others)
    move(draw, "concatenate", f"lax.concatenate([{names}], {axis})", *others)


def stack(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank < 4)
    y = draw.fill(x.shape, x.dtype)
    move(draw, "stack", f"jnp.stack([{x.name}, {y.name}], {draw.integer(0, x.rank)})", x, y)


def pad(draw: Draw) -> None:
    x = draw.pick(lambda v: 0 < v.rank < 4)
    value = draw.fill((), x.dtype)
    config = []
    for n in x.shape:
        inner = draw.choose([0, 0, 0, 1, 2])
        low, high = draw.integer(-2, 2), draw.integer(-2, 2)
        if n == draw.size or n + max(n - 1, 0) * inner + low + high < 0:
            low, high, inner = draw.integer(0, 1), 0, 0
        config.append((low, high, inner))
    move(draw, "pad", f"lax.pad({x.name}, {value.name}, {config})", x, value)


def jnp_pad(draw: Draw) -> None:
    x = draw.pick(lambda v: 0 < v.rank < 4 and v.size > 0 and v.dtype.kind != "b")
    mode = draw.choose(["constant", "edge", "reflect", "wrap", "symmetric"])
    if draw.size in x.shape or (mode == "reflect" and 1 in x.shape):
        raise Reject("sizes must be known")
    widths = [(draw.integer(0, 2), draw.integer(0, 2)) for _ in x.shape]
    move(draw, f"pad_{mode}", f"jnp.pad({x.name}, {widths}, {mode!r})", x)


def squeeze(draw: Draw) -> None:
    x = draw.pick(lambda v: 1 in v.shape)
    axes = tuple(i for i, n in enumerate(x.shape) if n == 1 and draw.chance(0.7))
    move(draw, "squeeze", f"lax.squeeze({x.name}, {axes})", x)


def expand_dims(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank < 4)
    move(draw, "expand_dims", f"lax.expand_dims({x.name}, ({draw.integer(0, x.rank)},))", x)


def tile(draw: Draw) -> None:
    x = draw.pick(lambda v: 0 < v.rank < 4)
    times = tuple(draw.integer(1, 3) for _ in x.shape)
    text = draw.choose([f"jnp.tile({x.name}, {times})", f"jnp.repeat({x.name}, 2, 0)"])
    move(draw, "tile", text, x)


def roll(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0 and v.size > 0)
    by, axis = draw.integer(-3, 3), draw.integer(0, x.rank - 1)
    move(draw, "roll", f"jnp.roll({x.name}, {by}, {axis})", x)


def split(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0)
    axis = draw.integer(0, x.rank - 1)
    n = x.shape[axis]
    if n == draw.size and draw.size:
        raise Reject("sizes must be known")
    first = draw.integer(0, n)
    text = f"lax.split({x.name}, ({first}, {n - first}), {axis})"
    move(draw, "split", text, x, is_tuple=True)


def iota(draw: Draw) -> None:
    dtype = arrays.dtype(draw.choose([d for d in draw.dtypes if d != "bool"]))
    shape = draw.sizes(1, 3)
    axis = draw.integer(0, len(shape) - 1)
    text = f"lax.broadcasted_iota(jnp.{dtype.name}, {draw.dims(shape)}, {axis})"
    move(draw, "iota", text)


def triangle(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 1 and v.dtype.kind != "b")
    name = draw.choose(["tril", "triu"])
    move(draw, name, f"jnp.{name}({x.name}, {draw.integer(-1, 1)})", x)


def diagonal(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank == 2 and min(v.shape) > 0)
    if draw.size in x.shape:
        raise Reject("sizes must be known")
    move(draw, "diagonal", f"jnp.diagonal({x.name}, {draw.integer(-1, 1)})", x)


def bits(draw: Draw) -> None:
    """Adds random bits, which are an exact function of a key."""
    seed = draw.fill((), np.dtype("int32"))
    dtype = draw.choose(["uint8", "uint16", "uint32", *["uint64"] * draw.double])
    shape = tuple(n for n in draw.sizes(0, 2) if n != draw.size)
    text = (
        f"jax.random.bits(jax.random.fold_in(jax.random.key(3), {seed.name}), {shape}, {dtype!r})"
    )
    move(draw, "random_bits", text, seed)


TABLE = [
    (4, reshape),
    (4, transpose),
    (4, broadcast_in_dim),
    (4, slice_),
    (2, index),
    (2, rev),
    (3, concatenate),
    (1, stack),
    (4, pad),
    (1, jnp_pad),
    (2, squeeze),
    (2, expand_dims),
    (2, tile),
    (1, roll),
    (2, split),
    (2, iota),
    (1, triangle),
    (1, diagonal),
    (0.3, bits),
]
