"""`jax2onnx reduce PROGRAM` reduces a program whose model is wrong to a few lines."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jax2onnx._command.arrays import read_arrays
from jax2onnx._command.export import NO, conversion_options, loaded, read_inputs, reported
from jax2onnx.errors import wrong_arguments


def run(
    program: str,
    *,
    specs: Sequence[str],
    values: Path | None,
    check: str | None,
    rtol: float | None,
    atol: float | None,
    conversion: Mapping[str, Any],
    x64: bool,
    output: Path | None,
    seconds: float,
    as_json: bool,
) -> int:
    """Reduces a program, prints the result, and returns the exit status."""
    from jax2onnx import reduce

    try:
        fn, args, kwargs = _program(program, specs, values, double=x64)
        found = reduce(
            fn,
            args,
            kwargs,
            check=check,
            rtol=rtol,
            atol=atol,
            seconds=seconds,
            enable_double_precision=x64,
            **conversion_options(conversion),
        )
    except Exception as error:
        status = reported(error)
        return NO if getattr(error, "code", None) == "nothing-fails" else status
    files = found.save(output) if output is not None else []
    if as_json:
        print(json.dumps({**found.to_dict(), "files": files}, indent=2))
        return 0
    print(found)
    if files:
        print(f"files    {', '.join(files)}")
    return 0


def _program(
    program: str, specs: Sequence[str], values: Path | None, *, double: bool
) -> tuple[Any, Any, Any]:
    """Returns a function or the path of a recording, and the arguments."""
    given = {} if values is None else read_arrays(values)
    if ":" not in program and not program.endswith(".py"):
        if specs:
            raise wrong_arguments(
                "`--input` has no effect on a recording, which has its own inputs",
                "omit it; `--inputs FILE.npz` sets their values",
            )
        return program, given, None
    fn = loaded(program)
    if not given:
        args, kwargs = read_inputs(specs, double=double)
        return fn, args, kwargs or None
    if specs:
        raise wrong_arguments(
            "`--input` and `--inputs` exclude each other",
            "the arrays in the file have types and shapes",
        )
    return fn, list(given.values()), None
