"""The results of `to_onnx`: a file, an `onnx.ModelProto` or an `onnx_ir.Model`."""

import errno
import os
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jax2onnx._python.objects import users_frame
from jax2onnx.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx
    import onnx_ir

    from jax2onnx._core import Model

    Buffer = bytes | memoryview

# The placement of weights, by whether the file has to be self-contained.
PLACEMENT = {False: "auto", True: "inline"}


# Advice for errors of a disk rather than a path. The previous files are still there.
_NO_SPACE = "free some space or choose another disk; an existing model there is unchanged"
_FULL = {
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.EFBIG: "the file system does not allow files of this size: choose another disk",
    errno.EROFS: "the disk is read-only: choose another one",
}

# Advice of `to_onnx` for models that are too large for protobuf.
_INSTEAD = (
    'write it with return_mode="file", which puts the weights in a file of their own, or use '
    'return_mode="ir"'
)

# The largest message that protobuf serialises.
LARGEST_MESSAGE = (1 << 31) - 1


def save(model: "Model", path: str, *, placement: str) -> str:
    """Writes a model. `placement` is the location of weights: "auto", "inline" or "external"."""
    with writing(output_path=path):
        make_folder(path)
        model.save(path, placement)
    return path


def make_folder(path: str) -> None:
    """Creates the missing folders of a file. Raises if the file is a directory."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "is a directory", path)
    folder = os.path.dirname(path)
    if not folder:
        return
    try:
        os.makedirs(folder, exist_ok=True)
    except FileExistsError as error:
        reason = f"`{error.filename}` is not a directory"
        raise NotADirectoryError(errno.ENOTDIR, reason) from error


@contextmanager
def writing(**paths: str | None) -> "Iterator[None]":
    """Converts errors of writing a file to errors that name the option with its path."""
    try:
        yield
    except OSError as error:
        given = [(option, path) for option, path in paths.items() if path is not None]
        if not given:
            raise
        failed = [(option, path) for option, path in given if path == error.filename]
        option, path = (failed or given)[0]
        raise InvalidInputError(
            "unwritable-path",
            f"cannot write `{path}`: {(error.strerror or str(error)).removeprefix(f'{path}: ')}",
            help=_FULL.get(
                error.errno or 0,
                f"`{option}` needs a file name in a directory that you can write to"
                if option != "output_path"
                else "choose a file name in a directory that you can write to",
            ),
        ) from error


@contextmanager
def source_map_at(model: "Model", path: str | None) -> "Iterator[None]":
    """Writes the source map while the model is saved, which happens inside the context.

    Two files cannot be replaced at once. So the new map has a name of its own at first, by which it
    is found as well, and gets its usual name when the model has been saved.
    """
    if path is None:
        yield
        return
    with writing(source_map=path):
        make_folder(path)
        pending = model.write_source_map(path)
    try:
        yield
    except BaseException:
        pending.discard()
        raise
    with writing(source_map=path):
        pending.finish()


def to_proto(model: "Model", instead: str = _INSTEAD) -> "onnx.ModelProto":
    """Returns the model as protobuf. It may be larger than protobuf can serialise, with a warning
    that has advice.
    """
    if model.size > LARGEST_MESSAGE:
        warnings.warn(
            f"[large-proto] the model has {model.size / 1e9:.1f} GB, but protobuf serialises at "
            "most 2 GB: `SerializeToString` and `onnx.save` will fail\n"
            f"  help: {instead}",
            stacklevel=users_frame(),
        )
    result = skeleton(model)
    bodies = bodies_of(result.graph)
    initializers = {tensor.name: tensor for body in bodies for tensor in body.initializer}
    for name, data in model.tensors():
        initializers[name].raw_data = data
    return result


def to_ir(model: "Model") -> "onnx_ir.Model":
    import onnx_ir

    result = onnx_ir.from_proto(skeleton(model))
    assert isinstance(result, onnx_ir.Model)
    graphs = result.graphs()
    values = {name: value for graph in graphs for name, value in graph.initializers.items()}
    for name, data in model.tensors():
        empty = values[name].const_value
        assert empty is not None
        values[name].const_value = _filled(empty, data)
    return result


def _filled(empty: "onnx_ir.TensorProtocol", data: "Buffer") -> "onnx_ir.TensorProtocol":
    """Returns a tensor like `empty` whose elements are a view of `data`."""
    import numpy as np
    import onnx_ir

    dtype = empty.dtype
    if dtype.bitwidth < 8:
        packed = np.frombuffer(data, dtype=np.uint8)
        return onnx_ir.PackedTensor(packed, dtype, shape=empty.shape.numpy(), name=empty.name)
    array = np.frombuffer(data, dtype=dtype.numpy()).reshape(empty.shape.numpy())
    return onnx_ir.Tensor(array, dtype=dtype, name=empty.name)


def skeleton(model: "Model") -> "onnx.ModelProto":
    """Returns the model as protobuf, without the contents of its large tensors."""
    import onnx

    result = onnx.ModelProto()
    result.ParseFromString(model.skeleton())
    return result


def bodies_of(graph: Any) -> "Iterator[Any]":
    """Yields a graph or function and the graphs inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from bodies_of(inner)


def path_or_bytes(model: Any) -> str | bytes:
    """Converts a model to a path or bytes, which the compiled half reads."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if not hasattr(model, "SerializeToString"):
        import onnx_ir

        model = onnx_ir.to_proto(model)
    serialised: bytes = model.SerializeToString()
    return serialised
