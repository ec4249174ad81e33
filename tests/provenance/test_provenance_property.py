"""Random programs with one distinctive literal per line: the node of each literal has its line, and
its stack has the lines of all calls that lead there.
"""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.provenance_of import all_nodes, callsite
from jax2onnx import SourceMap, to_onnx

HEADER = """\
import jax
import jax.numpy as jnp
from flax import nnx

"""

# The definition and the call to a function.
PLAIN = ("def {f}(v):", "{f}(v)")
FORMS = {
    "plain": PLAIN,
    "jit": ("@jax.jit\ndef {f}(v):", "{f}(v)"),
    "checkpoint": ("@jax.checkpoint\ndef {f}(v):", "{f}(v)"),
    "module": ("class {f}:\n  def __call__(self, v):", "{f}()(v)"),
    "nnx": ("class {f}(nnx.Module):\n  def __call__(self, v):", "{f}()(v)"),
}
# Ways to get from `v` to a new `v` through a call, for arrays of any shape.
CALLS = {
    "call": "v = {call}",
    "in an expression": "v = jnp.cos({call}) - v",
    "argument": "v = jnp.where(v > 0.0, {call}, v)",
    "vmap": "v = jax.vmap(lambda v: {call})(v[None])[0]",
    "scan": "v = jax.lax.scan(lambda v, _: ({call}, None), v, None, length=2)[0]",
    "scan over an array": ("v = jax.lax.scan(lambda s, v: (s + v, {call}), v, v[None])[1][0]"),
    "while": "v = jax.lax.while_loop(lambda v: jnp.sum(v) < 5.0, lambda v: {call}, v)",
    "while condition": (
        "v = jax.lax.while_loop(lambda v: jnp.sum({call}) < 5.0, lambda v: v + 1.0, v)"
    ),
    "fori": "v = jax.lax.fori_loop(0, 3, lambda i, v: {call}, v)",
    "cond": "v = jax.lax.cond(jnp.sum(v) > 0.0, lambda v: {call}, lambda v: -v, v)",
    "switch": (
        "v = jax.lax.switch(jnp.sum(v).astype('int32'), [jnp.sin, lambda v: {call}, jnp.cos], v)"
    ),
    "comprehension": "v = sum([{call} for v in (v, -v)])",
    "grad": "v = jax.grad(lambda v: jnp.sum(jnp.sin({call})))(v)",
    "several lines": "v = (\n  jnp.sin(v)\n  + {call}\n  - v\n)",
}
# Uses of a literal; the line of `{lit}` counts. None bounds the result, so that no later condition
# is decided at export.
LITERALS = {
    "product": "v = v * {lit}",
    "sum": "v = jnp.sin(v + {lit})",
    "maximum": "v = jnp.maximum(v, {lit}) - v",
    "several lines": "v = (\n  jnp.cos(v)\n  + v * {lit}\n)",
    "argument": "v = jnp.where(\n  v < 1.0,\n  v * {lit},\n  v,\n)",
    "comprehension": "v = sum([w * {lit} for w in (v, -v)])",
    "lambda": "v = (lambda v: v * {lit})(v)",
    "vmap": "v = jax.vmap(lambda w: w * {lit})(v[None])[0]",
}

Chain = tuple[int, ...]


@dataclass
class Program:
    """The text so far, and the literals that each function leads to."""

    lines: list[str] = field(default_factory=lambda: HEADER.split("\n"))
    literals: int = 0
    # A literal: the function that contains it, and the lines from it to the function's own frame.
    functions: list[tuple[str, list[tuple[float, str, Chain]]]] = field(default_factory=list)

    def write(self, text: str, indent: str) -> None:
        self.lines += [f"{indent}{line}" for line in text.split("\n")]

    def line_with(self, part: str) -> int:
        """Returns the latest line that contains `part`."""
        return max(n for n, line in enumerate(self.lines, 1) if part in line)

    def literal(self) -> float:
        """Returns a number that no other line has, exact in 32 bits."""
        self.literals += 1
        return 100.5 + self.literals


