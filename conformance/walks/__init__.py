"""Calls to the public functions of JAX's modules, with typical arguments.

Each module has its own table. Functions that a table lacks are listed as untried, so that additions
in a newer JAX show up.
"""

import importlib
import types
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from conformance.evaluate import Result, evaluate
from conformance.walks.arguments import Arguments, Table

MODULES = {
    name: name.replace(".", "_")
    for name in (
        "jax.numpy",
        "jax.numpy.linalg",
        "jax.numpy.fft",
        "jax.nn",
        "jax.image",
        "jax.lax.linalg",
        "jax.ops",
        "jax.random",
        "jax.scipy.fft",
        "jax.scipy.linalg",
        "jax.scipy.ndimage",
        "jax.scipy.signal",
        "jax.scipy.special",
    )
}


class Call(NamedTuple):
    """A call to a function, with arrays that become inputs of the model."""

    group: str
    function: str
    run: Callable[..., Any]
    arrays: list[Any]

    def evaluate(self) -> Result:
        """Exports the call, runs the model and compares the numbers with JAX's."""
        return evaluate(self.run, self.arrays)


def calls(*modules: str) -> dict[str, Call]:
    """Returns the calls of some modules, or of all modules, by name."""
    found: dict[str, Call] = {}
    for module in modules or MODULES:
        there = public(module)
        for function, entries in _table(module).calls.items():
            for arguments in entries if function in there else ():
                name = f"{module}.{function}({arguments})"
                while name in found:  # the same types, but other numbers
                    name += "'"
                found[name] = _call(module, function, arguments)
    return found


def public(module: str) -> list[str]:
    """Returns the public functions of a module, without classes and submodules."""
    there = importlib.import_module(module)
    kinds = (type, types.ModuleType)
    return [
        name
        for name in dir(there)
        if not name.startswith("_")
        and callable(getattr(there, name))
        and not isinstance(getattr(there, name), kinds)
    ]


def untried(module: str) -> list[str]:
    """Returns the public functions of a module that its table lacks."""
    table = _table(module)
    known = {*table.calls, *table.without_arrays.split()}
    return [function for function in public(module) if function not in known]


@cache
def _table(module: str) -> Table:
    table = importlib.import_module(f"conformance.walks.{MODULES[module]}").TABLE
    assert isinstance(table, Table)
    return table


def _call(module: str, function: str, arguments: Arguments) -> Call:
    fn = arguments.via or getattr(importlib.import_module(module), function)
    return Call(module, function, *arguments.bind(fn))
