"""Whether two results are the same, given how well conditioned the computation is.

What is known to differ, and allowed:

- the sign of zero: ONNX Runtime's Where and Max lose it;
- the payload and sign of NaN, where bits of floats are looked at;
- denormal numbers, which XLA flushes to zero;
- float16: ONNX Runtime computes chains of operations in float32 and rounds only what leaves them;
- sums in another order, which overflow in another place, and variances by another formula;
- complex numbers with infinite or NaN parts;
- products of NaN and zeros that pad the operand of a convolution;
- derivatives where something is not finite: XLA takes a product with a mask for a choice, and
  computes inside functions with more precision than it says.

ONNX Runtime itself crashes on a loop that reads a constant inside two conditions that it finds to
be constant.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from fuzz import arrays
from fuzz.program import Equation, Kind, Program, Value

# How often a computation is repeated with disturbed numbers, and what is allowed beyond the spread.
REPEATS = 4
MARGIN = 8
SINGLE = float(np.finfo("float32").eps)


def wide(array: np.ndarray) -> np.ndarray:
    """As numbers whose differences can be computed."""
    return array.astype(complex if array.dtype.kind == "c" else float)


def eps(dtype: np.dtype) -> float:
    return float(jnp.finfo(dtype).eps)


def tiny(dtype: np.dtype) -> float:
    """What may be flushed to zero."""
    return float(jnp.finfo(dtype).tiny)


def same(one: np.ndarray, other: np.ndarray, rtol: float = 0, atol: float = 0) -> np.ndarray:
    """Where two arrays of one type agree: NaN is NaN, zeros have no sign."""
    if not arrays.is_inexact(one.dtype):
        return one == other
    if one.dtype.kind == "c":
        # A component of a complex number is as precise as the whole.
        whole = atol + rtol * np.abs(wide(other))
        parts = [same(a, b, 0, whole) for a, b in ((one.real, other.real), (one.imag, other.imag))]
        return parts[0] & parts[1]
    a, b = wide(one), wide(other)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= np.nan_to_num(atol + rtol * np.abs(b), posinf=0)
    return (a == b) | (np.isnan(a) & np.isnan(b)) | near


def disturb(
    rng: np.random.Generator, array: np.ndarray, *, zeros: bool, strength: float = 2
) -> np.ndarray:
    """Numbers that might as well have been computed."""
    if not arrays.is_inexact(array.dtype) or not array.size:
        return array
    x, unit = wide(array), strength * eps(array.dtype)
    with np.errstate(all="ignore"):
        x = x * (1 + unit * rng.choice([-1, 0, 1], x.shape))
        if zeros:
            size = np.abs(x[np.isfinite(x)]).max(initial=0)
            x = x + 0.5 * unit * size * rng.choice([-1, 0, 1], x.shape)
        return x.astype(array.dtype)


def is_subject_to_flushing(array: np.ndarray) -> bool:
    if not arrays.is_inexact(array.dtype) or array.dtype == np.float16:
        return False
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    return any(((wide(p) != 0) & (np.abs(wide(p)) < tiny(p.dtype))).any() for p in parts)


def is_huge(array: np.ndarray) -> bool:
    """Whether sums may overflow, depending on their order."""
    if not arrays.is_inexact(array.dtype):
        return False
    x = np.abs(wide(array))
    return bool((x[np.isfinite(x)] > float(jnp.finfo(array.dtype).max) ** 0.5).any())


def wrong(
    equation: Equation,
    values: Mapping[str, np.ndarray],
    found: Sequence[np.ndarray],
    size: int,
    passed_over: Counter[str] | None = None,
) -> list[np.ndarray] | None:
    """Where ONNX Runtime's results of an equation differ from JAX's for the same operands. Counts
    differences that nobody is to blame for, or JAX.
    """
    expected = equation.run(values, size)
    operands = [np.asarray(values[name]) for name in equation.free()]
    for one, other in zip(found, expected, strict=True):
        if one.dtype != other.dtype or one.shape != other.shape:
            return [np.ones(other.shape, bool)]
    kind = equation.kind
    if kind is not Kind.MOVES and any(map(is_subject_to_flushing, operands)):
        return None
    if kind is Kind.MIXES and any(map(is_huge, operands)):
        return None
    floats = [wide(x) for x in [*operands, *expected] if arrays.is_inexact(x.dtype)]
    if equation.reads_bits and any(np.isnan(x).any() for x in floats):
        return None
    is_derivative = any(inner.op in ("grad", "jvp") for inner in equation.shows())
    floats += [wide(x) for x in found if arrays.is_inexact(x.dtype)]
    if is_derivative and not all(np.isfinite(x).all() for x in floats):
        return None
    loose = kind in (Kind.CLOSE, Kind.MIXES) or keeps_precision(equation, values)

    unit = max([eps(v.dtype) for v in rounded(equation)], default=0.0)

    def judge(one: np.ndarray, other: np.ndarray, spread: np.ndarray | float) -> np.ndarray:
        if not arrays.is_inexact(other.dtype):
            return same(one, other)
        flushed = tiny(other.dtype) if kind is not Kind.MOVES else 0
        if not loose:
            return same(one, other, 0, flushed)
        # What is computed inside a function may be larger than what comes out.
        slack = 32 * unit if equation.functions else equation.slack * unit / SINGLE
        return same(one, other, equation.ulps * unit, slack + flushed + spread)

    bad = [~judge(one, other, 0) for one, other in zip(found, expected, strict=True)]
    if any(mask.any() for mask in bad) and multiplies_padding(equation, operands):
        bad = [
            mask & (has_nan(one) == has_nan(other))
            for mask, one, other in zip(bad, found, expected, strict=True)
        ]
        if not any(mask.any() for mask in bad) and passed_over is not None:
            passed_over["a convolution multiplies zeros that it adds by NaN, or does not"] += 1
    if not any(mask.any() for mask in bad):
        return None
    if not loose:
        return bad
    rng = np.random.default_rng(0)

    def again() -> Sequence[np.ndarray]:
        zeros = kind is Kind.MIXES
        near = {n: disturb(rng, np.asarray(values[n]), zeros=zeros) for n in equation.free()}
        return equation.run(near, size)

    spreads = spread_of(expected, again)
    bad = [
        ~judge(one, other, spread) & ~np.isinf(spread)
        for one, other, spread in zip(found, expected, spreads, strict=True)
    ]
    return bad if any(mask.any() for mask in bad) else None


def multiplies_padding(equation: Equation, operands: Sequence[np.ndarray]) -> bool:
    """Whether a convolution may meet zeros that are not there: XLA leaves out products with them,
    other implementations do not, and a product of zero and NaN is NaN.
    """
    finite = all(np.isfinite(wide(x)).all() for x in operands if arrays.is_inexact(x.dtype))
    return not finite and any(inner.op == "conv" for inner in equation.shows())


def has_nan(array: np.ndarray) -> np.ndarray:
    return np.isnan(wide(array)) if arrays.is_inexact(array.dtype) else np.zeros(array.shape, bool)


def rounded(equation: Equation) -> Iterator[Value]:
    """All floats that take part."""
    for inner in equation.shows():
        for value in [*inner.free().values(), *inner.outputs]:
            if arrays.is_inexact(value.dtype):
                yield value


def keeps_precision(equation: Equation, values: Mapping[str, np.ndarray]) -> bool:
    """Whether operands may be more precise than what is seen of them: ONNX Runtime computes chains
    of float16 operations in float32, and rounds only what leaves the chain.
    """
    computed = (n for n in equation.free() if n.startswith("v"))
    return any(np.asarray(values[n]).dtype == np.float16 for n in computed)


def spread_of(
    expected: Sequence[np.ndarray], again: Callable[[], Sequence[np.ndarray]]
) -> list[np.ndarray]:
    """How far results move when numbers are disturbed; infinite where they change altogether."""
    spreads = [np.zeros(x.shape) for x in expected]
    for _ in range(REPEATS):
        for spread, x, y in zip(spreads, expected, again(), strict=True):
            if not arrays.is_inexact(x.dtype):
                spread[x != y] = np.inf
                continue
            with np.errstate(all="ignore"):
                moved = MARGIN * np.nan_to_num(np.abs(wide(x) - wide(y)), nan=np.inf, posinf=np.inf)
            spread[...] = np.where(same(x, y), spread, np.maximum(spread, moved))
    return spreads


def wrong_as_a_whole(
    program: Program,
    names: Sequence[str],
    expected: Sequence[np.ndarray],
    found: Sequence[np.ndarray],
    size: int,
) -> list[tuple[str, np.ndarray]]:
    """Where two runs of one program differ by more than rounding explains."""

    def judge(one: np.ndarray, other: np.ndarray, spread: np.ndarray | float) -> np.ndarray:
        if one.dtype != other.dtype or one.shape != other.shape:
            return np.zeros(other.shape, bool)
        if not arrays.is_inexact(other.dtype):
            return same(one, other)
        return same(one, other, 64 * eps(other.dtype), tiny(other.dtype) + spread)

    triples = list(zip(names, expected, found, strict=True))
    if all(judge(one, other, 0).all() for _, other, one in triples):
        return []
    rng = np.random.default_rng(0)

    def again() -> list[np.ndarray]:
        known = {**program.inputs, **program.constants}
        for equation in program.equations:
            mixes = equation.kind is Kind.MIXES
            near = {n: np.asarray(known[n]) for n in equation.free()}
            if mixes:
                # One node may round less on the way than the operators that it replaces.
                near = {n: disturb(rng, x, zeros=True) for n, x in near.items()}
            results = equation.run(near, size)
            if equation.kind is not Kind.MOVES:
                results = [disturb(rng, x, zeros=mixes) for x in results]
            known |= zip((v.name for v in equation.outputs), results, strict=True)
        return [known[name] for name in names]

    spreads = spread_of(again(), again)
    pairs = zip(triples, spreads, strict=True)
    open_to_doubt = may_overflow(program, size)
    bad = [
        (n, ~judge(one, other, s) & ~np.isinf(s))
        for (n, other, one), s in pairs
        if n not in open_to_doubt
    ]
    return [(name, mask) for name, mask in bad if mask.any()]


def may_overflow(program: Program, size: int) -> set[str]:
    """What comes from sums of huge numbers, or of their squares: whether these overflow depends on
    the order, and on the formula.
    """
    values = program.evaluate(size)
    found: set[str] = set()
    for equation in program.equations:
        operands = equation.free()
        overflows = equation.kind is Kind.MIXES and any(
            is_huge(np.asarray(values[n])) for n in operands
        )
        if overflows or found & operands.keys():
            found |= {v.name for v in equation.outputs}
    return found
