"""`reduce` turns a program whose model is wrong into a few lines."""

import tempfile
from copy import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from jax2onnx import _jax
from jax2onnx._checking.allclose import arguments
from jax2onnx._checking.runtime import as_tensor
from jax2onnx._export.options import check_options, flag, unknown_option
from jax2onnx._export.to_onnx import option_names, to_onnx
from jax2onnx._python.garbage import collected_rarely
from jax2onnx._reducing.case import Case, count
from jax2onnx._reducing.checks import Check, Predicate, check_of
from jax2onnx._reducing.export import Exporter
from jax2onnx._reducing.program_text import ProgramText, array_text
from jax2onnx._reducing.reduction import Reduction
from jax2onnx._reducing.search import Search
from jax2onnx._reducing.verdict import Verdict, verdict_of
from jax2onnx._tracing.functions import Functions
from jax2onnx._tracing.inputs import Specs, check_arguments, check_callable
from jax2onnx._tracing.names import boundary_names, paths_of, signature_of
from jax2onnx._tracing.parameters import function_of
from jax2onnx._tracing.trace import trace
from jax2onnx.errors import InvalidInputError

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
DEFAULTS = {
    "model_name": "reduced",
    "opset": None,
    "return_mode": "proto",
    "output_path": None,
    "export_mode": "standard",
    "target": None,
    "normalization_mode": "auto",
    "stacktrace_metadata": False,
    "source_map": None,
    "source_text": False,
    "paths": "relative",
    "record_primitive_calls_file": None,
    "record": None,
    "record_weights": False,
    "functions": "decorated",
    "operators": "auto",
    "assume": (),
    "compute": None,
    "weights": None,
    "training": "allow",
}


