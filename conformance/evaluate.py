"""Exports a function, runs it in ONNX Runtime and compares it with JAX."""

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from conformance import numbers, runtime
from jax2onnx import to_onnx
from jax2onnx.errors import UnsupportedError

MATCH = "match"
UNSUPPORTED = "unsupported"  # a clear error with a reason
NEWER = "newer"  # the model matches JAX only at a newer opset
MISMATCH = "mismatch"  # the model computes something else
REFUSED = "refused"  # ONNX Runtime cannot load or run the model
FAILED = "failed"  # any other export error, a crash or a timeout
SKIPPED = "skipped"  # JAX itself does not run it on a CPU


_NEWEST = 26  # the newest opset that released versions of ONNX Runtime load


class Result(NamedTuple):
    """The outcome for a function."""

    outcome: str
    why: str = ""


Accept = Callable[[numbers.Arrays, numbers.Arrays, numbers.Arrays], bool]


def evaluate(
    function: Callable[..., Any],
    args: Sequence[Any],
    *,
    double: bool = False,
    exact: bool = False,
    accept: Accept = lambda *_: False,
) -> Result:
    """Exports a function, runs the model and compares the numbers with JAX's.

    Args:
        function: The function to export.
        args: Its arguments.
        double: Enables 64-bit types.
        exact: Requires that every bit agrees.
        accept: A predicate for results that differ from JAX's but are just as correct.
    """
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", double)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _evaluate(function, args, double, exact, accept)
    finally:
        jax.config.update("jax_enable_x64", before)


def _evaluate(
    function: Callable[..., Any], args: Sequence[Any], double: bool, exact: bool, accept: Accept
) -> Result:
    try:
        results = jax.jit(function)(*args)
    except Exception as error:
        return Result(SKIPPED, f"JAX does not run it: {one_line(error)}")
    flat, expected = (
        [runtime.as_array(leaf) for leaf in jax.tree.leaves(x)] for x in (args, results)
    )

    def compare(**options: Any) -> Result:
        try:
            model = to_onnx(function, args, enable_double_precision=double, **options)
        except UnsupportedError as error:
            return Result(UNSUPPORTED, error.message)
        except Exception as error:
            return Result(FAILED, one_line(error))
        try:
            found = runtime.run(runtime.load(model.SerializeToString()), flat)
        except Exception as error:
            return Result(REFUSED, one_line(error))
        difference = numbers.difference(found, expected, exact=exact)
        if not difference or accept(flat, found, expected):
            return Result(MATCH)
        return Result(MISMATCH, difference)

    result = compare()
    if result.outcome == MISMATCH and compare(opset=_NEWEST).outcome == MATCH:
        return Result(NEWER, f"the same as JAX only from opset {_NEWEST} on")
    return result


def one_line(error: BaseException) -> str:
    """Formats an error on one line of reasonable length, without folders."""
    text = " ".join(str(error).split()).replace(os.path.join(os.getcwd(), ""), "")
    return f"{type(error).__name__}: {text}"[:300]
