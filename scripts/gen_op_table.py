"""Writes crates/onnx/src/schema/table.rs: the operators and types that ONNX and onnxruntime accept.

    python scripts/gen_op_table.py            measure, and write the table
    python scripts/gen_op_table.py --new      measure only the versions that the table lacks
    python scripts/gen_op_table.py --check    check the table without measuring, in seconds

The specification comes from `onnx.defs`. The supported types come from running onnxruntime (see
`measure_kernels.py`; `measure_integers.py` and `measure_nan.py` find types that run but compute
wrong results). For operators without a sample that runs, they come from its list of CPU kernels. A
version newer than the newest opset that onnxruntime loads is assumed to run the types of the
previous version.

Measuring runs tens of thousands of one-node models, which takes more than ten minutes. `--check`
therefore compares everything that comes from the specification or the kernel list, but compares the
measurements only with their digest in the header, which reveals manual edits.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import onnx
import onnx.defs
import onnxruntime
from measure_integers import wrong_types
from measure_kernels import (
    ELEMENT_TYPES,
    NOT_MEASURED,
    VARIANT_ATTRIBUTES,
    Constraint,
    Measurement,
    Version,
    measure_all,
)
from measure_nan import nan_losers
from measure_nothing import failing_types
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

OLDEST, NEWEST = 13, 28
# The newest opset that onnxruntime loads.
LOADED = 26
TABLE = Path(__file__).parent.parent / "crates/onnx/src/schema/table.rs"
BIT = {name: 1 << i for i, name in enumerate(ELEMENT_TYPES)}
MAX_INT = 2**31 - 1

# Kernels that onnxruntime 1.30 lacks. Models should run there as well.
TOO_NEW = {"Where": {"int8", "uint32"}}

ROW = re.compile(r'(\w+)\("(\w*)", &\[([^]]*)\]\)')
"""A row in the table: its kind, its variant, its masks."""

Row = tuple[int, ...]
"""One mask per type constraint: all combinations of them run."""
WrongTypes = dict[tuple[str, str], set[str]]
"""By operator and variant: the types whose results are not always right."""

HEADER = """\
//! Generated from onnx {onnx} and onnxruntime {ort} by `python scripts/gen_op_table.py`.
//!
//! One line per operator version that is current at an opset from {oldest} to {newest}, sorted by
//! name and version. Masks have one bit per `tensor::DType`.
//!
//! Digest of what runs: {digest}

use super::AttrKind::{{Float, Floats, Graph, Int, Ints, Other, String, Strings, Tensor}};
use super::{{Schema, attr, constraint, many, mixed, one, optional, required}};
use super::{{numbers, row, small, terms}};

/// Operators with an attribute that decides which types run: its name and its default.
pub(super) static VARIANTS: &[(&str, &str, &str)] = &[
{variants}];

