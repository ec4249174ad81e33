"""The model that `export` returns."""

import html
import inspect
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from jax2onnx import _core, _frameworks, _jax
from jax2onnx._checking.allclose import arguments, compare
from jax2onnx._checking.explain_errors import explain_errors
from jax2onnx._checking.runtime import MESSAGE, NCHW, NHWC, Runnable, as_tensor
from jax2onnx._checking.verification import Verification
from jax2onnx._checking.verify import verify
from jax2onnx._export import result
from jax2onnx._export.option_names import IN_EXPORT
from jax2onnx._export.stored_weights import StoredWeights, stored_weights
from jax2onnx._export.to_onnx import Converted
from jax2onnx._exported.arguments import as_argument, as_result, shape_text, structure_text
from jax2onnx._exported.boundary import input_options
from jax2onnx._exported.displays import Page, Profile
from jax2onnx._python.notebooks import PRE, HiddenFrames, cells
from jax2onnx._python.objects import users_frame
from jax2onnx._python.packages import require
from jax2onnx._tracing.inputs import check_callable
from jax2onnx._tracing.names import component, signature_of
from jax2onnx._tracing.parameters import Tree, tree_of
from jax2onnx.errors import (
    InvalidInputError,
    Jax2OnnxError,
    MismatchError,
    bad_option,
    invalid_option,
    wrong_arguments,
)

if TYPE_CHECKING:
    import onnx
    import onnx_ir

ExternalData = bool | Literal["auto"]
_GROUPS = ("module", "line", "op", "rule")
_PLACEMENTS = {True: "external", False: "inline", "auto": "auto"}


@contextmanager
def own_words(more: Mapping[str, str] | None = None) -> Iterator[None]:
    """Replaces the names that options have in `to_onnx` in errors."""
    try:
        yield
    except Jax2OnnxError as error:
        error.reword({**IN_EXPORT, **(more or {})})
        raise


@dataclass(frozen=True)
class Source:
    """The origin of a model: a function or a model of a framework, its parameters and its state."""

    fn: Any
    params: Any
    state: Any

    def callable(self) -> Callable[..., Any]:
        """Returns the callable that takes the inputs of the model."""
        made: Any = self.fn
        if not isinstance(made, type):
            made = _frameworks.holding(made, self.params, self.state)
        check_callable(made)
        return made  # type: ignore[no-any-return]

    def signature(self) -> inspect.Signature | None:
        """Returns the signature of that callable, as far as it is known."""
        try:
            return signature_of(self.callable())
        except Jax2OnnxError:
            return signature_of(self.fn)

    def with_weights(self, tree: Any) -> "Source":
        """Replaces the parameters, or the model itself if it holds them."""
        if isinstance(tree, str | os.PathLike):
            raise InvalidInputError(
                "other-weights",
                f"the new weights cannot be the path `{os.fspath(tree)}`",
                help="load the file, and pass its arrays in the structure of the old weights",
            )
        if self.params is not None:
            return replace(self, params=tree)
        fn = _frameworks.with_variables(self.fn, tree)
        if fn is None and not callable(tree):
            raise InvalidInputError(
                "other-weights",
                f"the exported function holds its weights, and {type(tree).__name__} is not one",
                help="pass a function or a model like the exported one; to pass a pytree here, "
                "export with params=",
            )
        return replace(self, fn=tree if fn is None else fn)


