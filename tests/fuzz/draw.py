"""The state of drawing a program: values in scope, random choices, and new equations."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuzz import arrays
from fuzz.program import Equation, Function, Kind, Value, dim, dims

# The size of a drawn symbolic dimension; static sizes are smaller.
SYMBOLIC_SIZE = 7


class Reject(Exception):
    """Signals that this equation cannot be drawn here."""


class Refused(Reject):
    """Signals that JAX rejects this equation."""


class Draw:
    """Draws the equations of one function: the program itself, or one inside an equation."""

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        double: bool,
        size: int,
        wild: bool,
        half: bool = False,
        smooth: bool = False,
    ):
        self.rng = rng
        self.double = double
        # Draws floats in half precision only.
        self.half = half
        self.size = size
        self.wild = wild
        # Allows only differentiable operations.
        self.smooth = smooth
        self.depth = 0
        self.inputs: dict[str, np.ndarray] = {}
        self.constants: dict[str, np.ndarray] = {}
        # Values that JAX has computed so far; empty inside functions.
        self.known: dict[str, np.ndarray] = {}
        self.scope: list[Value] = []
        self.body: list[Equation] = []
        self.counter = itertools.count()
        self.static = [int(n) for n in rng.choice([1, 2, 3, 4], 3, p=[0.2, 0.3, 0.3, 0.2])]
        if rng.random() < 0.1:
            self.static.append(0)
        self.dtypes = self._dtypes()
        # The number of rejections by JAX, by reason.
        self.refused: Counter[str] = Counter()

    def _dtypes(self) -> list[str]:
        if self.half:
            return [*arrays.SMALL_FLOATS, str(self.rng.choice(["int32", "bool", "uint8"]))]
        every = ["float32"] * 4 + ["int32"] * 2 + ["bool", "float16", "bfloat16", "complex64"]
        every += arrays.SIGNED + arrays.UNSIGNED
        if self.double:
            every += ["float64"] * 4 + ["int64"] * 2 + ["uint64", "complex128"]
        return list(dict.fromkeys(self.rng.choice(every, 4)))

    def nested(self, params: Sequence[Value], *, smooth: bool = False) -> "Draw":
        """Draws a function of `params`."""
        inner = object.__new__(Draw)
        inner.__dict__.update(self.__dict__)
        inner.depth = self.depth + 1
        inner.smooth = self.smooth or smooth
        # Parameters are listed twice, to make their use more likely.
        inner.scope = [*self.scope[-2:], *params, *params]
        inner.body = []
        inner.known = {}
        return inner

    # Random choices.

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def choose(self, options: Sequence[Any]) -> Any:
        if not options:
            raise Reject("nothing to choose from")
        return options[int(self.rng.integers(len(options)))]

    def integer(self, low: int, high: int) -> int:
        """Draws an integer from `low` to `high`, inclusive."""
        return int(self.rng.integers(low, high + 1))

    def sizes(self, low: int, high: int) -> tuple[int, ...]:
        """Draws a shape."""
        shape = [self.choose(self.static) for _ in range(self.integer(low, high))]
        if self.size and shape and self.chance(0.6):
            shape[self.integer(0, len(shape) - 1)] = self.size
        return tuple(shape)

    def dim(self, n: int) -> str:
        return dim(n, self.size)

    def dims(self, shape: Sequence[int]) -> str:
        return dims(shape, self.size)

    # Values.

    def fresh(self, prefix: str) -> str:
        return f"{prefix}{next(self.counter)}"

    def pick(self, allowed: Callable[[Value], bool] = lambda _: True) -> Value:
        """Draws a value in scope; newer ones are more likely."""
        options = [v for v in self.scope if allowed(v)]
        if not options:
            raise Reject("no such value")
        return options[int(len(options) * np.sqrt(self.rng.random()))]

    def start(self) -> None:
        """Adds an input of any type."""
        dtype = arrays.dtype(self.choose(self.dtypes))
        wild = self.wild and self.chance(0.5)
        shape = self.sizes(0, 4)
        if self.size and not self.inputs:
            # The symbolic size is read from the first input.
            shape = (self.size, *shape[1:])
        self.array(arrays.numbers(self.rng, shape, dtype, wild=wild), always_input=True)

    def array(self, array: np.ndarray, *, always_input: bool = False) -> Value:
        """Adds an input or a constant."""
        is_input = always_input or (self.depth == 0 and self.chance(0.7))
        value = Value(self.fresh("x" if is_input else "c"), array.shape, array.dtype)
        (self.inputs if is_input else self.constants)[value.name] = array
        if not is_input and self.size in array.shape:
            raise Reject("a constant has no symbolic shape")
        if self.depth == 0:
            self.known[value.name] = array
            self.scope.append(value)
        return value

    def fill(self, shape: tuple[int, ...], dtype: np.dtype) -> Value:
        """Returns a value of this type: an existing one if possible, or a new one."""
        options = [v for v in self.scope if v.shape == shape and v.dtype == dtype]
        if options and self.chance(0.8):
            return self.choose(options)
        wild = self.wild and self.depth == 0 and self.chance(0.3)
        return self.array(arrays.numbers(self.rng, shape, dtype, wild=wild))

    def indices(self, shape: tuple[int, ...], bound: int) -> Value:
        """Returns integers of any type, most of them from zero to `bound`."""
        options = [v for v in self.scope if v.shape == shape and arrays.is_integer(v.dtype)]
        if options and self.chance(0.3):
            return self.choose(options)
        names = ["int32", "int32", *arrays.SIGNED, *arrays.UNSIGNED, *["int64"] * self.double]
        dtype = np.dtype(self.choose(names))
        low = 0 if dtype.kind == "u" else -bound - 2
        inside = self.rng.integers(0, max(bound, 1), shape)
        anywhere = self.rng.integers(low, bound + 3, shape)
        found = np.where(self.rng.random(shape) < 0.8, inside, anywhere)
        return self.array(np.asarray(found, dtype))

    def distinct(self, count: int, bound: int) -> Value:
        """Returns distinct integers, some of them out of bounds."""
        options = self.rng.permutation(bound + 3)[:count] - self.integer(0, 1)
        if len(options) < count:
            raise Reject("too few places")
        return self.array(options.astype("int32"))

    # Equations.

    def add(
        self,
        op: str,
        text: str,
        operands: Sequence[Value],
        kind: Kind,
        *,
        functions: Sequence[Function] = (),
        is_tuple: bool = False,
        **details: Any,
    ) -> list[Value]:
        """Adds an equation to the body; returns its results."""
        found = list(operands)
        equation = Equation(op, text, found, kind, list(functions), is_tuple=is_tuple, **details)
        is_exact = all(v.is_exact for v in equation.free().values())
        is_exact &= kind is Kind.MOVES or (kind is Kind.ROUNDS and self.depth == 0)
        try:
            if self.depth:
                results = equation.avals(self.size)
            else:
                results = equation.run({**self.known, **self.constants}, self.size)
        except (NotImplementedError, TypeError) as error:
            # JAX also passes `None` to some rules of differentiation.
            self.refused[f"{op}: {first_line(error)}"] += 1
            raise Refused(op) from error
        if not self.depth:
            self._refuse_noise(equation, results)
        for result in results:
            exact = is_exact or not arrays.is_inexact(result.dtype)
            value = Value(self.fresh("v"), tuple(result.shape), np.dtype(result.dtype), exact)
            equation.outputs.append(value)
            if not self.depth:
                self.known[value.name] = result
        self.scope += equation.outputs
        self.body.append(equation)
        return equation.outputs

    def _refuse_noise(self, equation: Equation, results: Sequence[np.ndarray]) -> None:
        """Prevents NaN and infinities from spreading, and arrays from growing."""
        for result in results:
            if result.size > 600 or result.ndim > 6:
                raise Reject("too large")
            if arrays.is_inexact(result.dtype) and result.size:
                finite = np.isfinite(
                    result.astype(complex) if result.dtype.kind == "c" else result.astype(float)
                ).mean()
                if finite < (0.4 if self.wild else 0.9):
                    raise Reject("hardly any numbers are left")


def first_line(error: Exception) -> str:
    """Returns the first line of an error, shortened."""
    return (str(error).strip().splitlines() or [""])[0][:120]
