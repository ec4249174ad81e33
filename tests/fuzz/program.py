"""A program: equations over named values, written as lines of Python.

Every equation can be run by itself, on any values of its operands. The whole program is a function
to export.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# The names that the lines of a program may use.
NAMESPACE = {"jax": jax, "jnp": jnp, "lax": lax, "np": np}


class Kind(Enum):
    """The agreement expected between two implementations of an operation."""

    MOVES = "moves or compares elements: all bits are the same"
    ROUNDS = "one correctly rounded operation: all bits are the same, unless it is fused"
    CLOSE = "an elementwise approximation"
    MIXES = "a reduction of many elements, in any order"


@dataclass(frozen=True)
class Value:
    """A variable. Its shape is for the size that the program was drawn with."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    # `True` if every implementation has the same bits here.
    is_exact: bool = True

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


@dataclass
class Function:
    """A function inside an equation, such as the body of a loop."""

    name: str
    params: list[Value]
    body: list["Equation"]
    result: str
    results: list[Value] = field(default_factory=list)

    def free(self) -> dict[str, Value]:
        """Returns the values that the function captures from outside."""
        free = {v.name: v for equation in self.body for v in equation.free().values()}
        free |= {v.name: v for v in self.results}
        bound = {v.name for equation in self.body for v in equation.outputs}
        return {n: v for n, v in free.items() if n not in bound | {p.name for p in self.params}}

    def lines(self) -> Iterator[str]:
        yield f"def {self.name}({', '.join(p.name for p in self.params)}):"
        for equation in self.body:
            yield from indented(equation.lines())
        yield f"    return {self.result}"


@dataclass
class Equation:
    """`outputs = text`, where the text mentions operands and functions by their names."""

    op: str
    text: str
    operands: list[Value]
    kind: Kind
    functions: list[Function] = field(default_factory=list)
    # The tolerance besides rounding errors: absolute, and in units in the last place.
    slack: float = 0
    ulps: float = 16
    # `True` if the operation reads the bits of floats, so that the payload of NaN matters.
    reads_bits: bool = False
    outputs: list[Value] = field(default_factory=list)
    is_tuple: bool = False

    def free(self) -> dict[str, Value]:
        """Returns all values that the equation depends on."""
        needed = {v.name: v for v in self.operands}
        for function in self.functions:
            needed |= function.free()
        return needed

    def lines(self) -> Iterator[str]:
        for function in self.functions:
            yield from function.lines()
        targets = ", ".join(v.name for v in self.outputs) + ("," if len(self.outputs) == 1 else "")
        target = targets if self.is_tuple else self.outputs[0].name
        yield f"{target} = {self.text}"

    @cached_property
    def code(self) -> Any:
        lines = [f"def run({', '.join(self.free())}):"]
        for function in self.functions:
            lines += indented(function.lines())
        lines.append(f"    return {self.text}")
        return compile("\n".join(lines), f"<{self.op}>", "exec")

    def callable(self, size: int) -> Callable[..., Any]:
        """Returns the equation as a function of its dependencies, for one symbolic size."""
        if size not in self._callables:
            space = {**NAMESPACE, "b": size}
            exec(self.code, space)
            run = space["run"]
            self._callables[size] = jax.jit(run) if self.functions else run
        return self._callables[size]

    @cached_property
    def _callables(self) -> dict[int, Callable[..., Any]]:
        return {}

    def run(self, values: Mapping[str, Any], size: int) -> list[np.ndarray]:
        """Returns JAX's results for these values, as arrays."""
        operands = [jnp.asarray(values[name]) for name in self.free()]
        found = self.callable(size)(*operands)
        return [np.asarray(x) for x in (found if self.is_tuple else [found])]

    def avals(self, size: int) -> list[Any]:
        """Shapes and element types of the results."""
        operands = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in self.free().values()]
        found = jax.eval_shape(self.callable(size), *operands)
        return list(found) if self.is_tuple else [found]

    def shows(self) -> Iterator["Equation"]:
        """Yields this equation and all nested ones."""
        yield self
        for function in self.functions:
            for equation in function.body:
                yield from equation.shows()


