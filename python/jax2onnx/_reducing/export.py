"""Converts and runs programs in several ways."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from jax2onnx import _core, _jax
from jax2onnx._checking.runtime import Runnable, as_tensor
from jax2onnx._export import result
from jax2onnx._export.lowering_rules import registered
from jax2onnx._export.options import Boundary, Options
from jax2onnx._reducing.case import Case

Runtime = Literal["optimised", "unoptimised", "reference"]


@dataclass(frozen=True)
class Way:
    """A way to export and run a program.

    Attributes:
        fuel: The largest number of changes of our optimiser, or None.
        runtime: onnxruntime with or without its optimiser, or ONNX's reference evaluator.
    """

    fuel: int | None = None
    runtime: Runtime = "optimised"


USUAL = Way()


@dataclass(frozen=True)
class Exporter:
    """The settings of the conversion.

    Attributes:
        options: The options of the export.
        double: `True` if 64-bit types are enabled.
        name_of: Returns the path of a parameter of the user's model, or None.
    """

    options: Options
    double: bool
    name_of: Callable[[Any], str | None] = lambda _: None

    def model(self, case: Case, fuel: int | None = None, **changes: Any) -> "_core.Model":
        parameters = zip(case.closed.consts, case.parameters, strict=True)
        names = {id(array): name for array, name in parameters}
        boundary = Boundary(
            input_names=case.names, output_names=[f"y{i}" for i in range(len(case.jaxpr.outvars))]
        )
        with _jax.precision(double=self.double):
            return _core.convert(
                case.closed,
                replace(self.options, fuel=fuel, **changes),
                boundary,
                name_of=lambda array: names.get(id(array)) or self.name_of(array),
                rules=registered(),
            )

    def proto(self, case: Case, fuel: int | None = None, **changes: Any) -> Any:
        """Returns the model of a program as an `onnx.ModelProto`."""
        return result.to_proto(self.model(case, fuel, **changes))

    def run(self, case: Case, way: Way = USUAL) -> list[np.ndarray]:
        """Returns the results of the model of a program."""
        runnable = Runnable(self.proto(case, way.fuel))
        feeds = [as_tensor(array) for array in case.args]
        if way.runtime == "reference":
            return _referenced(runnable, feeds)
        return runnable.run(feeds, optimised=way.runtime == "optimised")

    def expected(self, case: Case) -> list[np.ndarray]:
        with _jax.precision(double=self.double):
            return [as_tensor(array) for array in case.expected]


def _referenced(runnable: Runnable, feeds: list[np.ndarray]) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator

    names = [value.name for value in runnable.inputs]
    with np.errstate(all="ignore"):
        found: Any = ReferenceEvaluator(runnable.proto).run(
            None, dict(zip(names, feeds, strict=True))
        )
    return [np.asarray(array) for array in found]
