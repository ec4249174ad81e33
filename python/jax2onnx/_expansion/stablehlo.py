"""Functions that `jax.export` wrote, as functions that JAX can trace.

An artifact holds a program in StableHLO. Each of its operations is traced as the `jax.lax` function
that is lowered to it, inside the call stack that its location records, so all rules apply and every
node has its line.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from jax2onnx import _jax
from jax2onnx._expansion.keys import is_key
from jax2onnx._expansion.stablehlo_locations import Location, placed
from jax2onnx._expansion.stablehlo_operations import (
    Operation,
    evaluated,
    is_traced,
    materialized,
    text_of,
)
from jax2onnx._expansion.stablehlo_rules import RULES, SIZES_FROM


def function_of(exported: Any) -> Callable[..., list[Any]]:
    """Returns a function of the flat operands of an exported function, which returns a list."""
    module = Module(_jax.stablehlo_module(exported))

    def function(*operands: Any) -> list[Any]:
        given = [_without_keys(operands[i]) for i in exported.module_kept_var_idx]
        # Every operation has explicit types, which 64-bit ones must remain.
        with _jax.precision(double=True):
            results = module.run(module.functions["main"], given, {})
        return [
            jax.random.wrap_key_data(value, impl=_jax.key_implementation(aval.dtype).name)
            if is_key(aval)
            else value
            for value, aval in zip(results, exported.out_avals, strict=True)
        ]

    return function


def _without_keys(value: Any) -> Any:
    return jax.random.key_data(value) if is_key(value) else value


class UntraceableError(ValueError):
    """The program has an operation that cannot be traced."""


class Module:
    """A program in StableHLO.

    Attributes:
        functions: The blocks of its functions, by name.
    """

    def __init__(self, module: Any) -> None:
        # Operations are valid as long as their module is.
        self._module = module
        self.functions = {
            text_of(op.attributes["sym_name"]): op.regions[0].blocks[0]
            for op in module.regions[0].blocks[0].operations
            if op.operation.name == "func.func"
        }

    def run(self, block: Any, operands: Sequence[Any], outer: dict[Any, Any]) -> list[Any]:
        """Runs a block and returns the operands of its last operation as arrays."""
        last, results = self.values(block, operands, outer)
        types = [operand.type for operand in last.operands]
        return [materialized(*pair) for pair in zip(results, types, strict=True)]

    def values(
        self, block: Any, operands: Sequence[Any], outer: dict[Any, Any]
    ) -> tuple[Any, list[Any]]:
        """Runs a block. Returns its last operation and the operands of that, which may be sizes."""
        values = dict(outer)
        values.update(zip(block.arguments, operands, strict=True))
        for op in block.operations:
            given = [values[operand] for operand in op.operands]
            name = op.operation.name
            if name in ("func.return", "stablehlo.return"):
                return op, given
            run = functools.partial(self._operation, Operation(op, self, values), name)
            place = Location.of(str(op.location))
            try:
                results = placed(place, run, given) if is_traced(name, given) else run(*given)
                values.update(zip(op.results, results, strict=True))
            except UntraceableError:
                raise
            except Exception as error:
                raise UntraceableError(
                    f"{_described(name, place)} cannot be traced: {error}"
                ) from error
        raise UntraceableError("one of its blocks returns nothing")

    def _operation(self, op: Operation, name: str, *given: Any) -> Sequence[Any]:
        dialect, _, kind = name.partition(".")
        if (known := evaluated(op, kind, given)) is not None:
            return [known]
        rule = RULES.get(name) or RULES.get(kind)
        if rule is None or dialect not in ("stablehlo", "chlo", "func", "sdy"):
            raise NotImplementedError("it is not supported")
        first_size = SIZES_FROM.get(kind, len(given))
        given = tuple(
            materialized(value, operand.type) if i < first_size else value
            for i, (value, operand) in enumerate(zip(given, op.op.operands, strict=True))
        )
        found = rule(op, *given)
        return found if isinstance(found, list | tuple) else [found]


def _described(name: str, place: Location) -> str:
    at = place.frames[-1:]
    where = f" ({at[0].file}:{at[0].line} in {at[0].function})" if at else ""
    return f"its operation `{name}`{where}"
