"""`jax2onnx verify MODEL` compares the values of a model, or those that a device computed, with
another model or with a function.
"""

import json
import sys
import warnings
from pathlib import Path
from urllib.parse import quote

import numpy as np

from jax2onnx._checking.against_model import compare_models
from jax2onnx._checking.compare import Tolerances
from jax2onnx._checking.runtime import Runnable, dtype_of, is_float, sizes_of
from jax2onnx._checking.verify import arguments_of, verify
from jax2onnx._command.arrays import read_arrays
from jax2onnx._command.export import loaded
from jax2onnx.errors import InvalidInputError, wrong_arguments

SAME, DIFFERENT, WRONG_USAGE = 0, 1, 2


def run(
    model: Path,
    reference: Path | None,
    *,
    inputs: Path | None,
    function: str | None,
    dump: Path | None,
    rtol: float | None,
    atol: float | None,
    errors: bool,
    as_json: bool,
    page: str | None = None,
) -> int:
    """Compares a model, prints the result, and returns the exit status."""
    # The function is converted again, and the export has shown its warnings.
    warnings.simplefilter("ignore")
    try:
        fn = None if function is None else loaded(function)
        if dump is not None:
            found = verify(fn, model, rtol=rtol, atol=atol, dump=dump)
        else:
            runnable = Runnable(model if reference is None else reference)
            arrays = _random(runnable) if inputs is None else _read(inputs, runnable)
            if reference is None:
                args, kwargs = arguments_of(fn, arrays)
                found = verify(fn, model, args, kwargs, rtol=rtol, atol=atol)
            else:
                found = compare_models(reference, model, arrays, Tolerances(rtol, atol))
    except InvalidInputError as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG_USAGE
    link = f"{page}#node={quote(found.node, safe='/:@,')}" if page and found.node else ""
    if as_json:
        extra = {"link": link} if page else {}
        print(json.dumps({**json.loads(found.to_json()), **extra}, indent=2))
    else:
        print(f"{found.message}\n  page:  {link}" if link else found.message)
    if (errors or dump is not None) and found.by_line and not as_json:
        print(f"\n{found.table() if errors else found.table(10)}")
    return SAME if found else DIFFERENT


def _read(path: Path, reference: Runnable) -> dict[str, np.ndarray]:
    arrays = read_arrays(path)
    names = [value.name for value in reference.inputs]
    missing = [name for name in names if name not in arrays]
    if not missing:
        return {name: arrays[name] for name in names}
    # `numpy.savez(file, a, b)` numbers the arrays.
    numbered = [f"arr_{i}" for i in range(len(names))]
    if set(numbered) == set(arrays):
        return {name: arrays[number] for name, number in zip(names, numbered, strict=True)}
    raise wrong_arguments(
        f"`{path}` has no array `{missing[0]}`; it has {', '.join(arrays) or 'none at all'}",
        f"the inputs are {', '.join(names)}",
    )


def _random(reference: Runnable) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    found = {}
    for value in reference.inputs:
        dtype = dtype_of(value)
        shape = [2 if size is None else size for size in sizes_of(value)]
        numbers = random.standard_normal(shape) if is_float(dtype) else random.integers(0, 2, shape)
        found[value.name] = np.asarray(numbers).astype(dtype)
    return found
