"""The programs of `primitives` that convert, and the comparison of their results."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.checking import as_tensor, assert_close
from primitives import GROUPS, subject

PROGRAMS = {
    name: program
    for group, programs in GROUPS.items()
    if group != "errors"
    for name, program in programs.items()
}

# Rows and columns of these results are unique only up to a factor of absolute value 1.
UP_TO_A_FACTOR = ("eig", "eigh", "schur", "svd")


def assert_program_close(name: str, found: Sequence[np.ndarray], leaves: Sequence[Any]) -> None:
    """Compares the results of a program with those of JAX."""
    expected = [as_tensor(leaf) for leaf in leaves]
    if subject(name) in UP_TO_A_FACTOR:
        found, expected = (
            [_magnitudes(v, leaf.shape) for v, leaf in zip(values, leaves, strict=True)]
            for values in (found, expected)
        )
    assert_close(found, expected)


def _magnitudes(tensor: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sorts absolute values along the last axis, because columns come in any order."""
    is_complex = tensor.ndim > len(shape)
    return np.sort(np.hypot(tensor[..., 0], tensor[..., 1]) if is_complex else np.abs(tensor))
