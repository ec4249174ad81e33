"""`reduce` turns a program whose model is wrong into a few lines."""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jax2onnx import _jax
from jax2onnx._checking.allclose import arguments
from jax2onnx._checking.runtime import as_tensor
from jax2onnx._export.options import Options, check_options, flag, unknown_option
from jax2onnx._export.to_onnx import option_names
from jax2onnx._python.garbage import collected_rarely
from jax2onnx._reducing import recording
from jax2onnx._reducing.case import Case, count
from jax2onnx._reducing.checks import Asks, Check, Predicate, check_of, first_line
from jax2onnx._reducing.export import Exporter
from jax2onnx._reducing.program_text import line_of_equation
from jax2onnx._reducing.reduction import Reduction
from jax2onnx._reducing.script import script_of
from jax2onnx._reducing.search import Search
from jax2onnx._reducing.verdict import verdict_of
from jax2onnx._tracing.functions import Functions
from jax2onnx._tracing.inputs import Specs, check_arguments, check_callable
from jax2onnx._tracing.names import boundary_names, paths_of, signature_of
from jax2onnx._tracing.parameters import function_of
from jax2onnx._tracing.trace import trace
from jax2onnx.errors import InvalidInputError, Jax2OnnxError, wrong_arguments

# The options of `to_onnx` that decide what a program becomes.
OPTIONS = (
    "opset",
    "target",
    "operators",
    "normalization_mode",
    "assume",
    "compute",
    "weights",
    "functions",
)


def reduce(
    fn: Callable[..., Any] | str | os.PathLike[str],
    inputs: Sequence[Any] | Mapping[str, Any] = (),
    input_params: Mapping[str, Any] | None = None,
    *,
    check: str | Predicate | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    seconds: float = 120,
    enable_double_precision: bool = False,
    **options: Any,
) -> Reduction:
    """Reduces a function whose model is wrong to a few lines that fail in the same way.

    Equations, outputs, iterations, sizes and numbers are removed as long as the check fails. Values
    that removed equations computed become inputs with JAX's numbers.

    Args:
        fn: The function, or the path of a file that `record` wrote.
        inputs: The positional arguments of `fn`, as in `allclose`: arrays, or shapes that are
            filled with random numbers. For a recording, arrays by name; others are random.
        input_params: The keyword arguments of `fn` that are inputs of the model.
        check: The failure to preserve: "differs" (from JAX), "nan", "error" (of the export or of
            onnxruntime), "crash" (of a process that runs the model), "rewrite:NAME" (the optimiser
            applies it), "slower:FACTOR" (than compiled JAX), or a function of the model, its inputs
            and JAX's results that returns `True` for a failure. By default, an error if there is
            one, and else a difference.
        rtol: The relative tolerance for floats. None means by element type.
        atol: The absolute tolerance for floats. None means by element type.
        seconds: The time limit of the search.
        enable_double_precision: As in the export. A recording has its own precision.
        options: Other options of the export: `opset`, `target`, `operators`, `normalization_mode`,
            `assume`, `compute`, `weights` and `functions`.

    Returns:
        The reduced program, its model and the verdict.

    Raises:
        InvalidInputError: An argument is wrong, or the check passes.
    """
    for name in options:
        if name not in OPTIONS:
            known = [name for name in option_names(reduce) if name != "options"]
            raise unknown_option("reduce", name, [*known, *OPTIONS], {})
    checked = check_options(
        model_name="reduced", stacktrace_metadata=False, training="allow", **options
    )
    if isinstance(fn, str | os.PathLike):
        recorded = _recorded(fn, inputs)
        # An option that is given replaces the recorded one.
        merged = replace(recorded.options, **{name: getattr(checked, name) for name in options})
        program = Program(
            recorded.cases, Exporter(merged, recorded.double), _settings(merged), recorded.line_of
        )
    else:
        double = flag("enable_double_precision", enable_double_precision)
        cases, name_of = _traced(fn, inputs, input_params, checked, double=double)
        program = Program(cases, Exporter(checked, double, name_of), options)
    return reduced(program, check, (rtol, atol), seconds)


def _recorded(path: str | os.PathLike[str], inputs: Any) -> recording.Recorded:
    if inputs and not isinstance(inputs, Mapping):
        raise wrong_arguments(
            "the inputs of a recording are a mapping from names to arrays",
            'pass inputs={"x": array}',
        )
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            "invalid-recording",
            f"cannot read `{os.fspath(path)}`: {error}",
            help='pass a function, or the file that to_onnx(…, record="model.jaxpr") writes',
        ) from error
    return recording.read(text, {name: np.asarray(x) for name, x in dict(inputs).items()})


