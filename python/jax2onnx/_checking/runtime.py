"""Runs models with ONNX Runtime."""

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jax2onnx import _core
from jax2onnx._python.packages import require
from jax2onnx.errors import InvalidInputError, wrong_arguments

if TYPE_CHECKING:
    import onnx

# The largest protobuf message, with room for additions.
MESSAGE = (1 << 31) - (1 << 24)

NCHW = (0, 3, 1, 2)
NHWC = (0, 2, 3, 1)


# ONNX's codes for the types of onnxruntime.
NODE_TYPES = {f"tensor({name})": code for _, _, name, code in _core.element_types()}


def _is_flag(declared: Any) -> bool:
    """Returns `True` for a boolean input with a default. Other inputs with defaults are weights."""
    kind = declared.type.tensor_type
    return kind.elem_type == NODE_TYPES["tensor(bool)"] and not kind.shape.dim


class Runnable:
    """A model that can run."""

    def __init__(self, model: Any) -> None:
        require("onnx", "running a model")
        require("onnxruntime", "running a model")
        import onnx

        self.folder: str | None = None
        self._sessions: dict[bool, tuple[Any, list[np.dtype[Any] | None]]] = {}
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        if isinstance(model, str | os.PathLike):
            path = os.fspath(model)
            if not os.path.isfile(path):
                raise InvalidInputError("no-model", f"there is no model `{path}`")
            self.folder = os.path.dirname(os.path.abspath(path))
            if damage := _core.damage(path):
                raise InvalidInputError("no-model", f"{path}: {damage}")
            self.proto = onnx.load(path, format="protobuf", load_external_data=False)
            for file in self.data_files():
                if not os.path.isfile(file):
                    raise InvalidInputError(
                        "no-weights",
                        f"`{path}` has weights in `{file}`, and there is no such file",
                        help="keep a model and its data file together, under the names that they "
                        "were written with",
                    )
        elif isinstance(model, onnx.ModelProto):
            self.proto = self._small(model)
        else:
            self.proto = self._small(_from_ir(model))
        self.proto = _without_watched(self.proto)
        initializers = {tensor.name for tensor in self.proto.graph.initializer}
        self.inputs = [
            i for i in self.proto.graph.input if i.name not in initializers or _is_flag(i)
        ]
        self.outputs = list(self.proto.graph.output)
        self.types_inside = _types_inside(self.proto)

    def data_files(self) -> list[str]:
        """Returns the paths of the files that weights are stored in."""
        entries = (
            entry for tensor in self.proto.graph.initializer for entry in tensor.external_data
        )
        names = {entry.value: None for entry in entries if entry.key == "location"}
        return [os.path.join(self.folder or "", name) for name in names]

    def _small(self, model: "onnx.ModelProto") -> "onnx.ModelProto":
        """Moves the weights of a model that is too large for one message to files."""
        import onnx

        if sum(len(tensor.raw_data) for tensor in model.graph.initializer) < MESSAGE:
            return model
        self._scratch = tempfile.TemporaryDirectory()
        self.folder = self._scratch.name
        path = os.path.join(self.folder, "model.onnx")
        onnx.save(deepcopy(model), path, save_as_external_data=True)
        return onnx.load(path, load_external_data=False)

    def run(self, feeds: Sequence[np.ndarray], *, optimised: bool = True) -> list[np.ndarray]:
        """Runs the model, which onnxruntime may optimise, and returns its outputs."""
        if optimised not in self._sessions:
            copy, types = self._returning()
            self._sessions[optimised] = session_of(copy, self.folder, optimised=optimised), types
        pairs = zip(self.inputs, feeds, strict=True)
        given = {i.name: _checked(i, self.at_boundary(i, array)) for i, array in pairs}
        session, types = self._sessions[optimised]
        return fetched(session, given, types)

    def values(self, feeds: Sequence[np.ndarray]) -> dict[str, Any]:
        """Returns onnxruntime's values of the inputs, by name."""
        return {name: tensor_value(array) for name, array in self.feeds(feeds).items()}

    def whole(self) -> "onnx.ModelProto":
        """Returns the model with the weights that are in other files."""
        import onnx

        if self.folder is None:
            return self.proto
        copy = deepcopy(self.proto)
        onnx.load_external_data_for_model(copy, self.folder)
        return copy

    def refused(self) -> Exception | None:
        """Returns the error that onnxruntime raises on loading the model, or None."""
        try:
            session_of(self.proto, self.folder)
        except Exception as error:
            return error
        return None

    def feeds(self, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the inputs by name. Floats are converted to the model's types."""
        found = {}
        for declared, given in zip(self.inputs, arrays, strict=True):
            array = self.at_boundary(declared, given)
            wanted = dtype_of(declared)
            both_floats = is_float(wanted) and is_float(array.dtype)
            found[declared.name] = _checked(
                declared, array.astype(wanted) if both_floats else array
            )
        return found

    def at_boundary(self, declared: "onnx.ValueInfoProto", array: np.ndarray) -> np.ndarray:
        """Converts a value of the function to the type that the export chose for it."""
        if self.types_inside.get(declared.name) == array.dtype.name:
            return array.astype(dtype_of(declared))
        return array

    def _returning(self) -> "tuple[onnx.ModelProto, list[np.dtype[Any] | None]]":
        """Returns a copy of the model whose outputs have NumPy's types, and the types to restore:
        others are returned as 32-bit floats.
        """
        import onnx

        types = [_foreign(output.type.tensor_type.elem_type) for output in self.outputs]
        if not any(types):
            return self.proto, types
        copy = deepcopy(self.proto)
        for i, (output, foreign) in enumerate(zip(copy.graph.output, types, strict=True)):
            if foreign is not None:
                name, output.name = output.name, f"as_float_{i}"
                output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
                cast = onnx.helper.make_node("Cast", [name], [output.name], to=1)
                copy.graph.node.append(cast)
        return copy, types


# The metadata key with the number of outputs that a model had before `jax2onnx probe` added others.
_OWN_OUTPUTS = "pkg.jax2onnx.probe.outputs"


def _without_watched(proto: "onnx.ModelProto") -> "onnx.ModelProto":
    """Returns a model without the outputs that `jax2onnx probe` added."""
    own = next((int(e.value) for e in proto.metadata_props if e.key == _OWN_OUTPUTS), None)
    if own is None or own >= len(proto.graph.output):
        return proto
    copy = deepcopy(proto)
    copy.graph.value_info.extend(copy.graph.output[own:])
    del copy.graph.output[own:]
    return copy


def dtype_of(declared: "onnx.ValueInfoProto") -> np.dtype[Any]:
    return numpy_type(declared.type.tensor_type.elem_type)


def numpy_type(code: int) -> np.dtype[Any]:
    """Returns the element type for ONNX's code."""
    import onnx

    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))


