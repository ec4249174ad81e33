"""Functions inside equations: loops, branches, transformations."""

from collections.abc import Callable, Sequence

from fuzz import arrays
from fuzz.draw import Draw, Reject
from fuzz.program import Function, Kind, Value


def function(
    draw: Draw,
    params: Sequence[Value],
    result: Callable[[Draw, list[Value]], list[Value]],
    *,
    smooth: bool = False,
    tuple_result: bool = True,
    ops: tuple[int, int] = (1, 4),
) -> Function:
    """Draws a function with a random body; `result` chooses its results, given its parameters."""
    from fuzz.generate import extend

    renamed = [Value(draw.fresh("v"), p.shape, p.dtype, p.is_exact) for p in params]
    inner = draw.nested(renamed, smooth=smooth)
    extend(inner, draw.integer(*ops))
    results = result(inner, renamed)
    names = ", ".join(v.name for v in results)
    text = f"({names},)" if tuple_result else names
    return Function(f"f{next(draw.counter)}", renamed, inner.body, text, results)


def as_type(draw: Draw, like: Value) -> Value:
    """Returns a result with the type of `like` that depends on computed values."""
    same = [
        v
        for v in draw.scope
        if v.shape == like.shape and v.dtype == like.dtype and v.name != like.name
    ]
    if same and draw.chance(0.7):
        return same[-1]
    x = draw.pick()
    if like.dtype.kind == "b":
        text = f"lax.bitwise_xor({like.name}, jnp.any({x.name} != {x.name}))"
        return draw.add("fit", text, [like, x], Kind.MOVES)[0]
    total = x.name if x.dtype.kind == "b" else f"jnp.where(jnp.isfinite({x.name}), {x.name}, 1)"
    if arrays.is_complex(x.dtype):
        total = f"jnp.real({x.name})"
    if arrays.is_inexact(like.dtype):
        double = like.dtype.name in ("float64", "complex128")
        total = f"jnp.tanh(jnp.sum({total}, dtype=jnp.float{64 if double else 32}) / 64)"
    elif arrays.is_inexact(x.dtype):
        total = f"{x.size}"
    else:
        total = f"jnp.sum({total})"
    text = f"{like.name} + lax.convert_element_type({total}, jnp.{like.dtype.name})"
    return draw.add("fit", text, [like, x], Kind.MIXES)[0]


def last(draw: Draw, _: list[Value]) -> list[Value]:
    """Returns the newest values."""
    made = [v for equation in draw.body for v in equation.outputs]
    if not made:
        raise Reject("an empty body")
    return made[-2:]


def operands(draw: Draw, low: int = 1, high: int = 2) -> list[Value]:
    return [draw.pick() for _ in range(draw.integer(low, high))]


def names(values: Sequence[Value]) -> str:
    return ", ".join(v.name for v in values)


def call(draw: Draw) -> None:
    x = operands(draw)
    f = function(draw, x, last)
    how = draw.choose(["jax.jit", "jax.checkpoint", "jax.jit"])
    text = f"{how}({f.name})({names(x)})"
    draw.add("call", text, x, Kind.MIXES, functions=[f], is_tuple=True)


def cond(draw: Draw) -> None:
    x = operands(draw)
    first = function(draw, x, last)
    second = function(draw, x, lambda inner, _: fit_all(inner, first.results))
    which = draw.pick(lambda v: v.shape == () and v.dtype.kind in "biu")
    if which.dtype.kind == "b":
        text = f"lax.cond({which.name}, {first.name}, {second.name}, {names(x)})"
        functions = [first, second]
    else:
        third = function(draw, x, lambda inner, _: fit_all(inner, first.results))
        functions = [first, second, third]
        branches = ", ".join(f.name for f in functions)
        text = f"lax.switch({which.name}, [{branches}], {names(x)})"
    draw.add("cond", text, [which, *x], Kind.MIXES, functions=functions, is_tuple=True)


def fit_all(draw: Draw, types: Sequence[Value]) -> list[Value]:
    """Returns values of the given types."""
    found = []
    for like in types:
        same = [v for v in draw.scope if v.shape == like.shape and v.dtype == like.dtype]
        if same:
            found.append(same[-1])
            continue
        name = "bool" if like.dtype.kind == "b" else f"jnp.{like.dtype.name}"
        start = f"jnp.zeros({draw.dims(like.shape)}, {name})"
        zero = draw.add("zeros", start, [], Kind.MOVES)[0]
        found.append(as_type(draw, zero))
    return found


