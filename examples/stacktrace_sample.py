"""Exports a function with metadata on, runs the model, and shows where each node came from."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime

from jax2onnx import to_onnx

OUTPUT = Path("build/sandbox_stacktrace_sample.onnx")


def fn(x):
    """The function that is exported."""
    return jnp.sin(x) * 2.0


def main() -> None:
    """Exports, runs, compares, prints."""
    path = to_onnx(
        fn,
        [jax.ShapeDtypeStruct((2,), jnp.float32)],
        return_mode="file",
        output_path=OUTPUT,
        stacktrace_metadata=True,
    )
    x = np.array([0.5, 2.0], dtype=np.float32)
    session = onnxruntime.InferenceSession(path)
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    expected = np.asarray(fn(x))
    np.testing.assert_allclose(found, expected, rtol=1e-6)

    model = onnx.load(path)
    columns = ("node", "op", "call site", "rule")
    rows = [
        (
            node.name,
            node.op_type,
            metadata(node).get("pkg.jax2onnx.callsite", ""),
            metadata(node).get("pkg.jax2onnx.plugin", ""),
        )
        for node in model.graph.node
    ]
    print(f"exported {path}")
    print(f"onnxruntime {found.tolist()}")
    print(f"JAX         {expected.tolist()}\n")
    print(table(columns, rows))


def metadata(node: onnx.NodeProto) -> dict[str, str]:
    """The metadata of a node."""
    return {entry.key: entry.value for entry in node.metadata_props}


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Rows under their headings, in columns as wide as they need."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    lines = [columns, tuple("─" * width for width in widths), *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


if __name__ == "__main__":
    main()