def add_function(draw: Any, program: Program, name: str, form: str) -> None:
    head, call = FORMS[form]
    if form in ("module", "nnx"):
        name = name.upper()
    program.write(head.format(f=name), "")
    indent = "    " if "  def" in head else "  "
    function = f"{name}.__call__" if "  def" in head else name
    found: list[tuple[float, str, Chain]] = []
    for _ in range(draw(st.integers(1, 3))):
        if program.functions and draw(st.booleans()):
            text = CALLS[draw(st.sampled_from(sorted(CALLS)))]
            callee, inner = draw(st.sampled_from(program.functions))
            program.write(text.format(call=callee), indent)
            line = program.line_with(callee)
            found += [(value, owner, (*chain, line)) for value, owner, chain in inner]
        else:
            value = program.literal()
            text = LITERALS[draw(st.sampled_from(sorted(LITERALS)))]
            program.write(text.format(lit=value), indent)
            found.append((value, function, (program.line_with(str(value)),)))
    program.write("return v", indent)
    program.functions.append((call.format(f=name), found))


@st.composite
def programs(draw: Any) -> Program:
    program = Program()
    for index in range(draw(st.integers(1, 4))):
        add_function(draw, program, f"f{index}", draw(st.sampled_from(sorted(FORMS))))
    add_function(draw, program, "model", "plain")
    return program


def constants(model: onnx.ModelProto) -> dict[str, float]:
    """Returns the values that are a single repeated number, by name."""
    found = {}
    for tensor in initializers(model.graph):
        values = np.unique(onnx.numpy_helper.to_array(tensor).astype(np.float64))
        if values.size == 1:
            found[tensor.name] = float(values[0])
    for node in all_nodes(model):
        if node.op_type == "Constant":
            tensor = onnx.helper.get_attribute_value(node.attribute[0])
            values = np.unique(onnx.numpy_helper.to_array(tensor).astype(np.float64))
            if values.size == 1:
                found[node.output[0]] = float(values[0])
    return found


def initializers(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    found = list(graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found += initializers(inner)
    return found


def collapsed(lines: list[int]) -> Chain:
    """Removes repeated lines: a lambda and its caller, or a comprehension in Python 3.11."""
    return tuple(n for i, n in enumerate(lines) if i == 0 or lines[i - 1] != n)


def run_file(text: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "random_program.py"
        file.write_text(text)
        namespace: dict[str, Any] = {"__name__": "random_program"}
        exec(compile(text, str(file), "exec"), namespace)
    return namespace["model"]


@settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(programs())
def test_the_node_of_each_literal_names_its_line(program: Program) -> None:
    text = "\n".join(program.lines)
    fn = run_file(text)
    _, expected = program.functions[-1]
    minimal = to_onnx(fn, [(2,)], stacktrace_metadata="minimal")
    mapped = to_onnx(fn, [(2,)], stacktrace_metadata="sourcemap")
    sources = SourceMap.load(mapped)

    # Rules add constants of their own, such as the limits of an integer type.
    literals = {value for value, _, _ in expected}
    chains: dict[float, set[Chain]] = {}
    known = constants(mapped)
    for plain, node in zip(all_nodes(minimal), all_nodes(mapped), strict=True):
        values = {known[name] for name in node.input if known.get(name) in literals}
        for value in values:
            owner, line = next((f, c[0]) for v, f, c in expected if v == value)
            named, number = callsite(plain).rsplit(":", 1)
            assert int(number) == line, f"{value}: {callsite(plain)}\n{text}"
            assert named.startswith(owner), f"{value}: {callsite(plain)}\n{text}"
            first = sources.lookup(node.output[0])[0]
            assert first.site is not None
            assert (first.site.file, first.site.line) == ("random_program.py", line)
            own = [f.line for f in first.stack if f.file == "random_program.py"]
            chains.setdefault(value, set()).add(collapsed(own))

    wanted: dict[float, set[Chain]] = {}
    for value, _, chain in expected:
        wanted.setdefault(value, set()).add(collapsed(list(chain)))
    if "jax.grad" in text:
        # The backward pass inlines what it differentiates: the calls in between are no longer
        # equations, and JAX has their lines only for the first trace.
        for value, found in chains.items():
            assert all(any(_leads(c, whole) for whole in wanted[value]) for c in found), text
        assert chains.keys() == wanted.keys(), text
    else:
        assert chains == wanted, text


def _leads(part: Chain, whole: Chain) -> bool:
    """Returns `True` if the lines are a subsequence of a chain, starting with the literal's own."""
    rest = iter(whole)
    return part[0] == whole[0] and all(line in rest for line in part)
