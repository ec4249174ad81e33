"""Programs and models at every opset: they agree with JAX, or the error names the required opset.

    cd tests && python -m harness.every_opset                     everything, which takes a while
    cd tests && python -m harness.every_opset 9 17 --only scatter

No runtime loads opsets 27 and 28 yet. Their operators only accept additional types, so models that
the checker accepts are run as models of the previous opset.
"""

import argparse
import re
import sys
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import onnx

from harness.checking import as_tensor, assert_close, quick
from harness.programs import PROGRAMS, assert_program_close
from jax2onnx import to_onnx
from jax2onnx._checking.runtime import Runnable
from jax2onnx.errors import InvalidInputError
from models import catalogue
from primitives import subject
from primitives.operands import numbers, primitives, type_of

OPSETS = (9, 10, 11, 12, 13, 15, 17, 18, 21, 23, 28)
NEWEST_THAT_RUNS = 26
# Runtimes of the time reject newer IR versions.
IR_VERSIONS = {9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 15: 8, 17: 8, 18: 8, 21: 10, 23: 10, 28: 10}
TOO_OLD = re.compile(r"\[opset-too-old\] opset \d+ is too old: `(\w+)` needs opset (\d+)")


def outcome(name: str, opset: int) -> str:
    """Returns the opset that a program or model needs; empty if it agrees with JAX at this one."""
    compare = compare_model if name in catalogue.NAMES else compare_program
    try:
        compare(name, opset)
    except InvalidInputError as error:
        needs = TOO_OLD.search(str(error))
        if needs is None or int(needs[2]) <= opset:
            raise
        return f"{needs[1]} needs opset {needs[2]}"
    return ""


def compare_model(name: str, opset: int) -> None:
    fn, args = catalogue.build(name)
    model = exported(fn, list(args), opset)
    expected = jax.tree_util.tree_leaves(quick(fn)(*args))
    flat = [as_tensor(leaf) for leaf in jax.tree_util.tree_leaves(args)]
    assert_close(Runnable(model).run(flat), expected)


def compare_program(name: str, opset: int) -> None:
    fn, *operands = PROGRAMS[name]
    types = [type_of(operand) for operand in operands]
    wide = any(t.dtype in (jnp.float64, jnp.complex128) for t in types)
    with jax.enable_x64(wide):
        model = exported(fn, types, opset, enable_double_precision=wide)
        args = numbers(name, operands)
        leaves = jax.tree_util.tree_leaves(fn(*map(jnp.asarray, args)))
        found = Runnable(model).run([as_tensor(arg) for arg in args])
    assert_program_close(name, found, leaves)


def exported(fn: Any, inputs: list[Any], opset: int, **options: Any) -> onnx.ModelProto:
    model = to_onnx(fn, inputs, opset=opset, **options)
    assert model.opset_import[0].version == opset
    assert model.ir_version == max(IR_VERSIONS[opset], 8 if model.functions else 0)
    onnx.checker.check_model(model, full_check=True)
    for imports in (model.opset_import, *(f.opset_import for f in model.functions)):
        for entry in imports:
            if not entry.domain:
                entry.version = min(entry.version, NEWEST_THAT_RUNS)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("opsets", nargs="*", type=int, default=OPSETS)
    parser.add_argument("--only", default="", help="only names that contain this")
    parser.add_argument("--programs", action="store_true", help="no models")
    arguments = parser.parse_args()
    known = {*primitives(), "onnx_function"}
    names = [name for name in PROGRAMS if subject(name) in known]
    names += [] if arguments.programs else catalogue.NAMES
    failures = 0
    for opset in arguments.opsets or OPSETS:
        counts: Counter[str] = Counter()
        for name in names:
            if arguments.only not in name:
                continue
            try:
                counts[outcome(name, opset) or "agree with JAX"] += 1
            except Exception as error:
                failures += 1
                what = f"{type(error).__name__} {str(error)[:400]}"
                print(f"opset {opset}: {name}: {what}", flush=True)
        print(f"opset {opset}:", ", ".join(f"{n} {what}" for what, n in counts.items()), flush=True)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
