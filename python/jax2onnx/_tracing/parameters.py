"""The paths of parameters and modules in the user's model, which become their names.

`model`, `lambda x: model(x)`, `jax.jit(model)` and `functools.partial(apply, params)` all name the
same parameter `blocks.3.q.kernel`. Parameters are found by the identity of their array.
"""

import functools
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from jax2onnx import _frameworks, _jax
from jax2onnx._frameworks.linen import PARAMETERS
from jax2onnx._python.objects import PACKAGE, global_variables, held, is_installed, once_per_type
from jax2onnx._tracing.checkpoint import Weights
from jax2onnx._tracing.names import Names, argument_names, signature_of
from jax2onnx._tracing.walk import Found, call_definitions, join, walker

_JAX = frozenset({"jax", "jaxlib"})


@dataclass
class Tree:
    """The objects that a callable holds.

    Attributes:
        modules: Every module (an object with a Python `__call__`) with its path.
        objects: Every array and every object that can hold others.
        loose: The ids of containers that are variables of functions, not parts of other objects.
        functions: The functions that the callable consists of.
        classes: The classes that objects refer to.
        key: A key that changes with anything that a traced function could depend on.
        settings: A hash of all that but the arrays: numbers, texts, types and code.
        arrays: The paths of parameters, by the identity of their arrays.
    """

    modules: list[tuple[Any, str]]
    objects: list[Any]
    loose: set[int]
    functions: list[types.FunctionType]
    classes: list[type]
    key: str
    settings: int
    arrays: dict[object, str]

    def name_of(self, array: Any) -> str | None:
        """Returns the path of a parameter, or None if it is not one of the callable's arrays."""
        return self.arrays.get(_identity(array))

    def replace(self, old: Iterable[Any], new: Iterable[tuple[str, Any]]) -> None:
        """Names the arrays that replace the callable's arrays `old`."""
        for array in old:
            self.arrays.pop(_identity(array), None)
        for name, array in new:
            self.arrays.setdefault(_identity(array), name)


class _Branch(NamedTuple):
    """The arrays and modules below one of the objects that a callable refers to."""

    name: str
    root: Any
    arrays: Found
    modules: Found


class SharedParameters:
    """Parameters of several models. An array has the same name in all of them, and a tensor of a
    checkpoint is one array.
    """

    def __init__(self, functions: int) -> None:
        self.functions = functions
        self.weights = Weights()
        self._names = Names()
        self._arrays: dict[object, str] = {}
        self._trees: list[Tree] = []  # as long as an array is there, nothing else has its identity

    def names_in(self, tree: Tree) -> Callable[[Any], str | None]:
        """Adds a callable. Returns a function from its parameters to their names."""
        self._trees.append(tree)
        for identity, name in tree.arrays.items():
            if identity not in self._arrays:
                self._arrays[identity] = self._names.unique(name)
        return lambda array: self._arrays.get(_identity(array))


def tree_of(fn: Any, *, abstract: bool = False) -> Tree:
    """Walks `fn` and everything that it refers to. With `abstract`, parameters may lack values."""
    walk = walker(abstract=abstract)
    roots = _Roots(fn)
    branches = [_Branch(name, obj, *walk.walk(obj)) for name, obj in list(roots)]
    alone = _the_model(branches)
    modules: list[tuple[Any, str]] = []
    arrays: dict[object, str] = {}
    names = Names()
    for index, branch in enumerate(branches):
        prefix = "" if index == alone else branch.name
        collection = f"{PARAMETERS}." if _frameworks.has_parameters(branch.root) else ""
        modules.extend((module, join(prefix, path)) for module, path, _ in branch.modules)
        for array, path, is_name in branch.arrays:
            full = path
            if not is_name:
                full = join(prefix, path.removeprefix(collection)).replace("/", ".")
            arrays.setdefault(_identity(array), names.unique(full or "parameter"))
    addresses = {id(array) for branch in branches for array, _, _ in branch.arrays}
    key = hash((_code(fn), tuple(path for _, path in modules), walk.fingerprint))
    # Attributes may be in another order.
    settings = hash(_code(fn)) + sum(map(hash, (path for _, path in modules)))
    settings += sum(hash(one) for one in walk.fingerprint if one not in addresses)
    return Tree(
        modules,
        walk.objects,
        walk.loose,
        roots.functions,
        walk.classes,
        f"{key:x}",
        settings,
        arrays,
    )


