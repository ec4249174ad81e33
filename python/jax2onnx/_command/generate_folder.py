"""`jax2onnx generate-folder CHECKPOINT -o FOLDER` runs `generation.save_checkpoint`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jax2onnx._command.export import conversion_options, reported, short_warnings, size_of


def run(
    checkpoint: Path,
    output: Path,
    *,
    context_length: int | None,
    adapter: Path | None,
    all_logits: bool,
    provenance: str | None,
    conversion: Mapping[str, Any],
    quiet: bool,
) -> int:
    """Exports a checkpoint and returns the exit status."""
    from jax2onnx import generation
    from jax2onnx._export import progress

    try:
        with progress.shown(), short_warnings():
            folder = generation.save_checkpoint(
                output,
                checkpoint,
                context_length=context_length,
                adapter=adapter,
                all_logits=all_logits,
                **conversion_options(conversion, provenance),
            )
    except Exception as error:
        return reported(error)
    if not quiet:
        files = sorted(path for path in Path(folder).iterdir() if path.is_file())
        print(f"{folder}: {size_of(map(str, files))}")
        for file in files:
            print(f"  {file.name}: {size_of([str(file)])}")
    return 0
