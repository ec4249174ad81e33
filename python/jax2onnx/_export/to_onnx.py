"""`to_onnx` converts a function to a model."""

import inspect
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import jax

from jax2onnx import _jax
from jax2onnx._export import progress, result
from jax2onnx._export.calibrated_weights import with_calibrated
from jax2onnx._export.lowering_rules import registered
from jax2onnx._export.option_names import NOT_IN_TO_ONNX
from jax2onnx._export.options import (
    Boundary,
    Layout,
    Options,
    check_options,
    flag,
    positions,
    unknown_option,
)
from jax2onnx._export.provenance_level import Level
from jax2onnx._export.stored_weights import stored_weights
from jax2onnx._export.target_names import Target
from jax2onnx._python.garbage import collected_rarely
from jax2onnx._python.notebooks import HiddenFrames
from jax2onnx._tracing import concretization_errors, training
from jax2onnx._tracing.checkpoint import Checkpoint
from jax2onnx._tracing.dimension_errors import explained
from jax2onnx._tracing.functions import Functions
from jax2onnx._tracing.inputs import (
    Specs,
    check_arguments,
    check_callable,
    check_results,
    given_flags,
    given_leaves,
    narrowed_inputs,
    narrowing,
    wide_integers,
)
from jax2onnx._tracing.names import Renaming, boundary_names, paths_of, signature_of
from jax2onnx._tracing.parameters import SharedParameters, Tree, function_of
from jax2onnx._tracing.patterns import dtypes
from jax2onnx._tracing.trace import Traced, trace
from jax2onnx._tracing.training import Training, training_calls, training_errors
from jax2onnx.errors import InvalidInputError, reworded

if TYPE_CHECKING:
    import onnx
    import onnx_ir

    from jax2onnx._core import Model

Path = str | os.PathLike[str]


Form = Literal["auto", "native", "elementary"]
Assumption = Literal[
    "indices_in_range",
    "no_nan",
    "casts_in_range",
    "finite",
    "visible_keys",
    "windowed_caches",
    "padded_prompts",
]

# The pattern of all weights.
ALL = "*"


def useless_weights() -> InvalidInputError:
    """Returns the error for a format that suits no parameter."""
    return InvalidInputError(
        "useless-weights",
        "`weights` changes nothing: the model has no parameter that this format suits",
        help="integers suit the matrices of products, and floats parameters with two or more axes, "
        "from 1024 elements on; name a smaller one, or a table whose rows are looked up, to "
        'convert it: weights={"head.kernel": "int8"}',
    )


_log = logging.getLogger("jax2onnx")


class _Common(TypedDict, total=False):
    """The keyword arguments that do not change what `to_onnx` returns."""

    enable_double_precision: bool
    record_primitive_calls_file: Path | None
    record: Path | None
    record_weights: bool
    inputs_as_nchw: Layout
    outputs_as_nchw: Layout
    input_names: Renaming | None
    output_names: Renaming | None
    input_dtypes: Mapping[str, Any] | None
    output_dtypes: Mapping[str, Any] | None
    export_mode: Literal["standard", "web"]
    target: Target | None
    normalization_mode: Literal["auto", "prefer_native", "force_decomposed"]
    operators: Form | Mapping[str, Form]
    assume: Assumption | Sequence[Assumption]
    compute: str | Mapping[str, str] | None
    weights: str | Mapping[str, str] | None
    checkpoint: Checkpoint | Path | None
    stacktrace_metadata: Level | None
    source_map: Path | None
    source_text: bool
    paths: Literal["relative", "absolute"]
    user_packages: str | Sequence[str]
    node_names: Literal["modules", "functions"]
    functions: Literal["decorated", "modules"]
    training: Training


@overload
def to_onnx(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    opset: int | None = None,
    *,
    return_mode: Literal["proto"] = "proto",
    output_path: None = None,
    **common: Unpack[_Common],
) -> "onnx.ModelProto": ...


@overload
def to_onnx(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    opset: int | None = None,
    *,
    return_mode: Literal["ir"],
    output_path: None = None,
    **common: Unpack[_Common],
) -> "onnx_ir.Model": ...


@overload
def to_onnx(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    opset: int | None = None,
    *,
    return_mode: Literal["file"],
    output_path: Path,
    **common: Unpack[_Common],
) -> str: ...


