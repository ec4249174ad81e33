"""Elementwise functions: arithmetic, comparisons, bits and conversions."""

import numpy as np

from fuzz import arrays
from fuzz.draw import Draw, Reject
from fuzz.program import Kind, Value

# Maps names to text, or to None for `lax.name(x)`. The slack is the difference of approximations
# near zero.
EXACT_UNARY = ["abs", "neg", "sign", "square"]
STEPS = ["floor", "ceil", "round"]
APPROXIMATE = {
    "sqrt": 0,
    "rsqrt": 0,
    "cbrt": 0,
    "exp": 0,
    "exp2": 0,
    "expm1": 1e-6,
    "log": 1e-6,
    "log1p": 1e-6,
    "sin": 1e-6,
    "cos": 1e-6,
    "tan": 1e-6,
    "asin": 1e-6,
    "acos": 1e-6,
    "atan": 1e-6,
    "sinh": 1e-6,
    "cosh": 0,
    "tanh": 1e-6,
    "asinh": 1e-6,
    "acosh": 1e-6,
    "atanh": 1e-6,
    "logistic": 1e-6,
    "erf": 1e-6,
    "erfc": 1e-6,
    "erf_inv": 1e-5,
    "lgamma": 1e-5,
    "digamma": 1e-5,
    "bessel_i0e": 1e-6,
    "bessel_i1e": 1e-6,
}
# Also defined for complex numbers.
COMPLEX = ["exp", "log", "sin", "cos", "tanh", "sqrt", "log1p", "expm1", "rsqrt", "logistic", "tan"]


def is_float(v: Value) -> bool:
    return arrays.is_float(v.dtype)


def is_integer(v: Value) -> bool:
    return arrays.is_integer(v.dtype)


def is_number(v: Value) -> bool:
    return v.dtype.kind != "b"


def is_real_number(v: Value) -> bool:
    return v.dtype.kind not in "bc"


def partner(draw: Draw, x: Value, dtype: np.dtype | None = None) -> Value:
    """Returns an operand of the same shape."""
    return draw.fill(x.shape, dtype or x.dtype)


def stepping(draw: Draw, v: Value) -> bool:
    """Returns `True` if jumps are allowed: inside functions, only for exact values."""
    return not draw.smooth and (draw.depth == 0 or v.is_exact)


def exact_unary(draw: Draw) -> None:
    x = draw.pick(is_number)
    name = draw.choose(EXACT_UNARY)
    if name in ("sign", "abs") and arrays.is_complex(x.dtype):
        draw.add(name, f"lax.{name}({x.name})", [x], Kind.CLOSE, slack=1e-6)
        return
    if name == "abs" and x.dtype.kind == "u":
        raise Reject("signed numbers only")
    if name == "sign" and not stepping(draw, x):
        raise Reject("jumps")
    kind = Kind.ROUNDS if name == "square" else Kind.MOVES
    kind = Kind.CLOSE if arrays.is_complex(x.dtype) and name == "square" else kind
    draw.add(name, f"lax.{name}({x.name})", [x], kind)


def steps(draw: Draw) -> None:
    x = draw.pick(lambda v: is_float(v) and stepping(draw, v))
    name = draw.choose(STEPS)
    ways = ["AWAY_FROM_ZERO", "TO_NEAREST_EVEN"]
    more = f", lax.RoundingMethod.{draw.choose(ways)}" if name == "round" else ""
    draw.add(name, f"lax.{name}({x.name}{more})", [x], Kind.MOVES)


