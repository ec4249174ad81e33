"""Reduces a failing program, and prints it."""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fuzz.check import Failure, check
from fuzz.program import Equation, Function, Kind, Program, Value, dims, literal
from jax2onnx import _jax


def shrink(failure: Failure, seconds: float = 60) -> Failure:
    """Returns the smallest program found that fails in the same way."""
    end = time.monotonic() + seconds
    best = failure
    progress = True
    while progress:
        progress = False
        for candidate in candidates(best):
            if time.monotonic() > end:
                return best
            found = _check(candidate)
            if found is not None and found.stage == best.stage:
                best, progress = found, True
                break
    return best


def _check(program: Program) -> Failure | None:
    try:
        return check(program)
    except Exception:  # A candidate may not be a valid program.
        return None


def candidates(failure: Failure) -> Iterator[Program]:
    """Yields simpler programs, simplest first."""
    program = failure.program
    with _jax.precision(double=program.double):
        known = program.evaluate()
    if failure.names:
        yield from _changed(program, alone(program, failure.names, known))
        yield from _changed(program, needed(program, failure.names))
    for equation in reversed(program.equations):
        yield from _changed(program, without(program, equation, known))
    for place in range(len(program.equations)):
        yield from simpler_bodies(program, place)
    for kind in ("inputs", "constants"):
        for name, array in getattr(program, kind).items():
            for simple in simpler_arrays(array):
                yield replace(program, **{kind: {**getattr(program, kind), name: simple}})


def _changed(program: Program, found: Program) -> Iterator[Program]:
    if found.equations and len(found.equations) < len(program.equations):
        yield found


def tidy(program: Program) -> Program:
    """Removes unused inputs."""
    used = {name for equation in program.equations for name in equation.free()}
    inputs = {n: x for n, x in program.inputs.items() if n in used or n == _sized(program)}
    constants = {n: x for n, x in program.constants.items() if n in used}
    return replace(program, inputs=inputs, constants=constants)


def _sized(program: Program) -> str | None:
    """Returns the input that determines the symbolic size."""
    if not program.size:
        return None
    return next((n for n, x in program.inputs.items() if program.size in x.shape), None)


def needed(program: Program, names: list[str]) -> Program:
    """Keeps only the dependencies of the given results."""
    wanted, kept = set(names), []
    for equation in reversed(program.equations):
        if wanted & {v.name for v in equation.outputs}:
            wanted |= set(equation.free())
            kept.append(equation)
    return tidy(replace(program, equations=kept[::-1]))


def alone(program: Program, names: list[str], known: dict[str, np.ndarray]) -> Program:
    """Keeps only the equations of the given results, with JAX's values as operands."""
    kept = [e for e in program.equations if {v.name for v in e.outputs} & set(names)]
    given = {n: np.asarray(known[n]) for e in kept for n in e.free() if n not in program.constants}
    return tidy(replace(program, equations=kept, inputs={**program.inputs, **given}))


def without(program: Program, equation: Equation, known: dict[str, np.ndarray]) -> Program:
    """Removes an equation and turns its results into inputs."""
    kept = [e for e in program.equations if e is not equation]
    given = {v.name: np.asarray(known[v.name]) for v in equation.outputs}
    return tidy(replace(program, equations=kept, inputs={**program.inputs, **given}))


def simpler_bodies(program: Program, place: int) -> Iterator[Program]:
    """Yields programs with one equation fewer inside the equation at `place`."""
    for simpler in simpler_equations(program.equations[place], program.size):
        equations = list(program.equations)
        equations[place] = simpler
        yield tidy(replace(program, equations=equations))


def simpler_equations(equation: Equation, size: int) -> Iterator[Equation]:
    for k, function in enumerate(equation.functions):
        for simpler in simpler_functions(function, size):
            functions = list(equation.functions)
            functions[k] = simpler
            yield _copy(equation, functions=functions)


def simpler_functions(function: Function, size: int) -> Iterator[Function]:
    for i, inner in enumerate(function.body):
        used = {n for e in function.body for n in e.free()} | {v.name for v in function.results}
        rest = [*function.body[:i], *function.body[i + 1 :]]
        if not used & {v.name for v in inner.outputs}:
            yield replace(function, body=rest)
        elif inner.op != "ones":
            ones = [_ones(v, size) for v in inner.outputs]
            yield replace(function, body=[*function.body[:i], *ones, *function.body[i + 1 :]])
        for simpler in simpler_equations(inner, size):
            yield replace(function, body=[*function.body[:i], simpler, *function.body[i + 1 :]])


def _ones(value: Value, size: int) -> Equation:
    name = "bool" if value.dtype.kind == "b" else f"jnp.{value.dtype.name}"
    text = f"jnp.ones({dims(value.shape, size)}, {name})"
    return Equation("ones", text, [], Kind.MOVES, outputs=[value])


def _copy(equation: Equation, **changes: object) -> Equation:
    """Copies an equation without its compiled functions."""
    return replace(equation, **changes)


def simpler_arrays(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yields arrays with fewer distinct numbers."""
    for number in (0, 1, 2):
        simple = np.full(array.shape, number, array.dtype)
        if (simple == array).all():
            break  # the other numbers are not simpler
        if number == 0 or (array != 0).all():
            yield simple
    if 1 < array.size <= 64:
        for i in np.flatnonzero((array != 0).ravel()):
            simple = array.copy()
            simple.flat[i] = 0
            yield simple


def reproduction(failure: Failure) -> str:
    """Returns a standalone program that reproduces the failure."""
    program = failure.program
    outputs = list(program.values())
    inputs = ",\n".join(f"    {literal(np.asarray(x))}" for x in program.inputs.values())
    shapes = "inputs"
    if program.size:
        specs = [
            f"jax.ShapeDtypeStruct({_text(s.shape)}, {s.dtype.name!r})" for s in program.specs()
        ]
        shapes = f"[{', '.join(specs)}]"
    lines = [
        "import jax",
        "import jax.numpy as jnp",
        "import numpy as np",
        "from jax import lax",
        "",
        "from jax2onnx import to_onnx",
        "",
        f'jax.config.update("jax_enable_x64", {program.double})',
        *(['(B,) = jax.export.symbolic_shape("B")'] if program.size else []),
        program.source(outputs),
        "",
        f"inputs = [\n{inputs},\n]",
        f"model = to_onnx(program, {shapes}, enable_double_precision={program.double})",
        "",
        'if __name__ == "__main__":',
        "    import onnxruntime",
        "    from onnx import numpy_helper",
        "",
        "    def tensor(x):",
        "        x = np.asarray(x)",
        "        x = np.stack([x.real, x.imag], -1) if x.dtype.kind == 'c' else x",
        "        proto = numpy_helper.from_array(np.ascontiguousarray(x).reshape(x.shape))",
        "        raw = x.view(np.uint16) if x.dtype == jnp.bfloat16 else x",
        "        make = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type",
        "        return make(np.array(raw), proto.data_type)",
        "",
        "    session = onnxruntime.InferenceSession(model.SerializeToString())",
        "    names = [x.name for x in session.get_inputs()]",
        "    feeds = {n: tensor(x) for n, x in zip(names, inputs, strict=True)}",
        "    found = session.run_with_ort_values(None, feeds)",
        "    for one, other in zip(found, program(*map(jnp.asarray, inputs)), strict=True):",
        '        shown = one if "bfloat16" in one.data_type() else one.numpy()',
        '        print("JAX", other, "onnxruntime", shown, sep="\\n")',
    ]
    return "\n".join(lines)


def _text(shape: tuple[object, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
