"""Weights that were rounded with sample inputs, as a value of the option `weights`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jax2onnx._tracing.trace import Traced
from jax2onnx.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class WeightRounding:
    """The error of a rounded weight in the products that read it, relative to their results.

    Attributes:
        name: The name of the parameter.
        nearest: The error if each element is rounded to the nearest number.
        calibrated: The error with calibrated rounding.
    """

    name: str
    nearest: float
    calibrated: float


@dataclass(frozen=True)
class CalibratedWeights(Mapping[str, str]):
    """The result of `calibrate`: a value of the option `weights`.

    Attributes:
        formats: The format of each pattern.
        arrays: The rounded weights, by name.
        by_weight: The error of each weight, in the order of the computation.
    """

    formats: Mapping[str, str]
    arrays: Mapping[str, "np.ndarray[Any, Any]"] = field(repr=False)
    by_weight: tuple[WeightRounding, ...]

    def __getitem__(self, pattern: str) -> str:
        """Returns the format of a pattern."""
        return self.formats[pattern]

    def __iter__(self) -> Iterator[str]:
        """Iterates over the patterns."""
        return iter(self.formats)

    def __len__(self) -> int:
        """Returns the number of patterns."""
        return len(self.formats)

    def __str__(self) -> str:
        """Formats a table of the errors."""
        rows = [f"{'nearest':>10} {'calibrated':>10}  weight"]
        rows += [f"{r.nearest:10.3g} {r.calibrated:10.3g}  {r.name}" for r in self.by_weight]
        return "\n".join(rows)


def with_calibrated(traced: Traced, arrays: Mapping[str, Any], *, in_set: bool) -> Traced:
    """Replaces parameters of a traced function by rounded ones."""
    constants, found = [], set()
    for constant in traced.jaxpr.consts:
        name = traced.tree.name_of(constant)
        value = None if name is None else arrays.get(name)
        if name is None or value is None:
            constants.append(constant)
            continue
        found.add(name)
        if value.shape != constant.shape:
            raise _other(f"`{name}` has the shape {list(constant.shape)}, not {list(value.shape)}")
        same = value if value.dtype == constant.dtype else value.astype(constant.dtype)
        traced.tree.replace([constant], [(name, same)])
        constants.append(same)
    missing = [name for name in arrays if name not in found]
    if missing and not in_set:
        raise _other(f"it has no parameter `{missing[0]}`")
    return replace(traced, jaxpr=type(traced.jaxpr)(traced.jaxpr.jaxpr, constants))


def _other(problem: str) -> InvalidInputError:
    return InvalidInputError(
        "unsuitable-weights",
        f"`weights` were calibrated for another function: {problem}",
        help="calibrate the function that is exported",
    )