def function_of(fn: Any) -> tuple[str, str, int] | None:
    """Returns the file, qualified name and first line of a Python function, or None for others."""
    code = _code(fn)
    return code and (code.co_filename, code.co_qualname, code.co_firstlineno)


def _the_model(branches: list[_Branch]) -> int | None:
    """Returns the index of the only model's variable, whose name is omitted from paths."""

    def single(holds: list[bool]) -> int | None:
        return holds.index(True) if holds.count(True) == 1 else None

    # A variable that is itself an array has an empty path, so its name is needed.
    holds = [any(path for _, path, _ in branch.arrays) for branch in branches]
    modules = [bool(branch.modules) for branch in branches]
    if not any(branch.arrays for branch in branches):
        return single(modules)
    # Besides the parameters there may be a state, such as batch statistics, in another variable.
    parameters = [branch.name == PARAMETERS for branch in branches]
    for marks in (holds, modules, parameters):
        index = single([a and b for a, b in zip(holds, marks, strict=True)])
        if index is not None:
            return index
    return None


@once_per_type
def _is_array(kind: type) -> bool:
    """Returns `True` for JAX's array types. Asking for each instance would take much longer."""
    return issubclass(kind, jax.Array)


def _identity(array: Any) -> object:
    """Returns a key that identifies an array before and after JAX has traced it."""
    if _is_array(type(array)) or isinstance(array, jax.Array):
        return id(array)
    array = _jax.unwrapped(array)
    if isinstance(array, np.ndarray):  # JAX makes views of NumPy arrays
        # A transposed view starts at the same address as the array.
        return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype
    return id(array)


class _Roots:
    """The objects that a callable refers to directly, each with the name of its variable.

    The parts of the callable itself have no names.

    Attributes:
        functions: The functions among them, complete after the iteration.
    """

    def __init__(self, fn: Any) -> None:
        self._fn = fn
        self._seen: set[int] = set()
        self.functions: list[types.FunctionType] = []

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self._of("", self._fn, own=True)

    def _of(self, name: str, value: Any, *, own: bool = False) -> Iterator[tuple[str, Any]]:
        if isinstance(value, type | types.ModuleType) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, functools.partial):
            yield from self._of(name, value.func, own=own)
            names = argument_names(signature_of(value.func))
            for argument, bound in zip(names, value.args, strict=False):
                yield from self._of(argument, bound)
            for argument, bound in value.keywords.items():
                yield from self._of(argument, bound)
        elif isinstance(value, types.FunctionType):
            wrapped = value.__dict__.get("__wrapped__")
            yield from self._of(name, wrapped, own=own)
            # The other variables of our own wrappers are not the user's.
            if wrapped is None or not value.__code__.co_filename.startswith(PACKAGE):
                yield from self._variables(value, own=own)
        elif _is_method(value):  # which exposes the `__wrapped__` of its function as its own
            yield from self._of(name, value.__self__)
            yield from self._variables(value.__func__, own=own)
        elif own and (inner := getattr(value, "__wrapped__", None)) is not None:
            yield from self._of(name, inner, own=own)
        elif type(value).__module__.partition(".")[0] in _JAX and callable(value):
            yield from self._of(name, getattr(value, "__wrapped__", None))
        else:
            yield name, value
            if own and call_definitions(type(value)):
                yield from self._of(name, type(value).__call__, own=True)

    def _variables(self, function: Any, *, own: bool) -> Iterator[tuple[str, Any]]:
        if isinstance(function, types.FunctionType):
            self.functions.append(function)
        for name, value in held(function):
            yield from self._of(name, value)
        code = getattr(function, "__code__", None)
        if code is None or (is_installed(code.co_filename) and not own):
            return
        for name, value in global_variables(function):
            yield from self._of(name, value)


def _is_method(value: Any) -> bool:
    """Returns `True` for a bound method, Python's or a framework's."""
    return isinstance(value, types.MethodType) or _frameworks.is_method(value)


def _code(fn: Any) -> types.CodeType | None:
    """Returns the code that runs first when the user's function is called."""
    fn = _jax.mapped(fn)
    for _ in range(100):  # `__wrapped__` may be a cycle
        if (inner := getattr(fn, "__wrapped__", None)) is not None:
            fn = inner
        elif isinstance(fn, functools.partial):
            fn = fn.func
        elif _is_method(fn):
            fn = fn.__func__
        elif isinstance(fn, types.FunctionType):
            return fn.__code__
        elif call_definitions(type(fn)):
            fn = type(fn).__call__
        else:
            break
    return None
