"""`jax2onnx generate-folder CHECKPOINT -o FOLDER` runs `generation.save_checkpoint`."""

from collections.abc import Sequence
from pathlib import Path

from jax2onnx._command.export import (
    patterns,
    reported,
    short_warnings,
    size_of,
    to_onnx_options,
)


def run(
    checkpoint: Path,
    output: Path,
    *,
    context_length: int | None,
    adapter: Path | None,
    last_logits: bool,
    weights: Sequence[str],
    compute: Sequence[str],
    stacktrace: str | None,
    target: str | None,
    settings: Sequence[str],
    quiet: bool,
) -> int:
    """Exports a checkpoint and returns the exit status."""
    from jax2onnx import generation
    from jax2onnx._export import progress

    try:
        options = to_onnx_options(settings)
        if stacktrace is not None:
            options["stacktrace_metadata"] = False if stacktrace == "off" else stacktrace
        if target is not None:
            options["target"] = target
        for option, texts in (("compute", compute), ("weights", weights)):
            if texts:
                options[option] = patterns(option, texts)
        with progress.shown(), short_warnings():
            folder = generation.save_checkpoint(
                output,
                checkpoint,
                context_length=context_length,
                adapter=adapter,
                last_logits=last_logits,
                **options,
            )
    except Exception as error:
        return reported(error)
    if not quiet:
        files = sorted(path for path in Path(folder).iterdir() if path.is_file())
        print(f"{folder}: {size_of(map(str, files))}")
        for file in files:
            print(f"  {file.name}: {size_of([str(file)])}")
    return 0