def approximate(draw: Draw) -> None:
    x = draw.pick(lambda v: arrays.is_inexact(v.dtype))
    name = draw.choose(COMPLEX if arrays.is_complex(x.dtype) else list(APPROXIMATE))
    slack = APPROXIMATE[name]
    # Most numbers are outside the domain of these functions. The restriction to the domain is a
    # separate equation, because rounding it changes what follows.
    inside = {"asin": "tanh", "acos": "tanh", "atanh": "tanh", "erf_inv": "tanh"}
    inside |= {"log": "abs", "sqrt": "abs", "rsqrt": "abs", "log1p": "abs", "lgamma": "abs"}
    inside |= {"digamma": "cosh"}
    # Versions of JAX differ in the value of the digamma function at zero.
    if is_float(x) and name in inside and (draw.chance(0.8) or name == "digamma"):
        text = f"lax.{inside[name]}({x.name})"
        (x,) = draw.add(inside[name], text, [x], Kind.CLOSE, slack=1e-6, ulps=64)
    # Sums of logarithms and the like lose digits by cancellation.
    kind = Kind.MIXES if arrays.is_complex(x.dtype) else Kind.CLOSE
    draw.add(name, f"lax.{name}({x.name})", [x], kind, slack=slack, ulps=64)


def divisor(draw: Draw, x: Value) -> Value:
    """Returns a divisor other than `x`, because XLA may simplify `x / x` even if `x` is zero."""
    y = partner(draw, x)
    if x.name == y.name:
        raise Reject("a quotient of equals")
    return y


def arithmetic(draw: Draw) -> None:
    x = draw.pick(is_number)
    name = draw.choose(["add", "sub", "mul", "div", "max", "min", "add", "mul"])
    y = divisor(draw, x) if name == "div" else partner(draw, x)
    if arrays.is_complex(x.dtype):
        if name in ("max", "min"):
            raise Reject("complex numbers have no order that users rely on")
        kind = Kind.MIXES if name in ("mul", "div") else Kind.ROUNDS
    else:
        kind = Kind.MOVES if name in ("max", "min") else Kind.ROUNDS
    operands = [x, y] if draw.chance(0.5) else [y, x]
    draw.add(name, f"lax.{name}({operands[0].name}, {operands[1].name})", operands, kind)


def broadcast_arithmetic(draw: Draw) -> None:
    """Adds Python's operators, which broadcast and promote."""
    x = draw.pick(is_real_number)
    shape = tuple(n if draw.chance(0.6) else 1 for n in x.shape)[draw.integer(0, x.rank) :]
    y = draw.fill(shape, x.dtype)
    sign = draw.choose(["+", "-", "*"])
    draw.add("broadcast", f"{x.name} {sign} {y.name}", [x, y], Kind.ROUNDS)


def with_number(draw: Draw) -> None:
    x = draw.pick(is_number)
    number = draw.choose(["0", "1", "2", "3", "-1"] + ["0.5", "1.5"] * arrays.is_inexact(x.dtype))
    if number == "-1" and x.dtype.kind == "u":
        raise Reject("unsigned")
    sign = draw.choose(["+", "-", "*", "/"] if arrays.is_inexact(x.dtype) else ["+", "-", "*"])
    texts = [x.name, number] if draw.chance(0.5) else [number, x.name]
    kind = Kind.ROUNDS
    if arrays.is_complex(x.dtype) and sign in "*/":
        kind = Kind.MIXES
    elif sign == "/":
        kind = Kind.CLOSE  # XLA multiplies by the reciprocal of a constant.
    draw.add("number", f" {sign} ".join(texts), [x], kind)


def division(draw: Draw) -> None:
    x = draw.pick(lambda v: is_real_number(v) and stepping(draw, v))
    y = divisor(draw, x)
    # JAX defines integer division by zero as -1, and the remainder as the dividend.
    text = draw.choose(
        ["lax.div({}, {})", "lax.rem({}, {})", "{} // {}", "{} % {}", "jnp.divmod({}, {})[1]"]
    )
    if is_float(x) and not (text.startswith("lax.") and y.is_exact):
        raise Reject("floor of a quotient jumps")
    draw.add("division", text.format(x.name, y.name), [x, y], Kind.ROUNDS)


