"""The script that shows a failure."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import CodeType
from typing import Any

import jax

from jax2onnx import _jax
from jax2onnx._export.lowering_rules import local_lowerings, registered
from jax2onnx._reducing.array_text import array_text
from jax2onnx._reducing.calls import dtype_text
from jax2onnx._reducing.case import Case
from jax2onnx._reducing.checks import Check, Slower
from jax2onnx._reducing.program_text import ProgramText
from jax2onnx._tracing.inputs import place_of
from jax2onnx._tracing.trace import trace

# The imports of every script.
IMPORTS = {
    "import jax",
    "import jax.numpy as jnp",
    "import jax2onnx",
    "import numpy as np",
    "from jax import lax",
}


def script_of(
    case: Case,
    check: Check,
    title: str,
    settings: Mapping[str, Any],
    line_of: Callable[[Any], str],
) -> tuple[str, bool]:
    """Returns a script that shows the failure, and `True` if it fails in the same way."""
    double = check.exporter.double
    head = [comment for line in title.splitlines() for comment in _comment(line)]
    try:
        text = ProgramText(case.closed, case.names, double=double, line_of=line_of)
    except ValueError as error:  # a primitive without a name in JAX
        lines = [f"This program cannot be printed: {error}.", *str(case.closed).splitlines()]
        return "\n".join([*head, *(f"# {line}" for line in lines), ""]), False
    if isinstance(check, Slower):
        text.imports.update(("import timeit", "import onnxruntime"))
    rules = _rules_of(case)
    sources = [_source_of(name, code) for name, _, code, _ in rules]
    with local_lowerings():
        # A rule without a source is still registered here, but not where the script will run.
        is_reproduced = all(sources) and _reproduces(_definitions(text, case, sources), case, check)
    if rules and not is_reproduced:
        head += [line for rule in rules for line in _mentioned(rule)]
        sources = []
        is_reproduced = _reproduces(_definitions(text, case), case, check)
    options = _options(settings, double)
    shapes = _specs(case)
    after = [
        *shapes,
        f"model = jax2onnx.to_onnx(program, {'specs' if shapes else 'inputs'}{options})",
        *_shown(check),
        "",
    ]
    definitions = _definitions(text, case, sources, double=double)
    return "\n".join([*head, definitions, *after]), is_reproduced


def _shown(check: Check) -> list[str]:
    """Returns the lines that show the failure of `model`."""
    if isinstance(check, Slower):
        return [
            "session = onnxruntime.InferenceSession(model.SerializeToString())",
            "feeds = dict(zip([x.name for x in session.get_inputs()], inputs))",
            "compiled = jax.jit(program)",
            "jax.block_until_ready(compiled(*inputs))",
            "ours = timeit.repeat(lambda: session.run(None, feeds), number=1)",
            "theirs = timeit.repeat(lambda: jax.block_until_ready(compiled(*inputs)), number=1)",
            'print(f"{1e6 * min(ours):.0f} µs in onnxruntime, {1e6 * min(theirs):.0f} µs in JAX")',
        ]
    double = ", enable_double_precision=True" if check.exporter.double else ""
    return [f"print(*jax2onnx.allclose(program, model, inputs{double}))"]


def _definitions(
    text: ProgramText, case: Case, rules: Sequence[str] = (), *, double: bool = False
) -> str:
    """Returns the part of the script that defines the program and its inputs. `rules` are the
    definitions of lowering rules. With `double`, it also enables 64-bit types.
    """
    lines = [
        # Types in the signatures of rules need not be imported.
        *(["from __future__ import annotations", ""] if rules else []),
        *sorted(IMPORTS | text.imports, key=lambda line: (line.startswith("from"), line)),
        "",
        *(['jax.config.update("jax_enable_x64", True)', ""] if double else []),
        *([*text.constants, ""] if text.constants else []),
        "",
        *(line for rule in rules for line in (rule, "", "")),
        *text.lines,
        "",
        "",
        *_listed("inputs", map(array_text, case.args)),
    ]
    return "\n".join(lines)


def _rules_of(case: Case) -> list[Any]:
    """Returns the users' rules of the primitives in a program."""
    used = {eqn.primitive.name for eqn in _jax.equations_in(case.jaxpr)}
    return [rule for rule in registered() if rule[0] in used]


def _source_of(primitive: str, code: CodeType) -> str:
    """Returns the definition of a rule without its decorators, or an empty string."""
    try:
        text = textwrap.dedent(inspect.getsource(code))
        node = ast.parse(text).body[0]
    except (OSError, SyntaxError):
        return ""
    if not isinstance(node, ast.FunctionDef):
        return ""
    body = "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
    return f'@jax2onnx.lowering("{primitive}", override=True)\n{body}'


def _mentioned(rule: Any) -> list[str]:
    name, _, _, place = rule
    return _comment(
        f"This script needs your rule of `{name}`, which it does not contain: "
        f"{place_of(place).removeprefix('  --> ')}"
    )


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
        specs = tuple(jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in case.jaxpr.invars)
        traced = trace(space["program"], specs, {}, double=check.exporter.double)
        closed, name_of = traced.jaxpr, traced.tree.name_of
        args = tuple(jax.numpy.asarray(array) for array in space["inputs"])
        again = Case(closed, args, case.names, tuple(map(name_of, closed.consts)))
        other = copy(check)
        other.exporter = replace(check.exporter, name_of=name_of)
        return other.failure(again) is not None
    except Exception:  # the text may lack something that the program has
        return False


def _options(settings: Mapping[str, Any], double: bool) -> str:
    """Formats the options of an export in Python syntax."""
    texts = [f"{name}={value!r}" for name, value in settings.items()]
    texts += ["enable_double_precision=True"] if double else []
    return "".join(f", {text}" for text in texts)
