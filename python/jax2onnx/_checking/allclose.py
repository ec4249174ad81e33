"""`allclose` compares the outputs of a model with the results of a function."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jax2onnx import _jax
from jax2onnx._checking.compare import difference, same_nan
from jax2onnx._checking.runtime import NCHW, Runnable, as_tensor
from jax2onnx._export.options import Layout, positions
from jax2onnx._tracing.inputs import Specs, check_arguments, given_leaves
from jax2onnx._tracing.names import signature_of
from jax2onnx._tracing.parameters import function_of
from jax2onnx._tracing.trace import restored
from jax2onnx.errors import wrong_arguments


def allclose(
    fn: Callable[..., Any],
    model: Any = None,
    inputs: Sequence[Any] = (),
    input_params: Mapping[str, Any] | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-5,
    *,
    enable_double_precision: bool = False,
    inputs_as_nchw: Layout = None,
    outputs_as_nchw: Layout = None,
    onnx_model_path: Any = None,
) -> tuple[bool, str]:
    """Compares the outputs of a model in ONNX Runtime with the results of a function.

    Args:
        fn: The function.
        model: The model: a path, an `onnx.ModelProto` or an `onnx_ir.Model`.
        inputs: The positional arguments of `fn`. Shapes, as in `to_onnx`, are filled with random
        numbers; symbolic dimensions are 2.
        input_params: The keyword arguments of `fn` that are inputs of the model.
        rtol: The relative tolerance for floats.
        atol: The absolute tolerance for floats. Integers must be equal.
        enable_double_precision: Computes with 64-bit types, like an export with this option.
        inputs_as_nchw: As in the export.
        outputs_as_nchw: As in the export.
        onnx_model_path: Another name of `model`.

    Returns:
        `True` if all outputs are close, and a message that lists the differences.
    """
    if (model is None) == (onnx_model_path is None):
        raise wrong_arguments(
            "`allclose` needs one model", "pass it as `model` or as `onnx_model_path`"
        )
    runnable = Runnable(onnx_model_path if model is None else model)
    return compare(
        fn,
        runnable,
        runnable.run,
        inputs,
        input_params,
        rtol,
        atol,
        double=enable_double_precision,
        inputs_as_nchw=inputs_as_nchw,
        outputs_as_nchw=outputs_as_nchw,
    )


def compare(
    fn: Callable[..., Any] | None,
    runnable: Runnable,
    run: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None,
    rtol: float,
    atol: float,
    *,
    double: bool,
    inputs_as_nchw: Layout,
    outputs_as_nchw: Layout,
) -> tuple[bool, str]:
    """Compares the outputs of `run` with the results of `fn`, or with onnxruntime's if there is no
    function. Returns `True` if they are close, and a message that lists the differences.
    """
    with _jax.precision(double=double):
        args, kwargs = arguments(inputs, input_params, double=double)
        wanted = []
        if fn is not None:
            check_arguments(signature_of(fn), args, kwargs, function_of(fn))
            with restored(fn):
                wanted = [
                    as_tensor(leaf) for leaf in jax.tree_util.tree_leaves(fn(*args, **kwargs))
                ]
    feeds = [as_tensor(leaf) for leaf in jax.tree_util.tree_leaves((args, kwargs))]
    in_names = [value.name for value in runnable.inputs]
    out_names = [value.name for value in runnable.outputs]
    if len(feeds) != len(in_names):
        return False, f"the model has {len(in_names)} inputs, but {len(feeds)} are given"
    if fn is not None and len(wanted) != len(out_names):
        return False, f"the model has {len(out_names)} outputs, but the function has {len(wanted)}"
    ranks = [array.ndim for array in feeds]
    for i in positions("inputs_as_nchw", inputs_as_nchw, in_names, ranks):
        feeds[i] = feeds[i].transpose(NCHW)
    if fn is None:
        wanted = runnable.run(feeds)
    ranks = [array.ndim for array in wanted]
    for i in positions("outputs_as_nchw", outputs_as_nchw, out_names, ranks):
        wanted[i] = wanted[i].transpose(NCHW)
    wanted = [
        runnable.at_boundary(o, array) for o, array in zip(runnable.outputs, wanted, strict=True)
    ]
    wrong, nan = [], []
    for name, one, other in zip(out_names, wanted, run(feeds), strict=True):
        reference = "onnxruntime" if fn is None else "JAX"
        apart = difference(one, other, rtol, atol, reference=reference)
        if apart is not None:
            wrong.append(f"`{name}` differs: {apart}")
        elif shared := same_nan(name, one):
            nan.append(shared)
    if wrong:
        return False, "\n".join(wrong)
    which = "the output agrees" if len(wanted) == 1 else f"all {len(wanted)} outputs agree"
    return True, "\n".join([f"{which} (rtol={rtol:g}, atol={atol:g})", *nan])


def arguments(
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None,
    *,
    double: bool,
    exported: Sequence[Any] = (),
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a function. Specifications that are not arrays are filled with
    random numbers. Their symbolic dimensions have the sizes that the arrays determine if the
    function was `exported` with these specifications, or else 2.
    """
    typed = Specs(double=double).all(inputs, input_params)
    leaves, tree = jax.tree_util.tree_flatten(typed)
    given = given_leaves(inputs, typed[0], input_params, typed[1])
    random = np.random.default_rng(0)
    sizes = _jax.variables(
        pair
        for spec, leaf in zip(exported, given, strict=False)
        if _is_array(leaf)
        for pair in zip(spec.shape, np.shape(leaf), strict=False)
    )
    pairs = zip(leaves, given, strict=True)
    values = [_value(spec, leaf, sizes, random) for spec, leaf in pairs]
    args, kwargs = jax.tree_util.tree_unflatten(tree, values)
    return args, kwargs


def _is_array(value: Any) -> bool:
    return isinstance(value, jax.Array | np.ndarray | np.generic | bool | int | float | complex)


def _value(spec: Any, leaf: Any, sizes: Mapping[str, int], random: np.random.Generator) -> Any:
    if isinstance(leaf, bool | np.bool_):
        return bool(leaf)  # code may ask it, and JAX hash it
    if _is_array(leaf):
        return leaf if isinstance(leaf, jax.Array) else jax.numpy.asarray(leaf, dtype=spec.dtype)
    shape = tuple(_jax.sizes(spec.shape, lambda name: sizes.get(name, 2)))
    if jax.numpy.issubdtype(spec.dtype, jax.dtypes.prng_key):
        keys = jax.random.split(jax.random.key(0, impl=_jax.key_implementation(spec.dtype).name), 9)
        return jax.numpy.resize(keys, shape)
    if jax.numpy.issubdtype(spec.dtype, np.floating):
        return jax.numpy.asarray(random.standard_normal(shape), dtype=spec.dtype)
    if jax.numpy.issubdtype(spec.dtype, np.complexfloating):
        both = random.standard_normal((2, *shape))
        return jax.numpy.asarray(both[0] + 1j * both[1], dtype=spec.dtype)
    return jax.numpy.asarray(random.integers(0, 2, shape), dtype=spec.dtype)
