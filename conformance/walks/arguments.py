"""Arguments of calls, and the notation for tables of calls."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np


@dataclass
class Arguments:
    """The arguments of a call: arrays become inputs of the model, everything else is fixed."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    via: Callable[..., Any] | None = None

    def bind(self, function: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
        """Returns a function of the arrays alone, and the arrays."""
        places = [i for i, arg in enumerate(self.args) if _is_input(arg)]

        def run(*arrays: Any) -> Any:
            args = list(self.args)
            for place, array in zip(places, arrays, strict=True):
                args[place] = array
            return function(*args, **self.kwargs)

        return run, jax.tree.map(_as_array, [self.args[place] for place in places])

    def __str__(self) -> str:
        """Formats the arguments for lists."""
        parts = [_shown(arg) for arg in self.args]
        parts += [f"{name}={_shown(value)}" for name, value in self.kwargs.items()]
        if self.via is not None:
            parts.append(f"line {self.via.__code__.co_firstlineno}")
        return ", ".join(parts)


@dataclass
class Table:
    """The calls to a module's functions."""

    calls: dict[str, list[Arguments]]
    # Functions that neither take nor return arrays, or cannot be called during tracing.
    without_arrays: str = ""


def call(*args: Any, **kwargs: Any) -> Arguments:
    """Calls the function with these arguments."""
    return Arguments(args, kwargs)


def via(function: Callable[..., Any], *args: Any) -> Arguments:
    """Calls another function, which calls the function under test."""
    return Arguments(args, {}, function)


def each(names: str, *calls: Arguments) -> dict[str, list[Arguments]]:
    """Assigns the same calls to several functions."""
    return {name: list(calls) for name in names.split()}


def floats(*shape: int, low: float = -3, high: float = 3, seed: int = 0) -> np.ndarray:
    """Draws random numbers from an interval."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def integers(*shape: int, low: int = -9, high: int = 10, seed: int = 0) -> np.ndarray:
    """Draws random integers from a half-open interval."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int32)


def booleans(*shape: int, seed: int = 0) -> np.ndarray:
    """Draws random booleans."""
    return np.random.default_rng(seed).integers(0, 2, shape).astype(np.bool_)


def complexes(*shape: int, seed: int = 0) -> np.ndarray:
    """Draws random complex numbers."""
    return (floats(*shape, seed=seed) + 1j * floats(*shape, seed=seed + 1)).astype(np.complex64)


def positive_definite(*shape: int, seed: int = 0) -> np.ndarray:
    """Draws a random symmetric matrix, or a batch of them, with eigenvalues above one."""
    half = floats(*shape, seed=seed)
    return half @ half.swapaxes(-1, -2) + np.eye(shape[-1], dtype=np.float32)


SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 7, -7.3, 1e-5, 30],
    np.float32,
)


def _as_array(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, np.generic) else leaf


def _is_input(arg: Any) -> bool:
    leaves: Iterable[Any] = jax.tree.leaves(arg)
    return any(isinstance(leaf, np.ndarray | np.generic | jax.Array) for leaf in leaves)


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return f"{value.dtype}{list(value.shape)}".replace(" ", "")
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_shown, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return getattr(value, "__name__", None) or repr(value)
