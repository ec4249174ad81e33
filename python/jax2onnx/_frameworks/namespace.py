"""Functions with different values for some of their global variables."""

import dis
import types
from collections.abc import Iterator, Mapping
from typing import Any

from jax2onnx._python.objects import global_variables, is_installed


class Namespace(dict[str, Any]):
    """The global variables of a function: some are replaced, all others are looked up when they are
    read. Python calls `__missing__` for the globals of a function, too.
    """

    def __init__(self, real: Mapping[str, Any]) -> None:
        # The interpreter reads its own entries without calling `__missing__`.
        super().__init__({name: value for name, value in real.items() if name.startswith("__")})
        self._real = real

    def __missing__(self, name: str) -> Any:
        return self._real[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._real


def globals_of(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yields the global variables that a function of the user may read."""
    if is_installed(function.__code__.co_filename):
        return
    yield from global_variables(function)


def assigns_globals(code: types.CodeType) -> bool:
    """Returns `True` if a function, or one inside it, assigns globals and needs the real ones."""
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    stores = any(
        "GLOBAL" in instruction.opname and "LOAD" not in instruction.opname
        for instruction in dis.get_instructions(code)
    )
    return stores or any(map(assigns_globals, inner))