def sizes_of(declared: "onnx.ValueInfoProto") -> list[int | None]:
    """Returns the sizes of an input or an output; None for those that are symbolic."""
    dims = declared.type.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]


def shape_text(declared: "onnx.ValueInfoProto") -> str:
    """Returns the sizes of an input or an output, or their names, if they have some."""
    names = [dim.dim_param or "?" for dim in declared.type.tensor_type.shape.dim]
    pairs = zip(names, sizes_of(declared), strict=True)
    return ", ".join(name if size is None else str(size) for name, size in pairs)


def _types_inside(proto: "onnx.ModelProto") -> dict[str, str]:
    """Returns the function's types of inputs and outputs that differ from the model's, by name."""
    found = {entry.key: entry.value for entry in proto.metadata_props}
    lines = found.get("pkg.jax2onnx.types", "").splitlines()
    return {name: dtype for name, _, dtype in (line.rpartition("=") for line in lines)}


def is_float(dtype: np.dtype[Any]) -> bool:
    """Returns `True` for floating-point types of any size."""
    return bool(jax.numpy.issubdtype(dtype, np.floating))


def session_of(model: "onnx.ModelProto", folder: str | None, *, optimised: bool = False) -> Any:
    """Creates an onnxruntime session. `folder` has the external weights."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised as well
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if folder is not None:
        key = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(key, folder)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def is_from_onnxruntime(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] == "onnxruntime"


def fetched(
    session: Any, feeds: Mapping[str, np.ndarray], types: "Sequence[np.dtype[Any] | None]"
) -> list[np.ndarray]:
    """Runs a session. Returns its outputs, converted to `types` where these are given."""
    given = {name: tensor_value(array) for name, array in feeds.items()}
    results = session.run_with_ort_values([o.name for o in session.get_outputs()], given)
    arrays = (result.numpy() for result in results)
    return [a if t is None else a.astype(t) for a, t in zip(arrays, types, strict=True)]


def tensor_value(array: np.ndarray) -> Any:
    import onnx
    import onnxruntime

    code = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    array = np.asarray(array, order="C")  # `ascontiguousarray` would give scalars an axis
    if array.dtype.isbuiltin != 1:
        words = _packed(array.view(f"uint{8 * array.itemsize}"), _bits(array.dtype))
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(words, code)
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def _bits(dtype: "np.dtype[Any]") -> int:
    info: Any = jax.numpy.finfo if is_float(dtype) else jax.numpy.iinfo
    bits: int = info(dtype).bits
    return bits


def _packed(words: np.ndarray, bits: int) -> np.ndarray:
    """Returns an array of the same shape that begins with the elements as onnxruntime stores them:
    types below 8 bits share bytes, the first element in the lowest bits.
    """
    if bits >= 8:
        return words
    each = 8 // bits
    numbers = words.ravel() & ((1 << bits) - 1)
    numbers = np.pad(numbers, (0, -numbers.size % each)).reshape(-1, each)
    together = np.bitwise_or.reduce(numbers << np.arange(0, 8, bits, dtype=np.uint8), axis=1)
    result = np.zeros_like(words)
    result.reshape(-1)[: together.size] = together
    return result


def _foreign(code: int) -> "np.dtype[Any] | None":
    """Returns the element type for ONNX's code if NumPy lacks it, or else None."""
    if code == 0:
        return None
    dtype = numpy_type(code)
    return None if dtype.isbuiltin == 1 else dtype