def _traced(
    fn: Callable[..., Any],
    inputs: Any,
    input_params: Mapping[str, Any] | None,
    options: Options,
    *,
    double: bool,
) -> tuple[list[Case], Callable[[Any], str | None]]:
    """Traces a function with fixed sizes, and also with symbolic dimensions if it has some."""
    check_callable(fn)
    signature = signature_of(fn)
    with _jax.precision(double=double):
        args, kwargs = arguments(inputs, input_params, double=double)
        specs = Specs(double=double).all(inputs, input_params)
        check_arguments(signature, args, kwargs, function_of(fn))
        values = [jax.numpy.asarray(leaf) for leaf in jax.tree_util.tree_leaves((args, kwargs))]
        names, _ = boundary_names(
            signature, paths_of(specs), [], input_names=None, output_names=None
        )
    leaves, tree = jax.tree_util.tree_flatten(specs)
    fixed = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in values]
    forms = [jax.tree_util.tree_unflatten(tree, fixed)]
    if any(_jax.is_symbolic(dim) for leaf in leaves for dim in leaf.shape):
        forms.append(specs)
    marked = Functions(modules=options.functions == "modules")
    traced = [trace(fn, *given, double=double, functions=marked, names=names) for given in forms]
    name_of = traced[0].tree.name_of
    cases = [
        Case(t.jaxpr, tuple(values), tuple(names), tuple(map(name_of, t.jaxpr.consts)))
        for t in traced
    ]
    return cases, name_of


def _settings(options: Options) -> dict[str, Any]:
    """Returns the options of an export that differ from their defaults."""
    found: dict[str, Any] = {
        "opset": options.opset,
        "target": options.target,
        "operators": options.operators,
        "assume": list(options.assume),
        "compute": dict(options.compute),
        "weights": dict(options.weights),
    }
    return {name: value for name, value in found.items() if value and value != "onnxruntime"}


@dataclass(frozen=True)
class Program:
    """A program to reduce.

    Attributes:
        cases: Its forms. The first one that fails is reduced.
        exporter: The settings of its conversion.
        settings: The options of the export in the script.
        line_of: Returns the user's line of an equation.
    """

    cases: Sequence[Case]
    exporter: Exporter
    settings: Mapping[str, Any] = field(default_factory=dict)
    line_of: Callable[[Any], str] = line_of_equation


def reduced(
    program: Program,
    wanted: str | Predicate | Check | None,
    tolerance: tuple[float | None, float | None] = (None, None),
    seconds: float = 120,
) -> Reduction:
    """Reduces the first form of a program that fails."""
    exporter = program.exporter
    with collected_rarely(), _jax.precision(double=exporter.double):
        for case in program.cases:
            check = check_of(wanted, exporter, case, *tolerance)
            failure = _failure(check, case)
            if failure is not None:
                break
        else:
            raise InvalidInputError(
                "nothing-fails",
                "the check passes, so there is nothing to reduce",
                help=check.advice(case),
            )
        _ = case.values  # fails with the reason if JAX cannot evaluate the program
        search = Search(case, failure, check, seconds, program.line_of)
        best = search.run()
        check.restart()
        verdict = verdict_of(best, check)
        script, is_reproduced = script_of(
            best, check, f"{search.failure}\nverdict: {verdict}", program.settings, program.line_of
        )
        return Reduction(
            program=script,
            jaxpr=_recording(best, exporter),
            model=_model(best, exporter),
            verdict=verdict,
            failure=search.failure,
            inputs=dict(zip(best.names, map(as_tensor, best.args), strict=True)),
            equations=(count(case.jaxpr), count(best.jaxpr)),
            tried=search.tried,
            is_complete=search.is_complete,
            is_reproduced=is_reproduced,
            closed=best.closed,
        )


def _failure(check: Check, case: Case) -> str | None:
    """Checks the whole program."""
    try:
        return check.failure(case)
    except Jax2OnnxError:
        raise
    except Exception as error:
        if isinstance(check, Asks):  # an error of the user's own function
            raise
        raise InvalidInputError(
            "cannot-check",
            f"the check cannot run: {first_line(error)}",
            help='check="error" preserves this error instead',
        ) from error


def _model(case: Case, exporter: Exporter) -> Any:
    """Returns the model, or None if the export fails."""
    try:
        return exporter.proto(case, detail="sourcemap")
    except Exception:
        return None


def _recording(case: Case, exporter: Exporter) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.jaxpr")
        try:
            exporter.model(case, detail="sourcemap", record=str(path), record_weights=True)
        except Exception:
            if not path.exists():
                return ""
        return path.read_text()
