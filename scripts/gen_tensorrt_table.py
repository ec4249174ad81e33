"""Writes the kernels of the target `tensorrt`: what its ONNX parser documents.

    python scripts/gen_tensorrt_table.py docs/operators.md

The file is that of onnx-tensorrt, at the release that the table is for. Nothing is run.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from gen_op_table import TARGETS, Schema, imports, mask, runs_table, schemas, show_row
from measure_kernels import VARIANT_ATTRIBUTES

PATH = TARGETS / "tensorrt/kernels.rs"
HEADER = "//! Generated from {title} by `python scripts/gen_tensorrt_table.py`.\n\n"
DOC = "The combinations that the parser documents."
NEWEST = (
    "/// The newest opset that the parser documents.\npub(super) const NEWEST: i64 = {newest};\n\n"
)
# `INF64` is a slip of the page.
TYPES = {
    "BF16": "bfloat16",
    "BOOL": "bool",
    "FP16": "float16",
    "FP32": "float",
    "INF64": "int64",
    "INT32": "int32",
    "INT64": "int64",
}
# The values of attributes that the column of restrictions allows.
VARIANTS = {"Resize": ("nearest", "linear"), "ScatterND": ("none",)}
# Weights are stored in these types, and read by nothing else.
STORED = {"DequantizeLinear": ["int8", "int4"]}
ROW = re.compile(r"^\| (\w+) +\| Y[^|]*\|([^|\n]*)", re.MULTILINE)
OPSETS = re.compile(r"(TensorRT \S+) supports .* to opset (\d+)")


def rows(schema: Schema, types: list[str]) -> str:
    """Formats the rows of an operator version whose documented types are `types`."""
    name = schema.schema.name
    masks = []
    for index, constraint in enumerate(schema.constraints):
        allowed = set(constraint.types)
        found = allowed & {*types, *(STORED.get(name, []) if index == 0 else [])}
        # Indices, sizes and conditions are not among the types of the page.
        masks.append(mask([t for t in constraint.types if t in (found or {*TYPES.values()})]))
    if not all(masks):
        return ""
    variants = VARIANTS.get(name, ("",)) if name in VARIANT_ATTRIBUTES else ("",)
    return ", ".join(show_row("row", variant, tuple(masks)) for variant in variants)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path, help="docs/operators.md of onnx-tensorrt")
    page = parser.parse_args().page.read_text()
    title, newest = OPSETS.findall(page)[0]
    known = {op: re.findall(r"\w+", types) for op, types in ROW.findall(page)}
    runs = {}
    for schema in schemas():
        if schema.schema.name in known and schema.schema.since_version <= int(newest):
            types = [TYPES[t] for t in known[schema.schema.name] if t in TYPES]
            if found := rows(schema, types):
                runs[schema.key] = found
    text = runs_table("KERNELS", DOC, runs)
    head = HEADER.format(title=title) + imports(text) + NEWEST.format(newest=newest)
    PATH.write_text(head + text)


if __name__ == "__main__":
    main()