#[rustfmt::skip]
pub(super) static TABLE: &[Schema] = &[
"""


def element_type(text: str) -> str | None:
    """Returns `float` for `tensor(float)`; `None` for anything but a tensor of a known type."""
    name = text.removeprefix("tensor(").removesuffix(")")
    return name if text.startswith("tensor(") and name in ELEMENT_TYPES else None


def mask(types: Sequence[str]) -> int:
    return sum(BIT[t] for t in types)


class Schema:
    """One version of an operator, and the opsets at which it is current."""

    def __init__(self, schema: onnx.defs.OpSchema, until: int) -> None:
        self.schema = schema
        self.until = until
        allowed = {t.type_param_str: t.allowed_type_strs for t in schema.type_constraints}
        self.constraints: list[Constraint] = []
        self.index: dict[str, int] = {}
        for param in [*schema.inputs, *schema.outputs]:
            if param.type_str not in self.index:
                names = [element_type(t) for t in allowed.get(param.type_str, [param.type_str])]
                types = tuple(t for t in ELEMENT_TYPES if t in names)
                self.index[param.type_str] = len(self.constraints)
                self.constraints.append(Constraint(param.type_str, types))

    def version(self) -> Version:
        s = self.schema
        return Version(
            op=s.name,
            since=s.since_version,
            # A function is expanded into operators of the model's opset, so both ends are tried.
            opsets=tuple(sorted({max(s.since_version, OLDEST), min(self.until, LOADED)})),
            constraints=tuple(self.constraints),
            inputs=tuple(self.index[p.type_str] for p in s.inputs),
            outputs=tuple(self.index[p.type_str] for p in s.outputs),
        )

    def kernel_rows(self) -> set[Row]:
        """Returns the rows according to the kernel list.

        A kernel without an end implements only the version at which it starts. Constraints have
        their names in the schema, or those of a parameter (`GatherND`, `Reshape`,
        `StringNormalizer`). Names from another version of the operator (`BatchNormalization`'s `U`,
        `QuantizeLinear`'s `T3`) do not constrain anything.
        """
        if self.schema.name == "Constant":
            return {tuple(mask(c.types) for c in self.constraints)}
        params = [*self.schema.inputs, *self.schema.outputs]
        names = {p.name: self.index[p.type_str] for p in params} | self.index
        rows = set()
        for kernel in get_all_opkernel_def():
            start, end = kernel.version_range
            since = self.schema.since_version
            covers = start <= since <= end if end != MAX_INT else start == since
            ours = (kernel.op_name, kernel.domain) == (self.schema.name, "")
            if not (ours and covers and kernel.provider == "CPUExecutionProvider"):
                continue
            masks = [mask(c.types) for c in self.constraints]
            for key, types in kernel.type_constraints.items():
                if key in names:
                    known = [t for t in map(element_type, types) if t]
                    masks[names[key]] &= mask(known)
            rows.add(tuple(masks))
        return rows

    def rows(self, measured: dict[str, Measurement], wrong: dict[str, WrongTypes]) -> list[str]:
        """Returns the rows of each variant: the correct ones first, then the others."""
        if not measured:
            return [show_row("row", "", row) for row in merge(self.kernel_rows())]
        found = []
        too_new = TOO_NEW.get(self.schema.name, set())
        for variant, (free, running) in sorted(measured.items()):
            bindings = {binding for binding in running if too_new.isdisjoint(binding)}
            data = free.index(0) if 0 in free else None
            kinds = {"row": set(bindings)}
            for kind, types in wrong.items():
                bad = types.get((self.schema.name, variant), set())
                kinds[kind] = {b for b in bindings if data is not None and b[data] in bad}
                kinds["row"] -= kinds[kind]
            for kind, some in kinds.items():
                for row in merge({tuple(BIT[t] for t in binding) for binding in some}):
                    full = [mask(c.types) for c in self.constraints]
                    for index, types in zip(free, row, strict=True):
                        full[index] = types
                    found.append(show_row(kind, variant, tuple(full)))
        return found

    @property
    def key(self) -> tuple[str, int]:
        """The name and version, which identify a line of the table."""
        return self.schema.name, self.schema.since_version

    def line(self, runs: str) -> str:
        """Formats a line of the table; `runs` are its rows."""
        s = self.schema
        inputs = ", ".join(self.param(p) for p in s.inputs)
        outputs = ", ".join(self.param(p) for p in s.outputs)
        attrs = ", ".join(attribute(a) for _, a in sorted(s.attributes.items()))
        types = ", ".join(f'constraint("{c.name}", {mask(c.types):#x})' for c in self.constraints)
        function = str(s.has_function or s.has_context_dependent_function).lower()
        return (
            f'    Schema {{ name: "{s.name}", since: {s.since_version}, until: {self.until}, '
            f"inputs: &[{inputs}], outputs: &[{outputs}], attrs: &[{attrs}], "
            f"types: &[{types}], runs: &[{runs}], function: {function} }},\n"
        )

    def param(self, param: onnx.defs.OpSchema.FormalParameter) -> str:
        kinds = onnx.defs.OpSchema.FormalParameterOption
        index = self.index[param.type_str]
        if param.option == kinds.Variadic:
            kind = "many" if param.is_homogeneous else "mixed"
            return f'{kind}("{param.name}", {index}, {param.min_arity})'
        kind = "optional" if param.option == kinds.Optional else "one"
        return f'{kind}("{param.name}", {index})'


def attribute(attr: onnx.defs.OpSchema.Attribute) -> str:
    kind = attr.type.name.title().replace("_", "")
    known = {"Int", "Float", "String", "Ints", "Floats", "Strings", "Tensor", "Graph", "Graphs"}
    kind = kind if kind in known else "Other"
    return f'{"required" if attr.required else "attr"}("{attr.name}", {kind})'


def show_row(kind: str, variant: str, row: Row) -> str:
    masks = ", ".join(f"{m:#x}" for m in row)
    return f'{kind}("{variant}", &[{masks}])'


def merge(rows: set[Row]) -> list[Row]:
    """Merges rows that differ in one position, preserving the set of combinations."""
    width = len(next(iter(rows), ()))
    changed = True
    while changed:
        changed = False
        for place in range(width):
            groups: dict[Row, int] = {}
            for row in rows:
                rest = row[:place] + row[place + 1 :]
                groups[rest] = groups.get(rest, 0) | row[place]
            merged = {(*rest[:place], m, *rest[place:]) for rest, m in groups.items()}
            changed |= merged != rows
            rows = merged
    return sorted(rows)


def schemas() -> list[Schema]:
    """Returns every operator version that is current at a supported opset and not deprecated."""
    history: dict[str, list[onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= NEWEST:
            history.setdefault(schema.name, []).append(schema)
    found = []
    for _, versions in sorted(history.items()):
        versions.sort(key=lambda s: s.since_version)
        ends = [s.since_version - 1 for s in versions[1:]] + [NEWEST]
        for schema, until in zip(versions, ends, strict=True):
            if until >= OLDEST and not schema.deprecated:
                found.append(Schema(schema, until))
    return found


def digest(runs: dict[tuple[str, int], str]) -> str:
    text = "".join(f"{op} {since} {rows}\n" for (op, since), rows in runs.items())
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def table(found: list[Schema], runs: dict[tuple[str, int], str], versions: dict[str, str]) -> str:
    variants = sorted(VARIANT_ATTRIBUTES.items())
    header = HEADER.format(
        **versions,
        oldest=OLDEST,
        newest=NEWEST,
        digest=digest({s.key: runs.get(s.key, "") for s in found}),
        variants="".join(f'    ("{op}", "{a}", "{value}"),\n' for op, (a, value) in variants),
    )
    return header + "".join(s.line(runs.get(s.key, "")) for s in found) + "];\n"


def measured_table(jobs: int, known: dict[tuple[str, int], str]) -> str:
    """Measures and formats the table, except for the versions in `known`."""
    found = [s for s in schemas() if s.schema.since_version <= LOADED and s.key not in known]
    measured = measure_all([s.version() for s in found], jobs)
    wrong = {"small": wrong_types(), "numbers": nan_losers(), "terms": failing_types()}
    pairs = zip(found, measured, strict=True)
    runs = known | {s.key: ", ".join(s.rows(m, wrong)) for s, m in pairs}
    inherit(schemas(), runs)
    return table(schemas(), runs, {"onnx": onnx.__version__, "ort": onnxruntime.__version__})


def inherit(found: list[Schema], runs: dict[tuple[str, int], str]) -> None:
    """Copies the rows of the previous version to versions that onnxruntime does not load yet."""
    for before, new in itertools.pairwise(found):
        if new.schema.since_version <= LOADED:
            continue
        names = [[c.name for c in s.constraints] for s in (before, new)]
        same = before.schema.name == new.schema.name and names[0] == names[1]
        rows = ROW.findall(runs.get(before.key, "")) if same else []
        allowed = [mask(c.types) for c in new.constraints]
        kept = []
        for kind, variant, masks in rows:
            row = [int(m, 16) & a for m, a in zip(masks.split(", "), allowed, strict=True)]
            if all(row):
                kept.append(show_row(kind, variant, tuple(row)))
        runs[new.key] = ", ".join(kept)


def known_runs(old: str) -> dict[tuple[str, int], str]:
    """Parses the rows of a table."""
    pattern = r'Schema \{ name: "(\w+)", since: (\d+),.*?runs: &\[(.*)\], function:'
    return {(op, int(since)): rows for op, since, rows in re.findall(pattern, old)}


def checked_table(old: str) -> str:
    """Rebuilds the table from the measurements in `old`."""
    made = re.search(r"Generated from onnx (\S+) and onnxruntime (\S+) by", old)
    if made is None:
        sys.exit(f"{TABLE.name} does not record its source versions")
    versions = {"onnx": made[1], "ort": made[2]}
    runs = known_runs(old)
    found = schemas()
    if onnxruntime.__version__ == versions["ort"]:
        for s in found:
            if s.schema.name in NOT_MEASURED:
                runs[s.key] = ", ".join(s.rows({}, {}))
    else:
        print(
            f"note: the kernel list is not checked: onnxruntime {onnxruntime.__version__} is "
            f"installed, and {TABLE.name} is for {versions['ort']}",
            file=sys.stderr,
        )
    return table(found, runs, versions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="check the table without measuring")
    parser.add_argument("--new", action="store_true", help="measure only new versions")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if not arguments.check:
        known = known_runs(TABLE.read_text()) if arguments.new else {}
        TABLE.write_text(measured_table(arguments.jobs, known))
        return
    old = TABLE.read_text()
    new = checked_table(old)
    if old != new:
        known = set(old.splitlines())
        changed = [line for line in new.splitlines() if line not in known]
        print("\n".join(changed[:20]), file=sys.stderr)
        sys.exit(f"{TABLE.name} is out of date: {len(changed)} lines differ")


if __name__ == "__main__":
    main()