def powers(draw: Draw) -> None:
    x = draw.pick(is_number)
    if draw.chance(0.6):
        n = draw.integer(0 if is_integer(x) else -3, 5)
        draw.add("integer_pow", f"lax.integer_pow({x.name}, {n})", [x], Kind.CLOSE)
        return
    if not is_float(x):
        raise Reject("floats only")
    y = partner(draw, x)
    base = x.name if draw.chance(0.3) else f"lax.abs({x.name})"
    draw.add("pow", f"lax.pow({base}, {y.name})", [x, y], Kind.MIXES, ulps=256)


def two_arguments(draw: Draw) -> None:
    x = draw.pick(is_float)
    y = partner(draw, x)
    name = draw.choose(["atan2", "nextafter", "logaddexp", "hypot", "copysign"])
    if name in ("nextafter", "copysign") and not stepping(draw, x):
        raise Reject("jumps")
    text = f"{'lax' if name in ('atan2', 'nextafter') else 'jnp'}.{name}({x.name}, {y.name})"
    if name in ("nextafter", "copysign"):
        draw.add(name, text, [x, y], Kind.MOVES)
    else:
        draw.add(name, text, [x, y], Kind.MIXES, slack=1e-6, ulps=64)


def comparison(draw: Draw) -> None:
    x = draw.pick(lambda v: stepping(draw, v))
    y = partner(draw, x)
    if not stepping(draw, y):
        raise Reject("jumps")
    names = ["eq", "ne"] if x.dtype.kind in "bc" else ["eq", "ne", "lt", "le", "gt", "ge"]
    name = draw.choose(names)
    draw.add(name, f"lax.{name}({x.name}, {y.name})", [x, y], Kind.MOVES)


def test(draw: Draw) -> None:
    x = draw.pick(lambda v: is_float(v) and stepping(draw, v))
    name = draw.choose(["lax.is_finite", "jnp.isnan", "jnp.isinf", "jnp.signbit"])
    if name == "jnp.signbit":
        # Zeros are avoided, because their sign is ignored.
        draw.add("signbit", f"jnp.signbit({x.name} + 0.75)", [x], Kind.MOVES, reads_bits=True)
        return
    draw.add(name, f"{name}({x.name})", [x], Kind.MOVES)


def logic(draw: Draw) -> None:
    x = draw.pick(lambda v: v.dtype.kind in "biu")
    if draw.chance(0.2):
        draw.add("not", f"lax.bitwise_not({x.name})", [x], Kind.MOVES)
        return
    y = partner(draw, x)
    name = draw.choose(["and", "or", "xor"])
    draw.add(name, f"lax.bitwise_{name}({x.name}, {y.name})", [x, y], Kind.MOVES)


def bits(draw: Draw) -> None:
    x = draw.pick(is_integer)
    names = ["population_count", "clz", "shift_left", "shift_right_logical"]
    name = draw.choose([*names, "shift_right_arithmetic"])
    if name in ("population_count", "clz"):
        draw.add(name, f"lax.{name}({x.name})", [x], Kind.MOVES)
        return
    if draw.chance(0.5):
        y = partner(draw, x)
        draw.add(name, f"lax.{name}({x.name}, {y.name})", [x, y], Kind.MOVES)
        return
    amount = draw.integer(0, 8 * x.dtype.itemsize + 1)
    text = f"lax.{name}({x.name}, lax.full_like({x.name}, {amount}))"
    draw.add(name, text, [x], Kind.MOVES)


def bitcast(draw: Draw) -> None:
    x = draw.pick(lambda v: v.dtype.kind not in "bc" and stepping(draw, v))
    widths = {1: ["int8", "uint8"], 2: ["int16", "uint16", "float16", "bfloat16"]}
    widths |= {4: ["int32", "uint32", "float32"], 8: ["int64", "uint64", "float64"]}
    width = draw.choose([x.dtype.itemsize] * 3 + [1, 2, 4])
    if width > x.dtype.itemsize and (not x.rank or x.shape[-1] * x.dtype.itemsize != width):
        raise Reject("no such last axis")
    name = draw.choose(widths[width])
    if name.find("float") >= 0 and is_integer(x):
        raise Reject("most integers would be NaN")
    text = f"lax.bitcast_convert_type({x.name}, jnp.{name})"
    draw.add("bitcast", text, [x], Kind.MOVES, reads_bits=True)


