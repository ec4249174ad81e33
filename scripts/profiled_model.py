"""Exports models of the tests and measures them, for the pictures and the site."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from jax2onnx import _core, to_onnx

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


def export(path: Path, model: tuple[Any, tuple[Any, ...]], **options: Any) -> Path:
    """Exports a function for its arguments."""
    fn, args = model
    to_onnx(fn, list(args), return_mode="file", output_path=str(path), **options)
    return path


def profile(model: Path, args: tuple[Any, ...]) -> Path:
    """Runs a model 20 times, and returns onnxruntime's profile."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(model)
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = {i.name: np.asarray(arg) for i, arg in zip(session.get_inputs(), args, strict=True)}
    for _ in range(20):
        session.run(None, feeds)
    return Path(session.end_profiling())


def page_of(model: Path, *options: str) -> Path:
    """Writes the page of a model beside it."""
    page = model.with_suffix(".html")
    if _core.main(["view", str(model), "-o", str(page), *options]):
        raise SystemExit(f"{page} could not be written")
    return page


def gpt_page(folder: Path, **sizes: int) -> Path:
    """Writes the page of a GPT, with the time of each node."""
    from models.nnx.gpt import gpt

    model = gpt(**sizes)
    path = export(folder / "gpt.onnx", model, stacktrace_metadata="sourcemap")
    return page_of(path, "--profile", str(profile(path, model[1])), "--skip", "5")
