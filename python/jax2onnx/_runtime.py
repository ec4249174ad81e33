"""Runs models with ONNX Runtime."""

import os
import sys
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jax2onnx._packages import require
from jax2onnx.errors import InvalidInputError

if TYPE_CHECKING:
    import onnx

# The largest protobuf message, with room for additions.
_MESSAGE = (1 << 31) - (1 << 24)

NCHW = (0, 3, 1, 2)


class Runnable:
    """A model that can also run as copies with additional outputs."""

    def __init__(self, model: Any) -> None:
        require("onnx", "running a model", extra="onnx")
        require("onnxruntime", "running a model", extra="runtime")
        import onnx

        self._data: str | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        if isinstance(model, str | os.PathLike):
            path = os.fspath(model)
            if not os.path.exists(path):
                raise InvalidInputError("no-model", f"there is no model `{path}`")
            self._data = os.path.dirname(os.path.abspath(path))
            self.proto = onnx.load(path, load_external_data=False)
        elif isinstance(model, onnx.ModelProto):
            self.proto = self._small(model)
        else:
            self.proto = self._small(_from_ir(model))
        initializers = {tensor.name for tensor in self.proto.graph.initializer}
        self.inputs = [i for i in self.proto.graph.input if i.name not in initializers]
        self.outputs = list(self.proto.graph.output)

    def _small(self, model: "onnx.ModelProto") -> "onnx.ModelProto":
        """The model, or one whose weights are in files if it is too large for one message."""
        import onnx

        if sum(len(tensor.raw_data) for tensor in model.graph.initializer) < _MESSAGE:
            return model
        self._scratch = tempfile.TemporaryDirectory()
        self._data = self._scratch.name
        path = os.path.join(self._data, "model.onnx")
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        onnx.save(copy, path, save_as_external_data=True)
        return onnx.load(path, load_external_data=False)

    def run(
        self, feeds: Sequence[np.ndarray], names: Sequence[str] | None = None
    ) -> list[np.ndarray]:
        """The values of the model's outputs, or of any values, computed without optimisations."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if names is not None:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        if self._data is not None:
            folder = "session.model_external_initializers_file_folder_path"
            options.add_session_config_entry(folder, self._data)
        wanted = [output.name for output in self.outputs] if names is None else list(names)
        copy, types = self._returning(wanted, cut=names is not None)
        session = onnxruntime.InferenceSession(
            copy.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        given = {i.name: self._feed(i, array) for i, array in zip(self.inputs, feeds, strict=True)}
        results = session.run_with_ort_values([o.name for o in session.get_outputs()], given)
        arrays = (result.numpy() for result in results)
        return [a if t is None else a.astype(t) for a, t in zip(arrays, types, strict=True)]

    def _feed(self, declared: "onnx.ValueInfoProto", array: np.ndarray) -> Any:
        import onnxruntime

        code = declared.type.tensor_type.elem_type
        _check_feed(declared, array)
        array = np.asarray(array, order="C")  # `ascontiguousarray` would give scalars an axis
        if array.dtype.isbuiltin != 1:
            words = array.view(f"uint{8 * array.itemsize}")
            return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(words, code)
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)

    def _returning(
        self, names: Sequence[str], *, cut: bool
    ) -> "tuple[onnx.ModelProto, list[np.dtype[Any] | None]]":
        """A copy that returns `names`, and the types to restore: those that NumPy does not have are
        returned as 32-bit floats. `cut` removes everything after the last of them.
        """
        import onnx

        copy = onnx.ModelProto()
        copy.CopyFrom(self.proto)
        graph = copy.graph
        if cut:
            makers = {name: i for i, node in enumerate(graph.node) for name in node.output}
            last = max((makers[name] for name in names if name in makers), default=-1)
            del graph.node[last + 1 :]
        declared = {v.name: v for v in (*graph.value_info, *graph.output)}
        given = {v.name for v in graph.input} | {tensor.name for tensor in graph.initializer}
        del graph.output[:]
        types: list[np.dtype[Any] | None] = []
        for i, name in enumerate(names):
            code = declared[name].type.tensor_type.elem_type if name in declared else 0
            restored = _foreign(code)
            types.append(restored)
            output = graph.output.add()
            if name in given:
                # Neither an input nor a constant can be returned directly.
                output.name = f"as_it_is_{i}"
                graph.node.add(op_type="Identity", input=[name], output=[output.name])
                continue
            if restored is None:
                output.CopyFrom(declared.get(name, onnx.ValueInfoProto(name=name)))
                continue
            output.name = f"as_float_{i}"
            output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
            cast = onnx.helper.make_node("Cast", [name], [output.name], to=onnx.TensorProto.FLOAT)
            graph.node.append(cast)
        return copy, types


def _foreign(code: int) -> "np.dtype[Any] | None":
    """The element type behind ONNX's code, if NumPy does not have it."""
    import onnx

    if code == 0:
        return None
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    return None if dtype.isbuiltin == 1 else dtype


def _check_feed(declared: "onnx.ValueInfoProto", array: np.ndarray) -> None:
    import onnx

    tensor = declared.type.tensor_type
    wanted = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    fits = len(sizes) == array.ndim and all(
        size in (None, given) for size, given in zip(sizes, array.shape, strict=True)
    )
    if array.dtype != wanted or not fits:
        shown = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim]
        raise InvalidInputError(
            "wrong-arguments",
            f"the model's input `{declared.name}` is {wanted}{shown}, "
            f"not {array.dtype}{list(array.shape)}",
        )


def _from_ir(model: Any) -> "onnx.ModelProto":
    # Whoever has such a model has imported its module.
    ir = sys.modules.get("onnx_ir")
    if ir is None or not isinstance(model, ir.Model):
        raise InvalidInputError(
            "no-model",
            f"`{model!r}` is not a model",
            help="pass a path, a ModelProto or an ir.Model",
        )
    proto: onnx.ModelProto = ir.serde.serialize_model(model)
    return proto


def as_tensor(value: Any) -> np.ndarray:
    """The tensor for a value at a model's boundary: complex numbers have a trailing axis of size
    two, and PRNG keys are their integers.
    """
    array = real_array(value)
    return np.stack([array.real, array.imag], -1) if np.iscomplexobj(array) else array


def real_array(value: Any) -> np.ndarray:
    """A value as an array of numbers: PRNG keys are their integers."""
    if isinstance(value, jax.Array) and jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)