def to_onnx(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    opset: int | None = None,
    *,
    enable_double_precision: bool = False,
    record_primitive_calls_file: Path | None = None,
    record: Path | None = None,
    record_weights: bool = False,
    return_mode: Literal["proto", "ir", "file"] = "proto",
    output_path: Path | None = None,
    inputs_as_nchw: Layout = None,
    outputs_as_nchw: Layout = None,
    input_names: Renaming | None = None,
    output_names: Renaming | None = None,
    input_dtypes: Mapping[str, Any] | None = None,
    output_dtypes: Mapping[str, Any] | None = None,
    export_mode: Literal["standard", "web"] = "standard",
    target: Target | None = None,
    normalization_mode: Literal["auto", "prefer_native", "force_decomposed"] = "auto",
    operators: Form | Mapping[str, Form] = "auto",
    assume: Assumption | Sequence[Assumption] = (),
    compute: str | Mapping[str, str] | None = None,
    weights: str | Mapping[str, str] | None = None,
    checkpoint: Checkpoint | Path | None = None,
    stacktrace_metadata: Level | None = None,
    source_map: Path | None = None,
    source_text: bool = False,
    paths: Literal["relative", "absolute"] = "relative",
    user_packages: str | Sequence[str] = (),
    node_names: Literal["modules", "functions"] = "modules",
    functions: Literal["decorated", "modules"] = "decorated",
    training: Training = "warn",
    **unknown: Any,
) -> "onnx.ModelProto | onnx_ir.Model | str":
    """Converts a JAX function to an ONNX model.

    `fn` is traced with abstract values. It may be a function, a jitted function, a
    `functools.partial`, a bound method or any callable object, such as a Flax NNX module, an
    Equinox module or a bound Linen module. Parameters that it holds become initializers named after
    their path in the model (`blocks.3.q.kernel`). Exporting does not change the model: the training
    mode stays as it is, and updates of batch statistics or random counters are undone.

    Args:
        fn: The function to convert.
        inputs: One entry for each positional argument of `fn`: a `jax.ShapeDtypeStruct`, an array,
            anything with a shape and a dtype, a shape such as `("B", 28, 28)` or `"B, 28, 28"`, or
            a pytree of these. A name in a shape is a dimension that is known only when the model
            runs. A shape alone is float32, or float64 with `enable_double_precision`. Dimensions
            from `jax.export.symbolic_shape` may have constraints. A `jax.ShapeDtypeStruct` of
            64-bit integers is such an input of the model, even if JAX computes with 32 bits. A
            warning names every input that becomes narrower.
        input_params: Keyword arguments of `fn` that become inputs of the model. Values are as in
            `inputs`; numbers and booleans are scalars. A boolean is the default of its input.
            Python code may branch on it (`if deterministic:`): then the function is traced for both
            values, and the model chooses at run time.
        model_name: The name of the model's graph.
        opset: The ONNX opset, from 9 to 28. None means the lowest that does not make the
            model slower: from 18 on, or from 21 on for the target "webgpu".
        enable_double_precision: Traces `fn` with 64-bit types enabled.
        record_primitive_calls_file: Writes every JAX primitive of the traced function to this file,
            one JSON object per line, with its parameters, shapes and source line.
        record: Writes the traced program to this file, as text, before it is converted. The command
            `jax2onnx convert` makes the model from it without Python. Attach this file to a bug
            report.
        record_weights: Includes the values of parameters in the file of `record`. By default it
            holds only their shapes.
        return_mode: "proto" returns an `onnx.ModelProto`, "ir" an `onnx_ir.Model`, "file" writes
            `output_path` and returns it.
        output_path: The path of the model for `return_mode="file"`, ignored with a warning in
            other modes. Missing folders are created.
            The weights of large models go to a file beside it, with `.data` appended to its name.
            An existing model is replaced atomically.
        inputs_as_nchw: Inputs, by position or name, that the function takes as NHWC and the model
            as NCHW.
        outputs_as_nchw: Outputs, by position or name, that the function returns as NHWC and the
            model as NCHW.
        input_names: Names for the inputs, one for each leaf of `inputs` and `input_params`, or of
            `inputs` alone. By default they follow the names of parameters and the pytree path: `x`,
            `batch.image`, `cache.0.k`. A mapping renames inputs by pattern:
            `{"cache.{i}.k": "past_key_values.{i}.key"}`. `{i}` matches one component of the path,
            and `*` any text.
        output_names: Names for the outputs, one for each leaf. By default they follow the pytree
            path: `output` for a single result, `output_0`, `output_1` for a tuple, `out.logits` for
            a dictionary. A mapping renames outputs by pattern.
        input_dtypes: Element types of inputs, by name or pattern, if the model should take
            different ones from the function: `{"input_ids": "int64"}` for token ids of type int32.
            The model converts the values, which have to fit the function's type.
        output_dtypes: Element types of outputs, by name or pattern, if the model should return
            different ones from the function.
        export_mode: "web" writes one self-contained file, for the target "onnxruntime-web". Models
            that are returned are always self-contained.
        target: The runtime of the model: "onnxruntime" on a CPU, "cuda" for its CUDA provider,
            "onnxruntime-web" in WebAssembly, "tensorrt" for what TensorRT's parser documents,
            "webgpu" for the WebGPU build of onnxruntime-web, or "any" for standard ONNX; the page
            about targets lists all. Operators that the target lacks are replaced. A warning lists,
            by line, the nodes that a GPU leaves to the CPU.
        normalization_mode: The form of normalisation layers: "auto" follows `operators`,
            "prefer_native" uses ONNX's own operators where they are as exact,
            "force_decomposed" elementary ones.
        operators: The form of operators that ONNX has and JAX spells out, such as `Gelu` and
            `Softmax`. "auto" emits one node where onnxruntime is as exact and at least as fast with
            it, "native" wherever the opset and onnxruntime have the operator and it is as exact on
            large means, tiny spreads and long rows, and "elementary" emits the operators that it
            consists of. A mapping sets the form of single operators: `{"Gelu": "elementary"}`; the
            key `*` covers all others. Finite results differ in rounding
            and in the sign of zeros only. At level INFO, the
            logger `jax2onnx` reports the operators that stay elementary, and why.
        assume: Assumptions that make guards unnecessary: "indices_in_range" (every index is inside
            its array), "no_nan" (no NaN is compared, ordered or searched), "casts_in_range" (floats
            that are converted to integers fit), "finite" (no number is NaN or infinite),
            "visible_keys" (masks leave each query of an attention at least one key),
            "windowed_caches" (the caches of attention with a window have its size),
            "padded_prompts" (the input `attention_mask` has zeros only at padding that follows
            prompts, and caches have no gaps). Results equal JAX's while the assumptions hold, and
            are undefined otherwise. The model's metadata lists them.
        compute: Computes matrix products, and operators that only pass on their results, in
            "float16" or "bfloat16" instead of float32. Sums, norms, exponentials and products that
            feed no other product stay in float32, unless "float16:all" is given. A mapping chooses
            by location: `{"head": "float32", "model.py:30": "float32", "*": "float16"}`. Keys are
            patterns of modules (with everything inside), lines, functions or parameters; the first
            match decides. Inputs and outputs keep their types.
        weights: Stores weights in fewer bits: "float16" or "bfloat16" for weights with two or more
            axes, "int8" or "int4" for the matrices of products, in blocks of 32 that share a scale.
            "uint8" and "uint4" have a zero point as well; "int4:64" sets the block size, and
            "int8:column" has one scale for each column. A mapping
            chooses by the name of the parameter: `{"head.*": "int8", "*": "int4"}`. `*` matches any
            text, the first match decides, and "keep" stores a weight unchanged. onnxruntime
            computes products directly on the integers. `calibrate` returns such a mapping with
            weights that are rounded for sample inputs.
        checkpoint: The values of parameters that `fn` holds as `jax.ShapeDtypeStruct`s, which
            `jax.eval_shape` and `nnx.eval_shape` create: the path of safetensors files or of an
            Orbax checkpoint, or a `Checkpoint` that maps the names. Values are read while the model
            is written, so they need not fit into memory.
        stacktrace_metadata: The provenance that the model carries. With True or "minimal", every
            node names its line of Python and its lowering rule; "full" adds complete stacks;
            "sourcemap" puts a source map into the model's own metadata, which survives optimisers;
            False adds nothing. None defers to the context manager `jax2onnx.stacktrace_metadata`,
            or else to the environment (`JAX2ONNX_ENABLE_STACKTRACE_METADATA`,
            `JAX2ONNX_STACKTRACE_DETAIL`).
        source_map: Writes the source map to this file; the model carries only its digest. The model
            can then be shipped without the map.
        source_text: Includes the text of the user's files in the source map. Requires a source map.
        paths: "relative" writes files relative to the working directory or to their package,
            "absolute" writes whole paths.
        user_packages: Packages whose code counts as yours although they are installed, such as
            "mujoco.mjx", so that call sites are lines of theirs. With a minus sign, "-mylib", a
            package outside of `site-packages` counts as a library.
        node_names: "modules" names nodes after modules only. "functions" also names those that
            belong to no module, after the functions that they come from: `/step/_apply/Add`.
        functions: The calls that become ONNX functions: "decorated" for callables decorated with
            `onnx_function`, "modules" for all modules inside the model as well, so that layers of
            one kind share one body.
        training: The treatment of layers that run in training mode, which draw random numbers from
            the model's own state or normalise by the batch: "warn" names their lines, "error"
            raises, and "allow" exports them without a warning. Keys that are inputs do not count.
        unknown: No other options exist; the error suggests the nearest one.

    Returns:
        The model, in the form given by `return_mode`.

    Raises:
        UnsupportedError: The function uses something that has no ONNX form.
        InvalidInputError: An argument of this call is wrong.
        InternalError: There is a bug in jax2onnx.

    Errors that JAX raises while it traces `fn` are passed on unchanged. If they mention symbolic
    dimensions, a note names the inputs that these belong to. A model cannot print:
    `jax.debug.print` and `jax.debug.callback` are omitted.
    """
    with HiddenFrames(), collected_rarely(), progress.shown_in_notebook():
        for name in unknown:
            raise unknown_option(
                "to_onnx",
                name,
                option_names(to_onnx),
                NOT_IN_TO_ONNX,
                signature_of(fn),
                "input_params",
            )
        options = check_options(
            model_name=model_name,
            opset=opset,
            return_mode=return_mode,
            output_path=output_path,
            export_mode=export_mode,
            target=target,
            normalization_mode=normalization_mode,
            operators=operators,
            assume=assume,
            compute=compute,
            weights=weights,
            stacktrace_metadata=stacktrace_metadata,
            source_map=source_map,
            source_text=source_text,
            paths=paths,
            user_packages=user_packages,
            node_names=node_names,
            record_primitive_calls_file=record_primitive_calls_file,
            record=record,
            record_weights=record_weights,
            functions=functions,
            training=training,
        )
        model = convert(
            fn,
            inputs,
            input_params,
            options,
            double=flag("enable_double_precision", enable_double_precision),
            inputs_as_nchw=inputs_as_nchw,
            outputs_as_nchw=outputs_as_nchw,
            input_names=input_names,
            output_names=output_names,
            input_dtypes=input_dtypes,
            output_dtypes=output_dtypes,
            checkpoint=checkpoint,
        ).model
        progress.stage("writing", model)
        with result.source_map_at(model, options.source_map):
            if options.path is not None:
                placement = result.PLACEMENT[options.self_contained]
                return result.save(model, options.path, placement=placement)
        return result.to_ir(model) if options.return_mode == "ir" else result.to_proto(model)


