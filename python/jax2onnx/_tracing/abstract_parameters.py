"""Parameters without values: `jax.ShapeDtypeStruct`s in place of arrays, as `jax.eval_shape` and
`nnx.eval_shape` make them. They become arguments while a function is traced, and constants of the
jaxpr afterwards, whose elements come from a checkpoint.
"""

import functools
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import jax

from jax2onnx._python.objects import global_variables, has_dict, instance_dict, slots
from jax2onnx._tracing.checkpoint import Parameter
from jax2onnx._tracing.parameters import Tree, tree_of
from jax2onnx.errors import InvalidInputError

_INSTEAD = (
    "pass checkpoint= to the export, which reads them from a file; elsewhere, pass a function that "
    "holds arrays"
)


# The containers of pytrees that can be changed in place.
_PLAIN = (dict, list)


class AbstractParameters:
    """The parameters without values that a callable holds.

    Attributes:
        structs: All of them, in the order of the walk.
        parameters: Their names, shapes and types, in the same order.
    """

    def __init__(self, tree: Tree) -> None:
        structs = [s for s in tree.objects if isinstance(s, jax.ShapeDtypeStruct)]
        self.structs = structs
        self._holders = tree.objects
        self._functions = tree.functions
        self.parameters = [_described(struct, tree.name_of(struct)) for struct in structs]
        self._check_separate(tree)

    @property
    def types(self) -> list[Any]:
        """The types that JAX traces in place of the parameters."""
        return [jax.ShapeDtypeStruct(struct.shape, struct.dtype) for struct in self.structs]

    def _check_separate(self, tree: Tree) -> None:
        """Raises if two parameters share one struct, which would make them one parameter.

        Parameters share it also if a pytree contains the same dictionary or list twice, as
        `[layer] * 2` does.
        """
        counts: dict[int, int] = {}
        for holder in self._holders:
            for _, value in _entries(holder):
                for part in _parts(value):
                    is_struct = isinstance(part, jax.ShapeDtypeStruct)
                    if is_struct or (type(part) in _PLAIN and type(holder) in _PLAIN):
                        counts[id(part)] = counts.get(id(part), 0) + 1
        shared = [h for h in self._holders if type(h) in _PLAIN and counts.get(id(h), 0) > 1]
        within = {id(leaf) for leaf in jax.tree_util.tree_leaves(shared)}
        for struct in self.structs:
            if counts.get(id(struct), 0) > 1 or id(struct) in within:
                raise InvalidInputError(
                    "shared-parameter",
                    f"several parameters share the ShapeDtypeStruct of `{tree.name_of(struct)}`",
                    help="create one for each parameter, as jax.eval_shape does",
                )

    @contextmanager
    def filled(self, values: Sequence[Any], fn: Any) -> Iterator[Any]:
        """Provides `fn` with values in place of its parameters. Only this thread may call it."""
        by_struct = {id(s): value for s, value in zip(self.structs, values, strict=True)}
        undo: list[Any] = []
        try:
            held = chain(map(_entries, self._holders), map(_variables, self._functions))
            for put, old in chain.from_iterable(held):
                new = _replaced(old, by_struct)
                if new is not old:
                    put(new)
                    undo.append((put, old))
            yield _replaced(fn, by_struct)
        finally:
            for put, old in reversed(undo):
                put(old)


@contextmanager
def explained(fn: Any) -> Iterator[None]:
    """Adds a note to errors that come from parameters without values."""
    try:
        yield
    except Exception as error:
        if "ShapeDtypeStruct" in str(error):
            tree = tree_of(fn, abstract=True)
            objects = tree.objects
            structs = (obj for obj in objects if isinstance(obj, jax.ShapeDtypeStruct))
            if name := next(filter(None, map(tree.name_of, structs)), None):
                error.add_note(f"\nthe parameter `{name}` has no values\n  help: {_INSTEAD}")
        raise


def check_values(closed: Any, fn: Any) -> None:
    """Raises if a jaxpr has a parameter without values, which JAX took for an array."""
    for const in closed.consts:
        if isinstance(const, jax.ShapeDtypeStruct):
            message = f"the parameter `{tree_of(fn, abstract=True).name_of(const)}` has no values"
            raise InvalidInputError("no-values", message, help=_INSTEAD)


def _described(struct: Any, name: str | None) -> Parameter:
    shape = tuple(struct.shape)
    if not all(isinstance(size, int) for size in shape):
        raise InvalidInputError(
            "symbolic-parameter", f"the parameter `{name}` has a symbolic shape: {shape}"
        )
    # Random keys have types that are not NumPy's. Most models hold some and do not use them.
    return Parameter(name or "parameter", shape, str(struct.dtype))


def _entries(holder: Any) -> list[tuple[Any, Any]]:
    """Returns the values that an object holds directly, each with a function that replaces it."""
    if isinstance(holder, jax.ShapeDtypeStruct | tuple | types.FunctionType | functools.partial):
        return []
    found: list[tuple[Any, Any]] = []
    if isinstance(holder, dict):
        found += [(functools.partial(dict.__setitem__, holder, k), v) for k, v in holder.items()]
    elif isinstance(holder, list):
        found += [(functools.partial(list.__setitem__, holder, i), v) for i, v in enumerate(holder)]
    kind = type(holder)
    if has_dict(kind) and (stored := instance_dict(holder)):
        found += [(functools.partial(stored.__setitem__, k), v) for k, v in stored.items()]
    for slot in slots(kind):
        try:
            found.append((functools.partial(slot.__set__, holder), slot.__get__(holder)))
        except AttributeError:  # not assigned yet
            continue
    return found


def _variables(function: types.FunctionType) -> Iterator[tuple[Any, Any]]:
    """Yields the variables that a function refers to, each with a function that replaces it."""
    for cell in function.__closure__ or ():
        try:
            yield functools.partial(setattr, cell, "cell_contents"), cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name, value in global_variables(function):
        yield functools.partial(dict.__setitem__, function.__globals__, name), value


def _replaced(value: Any, by_struct: dict[int, Any]) -> Any:
    """Replaces parameters by their values, also in tuples and partial functions."""
    if isinstance(value, jax.ShapeDtypeStruct):
        return by_struct.get(id(value), value)
    if isinstance(value, tuple):
        parts = [_replaced(part, by_struct) for part in value]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if type(value) is functools.partial:
        called: Any = _replaced(value.func, by_struct)
        parts = [_replaced(part, by_struct) for part in value.args]
        keywords = {name: _replaced(part, by_struct) for name, part in value.keywords.items()}
        old = (value.func, *value.args, *value.keywords.values())
        if all(a is b for a, b in zip((called, *parts, *keywords.values()), old, strict=True)):
            return value
        return functools.partial(called, *parts, **keywords)
    return value


def _parts(value: Any) -> Iterator[Any]:
    """Yields a value, or the parts of a tuple."""
    if isinstance(value, tuple):
        for part in value:
            yield from _parts(part)
    else:
        yield value


def as_constants(closed: Any, count: int) -> tuple[Any, list[int]]:
    """Turns the first `count` arguments of a closed jaxpr into its first constants, without values.
    Drops those that are not used, and returns the positions of the others.
    """
    jaxpr = closed.jaxpr
    used = {id(v) for eqn in jaxpr.eqns for v in eqn.invars} | {id(v) for v in jaxpr.outvars}
    kept = [i for i, var in enumerate(jaxpr.invars[:count]) if id(var) in used]
    constvars = [jaxpr.invars[i] for i in kept] + list(jaxpr.constvars)
    return jaxpr.replace(invars=jaxpr.invars[count:], constvars=constvars), kept
