"""Messages that do not name a node as onnxruntime does: other runtimes, other builds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

from jax2onnx import _core

HEAD = '<ir_version: 10, opset_import: ["": 23, "local": 1]>\n'
GRAPH = """
g (float[B,4] items, float[C,4] users, int64[2] shape) => (float[M,N] y)
<float[4] w = {1,1,1,1}>
{
    [known] a = Mul (items, items)
    [scaled] b = Div (a, w)
    [sum] c = Add (b, users)
    [flat] d = Reshape (c, shape)
    [root] y = Sqrt (d)
}
"""
FUNCTION = """
g (float[B,4] x) => (float[B,4] y) { [call] y = local.f (x) }
<domain: "local", opset_import: ["": 23]>
f (v) => (r) { [inner] r = Gemm (v, v) }
"""

Explain = Callable[..., Any]


@pytest.fixture
def explain(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Explain:
    def explain(message: str, graph: str = GRAPH) -> Any:
        path = tmp_path / "model.onnx"
        onnx.save(onnx.parser.parse_model(HEAD + graph), path)
        _core.main(["explain", str(path), message, "--json"])
        return json.loads(capfd.readouterr().out)["findings"]

    return explain


def test_an_input_that_a_page_does_not_pass(explain: Explain) -> None:
    (found,) = explain("Error: input 'items' is missing in 'feeds'.")
    assert (found["name"], found["code"]) == ("items", "wrong-input")
    assert found["message"] == "the input `items` is missing"


def test_a_broadcast_without_a_node_has_candidates(explain: Explain) -> None:
    message = "Attempting to broadcast an axis by a dimension other than 1. 3 by 2"
    found = explain(f"Error: failed to call OrtRun(). {message}")
    # Excludes `known`, because a value always fits itself.
    assert [one["name"] for one in found] == ["scaled", "sum"]
    assert {one["code"] for one in found} <= {"broadcast-mismatch", "dimension-conflict"}
    assert all("names no node" in one["doubt"] for one in found)


def test_a_reshape_without_a_node_has_candidates(explain: Explain) -> None:
    (found,) = explain(
        "The input tensor cannot be reshaped to the requested shape. Input shape:{2,4}, "
        "requested shape:{3,3}"
    )
    assert found["name"] == "flat"
    assert "only one" in found["doubt"]


def test_an_input_may_be_known_by_its_position(explain: Explain) -> None:
    (found,) = explain(
        "Exception from src/inference/src/cpp/infer_request.cpp:79:\n"
        "Can't set the input tensor with index: 1, because the model input (shape=[3,4]) and the "
        "tensor (shape=(2.4)) are incompatible\n"
    )
    assert (found["name"], found["code"]) == ("users", "wrong-input")
    assert found["message"] == "an input of shape [3,4] was given an array of shape (2.4)"


def test_an_operator_that_contradicts_the_name_is_doubted(explain: Explain) -> None:
    said = " node with name 'scaled' with dynamic rank"
    (found,) = explain(f"CPU plug-in doesn't support Multiply{said}")
    assert found["name"] == "scaled"
    assert "Multiply" in found["doubt"]
    (found,) = explain(f"CPU plug-in doesn't support Divide{said}")
    assert found["doubt"] is None


@pytest.mark.parametrize("word", ["Protobuf", "protobuf"])
def test_a_damaged_file(word: str, explain: Explain) -> None:
    (found,) = explain(f"Load model from m.onnx failed:{word} parsing failed.")
    assert found["code"] == "not-a-model"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "Exception during initialization: filesystem error: cannot get file size: "
            "No such file or directory [./m.onnx.data]",
            "./m.onnx.data does not exist",
        ),
        (
            "filesystem error: in file_size: No such file or directory [./m.onnx.data]",
            "./m.onnx.data does not exist",
        ),
        (
            "Deserialize tensor kernel failed.GetFileLength for ./m.onnx.data failed:open file",
            "`kernel` is in the data file ./m.onnx.data",
        ),
        (
            "onnx.checker.ValidationError: Data of TensorProto ( tensor name: kernel) should be "
            "stored in /m.onnx.data, but it is not regular file.",
            "`kernel` is in the data file /m.onnx.data",
        ),
        (
            'Error: Failed to load external data file "m.onnx.data", file not found.',
            "m.onnx.data was not loaded",
        ),
        (
            "Deserialize tensor kernel failed.env.cc:538 OpenRandomAccessFile Random-access reads "
            "require a regular file: /m.onnx.data",
            "`kernel` is in the data file /m.onnx.data, which is not a regular file",
        ),
    ],
)
def test_a_data_file_that_is_missing(message: str, said: str, explain: Explain) -> None:
    (found,) = explain(message)
    assert found["code"] == "missing-data"
    assert said in found["message"]


@pytest.mark.parametrize(
    "message",
    [
        "Deserialize tensor w failed.GetFileLength for ./m.onnx.data failed:open file",
        "Deserialize tensor w failed.env.cc:538 OpenRandomAccessFile Random-access reads require a "
        "regular file: ./m.onnx.data",
        "Deserialize tensor w failed.tensorprotoutils.cc:1876 GetExtDataFromTensorProto External "
        "initializer: w offset: 0 size to read: 16 given file_length: 0 are out of bounds",
        "Data of TensorProto ( tensor name: w) should be stored in /m.onnx.data, but it is not",
    ],
)
def test_a_parameter_whose_data_cannot_be_read(message: str, explain: Explain) -> None:
    (found,) = explain(message)
    assert found["name"] == "w"


def test_a_data_file_that_is_a_link(explain: Explain) -> None:
    (found,) = explain(
        "[ONNXRuntimeError] : 1 : FAIL : External data path validation failed for initializer: "
        "kernel. Error: External data path escapes model directory. External data path: "
        '"m.onnx.data" resolved path: "/etc/passwd" allowed directory: "/models"'
    )
    assert found["code"] == "linked-data"
    assert "m.onnx.data is a link to /etc/passwd" in found["message"]


def test_chains_of_nodes_name_the_innermost(explain: Explain) -> None:
    (found,) = explain(
        "[ONNXRuntimeError] : 1 : FAIL : (op_type:f, node name: call): "
        "(op_type:Gemm, node name: inner): [ShapeInferenceError] First input does not have rank 2",
        FUNCTION,
    )
    assert found["name"] == "inner"


def test_an_operator_that_occurs_once_is_that_node(explain: Explain) -> None:
    message = "Non-zero status code returned while running {} node. Name:'' Status Message: why"
    (found,) = explain(message.format("Sqrt"))
    assert found["name"] == "root"
    assert found["doubt"] is None


def test_a_wrong_input_names_the_axis(explain: Explain) -> None:
    (found,) = explain(
        "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: items for "
        "the following indices\n index: 0 Got: 3 Expected: 2\n index: 1 Got: 5 Expected: 4\n"
        " Please fix either the inputs/outputs or the model."
    )
    assert found["message"] == (
        "the input `items` was given an array of a different shape: "
        "axis 0 has size 3 instead of 2, axis 1 has size 5 instead of 4"
    )