@dataclass
class Program:
    """Inputs, constants and equations, with the precision and an optional symbolic size."""

    inputs: dict[str, np.ndarray]
    constants: dict[str, np.ndarray]
    equations: list[Equation]
    double: bool
    # The size that represents the symbolic dimension `b`, or 0.
    size: int = 0

    def values(self) -> dict[str, Value]:
        """Returns all results in order."""
        return {v.name: v for equation in self.equations for v in equation.outputs}

    def leaves(self) -> list[str]:
        """Returns the results that nothing uses."""
        used = {name for equation in self.equations for name in equation.free()}
        return [name for name in self.values() if name not in used] or list(self.values())[-1:]

    def evaluate(self, size: int = 0) -> dict[str, np.ndarray]:
        """Computes all values with JAX, one equation after the other."""
        known = {**self.inputs, **self.constants}
        for equation in self.equations:
            found = equation.run(known, size or self.size)
            known |= zip((v.name for v in equation.outputs), found, strict=True)
        return known

    def source(self, outputs: Sequence[str]) -> str:
        """Formats the program as a function of its inputs."""
        used = set(outputs) | {name for e in self.equations for name in e.free()}
        lines = [f"{n} = jnp.asarray({literal(x)})" for n, x in self.constants.items() if n in used]
        lines += ["", f"def program({', '.join(self.inputs)}):"]
        if self.size:
            lines.append(f"    b = {self._size_from()}")
        for equation in self.equations:
            lines += indented(equation.lines())
        return "\n".join([*lines, f"    return {', '.join(outputs)},"])

    def function(self, outputs: Sequence[str]) -> Callable[..., Any]:
        space = dict(NAMESPACE)
        exec(compile(self.source(outputs), "<program>", "exec"), space)
        return space["program"]

    def _size_from(self) -> str:
        for name, array in self.inputs.items():
            for axis, n in enumerate(array.shape):
                if n == self.size:
                    return f"{name}.shape[{axis}]"
        return "0"

    def specs(self) -> list[Any]:
        """Returns the input specifications for the export."""
        shapes = {name: array.shape for name, array in self.inputs.items()}
        if not self.size:
            return [jax.ShapeDtypeStruct(s, self.inputs[n].dtype) for n, s in shapes.items()]
        (b,) = jax.export.symbolic_shape("B")
        dims = {n: tuple(symbolic(d, self.size, b) for d in s) for n, s in shapes.items()}
        return [jax.ShapeDtypeStruct(s, self.inputs[n].dtype) for n, s in dims.items()]


def multiple(n: int, size: int) -> tuple[int, int]:
    """Splits `n` into a factor and an offset of the symbolic size, if it looks like a multiple."""
    if size and n >= size and n % size == 0:
        return n // size, 0
    return (1, n - size) if size and n in (size - 1, size + 1) else (0, n)


def symbolic(n: int, size: int, b: Any) -> Any:
    """Expresses a dimension in terms of the symbolic one."""
    factor, offset = multiple(n, size)
    return factor * b + offset if factor else n


def dim(n: int, size: int) -> str:
    """Formats the result of `symbolic` in Python syntax."""
    factor, offset = multiple(n, size)
    if not factor:
        return str(n)
    return ("b" if factor == 1 else f"{factor} * b") + (f" {offset:+d}" if offset else "")


def dims(shape: Iterable[int], size: int) -> str:
    """Formats a shape in Python syntax."""
    text = [dim(n, size) for n in shape]
    return f"({', '.join(text)}{',' if len(text) == 1 else ''})"


def literal(array: np.ndarray) -> str:
    """Formats an array in Python syntax."""
    if array.dtype.kind == "c":
        part = f"float{array.dtype.itemsize * 4}"
        return (
            f"lax.complex({literal(array.real.astype(part))}, {literal(array.imag.astype(part))})"
        )
    name = f"jnp.{array.dtype.name}" if array.dtype.name == "bfloat16" else repr(array.dtype.name)
    if array.size and (array == array.flat[0]).all() and array.size > 1:
        return f"np.full({array.shape}, {_number(array.flat[0])}, {name})"
    if array.size == 0:
        return f"np.zeros({array.shape}, {name})"
    return f"np.array({_nested(array)}, {name})"


def _nested(array: np.ndarray) -> str:
    return f"[{', '.join(map(_nested, array))}]" if array.ndim else _number(array[()])


def _number(x: Any) -> str:
    if x.dtype.kind in "biu":
        return str(x.item())
    text = repr(float(x))
    return text if np.isfinite(float(x)) else text.replace("nan", "np.nan").replace("inf", "np.inf")


def indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)
