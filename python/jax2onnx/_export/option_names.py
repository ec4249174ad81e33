"""The names of options in `export` and `to_onnx`, and advice for those of the other function."""

import dataclasses
import functools
from typing import Any, TypeVar

from jax2onnx._python.notebooks import HiddenFrames
from jax2onnx.errors import nearest

T = TypeVar("T", bound=type)


def with_advice(kind: T) -> T:
    """Adds the nearest attribute of a dataclass to errors about misspelt arguments."""
    create: Any = kind.__init__  # type: ignore[misc]
    names = [field.name for field in dataclasses.fields(kind)]

    @HiddenFrames()
    @functools.wraps(create)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            create(self, *args, **kwargs)
        except TypeError as error:
            for name in kwargs:
                if name not in names:
                    advice = nearest(name, names) or f"the arguments are: {', '.join(names)}"
                    error.add_note(f"  help: {advice.strip()}")
            raise

    kind.__init__ = checked  # type: ignore[misc]
    return kind


# Options of `export` and the names that they have in `to_onnx`.
RENAMED = {
    "name": "model_name",
    "keyword_inputs": "input_params",
    "compute_dtype": "compute",
    "weight_format": "weights",
    "onnx_functions": "functions",
    "x64": "enable_double_precision",
}

# Advice for options of `to_onnx` that are passed to `export`.
NOT_IN_EXPORT = {
    **{old: f"`export` calls this option {new!r}" for new, old in RENAMED.items()},
    "inputs": "pass the inputs one by one: export(fn, *inputs)",
    "return_mode": "`export` returns an object: pass output_path=, or use .save(path), .proto, .ir",
    "export_mode": 'pass target="onnxruntime-web" and external_data=False',
    "normalization_mode": 'pass operators={"LayerNormalization": "native"}, or "elementary"',
    "record_primitive_calls_file": "pass record=",
    "input_names": "pass jax2onnx.Input(shape, name=…) as an input",
    "input_dtypes": "pass jax2onnx.Input(shape, model_dtype=…) as an input",
    "inputs_as_nchw": 'pass jax2onnx.Input(shape, layout="nchw") as an input',
    "output_names": "pass outputs=[names]",
    "output_dtypes": "pass outputs=[jax2onnx.Output(model_dtype=…)]",
    "outputs_as_nchw": 'pass outputs=[jax2onnx.Output(layout="nchw")]',
    "stacktrace_metadata": 'pass provenance="sourcemap", "minimal", "full" or False',
    "source_map": "pass provenance=jax2onnx.Provenance(file=…)",
    "source_text": "pass provenance=jax2onnx.Provenance(text=True)",
    "paths": "pass provenance=jax2onnx.Provenance(paths=…)",
    "user_packages": "pass provenance=jax2onnx.Provenance(user_packages=…)",
    "node_names": "pass provenance=jax2onnx.Provenance(names=…)",
}

# Advice for options of `export` that are passed to `to_onnx`.
NOT_IN_TO_ONNX = {
    **{new: f"`to_onnx` calls this option {old!r}" for new, old in RENAMED.items()},
    "provenance": "pass stacktrace_metadata=, source_map=, source_text=, paths=, user_packages= "
    "and node_names=",
    "outputs": "pass output_names=, output_dtypes= and outputs_as_nchw=",
    "external_data": 'return_mode="file" puts large weights in a file of their own; '
    'export_mode="web" does not',
    "check": "call jax2onnx.allclose(fn, model, inputs)",
    **{
        name: f"only jax2onnx.export takes {name}=; `to_onnx` takes a function that holds them"
        for name in ("params", "variables", "state")
    },
}

# Texts of messages about `to_onnx`, as the command line says them.
IN_COMMAND = {
    "`input_params": "`--input ",
    "`compute`": "`--compute-dtype`",
    "`weights`": "`--weight-format`",
    'weights={"head.kernel": "int8"}': "--weight-format head.kernel=int8",
    "`target`": "`--target`",
    "`assume`": "`--assume`",
    "`operators`": "`--operators`",
    "`checkpoint`": "`--checkpoint`",
    "`output_names`": "`--outputs`",
    "`input_dtypes`": "`--set input_dtypes=…`",
    "enable_double_precision=True": "--x64",
    'training="allow"': "--training allow",
    'stacktrace_metadata="sourcemap"': "--provenance sourcemap",
    "export without `check`, and call `verify` on the result to find the line": (
        "export without --check, and call `model.verify` in Python to find the line"
    ),
}

# Texts of messages about `to_onnx`, as `export` says them.
IN_EXPORT = {
    "`input_params": "`keyword_inputs",
    "`compute`": "`compute_dtype`",
    "`weights`": "`weight_format`",
    "weights={": "weight_format={",
    "`functions`": "`onnx_functions`",
    "`output_names`": "`outputs`",
    "`input_names`": "`Input(name=…)`",
    "`input_dtypes`": "`Input(model_dtype=…)`",
    "`output_dtypes`": "`Output(model_dtype=…)`",
    "`inputs_as_nchw`": "`Input(layout=…)`",
    "`outputs_as_nchw`": "`Output(layout=…)`",
    "`model_name`": "`name`",
    "enable_double_precision=True": "x64=True",
    "`source_map`": "`Provenance(file=…)`",
    "`source_text`": "`Provenance(text=…)`",
    "`paths`": "`Provenance(paths=…)`",
    "`user_packages`": "`Provenance(user_packages=…)`",
    "`node_names`": "`Provenance(names=…)`",
    'stacktrace_metadata="sourcemap"': 'provenance="sourcemap"',
}
