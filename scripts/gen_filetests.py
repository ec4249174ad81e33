"""Writes the programs of `tests/primitives` to `crates/pipeline/filetests`, as JAX traces them.

    python scripts/gen_filetests.py [NAME ...]
    INSTA_UPDATE=always cargo test -p pipeline --test files

The second command adds the resulting graphs. `sort.of_cuda` names one program, `of_cuda` all that
end like this, and `conversions` a whole folder. Without names, all programs are written; files from
other sources are left unchanged. Graphs that would be too long are summarised by their operators.
The programs of `conversions.py` have options, which are part of their files.
"""

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax.numpy as jnp

import jax2onnx
from jax2onnx import Jax2OnnxError, to_onnx

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "crates" / "pipeline" / "filetests"
sys.path.insert(0, str(ROOT / "tests"))

from primitives import GROUPS, conversions, other_versions  # noqa: E402
from primitives.operands import type_of  # noqa: E402

LONGEST = 120
"""The maximum number of lines of a graph. Longer graphs are summarised by their operators."""

OPTIONS = ("opset", "target", "operators", "compute", "weights", "assume")


def write(name: str, program: str) -> None:
    path = FOLDER / f"{name}.jaxpr"
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = {"errors": "error", "conversions": "convert"}
    kind = kinds.get(name.partition("/")[0], "lower")
    if kind == "lower" and is_long(program):
        kind = "operators"
    old = path.read_text() if path.exists() else ""
    _, gives, expected = old.partition("// gives:\n")
    path.write_text(f"// test: {kind}\n{program}{gives}{expected}")


def is_long(program: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source, model = Path(folder) / "a.jaxpr", Path(folder) / "a.onnx"
        source.write_text(program)
        if jax2onnx._core.main(["convert", str(source), "-o", str(model)]) != 0:
            return False
        import onnx

        def count(graph: Any) -> int:
            inner = [a.g for n in graph.node for a in n.attribute if a.HasField("g")]
            return len(graph.node) + sum(map(count, inner))

        return count(onnx.load(model).graph) > LONGEST


def trace(function: Any, *operands: Any, **options: Any) -> str:
    """Returns the program of a function with these options, without irrelevant details."""
    wide = (jnp.float64, jnp.complex128)
    double = any(o.dtype in wide for o in operands)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.jaxpr"
        try:
            to_onnx(
                function,
                operands,
                record=path,
                record_weights=True,
                enable_double_precision=double,
                **options,
            )
        except Jax2OnnxError as error:
            print(f"  {str(error).splitlines()[0]}", file=sys.stderr)
        text = path.read_text()
    text = re.sub(r"\Amodel\[\n(.*?)\n\]\n", head, text, flags=re.DOTALL)
    text = re.sub(r"\nframes\n.*", "\n", text, flags=re.DOTALL)
    text = re.sub(r"\nentry #.*", "\n", text, flags=re.DOTALL)
    return re.sub(r' ::(?: "[^"]*")?(?: #\d+)?', "", text)


def head(model: re.Match[str]) -> str:
    """Returns the options in the recording of a program."""
    lines = (line.strip() for line in model[1].splitlines())
    kept = [line for line in lines if line.startswith(OPTIONS) and not line.endswith("=None")]
    return "\n".join(["model[", *(f"  {line}" for line in kept), "]", ""]) if kept else ""


def main(names: set[str]) -> None:
    unused = set(names)

    def is_wanted(path: str) -> bool:
        group, _, name = path.partition("/")
        found = names & {path, group, name, name.partition(".")[2]}
        unused.difference_update(found)
        return not names or bool(found)

    for group, files in GROUPS.items():
        for name, (function, *operands) in files.items():
            path = f"{group}/{name}"
            if path in other_versions.PROGRAMS or not is_wanted(path):
                continue
            try:
                write(path, trace(function, *map(type_of, operands)))
            except Exception as error:
                print(f"{path}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
    for name, (function, options, *operands) in conversions.PROGRAMS.items():
        path = f"conversions/{name}"
        if is_wanted(path):
            write(path, trace(function, *map(type_of, operands), **options))
    for path, (source, replaced) in other_versions.PROGRAMS.items():
        if not is_wanted(path):
            continue
        text = (FOLDER / f"{source}.jaxpr").read_text().partition("// gives:\n")[0]
        program = text.partition("\n")[2]
        for old, new in replaced.items():
            program = program.replace(old, new)
        write(path, program)
    if unused:
        sys.exit(f"no program is called {', '.join(sorted(unused))}")


if __name__ == "__main__":
    main(set(sys.argv[1:]))
