"""`export` converts a function or a model, and returns an `ExportedModel`."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import jax

from jax2onnx._export import progress
from jax2onnx._export.option_names import IN_EXPORT, NOT_IN_EXPORT
from jax2onnx._export.options import check_options, flag, unknown_option
from jax2onnx._export.provenance_level import LEVELS, Level, Provenance
from jax2onnx._export.target_names import Target
from jax2onnx._export.to_onnx import Assumption, Form, Path, convert, option_names
from jax2onnx._exported.boundary import Outputs, input_options, output_options
from jax2onnx._exported.exported_model import ExportedModel, ExternalData, Source, own_words
from jax2onnx._python.garbage import collected_rarely
from jax2onnx._python.notebooks import HiddenFrames
from jax2onnx._tracing.checkpoint import Checkpoint
from jax2onnx._tracing.names import signature_of
from jax2onnx._tracing.training import Training
from jax2onnx.errors import InvalidInputError, bad_option, invalid_option


def export(
    fn: Any,
    *inputs: Any,
    keyword_inputs: Mapping[str, Any] | None = None,
    params: Any = None,
    variables: Any = None,
    state: Any = None,
    outputs: Outputs | None = None,
    output_path: Path | None = None,
    external_data: ExternalData = "auto",
    check: Sequence[Any] | Mapping[str, Any] | None = None,
    name: str = "jax_model",
    provenance: Provenance | Level = "sourcemap",
    opset: int | None = None,
    target: Target | None = None,
    operators: Form | Mapping[str, Form] = "auto",
    assume: Assumption | Sequence[Assumption] = (),
    compute_dtype: str | Mapping[str, str] | None = None,
    weight_format: str | Mapping[str, str] | None = None,
    onnx_functions: Literal["decorated", "modules"] = "decorated",
    checkpoint: Checkpoint | Path | None = None,
    x64: bool = False,
    training: Training = "warn",
    record: Path | None = None,
    record_weights: bool = False,
    **unknown: Any,
) -> ExportedModel:
    """Converts a function or a model to ONNX.

    Args:
        fn: A function or a model: a Flax NNX, Equinox or Keras model, a Linen module with
            `variables`, a pair of functions from `hk.transform` with `params`, or a function that
            takes a pytree of parameters first.
        inputs: One entry for each positional argument of `fn`: an array, a `jax.ShapeDtypeStruct`,
            a text such as `"f32[B,4]"`, a shape such as `("B", 4)`, a `jax2onnx.Input` with a name
            or a layout, or a pytree of these.
        keyword_inputs: Keyword arguments of `fn` that become inputs. Numbers and booleans are
            scalars; a boolean is the default of its input.
        params: The parameters of `fn`.
        variables: The variables of a Linen module. Another name of `params`.
        state: The state of a model with `params`, or of an Equinox model. Of a result and a new
            state, the model returns the result. A plain function takes it after the parameters.
        outputs: A name, or a `jax2onnx.Output` with a layout or an element type, for each output,
            or a mapping that renames outputs by pattern.
        output_path: Writes the model to this file, as `ExportedModel.save` does.
        external_data: The location of weights in that file, as in `ExportedModel.save`.
        check: Positional arguments of `fn` to compare the model with, or all arguments by name. A
            model that differs is not written.
        name: The name of the model's graph.
        provenance: The record of sources: "sourcemap" puts a source map into the model, which
            survives optimisers; "minimal" and "full" write metadata of nodes, and False nothing. A
            `jax2onnx.Provenance` can also write the map to a file or include the source text.
        opset: The ONNX opset. None means the lowest that does not make the model slower.
        target: The runtime of the model, as in `to_onnx`.
        operators: The form of operators that ONNX has and JAX spells out, as in `to_onnx`.
        assume: Conditions that you guarantee, so that guards are unnecessary, as in `to_onnx`.
        compute_dtype: The element type of products, or a mapping by location, as `compute` of
            `to_onnx`.
        weight_format: The storage format of weights, or a mapping by name, as `weights` of
            `to_onnx`.
        onnx_functions: The calls that become ONNX functions, as `functions` of `to_onnx`.
        checkpoint: The values of abstract parameters, as in `to_onnx`.
        x64: Traces `fn` with 64-bit types enabled.
        training: The treatment of layers in training mode, as in `to_onnx`.
        record: Writes the traced program to this file, for a bug report.
        record_weights: Includes the values of parameters in that file.
        unknown: No other options exist; the error suggests the nearest one.

    Returns:
        The model, which can be called, saved, verified, profiled and viewed.

    Raises:
        UnsupportedError: The function uses something that has no ONNX form.
        InvalidInputError: An argument of this call is wrong.
        MismatchError: The model computes something else than the function on `check`.
        InternalError: There is a bug in jax2onnx.
    """
    with HiddenFrames(), own_words():
        source = Source(fn, _one_of(params, variables), state)
        for key in unknown:
            raise unknown_option(
                "export",
                key,
                option_names(export),
                NOT_IN_EXPORT,
                source.signature(),
                "keyword_inputs",
                "fn" if callable(fn) else "fn.apply",
            )
        if isinstance(fn, ExportedModel):
            raise InvalidInputError(
                "not-callable",
                f"`fn` is {fn!r}, which is exported already",
                help="pass the function or the model that it was made from",
            )
        chosen = provenance if isinstance(provenance, Provenance) else Provenance(provenance)
        if chosen.level not in (True, False, *LEVELS):
            raise bad_option("provenance", chosen.level, ("True", "False", *LEVELS))
        double = flag("x64", x64)
        args, kwargs, of_inputs = input_options(inputs, keyword_inputs, double=double)
        options = check_options(
            model_name=name,
            opset=opset,
            return_mode="file",
            output_path="model.onnx" if output_path is None else output_path,
            target=target,
            operators=operators,
            assume=assume,
            compute=compute_dtype,
            weights=weight_format,
            record=record,
            record_weights=record_weights,
            functions=onnx_functions,
            training=training,
            **chosen.options(),
        )
        call = source.callable()
        with (
            _one_list(inputs),
            _held_arguments(source, call),
            _layouts(of_inputs["inputs_as_nchw"], (args, kwargs)),
            collected_rarely(),
            progress.shown_in_notebook(),
        ):
            converted = convert(
                call,
                args,
                kwargs or None,
                options,
                double=double,
                checkpoint=checkpoint,
                words=IN_EXPORT,
                **of_inputs,
                **output_options(outputs),
            )
        model = ExportedModel(converted, source, call)
        if check is not None:
            if isinstance(check, Mapping):
                model.check(keyword_inputs=check)
            else:
                model.check(*_arguments(check), keyword_inputs=kwargs or None)
        if output_path is not None:
            model.save(output_path, external_data=external_data)
        return model


@contextmanager
def _one_list(inputs: Sequence[Any]) -> Iterator[None]:
    """Raises if a single input is in a list, as `to_onnx` takes it: many layers would convert the
    list to an array with one more axis. Adds a note to errors about longer lists.
    """
    if len(inputs) == 1 and type(inputs[0]) is list and len(inputs[0]) == 1:
        raise InvalidInputError(
            "invalid-inputs",
            f"the only input is the list {inputs[0]!r}",
            help="`export` takes inputs one by one: export(fn, *inputs); if the argument is a list "
            "with one entry, pass a tuple",
        )
    try:
        yield
    except Exception as error:
        if len(inputs) == 1 and isinstance(inputs[0], list):
            error.add_note("  help: `export` takes inputs one by one: export(fn, *inputs)")
        raise


@contextmanager
def _layouts(as_nchw: Sequence[int], arguments: Any) -> Iterator[None]:
    """Adds the shapes that the function gets to errors of a model with layouts."""
    try:
        yield
    except InvalidInputError:
        raise
    except (TypeError, ValueError) as error:
        leaves = jax.tree_util.tree_leaves(arguments, is_leaf=lambda leaf: hasattr(leaf, "shape"))
        for i in as_nchw:
            shape = ", ".join(map(str, leaves[i].shape))
            error.add_note(
                f'\n  help: a shape with layout="nchw" is that of the model; the function gets '
                f"NHWC, here [{shape}]"
            )
        raise


@contextmanager
def _held_arguments(source: Source, call: Any) -> Iterator[None]:
    """Adds to errors about arguments that the parameters are the first one."""
    try:
        yield
    except InvalidInputError as error:
        if error.code == "wrong-arguments":
            if isinstance(call, functools.partial) and call.func is source.fn is not call:
                error.help = (
                    f"the signature is {signature_of(source.fn)}; `params` and `state` are passed "
                    "before the inputs"
                )
            elif not callable(source.fn) and error.help:  # a pair of functions
                error.help = error.help.replace("partial(fn", "partial(fn.apply")
        raise


def _one_of(params: Any, variables: Any) -> Any:
    if params is not None and variables is not None:
        raise invalid_option(
            "`params` and `variables` are both given",
            "pass the variables of a Linen module alone; they contain its parameters",
        )
    return variables if params is None else params


def _arguments(check: Any) -> Sequence[Any]:
    if isinstance(check, list | tuple):
        return check
    raise invalid_option(
        f"`check` cannot be of type {type(check).__name__}",
        "pass a list with one entry for each argument, or a dict with their names",
    )
