"""`verify` finds the first value of a model that differs from JAX's."""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from jax2onnx import _core, _jax
from jax2onnx._checking.against_device import compare_device
from jax2onnx._checking.against_jax import JaxComparison, Subject
from jax2onnx._checking.against_model import compare_models
from jax2onnx._checking.allclose import arguments
from jax2onnx._checking.compare import Tolerances
from jax2onnx._checking.dump import Dump
from jax2onnx._checking.graph import Graph
from jax2onnx._checking.runtime import NHWC, Runnable, as_tensor, dtype_of
from jax2onnx._checking.verification import Verification, answer_of
from jax2onnx._export import result
from jax2onnx._export.options import FUNCTIONS, Layout, Options, recorded_options
from jax2onnx._export.to_onnx import Converted, convert
from jax2onnx._tracing.names import signature_of
from jax2onnx.errors import wrong_arguments


def verify(
    fn: Callable[..., Any] | Any,
    model: Any,
    inputs: Sequence[Any] | None = None,
    input_params: Mapping[str, Any] | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    enable_double_precision: bool = False,
    inputs_as_nchw: Layout = None,
    outputs_as_nchw: Layout = None,
    dump: str | os.PathLike[str] | None = None,
) -> Verification:
    """Compares every value of a model with JAX's, and finds the first one that differs.

    The function is traced and evaluated equation by equation. Every value of the model is computed
    in ONNX Runtime, without optimisations, from JAX's operands. So the first value that differs is
    the one that is computed incorrectly, not one that inherits the error. If it is in a function, a
    branch or a loop, the body is searched in the same way. The model may have been changed since
    its export: quantised, converted to another precision, or optimised.

    With `dump`, the values are those that a device computed. Each is compared with what ONNX
    Runtime computes on the CPU from the device's operands, and with JAX's.

    Args:
        fn: The function that the model was exported from, or a model that is right. With `dump`, it
            may be None: values are then compared with those of ONNX Runtime on the CPU.
        model: The model: a path, an `onnx.ModelProto` or an `onnx_ir.Model`.
        inputs: The positional arguments of `fn`, as in `allclose`. With `dump`, they may be omitted
            if the arguments are arrays: they are in the dump.
        input_params: The keyword arguments of `fn` that are inputs of the model.
        rtol: The relative tolerance for floats. None means by element type.
        atol: The absolute tolerance for floats. None means by element type.
        enable_double_precision: As in the export.
        inputs_as_nchw: As in the export.
        outputs_as_nchw: As in the export.
        dump: A file that a recorder wrote on a device, of a run of this model. `jax2onnx probe`
            makes models that return inner values, and prints recorders.

    Returns:
        The result. It is true if nothing differs, and prints as a message.
    """
    recorded = None if dump is None else Dump.read(dump)
    if recorded is not None and fn is None:
        return compare_device(model, recorded, Tolerances(rtol, atol))
    if not callable(fn):
        if recorded is not None:
            raise wrong_arguments("a dump is compared with a function, or with None")
        return _against_model(fn, model, inputs or (), Tolerances(rtol, atol))
    with _jax.precision(double=enable_double_precision):
        runnable = Runnable(model)
        if recorded is not None:
            recorded.check(model, runnable)
        nchw = _positions(inputs_as_nchw, runnable)
        if inputs is None and recorded is not None:
            found = zip(runnable.inputs, _recorded_inputs(recorded, runnable, nchw), strict=True)
            inputs, named = arguments_of(fn, {value.name: array for value, array in found})
            input_params = {**named, **(input_params or {})}
        args, kwargs = arguments(inputs or (), input_params, double=enable_double_precision)
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        leaves = [jax.numpy.asarray(leaf) if isinstance(leaf, bool) else leaf for leaf in leaves]
        specs, keywords = jax.tree_util.tree_unflatten(tree, _specs(leaves, runnable, nchw))

        def converted(functions: str) -> Converted:
            return convert(
                fn,
                specs,
                keywords,
                _options(runnable, functions),
                double=enable_double_precision,
                inputs_as_nchw=inputs_as_nchw,
                outputs_as_nchw=outputs_as_nchw,
                input_names=[value.name for value in runnable.inputs],
                output_names=[value.name for value in runnable.outputs],
                input_dtypes=_boundary_types(runnable, runnable.inputs),
                output_dtypes=_boundary_types(runnable, runnable.outputs),
                keep_results=True,
            )

        def subject(made: Converted) -> Subject:
            return Subject(
                made.traced.jaxpr,
                leaves,
                made.model,
                [*made.boundary.inputs_as_nchw],
                [*made.boundary.outputs_as_nchw],
            )

        chosen = _most_alike(map(converted, FUNCTIONS), runnable)

        def without_functions() -> Subject:
            return subject(converted("none"))

        tolerances = Tolerances(rtol, atol)

        def against_jax() -> JaxComparison:
            return JaxComparison(subject(chosen), runnable, tolerances, without_functions)

        def compared() -> Verification:
            if recorded is None:
                return against_jax().run()
            return compare_device(model, recorded, tolerances, against_jax)

        return answer_of(model, compared)