def scan(draw: Draw) -> None:
    carry = draw.pick(lambda v: v.rank < 4)
    xs = draw.pick(lambda v: v.rank > 0)
    x = Value(draw.fresh("v"), xs.shape[1:], xs.dtype, xs.is_exact)

    def result(inner: Draw, params: list[Value]) -> list[Value]:
        made = [v for equation in inner.body for v in equation.outputs]
        return [as_type(inner, params[0]), made[-1] if made else params[1]]

    # A carried value re-enters the loop, so it is never exact.
    start = Value(carry.name, carry.shape, carry.dtype, not arrays.is_inexact(carry.dtype))
    f = function(draw, [start, x], result)
    more = draw.choose(["", ", reverse=True", ", unroll=2"])
    text = f"lax.scan({f.name}, {carry.name}, {xs.name}{more})"
    draw.add("scan", text, [carry, xs], Kind.MIXES, functions=[f], is_tuple=True)


def while_loop(draw: Draw) -> None:
    carry = draw.pick(lambda v: v.rank < 4)
    start = Value(carry.name, carry.shape, carry.dtype, not arrays.is_inexact(carry.dtype))
    f = function(
        draw, [start], lambda inner, p: [as_type(inner, p[0])], tuple_result=False, ops=(1, 3)
    )
    if draw.chance(0.5):
        turns = draw.integer(0, 3)
        text = f"lax.fori_loop(0, {turns}, lambda _, v: {f.name}(v), {carry.name})"
        draw.add("fori_loop", text, [carry], Kind.MIXES, functions=[f])
        return
    stop = draw.pick(lambda v: v.shape == () and arrays.is_integer(v.dtype))
    text = (
        f"lax.while_loop(lambda s: s[0] < lax.convert_element_type({stop.name} % 4, jnp.int32), "
        f"lambda s: (s[0] + 1, {f.name}(s[1])), (jnp.int32(0), {carry.name}))"
    )
    draw.add("while", text, [carry, stop], Kind.MIXES, functions=[f], is_tuple=True)


def vmap(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank > 0)
    axis = draw.integer(0, x.rank - 1)
    n = x.shape[axis]
    others = [v for v in draw.scope if n in v.shape and v.name != x.name]
    values, axes = [x], [axis]
    if others and draw.chance(0.7):
        y = draw.choose(others)
        values.append(y)
        axes.append(y.shape.index(n))
    if draw.chance(0.3):
        values.append(draw.pick())
        axes.append(None)
    params = []
    for value, at in zip(values, axes, strict=True):
        shape = value.shape if at is None else value.shape[:at] + value.shape[at + 1 :]
        params.append(Value(value.name, shape, value.dtype, value.is_exact))
    f = function(draw, params, last)
    text = f"jax.vmap({f.name}, {tuple(axes)})({names(values)})"
    draw.add("vmap", text, values, Kind.MIXES, functions=[f], is_tuple=True)


def grad(draw: Draw) -> None:
    x = draw.pick(lambda v: arrays.is_float(v.dtype) and v.size > 0)

    def result(inner: Draw, params: list[Value]) -> list[Value]:
        floats = [v for v in inner.scope if arrays.is_float(v.dtype)]
        text = f"jnp.sum(jnp.tanh({floats[-1].name})).astype(jnp.float32)"
        return inner.add("loss", text, [floats[-1]], Kind.MIXES)

    f = function(draw, [x], result, smooth=True, tuple_result=False)
    how = draw.choose(["jax.grad", "jax.value_and_grad", "jax.jacrev"])
    text = f"{how}({f.name})({x.name})"
    is_tuple = how == "jax.value_and_grad"
    try:
        draw.add("grad", text, [x], Kind.MIXES, functions=[f], is_tuple=is_tuple)
    except ValueError as error:
        raise Reject("a loop without an end has no derivative") from error


def jvp(draw: Draw) -> None:
    x = draw.pick(lambda v: arrays.is_float(v.dtype))
    f = function(
        draw,
        [x],
        lambda inner, _: [[v for v in inner.scope if arrays.is_float(v.dtype)][-1]],
        smooth=True,
        tuple_result=False,
    )
    text = f"jax.jvp({f.name}, ({x.name},), ({x.name},))"
    draw.add("jvp", text, [x], Kind.MIXES, functions=[f], is_tuple=True)


TABLE = [(3, call), (3, cond), (3, scan), (3, while_loop), (4, vmap), (2, grad), (1, jvp)]
