"""Sorting and searching."""

import numpy as np

from fuzz import arrays
from fuzz.draw import Draw, Reject
from fuzz.operators.elementwise import stepping
from fuzz.program import Kind


def sort(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0 and v.dtype.kind != "c" and stepping(draw, v))
    axis = draw.integer(0, x.rank - 1)
    if draw.chance(0.4):
        draw.add("sort", f"lax.sort({x.name}, dimension={axis})", [x], Kind.MOVES)
        return
    y = draw.fill(x.shape, arrays.dtype(draw.choose(draw.dtypes)))
    keys = draw.choose([1, 1, 2])
    if keys == 2 and (y.dtype.kind == "c" or not stepping(draw, y)):
        raise Reject("complex keys")
    text = f"lax.sort(({x.name}, {y.name}), dimension={axis}, num_keys={keys}, is_stable=True)"
    draw.add("sort", text, [x, y], Kind.MOVES, is_tuple=True)


def argsort(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0 and v.dtype.kind != "c" and stepping(draw, v))
    axis = draw.integer(0, x.rank - 1)
    text = f"jnp.argsort({x.name}, axis={axis}, descending={draw.chance(0.5)})"
    draw.add("argsort", text, [x], Kind.MOVES)


def top_k(draw: Draw) -> None:
    # The order of NaN among the largest elements is tested elsewhere.
    x = draw.pick(
        lambda v: (
            v.rank > 0 and v.dtype.kind not in "bc" and stepping(draw, v) and not has_nan(draw, v)
        )
    )
    n = x.shape[-1]
    k = draw.integer(0, min(n, 4))
    draw.add("top_k", f"lax.top_k({x.name}, {k})", [x], Kind.MOVES, is_tuple=True)


def has_nan(draw: Draw, v) -> bool:
    """Returns `True` if a value may contain NaN, as far as is known."""
    if not arrays.is_float(v.dtype):
        return False
    return v.name not in draw.known or bool(np.isnan(draw.known[v.name].astype(float)).any())


def arg_extremum(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0 and v.dtype.kind not in "bc" and stepping(draw, v))
    axis = draw.integer(0, x.rank - 1)
    if x.shape[axis] == 0:
        raise Reject("nothing to find")
    name = draw.choose(["argmax", "argmin"])
    index = draw.choose(["int32", "int8", "uint32"])
    text = f"lax.{name}({x.name}, {axis}, jnp.{index})"
    draw.add(name, text, [x], Kind.MOVES)


def search(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank == 1 and v.dtype.kind not in "bc" and stepping(draw, v))
    if has_nan(draw, x):
        raise Reject("not sorted")
    y = draw.fill(draw.sizes(0, 2), x.dtype)
    if not stepping(draw, y):
        raise Reject("jumps")
    side = draw.choose(["left", "right"])
    text = f"jnp.searchsorted(jnp.sort({x.name}), {y.name}, side={side!r})"
    draw.add("searchsorted", text, [x, y], Kind.MOVES)


TABLE = [(3, sort), (1, argsort), (2, top_k), (2, arg_extremum), (0.5, search)]
