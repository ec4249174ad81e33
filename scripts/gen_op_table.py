"""Writes the table of operators and the kernels of the target `onnxruntime`.

    python scripts/gen_op_table.py            measure, and write both tables
    python scripts/gen_op_table.py --new      measure only the versions that the kernels lack
    python scripts/gen_op_table.py --check    check both tables without measuring, in seconds

The operators, crates/onnx/src/schema/table.rs, come from `onnx.defs`. The kernels, which are in the
target's folder crates/optimize/src/targets/onnxruntime/, come from running onnxruntime (see
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

OLDEST, NEWEST = 9, 28
# The newest opset that onnxruntime loads.
LOADED = 26
CRATES = Path(__file__).parent.parent / "crates"
TABLE = CRATES / "onnx/src/schema/table.rs"
TARGETS = CRATES / "optimize/src/targets"
KERNELS = TARGETS / "onnxruntime/kernels.rs"
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

Kernel = tuple[str, tuple[int, int], dict[str, list[str]]]
"""A kernel in a provider's list: its operator, the versions, and the types by constraint."""

TABLE_HEADER = """\
//! Generated from onnx {onnx} by `python scripts/gen_op_table.py`.
//!
//! One line per operator version that is current at an opset from {oldest} to {newest}, sorted by
//! name and version. Masks have one bit per `tensor::DType`.

use super::AttrKind::{{Float, Floats, Graph, Int, Ints, Other, String, Strings, Tensor}};
use super::{{Schema, attr, constraint, many, mixed, one, optional, required}};

/// Operators whose kernels differ by the value of an attribute: its name and its default.
pub(super) static VARIANTS: &[(&str, &str, &str)] = &[
{variants}];

#[rustfmt::skip]
pub(super) static TABLE: &[Schema] = &[
"""

KERNELS_HEADER = """\
//! Generated from onnxruntime {ort} by `python scripts/gen_op_table.py`.
//!
//! Digest of what runs: {digest}

"""

Runs = dict[tuple[str, int], str]
"""The rows of operator versions, as text."""


def element_type(text: str) -> str | None:
    """Returns `float` for `tensor(float)`; `None` for anything but a tensor of a known type."""
    name = text.removeprefix("tensor(").removesuffix(")")
    return name if text.startswith("tensor(") and name in ELEMENT_TYPES else None


def cpu_kernels() -> list[Kernel]:
    """Returns the kernels of the CPU provider."""
    return [
        (kernel.op_name, kernel.version_range, kernel.type_constraints)
        for kernel in get_all_opkernel_def()
        if (kernel.provider, kernel.domain) == ("CPUExecutionProvider", "")
    ]


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

    def kernel_rows(self, kernels: Sequence[Kernel]) -> set[Row]:
        """Returns the rows according to a provider's list of kernels.

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
        for op, (start, end), constraints in kernels:
            since = self.schema.since_version
            covers = start <= since <= end if end != MAX_INT else start == since
            if op != self.schema.name or not covers:
                continue
            masks = [mask(c.types) for c in self.constraints]
            for key, types in constraints.items():
                if key in names:
                    known = [t for t in map(element_type, types) if t]
                    masks[names[key]] &= mask(known)
            rows.add(tuple(masks))
        return rows

    def rows(self, measured: dict[str, Measurement], wrong: dict[str, WrongTypes]) -> list[str]:
        """Returns the rows of each variant: the correct ones first, then the others."""
        if not measured:
            return [show_row("row", "", row) for row in merge(self.kernel_rows(cpu_kernels()))]
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

    def line(self) -> str:
        """Formats a line of the table of operators."""
        s = self.schema
        inputs = ", ".join(self.param(p) for p in s.inputs)
        outputs = ", ".join(self.param(p) for p in s.outputs)
        attrs = ", ".join(attribute(a) for _, a in sorted(s.attributes.items()))
        types = ", ".join(f'constraint("{c.name}", {mask(c.types):#x})' for c in self.constraints)
        function = str(s.has_function or s.has_context_dependent_function).lower()
        return (
            f'    Schema {{ name: "{s.name}", since: {s.since_version}, until: {self.until}, '
            f"inputs: &[{inputs}], outputs: &[{outputs}], attrs: &[{attrs}], "
            f"types: &[{types}], function: {function} }},\n"
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


def digest(found: list[Schema], runs: Runs) -> str:
    lines = (f"{s.key[0]} {s.key[1]} {runs.get(s.key, '')}\n" for s in found)
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def operators(found: list[Schema], version: str) -> str:
    """Formats the table of operators."""
    variants = sorted(VARIANT_ATTRIBUTES.items())
    header = TABLE_HEADER.format(
        onnx=version,
        oldest=OLDEST,
        newest=NEWEST,
        variants="".join(f'    ("{op}", "{a}", "{value}"),\n' for op, (a, value) in variants),
    )
    return header + "".join(s.line() for s in found) + "];\n"


def kernels(found: list[Schema], runs: Runs, version: str) -> str:
    """Formats the table of the target's kernels."""
    header = KERNELS_HEADER.format(ort=version, digest=digest(found, runs))
    some = {s.key: runs[s.key] for s in found if runs.get(s.key)}
    text = runs_table("KERNELS", "The combinations that the CPU provider runs.", some)
    return header + imports(text) + text