def conversion(draw: Draw) -> None:
    x = draw.pick()
    name = draw.choose(draw.dtypes)
    target = arrays.dtype(name)
    if draw.smooth and not (is_float(x) and arrays.is_float(target)):
        raise Reject("not smooth")
    if not arrays.is_inexact(target) and arrays.is_inexact(x.dtype) and not stepping(draw, x):
        raise Reject("jumps")
    if arrays.is_complex(x.dtype) and not arrays.is_complex(target):
        raise Reject("loses a part")
    text = f"lax.convert_element_type({x.name}, jnp.{target.name})"
    draw.add("convert", text.replace("jnp.bool)", "jnp.bool_)"), [x], Kind.MOVES)


def precision(draw: Draw) -> None:
    x = draw.pick(lambda v: is_float(v) and not draw.smooth)
    exponent, mantissa = draw.choose([(8, 7), (5, 10), (5, 2), (4, 3), (8, 3), (3, 9)])
    text = f"lax.reduce_precision({x.name}, {exponent}, {mantissa})"
    draw.add("reduce_precision", text, [x], Kind.MOVES)


def select(draw: Draw) -> None:
    x = draw.pick()
    y = partner(draw, x)
    which = draw.fill(x.shape if draw.chance(0.7) else (), np.dtype(bool))
    if draw.chance(0.25) and not draw.smooth:
        z = partner(draw, x)
        index = draw.array(np.asarray(draw.rng.integers(0, 3, x.shape), "int32"))
        text = f"lax.select_n({index.name}, {x.name}, {y.name}, {z.name})"
        draw.add("select_n", text, [index, x, y, z], Kind.MOVES)
        return
    text = f"lax.select_n({which.name}, {x.name}, {y.name})"
    draw.add("select_n", text, [which, x, y], Kind.MOVES)


def clamp(draw: Draw) -> None:
    x = draw.pick(lambda v: v.dtype.kind not in "bc" and not draw.smooth)
    shape = x.shape if draw.chance(0.4) else ()
    low, high = draw.fill(shape, x.dtype), draw.fill(shape, x.dtype)
    draw.add("clamp", f"lax.clamp({low.name}, {x.name}, {high.name})", [low, x, high], Kind.MOVES)


def complex_parts(draw: Draw) -> None:
    x = draw.pick(lambda v: v.dtype.name in ("float32", "float64", "complex64", "complex128"))
    if is_float(x):
        y = partner(draw, x)
        draw.add("complex", f"lax.complex({x.name}, {y.name})", [x, y], Kind.MOVES)
        return
    name = draw.choose(["real", "imag", "conj"])
    draw.add(name, f"lax.{name}({x.name})", [x], Kind.MOVES)


def activation(draw: Draw) -> None:
    """Adds an activation function, a target of fusions."""
    x = draw.pick(is_float)
    names = ["relu", "gelu", "silu", "softplus", "sigmoid", "elu", "leaky_relu", "selu", "relu6"]
    name = draw.choose([*names, "hard_tanh", "swish", "celu", "log_sigmoid", "squareplus", "mish"])
    more = f", approximate={draw.chance(0.5)}" if name == "gelu" else ""
    draw.add(name, f"jax.nn.{name}({x.name}{more})", [x], Kind.MIXES, slack=2e-6, ulps=64)


TABLE = [
    (3, exact_unary),
    (2, steps),
    (6, approximate),
    (7, arithmetic),
    (3, broadcast_arithmetic),
    (3, with_number),
    (3, division),
    (2, powers),
    (2, two_arguments),
    (3, comparison),
    (1, test),
    (3, logic),
    (4, bits),
    (2, bitcast),
    (6, conversion),
    (1, precision),
    (3, select),
    (2, clamp),
    (2, complex_parts),
    (2, activation),
]
