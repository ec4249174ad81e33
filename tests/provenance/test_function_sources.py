"""Sources of the nodes in ONNX functions."""

import json
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.inliner
import onnxruntime
import pytest

from harness.functions_of import X, layers
from harness.provenance_of import CALLSITE, JAX_TRACEBACK, KEYS, all_nodes, line_of, metadata
from jax2onnx import (
    SourceMap,
    UnsupportedError,
    onnx_function,
    to_onnx,
    verify,
)
from models.nnx.gpt import gpt


def test_every_node_of_a_body_carries_exactly_its_keys() -> None:
    model, args = gpt(layers=2)
    for level, keys in KEYS.items():
        detail = False if level == "off" else level
        exported = to_onnx(model, args, functions="modules", stacktrace_metadata=detail)
        assert exported.functions
        for node in all_nodes(exported):
            assert tuple(entry.key for entry in node.metadata_props) == keys, node.name


@onnx_function
def twice(x: Any) -> Any:
    return jnp.sin(x)  # body


def two_callers(x: Any) -> Any:
    y = twice(x)  # first
    for _ in range(2):
        y = twice(y)  # second
    return y


def test_bodies_name_their_line_and_calls_name_theirs() -> None:
    model = to_onnx(two_callers, [X], stacktrace_metadata="full")
    body = line_of("body", twice)
    first, second = (line_of(which, two_callers) for which in ("first", "second"))
    (sin,) = model.functions[0].node
    assert metadata(sin)[CALLSITE] == f"twice:{body}"
    sites = [metadata(node)[CALLSITE] for node in model.graph.node]
    assert sites == [f"two_callers:{first}", *[f"two_callers:{second}"] * 2]
    own, other = metadata(sin)[JAX_TRACEBACK].split("or called from:\n")  # one line calls it twice

    def users(traceback: str) -> list[str]:
        frames = re.findall(r"test_function_sources\.py:(\d+ \(\w+\))", traceback)
        return [str(frame) for frame in frames]

    assert users(own) == [f"{body} (twice)", f"{first} (two_callers)"]
    assert users(other) == [f"{second} (two_callers)"]


def test_the_source_map_knows_functions_after_inlining(tmp_path: Path) -> None:
    model = to_onnx(two_callers, [X], stacktrace_metadata="sourcemap")
    found = SourceMap.load(model)
    body = line_of("body", twice)
    first, second = (line_of(which, two_callers) for which in ("first", "second"))
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    optimised = onnx.load(options.optimized_model_filepath)
    for inlined in (optimised, onnx.inliner.inline_local_functions(model)):
        assert [node.op_type for node in inlined.graph.node] == ["Sin"] * 3
        for (node, sources), caller in zip(
            found.lookup_model(inlined), (first, second, second), strict=True
        ):
            assert {source.site.line for source in sources} == {body}, node.name
            assert sources[0].callers == []
            # Some versions of JAX have frames between the function and its export.
            stack = [frame for frame in sources[0].stack if "jax/_src" not in frame.file]
            assert [frame.line for frame in stack] == [body, caller]


@onnx_function
def scaled(x: Any) -> Any:
    return x * 3.5  # constant


def test_the_source_map_knows_the_constants_of_functions() -> None:
    model = to_onnx(lambda x: scaled(scaled(x)), [X], stacktrace_metadata="sourcemap")
    found = SourceMap.load(model)
    assert [node.op_type for node in model.functions[0].node] == ["Constant", "Mul"]
    for node in model.functions[0].node:
        (source,) = found.lookup(node.name)
        assert source.site.line == line_of("constant", scaled), node.name


def test_every_node_of_an_optimised_model_is_found(tmp_path: Path) -> None:
    model, args = gpt(layers=3)
    exported = to_onnx(model, args, functions="modules", stacktrace_metadata="sourcemap")
    found = SourceMap.load(exported)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(exported.SerializeToString(), options)
    looked_up = found.lookup_model(onnx.load(options.optimized_model_filepath))
    assert len(looked_up) > 100
    assert [node.name for node, sources in looked_up if not sources] == []


def test_an_error_in_a_function_names_its_line() -> None:
    @onnx_function
    def broken(x: Any) -> Any:
        return jax.pure_callback(np.sin, x, x)  # calls back

    with pytest.raises(UnsupportedError, match=r"broken") as error:
        to_onnx(lambda x: broken(x), [X])
    assert str(line_of("calls back", broken)) in str(error.value)


def test_the_record_has_the_primitives_of_functions(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    to_onnx(layers, [X], record_primitive_calls_file=file)
    primitives = [json.loads(line)["primitive"] for line in file.read_text().splitlines()]
    assert primitives.count("dot_general") == 3
    assert "onnx_function" not in primitives


def test_a_wrong_body_is_found_at_its_first_call() -> None:
    model = to_onnx(two_callers, [X])
    assert verify(two_callers, model, [X])
    model.functions[0].node[0].op_type = "Cos"
    report = verify(two_callers, model, [X])
    assert not report
    assert f"test_function_sources.py:{line_of('first', two_callers)}" in str(report)
