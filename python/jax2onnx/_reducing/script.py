"""The script that shows a failure."""

import textwrap
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import jax

from jax2onnx import _jax
from jax2onnx._reducing.array_text import array_text
from jax2onnx._reducing.calls import dtype_text
from jax2onnx._reducing.case import Case
from jax2onnx._reducing.checks import Check
from jax2onnx._reducing.program_text import ProgramText


def script_of(
    case: Case,
    check: Check,
    title: str,
    settings: Mapping[str, Any],
    line_of: Callable[[Any], str],
) -> tuple[str, bool]:
    """Returns a script that shows the failure, and `True` if it fails in the same way."""
    double = check.exporter.double
    text = ProgramText(case.closed, case.names, double=double, line_of=line_of)
    options = _options(settings, double)
    shapes = _specs(case)
    before = [
        *(comment for line in title.splitlines() for comment in _comment(line)),
        "import jax",
        "import jax.numpy as jnp",
        "import jax2onnx",
        "import numpy as np",
        "from jax import lax",
        *sorted(text.imports),
        "",
    ]
    definitions = [
        *([*text.constants, ""] if text.constants else []),
        "",
        *text.lines,
        "",
        "",
        *_listed("inputs", map(array_text, case.args)),
    ]
    after = [
        *shapes,
        f"model = jax2onnx.to_onnx(program, {'specs' if shapes else 'inputs'}{options})",
        "print(*jax2onnx.allclose(program, model, inputs"
        + (", enable_double_precision=True))" if double else "))"),
        "",
    ]
    is_reproduced = _reproduces("\n".join([*before, *definitions]), case, check)
    wide = ['jax.config.update("jax_enable_x64", True)', ""] if double else []
    return "\n".join([*before, *wide, *definitions, *after]), is_reproduced


def _comment(text: str) -> list[str]:
    lines = textwrap.wrap(text, 98, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in lines]


def _listed(name: str, items: Any) -> list[str]:
    """Formats a list on one line if it fits."""
    texts = list(items)
    short = f"{name} = [{', '.join(texts)}]"
    if len(short) <= 100:
        return [short]
    return [f"{name} = [", *(f"    {text}," for text in texts), "]"]


def _specs(case: Case) -> list[str]:
    """Returns the lines that define the types of inputs with symbolic dimensions."""
    dims = [d for v in case.jaxpr.invars for d in v.aval.shape if _jax.is_symbolic(d)]
    if not dims:
        return []
    texts = []
    for var in case.jaxpr.invars:
        shape = ", ".join(map(str, var.aval.shape))
        symbolic = f"jax.export.symbolic_shape({shape!r}, scope=scope)" if shape else "()"
        texts.append(f"jax.ShapeDtypeStruct({symbolic}, {dtype_text(var.aval.dtype)})")
    constraints = _jax.constraints(_jax.symbolic_scope(dims[0]))
    return [f"scope = jax.export.SymbolicScope({constraints or ''})", *_listed("specs", texts)]


def _reproduces(definitions: str, case: Case, check: Check) -> bool:
    """Defines the program and the inputs of a script, and checks them."""
    space: dict[str, Any] = {}
    try:
        exec(compile(definitions, "<reduced>", "exec"), space)
        specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in case.jaxpr.invars]
        closed = jax.make_jaxpr(space["program"])(*specs)
        args = tuple(jax.numpy.asarray(array) for array in space["inputs"])
        again = Case(closed, args, case.names, (None,) * len(closed.consts))
        other = copy(check)
        other.exporter = replace(check.exporter, name_of=lambda _: None)
        return other.failure(again) is not None
    except Exception:  # the text may lack something that the program has
        return False


def _options(settings: Mapping[str, Any], double: bool) -> str:
    """Formats the options of an export in Python syntax."""
    texts = [f"{name}={value!r}" for name, value in settings.items()]
    texts += ["enable_double_precision=True"] if double else []
    return "".join(f", {text}" for text in texts)
