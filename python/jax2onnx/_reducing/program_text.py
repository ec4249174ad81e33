"""Prints a program as JAX code, with the user's lines as comments."""

import itertools
import linecache
import re
from collections.abc import Callable, Iterator, Sequence
from keyword import kwlist
from typing import Any

import numpy as np

from jax2onnx import _jax
from jax2onnx._reducing.array_text import array_text, element
from jax2onnx._reducing.calls import INFIX, TEMPLATES, bound
from jax2onnx._tracing.primitives import called_by
from jax2onnx._tracing.user_frames import location, user_frame

# Names that variables must not have.
_TAKEN = frozenset((*kwlist, "jax", "jax2onnx", "jnp", "lax", "model", "np", "program"))
# The column of comments, and the start of a comment.
COLUMN = 60
COMMENT = "  # "


class ProgramText:
    """A program as the lines of a Python function.

    Attributes:
        imports: The imports that it needs besides the usual ones.
        constants: The lines that define its constants.
        lines: The lines of the function.
    """

    def __init__(
        self,
        closed: Any,
        names: Sequence[str],
        *,
        double: bool,
        line_of: Callable[[Any], str] | None = None,
        every: bool = False,
    ) -> None:
        """Prints a program. The first equation of a line has a comment, or `every` one."""
        self.imports: set[str] = set()
        self.constants: list[str] = []
        self._double = double
        self._line_of = line_of or line_of_equation
        self._names: dict[Any, str] = {}
        self._used = set(_TAKEN)
        self._shown = ""
        self._every = every
        jaxpr = closed.jaxpr
        self._used |= {
            name
            for var in jaxpr.invars
            for dim in var.aval.shape
            for name in re.findall(r"[^\W\d]\w*", str(dim))
        }
        inputs = [self._named(var, name) for var, name in zip(jaxpr.invars, names, strict=True)]
        self._sizes = _size_expressions(jaxpr.invars, inputs)
        for var, array in zip(jaxpr.constvars, closed.consts, strict=True):
            self.constants.append(f"{self._named(var, 'w')} = {array_text(array)}")
        self.lines = [
            f"def program({', '.join(inputs)}):",
            *(f"    {name} = {text}" for name, text in self._sizes.items()),
            *_indented(self._body(jaxpr)),
        ]

    def _named(self, var: Any, wish: str = "") -> str:
        if type(var).__name__ == "DropVar":
            return "_"
        if var not in self._names:
            base = re.sub(r"\W+", "_", wish).strip("_") or "v"
            base = base if not base[0].isdigit() else f"x{base}"
            letters = (name for name in map(_letters, itertools.count()) if name not in self._used)
            self._names[var] = self._unique(base if wish else next(letters))
        return self._names[var]

    def _body(self, jaxpr: Any) -> Iterator[str]:
        for eqn in jaxpr.eqns:
            yield from self._equation(eqn)
        yield f"return {self._tuple(jaxpr.outvars)}"

    def _tuple(self, atoms: Sequence[Any]) -> str:
        texts = [self._operand(atom) for atom in atoms]
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"

    def _operand(self, atom: Any, others: Sequence[Any] = ()) -> str:
        if not _jax.is_literal(atom):
            return self._named(atom)
        return self._literal(atom, others)

    def _literal(self, atom: Any, others: Sequence[Any]) -> str:
        dtype = np.dtype(atom.aval.dtype)
        value = np.asarray(atom.val)
        if value.shape:
            return array_text(value)
        text = element(value.astype(dtype)[()]).replace("np.", "jnp.")
        usual = ("float64", "int64") if self._double else ("float32", "int32")
        # Python's operators give a number the type of the other operand.
        is_fixed = any(not _jax.is_literal(a) and a.aval.dtype == dtype for a in others)
        if is_fixed or dtype.name in (*usual, "bool"):
            return text
        module = "np" if dtype.isbuiltin == 1 else "jnp"
        return f"{module}.{dtype.name}({text})"

    def _equation(self, eqn: Any) -> Iterator[str]:
        name = eqn.primitive.name
        if name in _CONTROL:
            yield from _CONTROL[name](self, eqn)
            return
        called = called_by(eqn) or (None if name in TEMPLATES else _plain_body(eqn))
        if called is not None:
            inner = _jax.open_jaxpr(called)
            function = self._function("f", inner, inner.invars, getattr(called, "consts", ()))
            yield from function[1]
            given = ", ".join(self._operand(atom) for atom in eqn.invars)
            yield self._commented(f"{self._targets(eqn)} = jax.jit({function[0]})({given})", eqn)
            return
        others = eqn.invars if name in INFIX else ()
        operands = [self._operand(atom, others) for atom in eqn.invars]
        if name == _jax.DIMENSION[0]:
            expression = f"jnp.asarray({self._size(eqn.params[_jax.DIMENSION[1]])})"
        elif name in TEMPLATES:
            params = {key: self._settled(value) for key, value in eqn.params.items()}
            expression = TEMPLATES[name](params, operands)
        else:
            expression = bound(eqn, operands, self.imports)
        target = self._targets(eqn)
        yield self._commented(f"{target} = {expression}", eqn)

    def _targets(self, eqn: Any) -> str:
        names = [self._named(var) for var in eqn.outvars]
        is_tuple = eqn.primitive.multiple_results
        return f"{', '.join(names)}{',' if len(names) == 1 else ''}" if is_tuple else names[0]

    def _commented(self, text: str, eqn: Any) -> str:
        """Adds the user's line to a statement, as a comment behind or above it."""
        line = self._line_of(eqn)
        if self._every:
            return f"{text}{COMMENT}{line}"
        if not line or line == self._shown:
            return text
        self._shown = line
        return f"{text:{COLUMN}}  # {line}" if len(text) <= COLUMN else f"# {line}\n{text}"

    def _function(
        self, name: str, jaxpr: Any, params: Sequence[Any], consts: Sequence[Any] = ()
    ) -> tuple[str, list[str]]:
        """Returns the name and the lines of a function."""
        own = self._unique(name)
        for var, array in zip(jaxpr.constvars, consts, strict=True):
            self.constants.append(f"{self._named(var, 'w')} = {array_text(array)}")
        inputs = ", ".join(self._fresh(var) for var in params)
        return own, [f"def {own}({inputs}):", *_indented(self._body(jaxpr))]

    def _fresh(self, var: Any) -> str:
        """Names a variable of a jaxpr that may have been printed before."""
        self._names.pop(var, None)
        return self._named(var)

    def _alias(self, jaxpr: Any, count: int, operands: Sequence[Any]) -> list[str]:
        """Gives the first variables of a body the names of the operands that they stand for.
        Returns the definitions of those that are literals.
        """
        lines = []
        for var, atom in zip(jaxpr.invars[:count], operands, strict=True):
            if _jax.is_literal(atom):
                lines.append(f"{self._fresh(var)} = {self._operand(atom)}")
            else:
                self._names[var] = self._named(atom)
        return lines

    def _scan(self, eqn: Any) -> Iterator[str]:
        params = eqn.params
        constants, carry = _jax.scan_operands(params)
        jaxpr = _jax.open_jaxpr(params["jaxpr"])
        yield from self._alias(jaxpr, constants, eqn.invars[:constants])
        name, lines = self._stepped(
            jaxpr, jaxpr.invars[constants:][:carry], jaxpr.invars[constants + carry :], carry
        )
        yield from lines
        carried = self._tuple(eqn.invars[constants : constants + carry])
        rows = self._tuple(eqn.invars[constants + carry :])
        targets = [self._named(var) for var in eqn.outvars]
        parts = (targets[:carry], targets[carry:])
        left = [f"({', '.join(part)},)" if part else "_" for part in parts]
        extra = "" if eqn.invars[constants + carry :] else f", length={params['length']}"
        extra += ", reverse=True" if params["reverse"] else ""
        call = f"lax.scan({name}, {carried}, {rows}{extra})"
        yield self._commented(f"{', '.join(left)} = {call}", eqn)

    def _stepped(
        self, jaxpr: Any, carried: Sequence[Any], rows: Sequence[Any], carry: int
    ) -> tuple[str, list[str]]:
        """Returns the name and the lines of a scan's body."""
        name = self._unique("body")
        unpack = []
        for label, variables in (("carry", carried), ("row", rows)):
            if variables:
                names = [self._fresh(var) for var in variables]
                unpack.append(f"({', '.join(names)},) = {label}")
        lines = [f"def {name}(carry, row):", *_indented(unpack)]
        for eqn in jaxpr.eqns:
            lines += _indented(self._equation(eqn))
        first, rest = jaxpr.outvars[:carry], jaxpr.outvars[carry:]
        lines.append(f"    return {self._tuple(first)}, {self._tuple(rest)}")
        return name, lines

    def _unique(self, name: str) -> str:
        count, own = 0, name
        while own in self._used:
            count += 1
            own = f"{name}{count}"
        self._used.add(own)
        return own

    def _while(self, eqn: Any) -> Iterator[str]:
        params = eqn.params
        first, second = params["cond_nconsts"], params["body_nconsts"]
        names = []
        parts = (("cond_jaxpr", "proceed", 0, first), ("body_jaxpr", "body", first, second))
        for key, label, begin, count in parts:
            jaxpr = _jax.open_jaxpr(params[key])
            yield from self._alias(jaxpr, count, eqn.invars[begin : begin + count])
            name = self._unique(label)
            names.append(name)
            state = [self._fresh(var) for var in jaxpr.invars[count:]]
            lines = [f"({', '.join(state)},) = state"] if state else []
            for inner in jaxpr.eqns:
                lines += self._equation(inner)
            is_condition = key == "cond_jaxpr"
            returned = (
                self._operand(jaxpr.outvars[0]) if is_condition else self._tuple(jaxpr.outvars)
            )
            yield f"def {name}(state):"
            yield from _indented([*lines, f"return {returned}"])
        begin_with = self._tuple(eqn.invars[first + second :])
        targets = [self._named(var) for var in eqn.outvars]
        call = f"lax.while_loop({names[0]}, {names[1]}, {begin_with})"
        yield self._commented(f"({', '.join(targets)},) = {call}", eqn)

    def _cond(self, eqn: Any) -> Iterator[str]:
        names = []
        for branch in eqn.params["branches"]:
            jaxpr = _jax.open_jaxpr(branch)
            name, lines = self._function(
                "branch", jaxpr, jaxpr.invars, getattr(branch, "consts", ())
            )
            yield from lines
            names.append(name)
        operands = [self._operand(atom) for atom in eqn.invars]
        call = f"lax.switch({operands[0]}, [{', '.join(names)}], {', '.join(operands[1:])})"
        yield self._commented(f"{self._targets(eqn)} = {call}", eqn)

    def _settled(self, value: Any) -> Any:
        """Replaces symbolic dimensions by expressions."""
        if _jax.is_symbolic(value):
            return _Raw(self._size(value))
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return tuple(map(self._settled, value))
        return value

    def _size(self, dim: Any) -> str:
        text = str(dim).replace("^", "**")
        for name in ("floordiv", "mod"):
            if f"{name}(" in text:
                self.imports.add(f"from operator import {name}")
        return text


