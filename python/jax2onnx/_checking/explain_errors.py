"""Explains runtime errors with the lines of the exported program."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jax2onnx._export.result import path_or_bytes

RUNTIMES = ("onnxruntime", "openvino", "tensorrt")


@contextmanager
def explain_errors(model: Any) -> Iterator[None]:
    """Explains errors that a runtime raises inside the block.

    An onnxruntime error is raised unchanged, with a note that shows the line of Python behind the
    node that failed, at the end of the traceback. The same goes for errors caused by one.

    Args:
        model: The model that runs: its path, its bytes, an `onnx.ModelProto` or an `onnx_ir.Model`.
            It is read only if there is an error to explain.
    """
    try:
        yield
    except Exception as error:
        chain = _chain(error)
        told = any(isinstance(n, _Note) for e in chain for n in getattr(e, "__notes__", ()))
        reason = next((e for e in chain if _is_of_runtime(e)), None)
        if reason is not None and not told:
            _attach(error, reason, model)
        raise


class _Note(str):
    """A note that this module added. Nested blocks do not repeat it."""

    __slots__ = ()


def _chain(error: BaseException) -> list[BaseException]:
    """Returns an error and its causes, the last one first."""
    chain: list[BaseException] = []
    reason: BaseException | None = error
    while reason is not None and all(reason is not known for known in chain):
        chain.append(reason)
        context = None if reason.__suppress_context__ else reason.__context__
        reason = reason.__cause__ or context
    return chain


def _is_of_runtime(error: BaseException) -> bool:
    """Returns `True` if a runtime raised the error, judging by its type and traceback."""
    origins = [type(error).__module__]
    traceback = error.__traceback__
    while traceback is not None:
        origins.append(traceback.tb_frame.f_globals.get("__name__") or "")
        traceback = traceback.tb_next
    return {origins[0].split(".")[0], origins[-1].split(".")[0]}.intersection(RUNTIMES) != set()


def _attach(error: BaseException, reason: BaseException, model: Any) -> None:
    from jax2onnx import _core

    try:
        note = _core.explain(path_or_bytes(model), str(reason))
    except Exception as why:  # the original error must not be replaced by another
        note = f"jax2onnx cannot explain this: {why}"
    if note is not None:
        error.add_note(_Note(note))
