"""Gathers and scatters with computed indices, in range or not."""

import numpy as np

from fuzz.draw import Draw, Reject
from fuzz.program import Kind, Value

MODES = ["clip", "fill", "promise_in_bounds", "wrap"]


def any_array(draw: Draw) -> Value:
    return draw.pick(lambda v: v.rank > 0 and v.size > 0)


def dynamic_slice(draw: Draw) -> None:
    x = any_array(draw)
    sizes = [n if n == draw.size else draw.integer(0, n) for n in x.shape]
    starts = [draw.indices((), n) for n in x.shape]
    same = {v.dtype for v in starts}
    if len(same) > 1:
        starts = [draw.array(np.asarray(draw.integer(-2, 4), "int32")) for _ in x.shape]
    names = ", ".join(v.name for v in starts)
    text = f"lax.dynamic_slice({x.name}, [{names}], {draw.dims(sizes)})"
    draw.add("dynamic_slice", text, [x, *starts], Kind.MOVES)


def dynamic_update_slice(draw: Draw) -> None:
    x = any_array(draw)
    shape = tuple(n if n == draw.size else draw.integer(0, n) for n in x.shape)
    update = draw.fill(shape, x.dtype)
    starts = [draw.array(np.asarray(draw.integer(-2, 4), "int32")) for _ in x.shape]
    names = ", ".join(v.name for v in starts)
    text = f"lax.dynamic_update_slice({x.name}, {update.name}, [{names}])"
    draw.add("dynamic_update_slice", text, [x, update, *starts], Kind.MOVES)


def take(draw: Draw) -> None:
    x = any_array(draw)
    axis = draw.integer(0, x.rank - 1)
    i = draw.indices(draw.sizes(0, 2), x.shape[axis])
    mode = draw.choose(["clip", "fill", "wrap", None])
    if mode is None:
        text = f"{x.name}[{':, ' * axis}{i.name}]"
    else:
        text = f"jnp.take({x.name}, {i.name}, axis={axis}, mode={mode!r})"
    draw.add("take", text, [x, i], Kind.MOVES)


def take_along_axis(draw: Draw) -> None:
    x = any_array(draw)
    axis = draw.integer(0, x.rank - 1)
    shape = list(x.shape)
    if shape[axis] != draw.size:
        shape[axis] = draw.choose(draw.static)
    i = draw.indices(tuple(shape), x.shape[axis])
    mode = draw.choose(["clip", "fill", None])
    text = f"jnp.take_along_axis({x.name}, {i.name}, {axis}, mode={mode!r})"
    draw.add("take_along_axis", text, [x, i], Kind.MOVES)


def gather(draw: Draw) -> None:
    """Adds a gather with arbitrary dimension numbers."""
    x = any_array(draw)
    if draw.size in x.shape:
        raise Reject("sizes must be known")
    dims = list(range(x.rank))
    batch = draw.chance(0.3)
    mapped = [d for d in dims if draw.chance(0.6)]
    draw.rng.shuffle(mapped)
    rest = [d for d in dims if d not in mapped]
    batching = [rest[0]] if batch and rest else []
    shape = tuple(x.shape[d] for d in batching) + tuple(
        n for n in draw.sizes(0, 2) if n != draw.size
    )
    indices = draw.indices((*shape, len(mapped)), max(x.shape))
    sizes = [draw.integer(0 if d in mapped else 1, n) for d, n in enumerate(x.shape)]
    sizes = [1 if d in batching else n for d, n in enumerate(sizes)]
    collapsed = [d for d in dims if d not in batching and sizes[d] == 1 and draw.chance(0.5)]
    offsets = len(dims) - len(collapsed) - len(batching)
    places = sorted(int(i) for i in draw.rng.permutation(len(shape) + offsets)[:offsets])
    numbers = (
        f"lax.GatherDimensionNumbers({tuple(places)}, {tuple(collapsed)}, "
        f"{tuple(int(d) for d in mapped)}, {tuple(batching)}, {(0,) if batching else ()})"
    )
    mode = draw.choose(["clip", "fill"])
    text = f"lax.gather({x.name}, {indices.name}, {numbers}, {tuple(sizes)}, mode={mode!r})"
    draw.add("gather", text, [x, indices], Kind.MOVES)


def scatter(draw: Draw) -> None:
    """Adds `x.at[i].add(y)` or one of its siblings."""
    x = any_array(draw)
    axis = draw.integer(0, x.rank - 1)
    name = draw.choose(["set", "add", "multiply", "min", "max"])
    if x.dtype.kind == "b" and name != "set":
        raise Reject("booleans are only set")
    if x.dtype.kind == "c" and name in ("min", "max"):
        raise Reject("complex numbers have no order")
    # The winner among several updates of one element is undefined.
    several = name != "set" and draw.chance(0.7)
    count = draw.choose(draw.static)
    i = draw.indices((count,), x.shape[axis]) if several else draw.distinct(count, x.shape[axis])
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    update = draw.fill(shape if draw.chance(0.7) else (), x.dtype)
    mode = draw.choose(["drop", "clip", "promise_in_bounds", None]) if several else "drop"
    mode = None if mode == "promise_in_bounds" else mode
    text = f"{x.name}.at[{':, ' * axis}{i.name}].{name}({update.name}, mode={mode!r})"
    kind = Kind.MOVES if name in ("set", "min", "max") else Kind.MIXES
    draw.add(f"scatter_{name}", text, [x, i, update], kind)


def scatter_at_points(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 1 and v.size > 0 and v.dtype.kind not in "bc")
    shape = tuple(n for n in draw.sizes(0, 2) if n != draw.size)
    i, j = draw.indices(shape, x.shape[0]), draw.indices(shape, x.shape[1])
    name = draw.choose(["add", "min", "max", "multiply"])
    update = draw.fill((*shape, *x.shape[2:]), x.dtype)
    mode = draw.choose(["drop", "clip", None])
    text = f"{x.name}.at[{i.name}, {j.name}].{name}({update.name}, mode={mode!r})"
    kind = Kind.MOVES if name in ("min", "max") else Kind.MIXES
    draw.add(f"scatter_{name}", text, [x, i, j, update], kind)


def one_hot(draw: Draw) -> None:
    i = draw.indices(draw.sizes(0, 2), 4)
    text = f"jax.nn.one_hot({i.name}, {draw.integer(1, 5)})"
    draw.add("one_hot", text, [i], Kind.MOVES)


def where_at(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0 and v.dtype.kind != "c")
    keep = draw.fill(x.shape, np.dtype(bool))
    draw.add("where", f"jnp.where({keep.name}, {x.name}, 0)", [x, keep], Kind.MOVES)


TABLE = [
    (3, dynamic_slice),
    (3, dynamic_update_slice),
    (3, take),
    (2, take_along_axis),
    (4, gather),
    (4, scatter),
    (2, scatter_at_points),
    (1, one_hot),
    (1, where_at),
]