class _Raw:
    """A text that stands for itself among parameters."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


_CONTROL: dict[str, Callable[[ProgramText, Any], Iterator[str]]] = {
    "cond": ProgramText._cond,
    "scan": ProgramText._scan,
    "while": ProgramText._while,
}


def _plain_body(eqn: Any) -> Any:
    """Returns the only body of an equation if it has the same operands and results."""
    bodies = _jax.bodies_of(eqn)
    if len(bodies) != 1:
        return None
    body = _jax.open_jaxpr(bodies[0])
    same = _types(body.invars) == _types(eqn.invars) and _types(body.outvars) == _types(eqn.outvars)
    return bodies[0] if same else None


def _types(atoms: Sequence[Any]) -> list[tuple[Any, Any]]:
    return [(tuple(atom.aval.shape), atom.aval.dtype) for atom in atoms]


def _size_expressions(invars: Sequence[Any], names: Sequence[str]) -> dict[str, str]:
    """Returns expressions for the dimension variables that are sizes of inputs."""
    found: dict[str, str] = {}
    for var, name in zip(invars, names, strict=True):
        for axis, dim in enumerate(var.aval.shape):
            if _jax.is_symbolic(dim) and str(dim).isidentifier():
                found.setdefault(str(dim), f"{name}.shape[{axis}]")
    return found


def line_of_equation(eqn: Any) -> str:
    """Returns the user's line of an equation, with its text, or an empty string."""
    frame = user_frame(_jax.frames_of(eqn))
    if frame is None:
        return ""
    text = linecache.getline(frame.file_name, frame.line_num).strip()
    return f"{location(frame)}  {text}".strip()


def _letters(number: int) -> str:
    """Returns `a` for 0, `z` for 25, `aa` for 26."""
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("a") + digit) + text
    return text


def _indented(lines: Any) -> list[str]:
    return [f"    {line}" for text in lines for line in text.splitlines()]
