"""Reads the attributes of objects and functions without running any of their code."""

import functools
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import jaxlib

T = TypeVar("T")

# The folder of this package.
PACKAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")

# The same rule as in `crates/provenance`: packages may be installed in another environment than the
# interpreter's, and JAX may be a checkout.
_LIBRARIES = tuple(
    os.path.join(folder, "")
    for folder in (
        sysconfig.get_path("stdlib"),
        *map(os.path.dirname, (jax.__file__, jaxlib.__file__)),
    )
)
_PACKAGES = ("/site-packages/", "/dist-packages/")


@functools.lru_cache(maxsize=4096)
def is_installed(file: str) -> bool:
    """Returns `True` for a source file of the standard library or an installed package, whose
    functions refer to globals of their own.
    """
    path = file.replace(os.sep, "/")
    return file.startswith(_LIBRARIES) or any(folder in path for folder in _PACKAGES)


def is_users(file: str) -> bool:
    """Returns `True` for source files that are neither installed nor in this package."""
    return not (file.startswith((PACKAGE, "<")) or is_installed(file))


def users_frame() -> int:
    """Returns the `stacklevel` of a warning that points to the user's code."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and not is_users(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


def once_per_type(function: Callable[[type], T]) -> Callable[[type], T]:
    remember: Any = functools.lru_cache(maxsize=1024)
    return remember(function)  # type: ignore[no-any-return]


@once_per_type
def has_dict(kind: type) -> bool:
    """Returns `True` if the objects of a type have dictionaries."""
    return any("__dict__" in base.__dict__ for base in kind.__mro__)


def instance_dict(obj: Any) -> dict[str, Any]:
    """Returns the dictionary of an object, or an empty one."""
    try:
        return object.__getattribute__(obj, "__dict__")  # type: ignore[no-any-return]
    except AttributeError:
        return {}


@once_per_type
def slots(kind: type) -> tuple[types.MemberDescriptorType, ...]:
    """Returns the slots that a type and its bases declare."""
    return tuple(
        member
        for base in kind.__mro__
        if base.__dict__.get("__slots__")
        for member in base.__dict__.values()
        if isinstance(member, types.MemberDescriptorType)
    )


def cells(function: Any) -> Iterator[tuple[str, Any]]:
    """Yields the variables that a function closes over."""
    code = getattr(function, "__code__", None)
    closure = getattr(function, "__closure__", None)
    if code is None or closure is None:
        return
    for name, cell in zip(code.co_freevars, closure, strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def defaults(function: Any) -> Iterator[tuple[str, Any]]:
    """Yields the arguments of a function that have default values, with the values."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    values = function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    yield from zip(names[len(names) - len(values) :], values, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def held(function: Any) -> Iterator[tuple[str, Any]]:
    """Yields the variables that a function closes over, and its default values."""
    yield from cells(function)
    yield from defaults(function)


def global_names(code: types.CodeType) -> Iterator[str]:
    """Yields the global names and the attributes that a function and its inner functions read."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from global_names(const)


def global_variables(function: Any) -> Iterator[tuple[str, Any]]:
    """Yields the global variables that a function and the functions inside it may read."""
    namespace = function.__globals__
    for name in dict.fromkeys(global_names(function.__code__)):
        if name in namespace:
            yield name, namespace[name]
