"""Comparison of results, given the condition of the computation.

Known and accepted differences:

- the sign of zero: ONNX Runtime's Where and Max lose it;
- the payload and sign of NaN, where operations read the bits of floats;
- denormal numbers, which XLA flushes to zero;
- float16: ONNX Runtime computes chains of operations in float32 and rounds only their results; each
operation is also compared alone, where every rounding counts;
- sums in another order, which overflow in different elements, and variances by another formula;
- complex numbers with infinite or NaN parts;
- products of NaN with the zeros that pad the operand of a convolution;
- derivatives where something is not finite: XLA turns a product with a mask into a selection, and
computes inside functions with more precision than declared.

ONNX Runtime itself crashes on a loop that reads a constant inside two conditions that it folds to
constants.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from fuzz import arrays
from fuzz.program import Equation, Kind, Program, Value

# The number of repetitions with disturbed numbers, and the allowance beyond their spread.
REPEATS = 4
MARGIN = 8
SINGLE = float(np.finfo("float32").eps)


def wide(array: np.ndarray) -> np.ndarray:
    """Widens an array so that differences can be computed."""
    return array.astype(complex if array.dtype.kind == "c" else float)


def eps(dtype: np.dtype) -> float:
    return float(jnp.finfo(dtype).eps)


def tiny(dtype: np.dtype) -> float:
    """Returns the smallest normal number, below which numbers may be flushed to zero."""
    return float(jnp.finfo(dtype).tiny)


def same(one: np.ndarray, other: np.ndarray, rtol: float = 0, atol: float = 0) -> np.ndarray:
    """Returns a mask of equal elements. NaN equals NaN, and the sign of zero is ignored."""
    if not arrays.is_inexact(one.dtype):
        return one == other
    if one.dtype.kind == "c":
        # Each component of a complex number is only as precise as the whole.
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
    """Disturbs numbers within their rounding error."""
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
    """Returns `True` if sums may overflow, depending on their order."""
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
    *,
    alone: bool = False,
) -> list[np.ndarray] | None:
    """Returns masks of the elements where ONNX Runtime's results of an equation differ from JAX's
    for the same operands. Counts differences that are acceptable or caused by JAX. The operands of
    an equation that ran `alone` are rounded.
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
    loose = kind in (Kind.CLOSE, Kind.MIXES) or (not alone and keeps_precision(equation, values))

    unit = max([eps(v.dtype) for v in rounded(equation)], default=0.0)

    def judge(one: np.ndarray, other: np.ndarray, spread: np.ndarray | float) -> np.ndarray:
        if not arrays.is_inexact(other.dtype):
            return same(one, other)
        flushed = tiny(other.dtype) if kind is not Kind.MOVES else 0
        if not loose:
            return same(one, other, 0, flushed)
        # Intermediate values of a function may be larger than its results.
        slack = 32 * unit if equation.functions else equation.slack * unit / SINGLE
        return same(one, other, equation.ulps * unit, slack + flushed + spread)

    bad = [~judge(one, other, 0) for one, other in zip(found, expected, strict=True)]
    if any(mask.any() for mask in bad) and multiplies_padding(equation, operands):
        bad = [
            mask & (has_nan(one) == has_nan(other))
            for mask, one, other in zip(bad, found, expected, strict=True)
        ]
        if not any(mask.any() for mask in bad) and passed_over is not None:
            passed_over["a convolution or transform multiplies zeros by NaN, or does not"] += 1
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
    """Returns `True` if a convolution may multiply padding by NaN, or a Fourier transform zeros of
    its matrix. XLA omits these products, other implementations do not, and a product of zero and
    NaN is NaN.
    """
    finite = all(np.isfinite(wide(x)).all() for x in operands if arrays.is_inexact(x.dtype))
    transforms = ("conv", "fft", "ifft", "rfft", "fft2")
    return not finite and any(inner.op in transforms for inner in equation.shows())


def has_nan(array: np.ndarray) -> np.ndarray:
    return np.isnan(wide(array)) if arrays.is_inexact(array.dtype) else np.zeros(array.shape, bool)


def rounded(equation: Equation) -> Iterator[Value]:
    """Yields all floats that take part."""
    for inner in equation.shows():
        for value in [*inner.free().values(), *inner.outputs]:
            if arrays.is_inexact(value.dtype):
                yield value


def keeps_precision(equation: Equation, values: Mapping[str, np.ndarray]) -> bool:
    """Returns `True` if operands may be more precise than their visible values. ONNX Runtime
    computes chains of float16 operations in float32, and rounds only the results of a chain.
    """
    computed = (n for n in equation.free() if n.startswith("v"))
    return any(np.asarray(values[n]).dtype == np.float16 for n in computed)


def spread_of(
    expected: Sequence[np.ndarray], again: Callable[[], Sequence[np.ndarray]]
) -> list[np.ndarray]:
    """Returns the spread of results under disturbances; infinite where they change completely."""
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
    """Returns masks of the elements where two runs differ by more than rounding explains."""

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
                # One node may round less often than the operators that it replaces.
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
    """Returns the values that depend on sums of huge numbers or of their squares. Whether these
    overflow depends on the order and on the formula.
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