def arguments_of(fn: Any, inputs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Returns the positional and the keyword arguments of a function of arrays, given a model's
    inputs in their order. An input is a keyword argument if only that fits its name.
    """
    signature = signature_of(fn)
    parameters = signature.parameters if signature else {}
    order = [p.name for p in parameters.values() if p.kind is not p.KEYWORD_ONLY]
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, value in inputs.items():
        before = order[len(args) : order.index(name)] if name in order[len(args) :] else []
        optional = (parameters[other].default is not inspect.Parameter.empty for other in before)
        keyword_only = name in parameters and name not in order
        if keyword_only or (before and all(optional)):
            kwargs[name] = value
        else:
            args.append(value)
    return args, kwargs


def _recorded_inputs(dump: Dump, runnable: Runnable, nchw: Sequence[int]) -> list[np.ndarray]:
    """Returns the arguments of a function of arrays, in the function's types and layout."""
    found = []
    for i, (declared, array) in enumerate(zip(runnable.inputs, dump.inputs(runnable), strict=True)):
        dtype = np.dtype(runnable.types_inside.get(declared.name, array.dtype))
        found.append((array.transpose(NHWC) if i in nchw else array).astype(dtype))
    return found


def _against_model(
    reference: Any, model: Any, inputs: Sequence[Any], tolerances: Tolerances
) -> Verification:
    names = [value.name for value in Runnable(reference).inputs]
    if len(names) != len(inputs):
        raise wrong_arguments(f"the reference has {len(names)} inputs, but {len(inputs)} are given")
    arrays = dict(zip(names, map(as_tensor, inputs), strict=True))
    return compare_models(reference, model, arrays, tolerances)


def _most_alike(candidates: Iterator[Converted], runnable: Runnable) -> Converted:
    """Returns the conversion that is most similar to the model: that reveals its options."""
    functions = {f.domain for f in runnable.proto.functions}
    names = set(Graph.of(runnable).producers)
    found: list[tuple[int, Converted]] = []
    for made in candidates:
        skeleton = result.skeleton(made.model)
        shared = sum(name in names for node in skeleton.graph.node for name in node.output)
        # A runtime may have inlined all functions.
        inlined = not functions and any(map(_core.before_inlining, names))
        if not inlined and functions == {f.domain for f in skeleton.functions}:
            return made
        found.append((shared, made))
    return max(found, key=lambda entry: entry[0])[1]


def _boundary_types(runnable: Runnable, values: Sequence[Any]) -> dict[str, Any]:
    """Returns the types of inputs or outputs that the export chose for them."""
    return {v.name: dtype_of(v) for v in values if v.name in runnable.types_inside}


def _options(runnable: Runnable, functions: str) -> Options:
    """Reconstructs the options of the export from the model."""
    opsets = {entry.domain: entry.version for entry in runnable.proto.opset_import}
    texts = _metadata(runnable)
    # A damaged entry of `*=native Gelu=auto` has no effect.
    forms = [entry for entry in texts.get("operators", "").split() if "=" in entry]
    return recorded_options(
        texts | {"weights": texts.get("weight_formats")},
        model_name=runnable.proto.graph.name or "model",
        opset=opsets.get(""),
        detail="sourcemap",
        functions=functions,
        operators=dict(entry.split("=", 1) for entry in forms),
        source_text=True,
    )


def _metadata(runnable: Runnable) -> dict[str, str]:
    """Returns what the export wrote into the metadata of a model."""
    entries = ((e.key.rpartition("pkg.jax2onnx."), e.value) for e in runnable.proto.metadata_props)
    return {key: value for (before, own, key), value in entries if own and not before}


def _specs(leaves: Sequence[Any], runnable: Runnable, nchw: Sequence[int]) -> list[Any]:
    """Returns the types of the arguments, with the model's symbolic dimensions."""
    if len(leaves) != len(runnable.inputs):
        raise wrong_arguments(
            f"the model has {len(runnable.inputs)} inputs, but the function has {len(leaves)}"
        )
    constraints = _metadata(runnable).get("constraints", "").splitlines()
    scope = jax.export.SymbolicScope(constraints)
    specs = []
    for i, (leaf, declared) in enumerate(zip(leaves, runnable.inputs, strict=True)):
        dims: list[Any] = [dim.dim_param or None for dim in declared.type.tensor_type.shape.dim]
        if i in nchw and len(dims) == len(NHWC):
            dims = [dims[axis] for axis in NHWC]
        # Complex numbers and keys have one more axis in the model.
        symbols = (*dims[: leaf.ndim], *[None] * (leaf.ndim - len(dims)))
        shape = tuple(
            jax.export.symbolic_shape(s, scope=scope)[0] if s else size
            for s, size in zip(symbols, leaf.shape, strict=True)
        )
        weak = bool(getattr(leaf, "weak_type", False))
        specs.append(SimpleNamespace(shape=shape, dtype=leaf.dtype, weak_type=weak))
    return specs


def _positions(layout: Layout, runnable: Runnable) -> list[int]:
    """Returns the positions of inputs. The conversion rejects invalid entries."""
    names = [value.name for value in runnable.inputs]
    return [i for i, name in enumerate(names) if name in (layout or ()) or i in (layout or ())]
