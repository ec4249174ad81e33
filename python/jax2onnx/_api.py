"""`to_onnx`: from a function to a model."""

import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import jax

from jax2onnx import _jax, _progress, _result, _values
from jax2onnx._checkpoint import Checkpoint
from jax2onnx._functions import Functions
from jax2onnx._garbage import collected_rarely
from jax2onnx._inputs import (
    Specs,
    check_arguments,
    check_results,
    given_flags,
    given_leaves,
    wide_integers,
)
from jax2onnx._metadata import Level
from jax2onnx._names import Renaming, boundary_names, paths_of, signature_of
from jax2onnx._options import Layout, Options, check_options, flag, positions
from jax2onnx._parameters import SharedParameters, function_of
from jax2onnx._patterns import dtypes
from jax2onnx._rules import registered
from jax2onnx._symbols import explained
from jax2onnx._trace import Traced, trace
from jax2onnx.errors import InvalidInputError

if TYPE_CHECKING:
    import onnx
    import onnx_ir

    from jax2onnx._core import Model

Path = str | os.PathLike[str]


Form = Literal["auto", "native", "elementary"]
Assumption = Literal["indices_in_range", "no_nan", "casts_in_range", "finite"]
Target = Literal["any", "onnxruntime", "onnxruntime-web", "webgpu"]

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
    functions: Literal["decorated", "modules"]


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
    functions: Literal["decorated", "modules"] = "decorated",
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
            64-bit integers is such an input of the model, even if JAX computes with 32 bits.
        input_params: Keyword arguments of `fn` that become inputs of the model. Values are as in
            `inputs`; numbers and booleans are scalars. A boolean is what the input is if the model
            runs without it. Python code may ask it (`if deterministic:`): then the function is
            traced for both values, and the model chooses.
        model_name: The name of the model's graph.
        opset: The ONNX opset, from 13 to 28. None means the lowest that costs nothing: from 18 on,
            or from 21 on for the target "webgpu".
        enable_double_precision: Traces `fn` with 64-bit types enabled.
        record_primitive_calls_file: Writes every JAX primitive that the function is made of to this
            file, one JSON object a line, with parameters, shapes and source line.
        record: Writes the traced program to this file, as text, before it is converted. The
            command `jax2onnx convert` makes the model from it without Python. Send this file with a
            report of a bug.
        record_weights: Writes the values of parameters into the file of `record`, too. Without them
            it holds only their shapes.
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
            `inputs` alone. By default they follow the names of parameters and the pytree path:
            `x`, `batch.image`, `cache.0.k`. A mapping renames those that match a pattern:
            `{"cache.{i}.k": "past_key_values.{i}.key"}`, where `{i}` stands for one component of
            the path, and `*` for anything.
        output_names: Names for the outputs, one for each leaf. By default they follow the pytree
            path: `output` for a single result, `output_0`, `output_1` for a tuple, `out.logits` for
            a dictionary. A mapping renames those that match a pattern.
        input_dtypes: Element types of inputs, by name or pattern, if the model should take others
            than the function: `{"input_ids": "int64"}` for token ids of type int32. Values are
            converted inside the model. They have to fit the type that the function has.
        output_dtypes: Element types of outputs, by name or pattern, if the model should return
            others than the function.
        export_mode: "web" writes one self-contained file, for the target "onnxruntime-web". Models
            that are returned are always self-contained.
        target: Where the model is going to run: "onnxruntime", "onnxruntime-web" in WebAssembly,
            "webgpu" for the WebGPU build of onnxruntime-web, or "any" for nothing but what ONNX
            allows. What the target lacks is computed in another way. A warning says by line which
            nodes WebGPU leaves to the CPU.
        normalization_mode: How normalisation layers are written: "auto" as `operators` says,
            "prefer_native" for ONNX's own operators where they are as exact, "force_decomposed" for
            elementary ones.
        operators: How operators are written that ONNX has and JAX spells out, such as `Gelu` and
            `Softmax`: "auto" as one node where onnxruntime is as exact and at least as fast that
            way, "native" as one node wherever the opset and onnxruntime have it and it is as exact
            on large means, tiny spreads and long rows, "elementary" as what they are made of. A
            mapping says it of single operators: `{"Gelu": "elementary"}`; the key `*` stands for
            all others. Finite results differ in rounding only. The logger `jax2onnx` says at level
            INFO which operators stay elementary, and why.
        assume: What may be taken for granted, so that nothing has to guard against it:
            "indices_in_range" that everything read or written by index lies inside of its array,
            "no_nan" that no NaN is compared, ordered or searched, "casts_in_range" that floats
            which become integers fit into them, "finite" that no number is NaN or infinite.
            Results are JAX's as long as that holds, and undefined otherwise. The model's metadata
            says what it assumes.
        compute: Computes in "float16" or "bfloat16" what the function computes in float32: products
            and what only handles their results. Sums, norms, exponentials and products that no
            other product follows stay in float32, which "float16:all" lifts. A mapping says it of
            places: `{"head": "float32", "model.py:30": "float32", "*": "float16"}`. Keys are
            modules with all that is in them, lines, functions or parameters, and patterns of them;
            the first that matches decides. Inputs and outputs keep their types.
        weights: Stores weights in fewer bits: "float16" or "bfloat16" for those with two or more
            axes, "int8" or "int4" for the matrices of products, in blocks of 32 that share a scale.
            "uint8" and "uint4" have a zero point as well; "int4:64" sets the size of blocks. A
            mapping says it of parameters by name: `{"head.*": "int8", "*": "int4"}`. `*` stands for
            any text, the first pattern that matches decides, and "keep" stores a weight as it is.
            onnxruntime computes products directly on the integers.
        checkpoint: Where the values of parameters are that `fn` holds as `jax.ShapeDtypeStruct`s,
            as `jax.eval_shape` and `nnx.eval_shape` make them: the path of safetensors files or of
            what Orbax wrote, or a `Checkpoint` that says how it calls them. Values are read while
            the model is written, so they need not fit into memory.
        stacktrace_metadata: Whether every node says which line of Python and which rule it came
            from: True or "minimal", "full" for complete stacks too, "sourcemap" for a source map in
            the model's own metadata, which survives optimisers, False for none. None means what the
            context manager `jax2onnx.stacktrace_metadata` or else the environment says
            (`JAX2ONNX_ENABLE_STACKTRACE_METADATA`, `JAX2ONNX_STACKTRACE_DETAIL`).
        source_map: Writes the source map to this file; the model carries only its digest. So a
            model can be shipped while the map stays at home.
        source_text: Puts the text of the user's files into the source map; there has to be one.
        paths: "relative" writes files relative to the working directory or to their package,
            "absolute" writes whole paths.
        functions: Which calls become ONNX functions: "decorated" for those of what `onnx_function`
            decorates, "modules" for those of all modules inside the model as well, so that layers
            of one kind share one body.

    Returns:
        The model, in the form given by `return_mode`.

    Raises:
        UnsupportedError: The function uses something that has no ONNX form.
        InvalidInputError: An argument of this call is wrong.
        InternalError: There is a bug in jax2onnx.

    Errors that JAX raises while it traces `fn` are passed on unchanged. If they mention symbolic
    dimensions, a note says which inputs these belong to. A model cannot print: `jax.debug.print`
    and `jax.debug.callback` are omitted.
    """
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
        record_primitive_calls_file=record_primitive_calls_file,
        record=record,
        record_weights=record_weights,
        functions=functions,
    )
    with collected_rarely(), _progress.shown_in_notebook():
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
        _progress.stage("writing", model)
        with _result.source_map_at(model, options.source_map):
            if options.path is not None:
                return _result.save(model, options.path, self_contained=options.self_contained)
        return _result.to_ir(model) if options.return_mode == "ir" else _result.to_proto(model)


@dataclass
class Converted:
    """A converted function.

    Attributes:
        model: The model.
        traced: What was converted.
        inputs_as_nchw: The positions of the inputs whose layout changes.
        outputs_as_nchw: The positions of the outputs whose layout changes.
    """

    model: "Model"
    traced: Traced
    inputs_as_nchw: list[int]
    outputs_as_nchw: list[int]


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
) -> Converted:
    """Traces and converts a function. `keep_results` keeps track of what its equations become,
    `shared` are the parameters of other models.
    """
    if not callable(fn):
        raise InvalidInputError(
            "not-callable", f"`fn` is {fn!r}", help="pass a function or another callable"
        )
    with _jax.precision(double=double):
        args, kwargs = Specs(double=double).all(inputs, input_params)
        given = given_leaves(inputs, args, input_params, kwargs)
        flags = given_flags(given)
        positional = len(jax.tree_util.tree_leaves(args))
    signature, function = signature_of(fn), function_of(fn)
    if function is not None:
        options.check_sources({"the source file of the function": function[0]})
    check_arguments(signature, args, kwargs, function)

    _progress.stage("tracing")
    marked = Functions(modules=options.functions == "modules", none=options.functions == "none")
    with explained(signature, args, kwargs), _values.explained():
        names, _ = boundary_names(
            signature, paths_of((args, kwargs)), [], input_names=None, output_names=None
        )
        traced = trace(
            fn,
            args,
            kwargs,
            double=double,
            functions=marked,
            flags=flags,
            names=names,
            checkpoint=checkpoint,
            weights=None if shared is None else shared.weights,
        )

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
    out_types = dtypes("output_dtypes", output_dtypes, out_names, out_traced)

    from jax2onnx import _core

    _progress.stage("converting")
    # JAX traces the equations that it expands here, in the same mode as the function.
    with (
        _jax.precision(double=double),
        _result.writing(record_primitive_calls_file=options.calls, record=options.record),
    ):
        model = _core.convert(
            traced.jaxpr,
            model_name=options.model_name,
            opset=options.opset,
            input_names=in_names,
            output_names=out_names,
            name_of=traced.tree.name_of if shared is None else shared.names_in(traced.tree),
            inputs_as_nchw=in_nchw,
            outputs_as_nchw=out_nchw,
            input_types=in_types,
            output_types=out_types,
            # An argument without a name is always given.
            defaults={i: flag for i, flag in flags.items() if i >= positional},
            detail=options.detail,
            source_map=options.source_map is not None,
            embed_sources=options.source_text,
            absolute_paths=options.absolute_paths,
            entry=_jax.traceback(),
            function=function,
            calls=options.calls,
            record=options.record,
            record_weights=options.record_weights,
            rules=registered(),
            results=keep_results,
            operators=dict(options.operators),
            normalization_mode=options.normalization_mode,
            assume=list(options.assume),
            compute=list(options.compute),
            weights=list(options.weights),
            in_set=shared is not None,
            target=options.target,
            report_missed=_log.isEnabledFor(logging.INFO),
        )
    for missed in model.missed:
        _log.info(missed)
    if model.fallbacks:
        lines = "".join(f"\n  {line}" for line in model.fallbacks)
        warnings.warn(f"{options.target} runs these on the CPU:{lines}", stacklevel=3)
    return Converted(model, traced, in_nchw, out_nchw)