def option_names(function: Callable[..., Any]) -> list[str]:
    """Returns the names of the keyword arguments of a function."""
    parameters = inspect.signature(function).parameters.values()
    fixed = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [parameter.name for parameter in parameters if parameter.kind not in fixed]


@dataclass
class Converted:
    """A converted function.

    Attributes:
        model: The model.
        traced: The traced function.
        arguments: The abstract values of the positional and keyword arguments.
        boundary: The inputs and outputs of the model.
        options: The options of the conversion.
        double: `True` if 64-bit types are enabled.
        flags: The booleans among the inputs, by position.
        function: The file, qualified name and first line of the function, if they are known.
    """

    model: "Model"
    traced: Traced
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    boundary: Boundary
    options: Options
    double: bool
    flags: Mapping[int, bool]
    function: tuple[str, str, int] | None

    def traced_again(self, fn: Callable[..., Any]) -> "Converted":
        """Converts a function with the same arguments and results."""
        traced = trace(
            fn,
            *self.arguments,
            double=self.double,
            functions=_marked(self.options),
            flags=self.flags,
            names=self.boundary.input_names,
        )
        return replace(self, traced=traced).with_constants(traced.jaxpr, traced.tree)

    def with_constants(self, jaxpr: Any, tree: Tree) -> "Converted":
        """Converts the traced function again, with other constants."""
        traced = replace(self.traced, jaxpr=jaxpr, tree=tree)
        model = _built(
            traced, self.options, self.boundary, self.double, self.function, tree.name_of
        )
        return replace(self, model=model, traced=traced)