def _checked(declared: "onnx.ValueInfoProto", array: np.ndarray) -> np.ndarray:
    wanted, sizes = dtype_of(declared), sizes_of(declared)
    fits = len(sizes) == array.ndim and all(
        size in (None, given) for size, given in zip(sizes, array.shape, strict=True)
    )
    if array.dtype != wanted or not fits:
        raise wrong_arguments(
            f"the model's input `{declared.name}` is {wanted}[{shape_text(declared)}], "
            f"not {array.dtype}{list(array.shape)}"
        )
    return array


def _from_ir(model: Any) -> "onnx.ModelProto":
    # A program with such a model has imported its module.
    ir = sys.modules.get("onnx_ir")
    if ir is None or not isinstance(model, ir.Model):
        raise InvalidInputError(
            "no-model",
            f"`{model!r}` is not a model",
            help="pass the path of a model, a ModelProto or an ir.Model; an `ExportedModel` has "
            "methods of its own (verify, check), and a ModelProto in its attribute `proto`",
        )
    proto: onnx.ModelProto = ir.serde.serialize_model(model)
    return proto


def as_tensor(value: Any) -> np.ndarray:
    """Converts a value to a tensor: complex numbers get a last axis of two, keys are integers."""
    array = real_array(value)
    return np.stack([array.real, array.imag], -1) if np.iscomplexobj(array) else array


def real_array(value: Any) -> np.ndarray:
    """Converts a value to an array of numbers. PRNG keys become their integers."""
    if isinstance(value, jax.Array) and jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)