class ExportedModel:
    """An ONNX model and the function that it was made from.

    `export` creates it. Calling it runs the model in onnxruntime, with the arguments of the
    function.
    """

    def __init__(self, converted: Converted, source: Source, function: Callable[..., Any]) -> None:
        self._converted = converted
        self._source = source
        self._function = function

    @HiddenFrames()
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model in onnxruntime. Returns NumPy arrays, in the function's structure."""
        boundary, traced = self._converted.boundary, self._converted.traced
        with _jax.precision(double=self._converted.double):
            given = self._arguments(args, kwargs)
            feeds = [as_tensor(leaf) for leaf in given]
        for i in boundary.inputs_as_nchw:
            feeds[i] = feeds[i].transpose(NCHW)
        with explain_errors(self._runnable.proto):
            results = self._runnable.run(feeds)
        for i in boundary.outputs_as_nchw:
            results[i] = results[i].transpose(NHWC)
        specs, structure = jax.tree_util.tree_flatten(traced.outputs)
        leaves = [as_result(*pair) for pair in zip(results, specs, strict=True)]
        return jax.tree_util.tree_unflatten(structure, leaves)

    def __reduce__(self) -> Any:
        """Raises, because the function and the weights of a model cannot be pickled or copied."""
        raise TypeError(
            "an ExportedModel cannot be pickled or copied, because it holds the function that it "
            "was made from: use .save(path), or .proto, which is a new copy each time"
        )

    def _arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Returns the leaves of arguments. Flags that are omitted have their defaults."""
        leaves = self._leaves(*self._placed(args, kwargs))
        specs = jax.tree_util.tree_leaves(self._converted.arguments)
        names = self._converted.boundary.input_names
        return [
            as_argument(name, leaf, spec)
            for name, leaf, spec in zip(names, leaves, specs, strict=True)
        ]

    def _leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Returns the leaves of arguments, which must have the structure of the exported ones."""
        structure: Any = jax.tree_util.tree_structure(self._converted.arguments)
        found: Any
        leaves, found = jax.tree_util.tree_flatten((tuple(args), dict(kwargs)))
        if found != structure:
            advice = "pass the function's own arguments, with arrays for: "
            advice += ", ".join(self._converted.boundary.input_names)
            if unknown := [name for name in kwargs if name not in self._converted.arguments[1]]:
                advice += f"; `{unknown[0]}` is no input: to make it one, export with "
                advice += f"keyword_inputs={{{unknown[0]!r}: …}}"
            raise wrong_arguments(
                f"the arguments have the structure {structure_text(found)}, but the model takes "
                f"{structure_text(structure)}",
                advice,
            )
        specs = jax.tree_util.tree_leaves(self._converted.arguments)
        names = self._converted.boundary.input_names
        sizes: dict[str, tuple[int, str]] = {}
        pairs = [
            (wanted, size)
            for leaf, spec in zip(leaves, specs, strict=True)
            for wanted, size in zip(spec.shape, np.shape(leaf), strict=False)
        ]
        solved = _jax.variables(pairs, exact=False)
        for name, leaf, spec in zip(names, leaves, specs, strict=True):
            if isinstance(leaf, str):
                raise wrong_arguments(
                    f"the argument `{name}` is the text {leaf!r}",
                    "pass an array; only `check`, `verify` and `profile` take shapes",
                )
            shape = np.shape(leaf)
            wrong = len(shape) != len(spec.shape)
            for size, wanted in zip(shape, spec.shape, strict=False):
                wrong = wrong or _jax.evaluated(wanted, solved) not in (None, size)
                known, where = sizes.setdefault(str(wanted), (size, name))
                if not isinstance(wanted, int) and known != size:
                    raise wrong_arguments(
                        f"`{wanted}` is {known} in the argument `{where}`, but {size} in `{name}`",
                        f"pass arguments with the same size for `{wanted}`",
                    )
            if wrong:
                other = names.index(name) in self._converted.boundary.inputs_as_nchw
                raise wrong_arguments(
                    f"the argument `{name}` has the shape {shape_text(shape)}, but the "
                    f"{'function' if other else 'model'} takes {shape_text(spec.shape)}",
                    "pass NHWC as to the function; only the saved model takes NCHW"
                    if other
                    else "",
                )
        return leaves

    def _placed(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Moves arguments to their exported positions and names. Omitted flags get defaults."""
        positional, keyword = self._converted.arguments
        signature = signature_of(self._function)
        parameters = () if signature is None else signature.parameters.values()
        names = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        placed, rest = list(args[: len(positional)]), dict(kwargs)
        for name in names[len(placed) : len(positional)]:
            if name not in rest:
                break
            placed.append(rest.pop(name))
        others = args[len(positional) :]
        named = dict(zip(names[len(positional) :], others, strict=False))
        if len(named) < len(others) or not named.keys() <= keyword.keys():
            return list(args), rest
        flags = {k: v for k, v in self._flags().items() if k in keyword}
        return placed, {**flags, **named, **rest}

    def _samples(
        self,
        inputs: Sequence[Any],
        keyword_inputs: Mapping[str, Any] | None,
        named: Mapping[str, Any],
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns arguments to compare with: arrays, shapes, or texts as `export` takes them."""
        double = self._converted.double
        placed = self._placed(inputs, {**(keyword_inputs or {}), **named})
        args, kwargs, _ = input_options(*placed, double=double)
        with _jax.precision(double=double):
            exported = jax.tree_util.tree_leaves(self._converted.arguments)
            args, kwargs = arguments(args, kwargs, double=double, exported=exported)
        self._leaves(args, kwargs)
        return args, kwargs

    def _flags(self) -> dict[str, bool]:
        """Returns the defaults of keyword arguments."""
        paths = jax.tree_util.tree_leaves_with_path(self._converted.arguments)
        defaults = self._converted.boundary.defaults
        return {component(paths[i][0][1]): value for i, value in defaults.items()}

    @HiddenFrames()
    def save(self, path: str | os.PathLike[str], *, external_data: ExternalData = "auto") -> str:
        """Writes the model to a file, and its source map if that has a file of its own.

        Args:
            path: The file. Missing folders are created, and an existing model is replaced
                atomically.
            external_data: True puts the weights in a file beside it, with `.data` appended to the
                name, False into the model. "auto" does the former for large models only. Tensors
                below 1 KB stay in the model.

        Returns:
            The path.
        """
        if external_data not in _PLACEMENTS:
            raise bad_option("external_data", external_data, ("True", "False", "auto"))
        if external_data is False and self._model.size > result.LARGEST_MESSAGE:
            raise InvalidInputError(
                "model-too-large",
                f"the model has {self._model.size / 1e9:.1f} GB, but one file holds at most 2 GB",
                help="save it with external_data=True",
            )
        file, options = os.fspath(path), self._converted.options
        checked = replace(options, path=file, self_contained=external_data is False)
        with own_words({"`output_path`": "`path`"}):
            checked.check_apart()
            checked.check_source(self._converted.function)
        with own_words(), result.source_map_at(self._model, options.source_map):
            return result.save(self._model, file, placement=_PLACEMENTS[external_data])

    @property
    def proto(self) -> "onnx.ModelProto":
        """The model as a new `onnx.ModelProto`."""
        require("onnx", "`ExportedModel.proto`")
        return result.to_proto(self._model, "use .save(path), or .ir")

    @property
    def ir(self) -> "onnx_ir.Model":
        """The model as a new `onnx_ir.Model`."""
        require("onnx", "`ExportedModel.ir`")
        require("onnx_ir", "`ExportedModel.ir`")
        return result.to_ir(self._model)

    @HiddenFrames()
    def check(
        self,
        *inputs: Any,
        keyword_inputs: Mapping[str, Any] | None = None,
        rtol: float = 1e-3,
        atol: float = 1e-5,
        **named: Any,
    ) -> None:
        """Compares the outputs with the function's results. Raises a `MismatchError` if they
        differ, and warns if they contain NaN. The arguments are those of `verify`.
        """
        boundary = self._converted.boundary
        args, kwargs = self._samples(inputs, keyword_inputs, named)
        ok, message = compare(
            self._function,
            self._runnable,
            self._runnable.run,
            args,
            kwargs,
            rtol,
            atol,
            double=self._converted.double,
            inputs_as_nchw=boundary.inputs_as_nchw,
            outputs_as_nchw=boundary.outputs_as_nchw,
        )
        if not ok:
            raise MismatchError(
                "different-results",
                f"the model differs from the function: {message}",
                help="export without `check`, and call `verify` on the result to find the line",
            )
        _, *nan = message.splitlines()
        if nan:
            said = "\n  ".join(["[nan-results] the check compares NaN with NaN:", *nan])
            said += "\n  help: pass inputs for which the function returns numbers"
            warnings.warn(said, stacklevel=users_frame())

    @HiddenFrames()
    def verify(
        self,
        *inputs: Any,
        keyword_inputs: Mapping[str, Any] | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        **named: Any,
    ) -> Verification:
        """Compares every value of the model with the function's, and finds the first line that
        differs, as `jax2onnx.verify` does.

        Args:
            inputs: The positional arguments of the function. Shapes are filled with random numbers.
            keyword_inputs: Keyword arguments of the function that have the name of an option here.
            rtol: The relative tolerance for floats. None depends on the element type.
            atol: The absolute tolerance for floats.
            named: The function's other keyword arguments.
        """
        boundary = self._converted.boundary
        args, kwargs = self._samples(inputs, keyword_inputs, named)
        with self._readable() as model:
            return verify(
                self._function,
                model,
                args,
                kwargs,
                rtol=rtol,
                atol=atol,
                enable_double_precision=self._converted.double,
                inputs_as_nchw=boundary.inputs_as_nchw,
                outputs_as_nchw=boundary.outputs_as_nchw,
            )

    @HiddenFrames()
    def profile(
        self,
        *inputs: Any,
        keyword_inputs: Mapping[str, Any] | None = None,
        runs: int = 20,
        top: int = 15,
        **named: Any,
    ) -> Profile:
        """Runs the model in onnxruntime and returns the time of each line, module and operator.

        Args:
            inputs: The positional arguments of the function. Shapes are filled with random numbers.
            keyword_inputs: Keyword arguments of the function that have the name of an option here.
            runs: The number of runs, after one that does not count.
            top: The number of rows in the text.
            named: The function's other keyword arguments.
        """
        for name, number in {"runs": runs, "top": top}.items():
            if not isinstance(number, int) or number < 1:
                own = f"; for the argument `{name}` of the function, pass keyword_inputs="
                is_argument = name in self._converted.arguments[1]
                raise invalid_option(
                    f"`{name}` cannot be {number!r}",
                    f"pass a positive integer{own if is_argument else ''}",
                )
        require("onnxruntime", "profiling")
        import onnxruntime

        double = self._converted.double
        args, kwargs = self._samples(inputs, keyword_inputs, named)
        with _jax.precision(double=double), self._saved() as path:
            feeds = [as_tensor(leaf) for leaf in jax.tree_util.tree_leaves((args, kwargs))]
            for i in self._converted.boundary.inputs_as_nchw:
                feeds[i] = feeds[i].transpose(NCHW)
            options = onnxruntime.SessionOptions()
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(os.path.dirname(path), "profile")
            session = onnxruntime.InferenceSession(
                path, options, providers=["CPUExecutionProvider"]
            )
            given = self._runnable.values(feeds)
            names = [output.name for output in session.get_outputs()]
            for _ in range(runs + 1):
                session.run_with_ort_values(names, given)
            written = session.end_profiling()
            common = ["profile", path, written, "--skip", "1"]
            return Profile(
                _answer([*common, "--top", str(top)]), json.loads(_answer([*common, "--json"]))
            )

    @HiddenFrames()
    def view(self, path: str | os.PathLike[str] | None = None) -> Page:
        """Makes a page that shows the source beside the graph. Notebooks display it.

        Args:
            path: The file to write the page to. Missing folders are created. None writes none.
        """
        if path is not None:
            file = os.fspath(path)
            with own_words({"`output_path`": "`path`"}), result.writing(output_path=file):
                result.make_folder(file)
        with self._saved() as model:
            folder = Path(model).parent
            for name, text in cells().items():
                (folder / f"{name}.py").write_text(text, encoding="utf-8")
            page = folder / "model.html" if path is None else path
            _answer(["view", model, "-o", os.fspath(page), "--source", os.getcwd()])
            return Page(
                Path(page).read_text(encoding="utf-8"), None if path is None else os.fspath(path)
            )

    @HiddenFrames()
    def with_weights(self, tree: Any) -> "ExportedModel":
        """Returns the model with other weights. The function is traced again only if more than the
        arrays that JAX saw differs: a number, or an array that the function read with NumPy.

        Args:
            tree: The new value of `params` or `variables`, or else a model or a function like the
                exported one. A Flax NNX model also takes `nnx.state(model)` or a part of it, and a
                bound Linen module its variables. Names, shapes and element types of all arrays have
                to be the same.
        """
        source = self._source.with_weights(tree)
        function = source.callable()
        traced = self._converted.traced
        new = tree_of(function)
        values = {new.name_of(obj): obj for obj in new.objects if new.name_of(obj) is not None}
        constants = []
        for constant in traced.jaxpr.consts:
            name = traced.tree.name_of(constant)
            if name is None:
                constants.append(constant)
                continue
            if name not in values:
                raise _other_weights(f"`{name}` is missing")
            value = values[name]
            if value.shape != constant.shape or value.dtype != constant.dtype:
                raise _other_weights(
                    f"`{name}` is {value.dtype}{list(value.shape)} "
                    f"instead of {constant.dtype}{list(constant.shape)}"
                )
            constants.append(value)
        if self._depends_on_more(new, values):
            converted = self._converted.traced_again(function)
        else:
            jaxpr = type(traced.jaxpr)(traced.jaxpr.jaxpr, constants)
            converted = self._converted.with_constants(jaxpr, new)
        return ExportedModel(converted, source, function)

    def _depends_on_more(self, new: Tree, values: Mapping[str | None, Any]) -> bool:
        """Returns `True` if the traced function could depend on a difference besides the arrays
        that JAX saw: a number, or an array that is unused or was read as numbers.
        """
        traced = self._converted.traced
        seen = {traced.tree.name_of(constant) for constant in traced.jaxpr.consts}
        return traced.tree.settings != new.settings or any(
            name in values and name not in seen and not _equal(old, values[name])
            for old in traced.tree.objects
            if (name := traced.tree.name_of(old)) is not None
        )

    @property
    def stored_weights(self) -> StoredWeights:
        """The storage of each parameter with the option `weights`: printed, it is a table of what
        is stored in which format, and why not, with bytes. Without the option it is empty.
        """
        return stored_weights(self._model.weights)

    @HiddenFrames()
    def summary(self, by: Literal["module", "line", "op", "rule"] = "module") -> str:
        """Returns the inputs, the outputs and the nodes with their lines, as `jax2onnx show`."""
        if by not in _GROUPS:
            raise bad_option("by", by, _GROUPS)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            Path(path).write_bytes(self._model.skeleton())
            with result.source_map_at(self._model, self._map_beside(path)):
                pass
            return _answer(["show", path, "--by", by]).rstrip()

    def __repr__(self) -> str:
        """Returns a short description."""
        boundary, name = self._converted.boundary, self._converted.options.model_name
        inside, outside = map(", ".join, (boundary.input_names, boundary.output_names))
        return f"<ExportedModel {name}({inside}) -> {outside}>"

    def _repr_html_(self) -> str:
        head, _, nodes = self.summary().partition("\n\n")
        shown, rest = html.escape(head), html.escape(nodes)
        return f"{PRE}{shown}</pre><details><summary>nodes</summary>{PRE}{rest}</pre></details>"

    @property
    def _model(self) -> Any:
        return self._converted.model

    @cached_property
    def _runnable(self) -> Runnable:
        if self._model.size < MESSAGE:
            return Runnable(self.proto)
        self._folder = tempfile.TemporaryDirectory()
        path = os.path.join(self._folder.name, "model.onnx")
        self._model.save(path, "auto")
        return Runnable(path)

    @contextmanager
    def _readable(self) -> Iterator[Any]:
        """Yields the model as protobuf, or as a file if it is too large."""
        if self._model.size < MESSAGE:
            yield self.proto
            return
        with self._saved() as path:
            yield path

    @contextmanager
    def _saved(self) -> Iterator[str]:
        """Yields the path of a temporary file with the model, and its source map beside it."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            with result.source_map_at(self._model, self._map_beside(path)):
                self._model.save(path, "auto")
            yield path

    def _map_beside(self, path: str) -> str | None:
        """Returns the path of the source map beside a file, if it is not in the model."""
        return None if self._converted.options.source_map is None else f"{path}.map"


def _answer(command: Sequence[str]) -> str:
    """Runs a command of the command line, and returns its output."""
    status, output, errors = _core.command(list(command))
    if status > 1:
        raise InvalidInputError("failed-command", errors.strip().removeprefix("error: "))
    return output


def _equal(old: Any, new: Any) -> bool:
    """Returns `True` if two arrays hold the same numbers."""
    if jax.numpy.issubdtype(old.dtype, jax.dtypes.prng_key):
        old, new = map(jax.random.key_data, (old, new))
    return np.array_equal(old, new)


def _other_weights(message: str) -> InvalidInputError:
    return InvalidInputError(
        "other-weights",
        f"the new weights do not fit: {message}",
        help="a model with a different structure has to be exported again; if only names differ, "
        "copy the weights into the exported model, as with Keras's set_weights, and pass that one",
    )