def imports(tables: str) -> str:
    """Formats the import that tables of kernels need."""
    kinds = sorted({kind for kind, _, _ in ROW.findall(tables)})
    return f"use crate::targets::kernels::{{Runs, {', '.join(kinds)}}};\n\n"


def runs_table(name: str, doc: str, runs: Runs) -> str:
    """Formats a table of kernels. Versions of an operator with equal rows share a line."""
    versions: dict[tuple[str, str], list[int]] = {}
    for (op, since), rows in sorted(runs.items()):
        versions.setdefault((op, rows), []).append(since)
    head = f"/// {doc}\n#[rustfmt::skip]\npub(in crate::targets) static {name}: &[Runs] = &[\n"
    lines = sorted((op, since, rows) for (op, rows), since in versions.items())
    body = (f'    Runs {{ op: "{op}", versions: &{v}, rows: &[{r}] }},\n' for op, v, r in lines)
    return head + "".join(body) + "];\n"


def measured_kernels(jobs: int, known: Runs) -> str:
    """Measures and formats the kernels, except for the versions in `known`."""
    found = [s for s in schemas() if s.schema.since_version <= LOADED and s.key not in known]
    measured = measure_all([s.version() for s in found], jobs)
    wrong = {"small": wrong_types(), "numbers": nan_losers(), "terms": failing_types()}
    pairs = zip(found, measured, strict=True)
    runs = known | {s.key: ", ".join(s.rows(m, wrong)) for s, m in pairs}
    inherit(schemas(), runs)
    return kernels(schemas(), runs, onnxruntime.__version__)


def inherit(found: list[Schema], runs: Runs) -> None:
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


def known_runs(old: str) -> Runs:
    """Parses the rows of a table of kernels."""
    pattern = r'Runs \{ op: "(\w+)", versions: &\[(.*?)\], rows: &\[(.*)\] \},'
    lines = re.findall(pattern, old)
    return {(op, int(since)): rows for op, v, rows in lines for since in v.split(", ")}


def version_of(old: str, package: str) -> str:
    """Returns the version of a package that a table was generated from."""
    made = re.search(rf"Generated from {package} (\S+) by", old)
    if made is None:
        sys.exit(f"a table does not record its version of {package}")
    return made[1]


def checked_kernels(old: str) -> str:
    """Rebuilds the table of kernels from the measurements in `old`."""
    version = version_of(old, "onnxruntime")
    runs = known_runs(old)
    found = schemas()
    if onnxruntime.__version__ == version:
        for s in found:
            if s.schema.name in NOT_MEASURED:
                runs[s.key] = ", ".join(s.rows({}, {}))
    else:
        print(
            f"note: the kernel list is not checked: onnxruntime {onnxruntime.__version__} is "
            f"installed, and {KERNELS.name} is for {version}",
            file=sys.stderr,
        )
    return kernels(found, runs, version)


def check(path: Path, new: str) -> None:
    old = path.read_text()
    if old != new:
        known = set(old.splitlines())
        changed = [line for line in new.splitlines() if line not in known]
        print("\n".join(changed[:20]), file=sys.stderr)
        sys.exit(f"{path.name} is out of date: {len(changed)} lines differ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="check the tables without measuring")
    parser.add_argument("--new", action="store_true", help="measure only versions that are new")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.check:
        check(TABLE, operators(schemas(), version_of(TABLE.read_text(), "onnx")))
        check(KERNELS, checked_kernels(KERNELS.read_text()))
        return
    known = known_runs(KERNELS.read_text()) if arguments.new else {}
    TABLE.write_text(operators(schemas(), onnx.__version__))
    KERNELS.write_text(measured_kernels(arguments.jobs, known))


if __name__ == "__main__":
    main()
