"""Writes the kernels of the target `cuda`: those of onnxruntime's CUDA provider.

    python scripts/gen_cuda_table.py            write the table
    python scripts/gen_cuda_table.py --check    compare it with the provider's list

Needs `onnxruntime-gpu` (`make cuda`) and a C compiler, and no GPU: the provider lists its kernels
without one (see `tests/harness/idle_cuda.py`). The list says what is registered. Nothing is run, so
types that the CPU provider computes incorrectly in some cases are marked here as well.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gen_op_table import (
    BIT,
    KERNELS,
    LOADED,
    ROW,
    TARGETS,
    Row,
    check,
    imports,
    inherit,
    known_runs,
    merge,
    runs_table,
    schemas,
    show_row,
)

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from harness import idle_cuda

PATH = TARGETS / "cuda/kernels.rs"
HEADER = "//! Generated from onnxruntime-gpu {version} by `python scripts/gen_cuda_table.py`.\n\n"
# The provider leaves nodes with other values of the attribute to the CPU.
VARIANTS = {"GRU": "1"}
DOC = "The combinations that the CUDA provider has kernels for."


def kind_of(rows: str, types: int) -> str:
    """Returns the kind of the rows for some types in the table of the CPU provider."""
    kinds = [kind for kind, _, masks in ROW.findall(rows) if int(masks.split(",")[0], 16) & types]
    return next((kind for kind in kinds if kind != "row"), "row")


def show(op: str, rows: set[Row], on_cpu: str) -> str:
    """Formats the rows of an operator."""
    kinds: dict[str, set[Row]] = {}
    for first, *rest in rows:
        for bit in BIT.values():
            if first & bit:
                kinds.setdefault(kind_of(on_cpu, bit), set()).add((bit, *rest))
    variant = VARIANTS.get(op, "")
    return ", ".join(
        show_row(kind, variant, row) for kind, some in kinds.items() for row in merge(some)
    )


def table() -> str:
    """Formats the table of kernels."""
    kernels = [
        (kernel["op"], tuple(kernel["versions"]), kernel["types"])
        for kernel in idle_cuda.kernels()
        if (kernel["provider"], kernel["domain"]) == (idle_cuda.PROVIDER, "")
    ]
    known = known_runs(KERNELS.read_text())
    runs = {}
    for schema in schemas():
        if schema.schema.since_version <= LOADED:
            rows = {row for row in schema.kernel_rows(kernels) if all(row)}
            runs[schema.key] = show(schema.schema.name, rows, known.get(schema.key, ""))
    inherit(schemas(), runs)
    text = runs_table("KERNELS", DOC, {key: rows for key, rows in runs.items() if rows})
    version = next(idle_cuda.PACKAGE.glob("onnxruntime_gpu-*")).name.split("-")[1]
    return HEADER.format(version=version.removesuffix(".dist")) + imports(text) + text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="check the table")
    if parser.parse_args().check:
        check(PATH, table())
    else:
        PATH.write_text(table())


if __name__ == "__main__":
    main()