def convert(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None,
    options: Options,
    *,
    double: bool,
    inputs_as_nchw: Layout = None,
    outputs_as_nchw: Layout = None,
    input_names: Renaming | None = None,
    output_names: Renaming | None = None,
    input_dtypes: Mapping[str, Any] | None = None,
    output_dtypes: Mapping[str, Any] | None = None,
    keep_results: bool = False,
    shared: SharedParameters | None = None,
    checkpoint: Any = None,
    words: Mapping[str, str] | None = None,
) -> Converted:
    """Traces and converts a function. `keep_results` records the values that each equation becomes.
    `shared` holds the parameters of other models. `words` are replaced in warnings.
    """
    check_callable(fn)
    with _jax.precision(double=double):
        args, kwargs = Specs(double=double).all(inputs, input_params)
        given = given_leaves(inputs, args, input_params, kwargs)
        narrowed = narrowed_inputs(given, jax.tree_util.tree_leaves((args, kwargs)))
        flags = given_flags(given)
        positional = len(jax.tree_util.tree_leaves(args))
    signature, function = signature_of(fn), function_of(fn)
    options.check_source(function)
    check_arguments(signature, args, kwargs, function)

    progress.stage("tracing")
    with (
        explained(fn, signature, args, kwargs),
        concretization_errors.explained(),
        training.explained(),
    ):
        names, _ = boundary_names(
            signature, paths_of((args, kwargs)), [], input_names=None, output_names=None
        )
        traced = trace(
            fn,
            args,
            kwargs,
            double=double,
            functions=_marked(options),
            flags=flags,
            names=names,
            checkpoint=checkpoint,
            weights=None if shared is None else shared.weights,
        )

    if options.calibrated:
        traced = with_calibrated(
            traced, options.calibrated, in_set=shared is not None and shared.functions > 1
        )

    if options.training != "allow" and not flags:
        for error in training_errors(training_calls(traced.jaxpr)):
            if options.training == "error":
                raise error
            warnings.warn(str(error), stacklevel=3)

    leaves = jax.tree_util.tree_leaves_with_path((args, kwargs))
    results = jax.tree_util.tree_leaves_with_path(traced.outputs)
    check_results(results, function)
    in_names, out_names = boundary_names(
        signature,
        paths_of((args, kwargs)),
        paths_of(traced.outputs),
        input_names=input_names,
        output_names=output_names,
    )
    in_ranks, out_ranks = ([len(leaf.shape) for _, leaf in side] for side in (leaves, results))

    in_nchw = positions("inputs_as_nchw", inputs_as_nchw, in_names, in_ranks)
    out_nchw = positions("outputs_as_nchw", outputs_as_nchw, out_names, out_ranks)
    in_traced, out_traced = ([leaf.dtype for _, leaf in side] for side in (leaves, results))
    in_types = {
        **wide_integers(given, in_traced),
        **dtypes("input_dtypes", input_dtypes, in_names, in_traced),
    }
    if options.reports and narrowed:
        inputs = [(in_names[i], was, now) for i, was, now in narrowed]
        said = narrowing(inputs, [in_types.get(i, now) for i, _, now in narrowed])
        warnings.warn(reworded(said, words or {}), stacklevel=3)
    out_types = dtypes("output_dtypes", output_dtypes, out_names, out_traced)

    boundary = Boundary(
        input_names=in_names,
        output_names=out_names,
        inputs_as_nchw=in_nchw,
        outputs_as_nchw=out_nchw,
        input_types=in_types,
        output_types=out_types,
        # An argument without a name is always given.
        defaults={i: flag for i, flag in flags.items() if i >= positional},
    )
    options = replace(
        options,
        keep_results=keep_results,
        in_set=shared is not None and shared.functions > 1,
        report_missed=_log.isEnabledFor(logging.INFO),
    )
    name_of = traced.tree.name_of if shared is None else shared.names_in(traced.tree)
    model = _built(traced, options, boundary, double, function, name_of)
    for missed in model.missed:
        _log.info(missed)
    if shared is None and ("weights", ALL) in model.unmatched:
        raise useless_weights()
    if options.reports and model.weights:
        stored_weights(model.weights).log()
    if model.fallbacks:
        lines = "".join(f"\n  {line}" for line in model.fallbacks)
        warnings.warn(f"{options.target} runs these on the CPU:{lines}", stacklevel=3)
    return Converted(model, traced, (args, kwargs), boundary, options, double, flags, function)


def _marked(options: Options) -> Functions:
    return Functions(modules=options.functions == "modules", none=options.functions == "none")


def _built(
    traced: Traced,
    options: Options,
    boundary: Boundary,
    double: bool,
    function: tuple[str, str, int] | None,
    name_of: Callable[[Any], str | None],
) -> "Model":
    """Converts a traced function."""
    from jax2onnx import _core

    progress.stage("converting")
    # JAX traces the equations that it expands here, in the same mode as the function.
    with (
        _jax.precision(double=double),
        result.writing(record_primitive_calls_file=options.calls, record=options.record),
    ):
        return _core.convert(
            traced.jaxpr,
            options,
            boundary,
            name_of=name_of,
            rules=registered(),
            entry=_jax.traceback(),
            function=function,
        )