def reduce(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
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
        fn: The function.
        inputs: The positional arguments of `fn`, as in `allclose`: arrays, or shapes that are
            filled with random numbers.
        input_params: The keyword arguments of `fn` that are inputs of the model.
        check: The failure to preserve: "differs" (from JAX), "nan", "error" (of the export or of
            onnxruntime), "rewrite:NAME" (the optimiser applies it), "slower:FACTOR" (than compiled
            JAX), or a function of the model, its inputs and JAX's results that returns `True` for a
            failure. By default, an error if there is one, and else a difference.
        rtol: The relative tolerance for floats. None means by element type.
        atol: The absolute tolerance for floats. None means by element type.
        seconds: The time limit of the search.
        enable_double_precision: As in the export.
        options: Other options of the export: `opset`, `target`, `operators`, `normalization_mode`,
            `assume`, `compute`, `weights` and `functions`.

    Returns:
        The reduced program, its model and the verdict.

    Raises:
        InvalidInputError: An argument is wrong, or the check passes.
    """
    for name in options:
        if name not in OPTIONS:
            known = [*option_names(reduce), *OPTIONS]
            raise unknown_option("reduce", name, known)
    double = flag("enable_double_precision", enable_double_precision)
    checked = check_options(**{**DEFAULTS, **options})  # type: ignore[arg-type]
    check_callable(fn)
    with _jax.precision(double=double):
        args, kwargs = arguments(inputs, input_params, double=double)
        specs = Specs(double=double).all(inputs, input_params)
        check_arguments(signature_of(fn), args, kwargs, function_of(fn))
        values = [jax.numpy.asarray(leaf) for leaf in jax.tree_util.tree_leaves((args, kwargs))]
        names, _ = boundary_names(
            signature_of(fn), paths_of(specs), [], input_names=None, output_names=None
        )
    name_of: Callable[[Any], str | None] = lambda _: None  # noqa: E731

    def traced(given: tuple[Any, Any]) -> Case:
        nonlocal name_of
        marked = Functions(modules=checked.functions == "modules")
        found = trace(fn, *given, double=double, functions=marked, names=names)
        name_of = found.tree.name_of
        parameters = tuple(map(name_of, found.jaxpr.consts))
        return Case(found.jaxpr, tuple(values), tuple(names), parameters)

    concrete = jax.tree_util.tree_unflatten(
        jax.tree_util.tree_structure(specs),
        [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in values],
    )
    cases = [traced(concrete)]
    if any(_jax.is_symbolic(d) for leaf in jax.tree_util.tree_leaves(specs) for d in leaf.shape):
        cases.append(traced(specs))
    exporter = Exporter(checked, double, name_of)
    return reduced(cases, exporter, check, (rtol, atol), seconds, _code_options(options, double))


def reduced(
    cases: Sequence[Case],
    exporter: Exporter,
    wanted: str | Predicate | None,
    tolerance: tuple[float | None, float | None],
    seconds: float,
    export_options: str = "",
) -> Reduction:
    """Reduces the first of several forms of a program that fails."""
    with collected_rarely(), _jax.precision(double=exporter.double):
        for case in cases:
            check = check_of(wanted, exporter, case, *tolerance)
            failure = check.failure(case)
            if failure is not None:
                break
        else:
            raise InvalidInputError(
                "nothing-fails",
                "the check passes, so there is nothing to reduce",
                help="pass the inputs that fail, smaller tolerances, or another `check`",
            )
        search = Search(case, failure, check, seconds)
        best = search.run()
        verdict = verdict_of(best, check)
        script, is_reproduced = _script(best, check, search.failure, verdict, export_options)
        return Reduction(
            program=script,
            jaxpr=_recording(best, exporter),
            model=_model(best, exporter),
            verdict=verdict,
            failure=search.failure,
            inputs=[as_tensor(array) for array in best.args],
            equations=(count(case.jaxpr), count(best.jaxpr)),
            tried=search.tried,
            is_complete=search.is_complete,
            is_reproduced=is_reproduced,
            closed=best.closed,
        )


def _model(case: Case, exporter: Exporter) -> Any:
    """Returns the model, or an empty one if the export fails."""
    try:
        return exporter.proto(case, detail="sourcemap")
    except Exception:
        import onnx

        return onnx.ModelProto()


def _recording(case: Case, exporter: Exporter) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.jaxpr")
        try:
            exporter.model(case, record=str(path), record_weights=True)
        except Exception:
            if not path.exists():
                return ""
        return path.read_text()


def _code_options(options: Mapping[str, Any], double: bool) -> str:
    """Formats the options of an export in Python syntax."""
    texts = [f"{name}={value!r}" for name, value in options.items()]
    texts += ["enable_double_precision=True"] if double else []
    return "".join(f", {text}" for text in texts)


def _script(
    case: Case, check: Check, failure: str, verdict: Verdict, options: str
) -> tuple[str, bool]:
    """Returns a script that shows the failure, and `True` if it fails in the same way."""
    double = check.exporter.double
    text = ProgramText(case.closed, case.names, double=double)
    shapes = _specs(case)
    lines = [
        f"# {failure}",
        f"# verdict: {verdict}",
        "import jax",
        "import jax.numpy as jnp",
        "import jax2onnx",
        "import numpy as np",
        "from jax import lax",
        *sorted(text.imports),
        "",
        *(['jax.config.update("jax_enable_x64", True)', ""] if double else []),
        *([*text.constants, ""] if text.constants else []),
        "",
        *text.lines,
        "",
        "",
        *_listed("inputs", map(array_text, case.args)),
        *([f"specs = {shapes}"] if shapes else []),
        f"model = jax2onnx.to_onnx(program, {'specs' if shapes else 'inputs'}{options})",
        "print(*jax2onnx.allclose(program, model, inputs"
        + (", enable_double_precision=True))" if double else "))"),
    ]
    script = "\n".join(lines) + "\n"
    return script, _reproduces(script, case, check)


def _listed(name: str, items: Any) -> list[str]:
    """Formats a list on one line if it fits."""
    texts = list(items)
    short = f"{name} = [{', '.join(texts)}]"
    if len(short) <= 100:
        return [short]
    return [f"{name} = [", *(f"    {text}," for text in texts), "]"]


def _specs(case: Case) -> str:
    """Returns the types of inputs with symbolic dimensions in Python syntax, or nothing."""
    if not case.is_symbolic:
        return ""
    texts = []
    for var in case.jaxpr.invars:
        shape = ", ".join(repr(str(d)) if _jax.is_symbolic(d) else str(d) for d in var.aval.shape)
        texts.append(f"jax2onnx.Input({var.aval.dtype.name!r})" if not shape else f"({shape},)")
    return f"[{', '.join(texts)}]"


def _reproduces(script: str, case: Case, check: Check) -> bool:
    """Runs the part of a script before the export, and checks its program."""
    space: dict[str, Any] = {}
    definitions, _, _ = script.partition("\nspecs = " if case.is_symbolic else "\nmodel = ")
    try:
        exec(compile(definitions, "<reduced>", "exec"), space)
        specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in case.jaxpr.invars]
        closed = jax.make_jaxpr(space["program"])(*specs)
        names = tuple(case.names)
        args = tuple(jax.numpy.asarray(array) for array in space["inputs"])
        again = Case(closed, args, names, (None,) * len(closed.consts))
        other = copy(check)
        other.exporter = replace(check.exporter, name_of=lambda _: None)
        return other.failure(again) is not None
    except Exception:
        return False


def export_options() -> list[str]:
    """Returns the names of the options of an export that a reduction takes."""
    return [name for name in option_names(to_onnx) if name in OPTIONS]
