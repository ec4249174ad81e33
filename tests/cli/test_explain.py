"""Real onnxruntime errors lead to the node and the line behind it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.parser
import onnx.printer
import onnxruntime
import pytest

import jax2onnx
from harness.provenance_of import line_of
from jax2onnx import _core, to_onnx

HEAD = '<ir_version: 10, opset_import: ["": 23, "local": 1]>\n'


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


@dataclass
class Case:
    """A model that fails, its inputs, and the expected finding."""

    node: str | None
    code: str
    graph: str
    feeds: dict[str, Any] | None = None


CASES = {
    "broadcast": Case(
        "sum",
        "broadcast-mismatch",
        "g (float[N,M] x, float[K,L] w) => (float[A,B] y) { [sum] y = Add (x, w) }",
        {"x": ones(2, 3), "w": ones(4, 5)},
    ),
    "broadcast, inferred": Case(
        "sum",
        "shape-mismatch",
        "g (float[2,3] x, float[4,5] w) => (float[A,B] y) { [sum] y = Add (x, w) }",
    ),
    "one name, two sizes": Case(
        "other",
        "dimension-conflict",
        "g (float[B,3] x, float[B,3] z) => (float[B,2] y)\n"
        "<float[3,2] w = {1,1,1,1,1,1}>\n"
        "{ [other] t = MatMul (z, w) u = Cos (t) v = Sin (u)\n"
        "  [product] s = MatMul (x, w) q = Cos (s) r = Sin (q) y = Add (v, r) }",
        {"x": ones(2, 3), "z": ones(3, 3)},
    ),
    "matmul": Case(
        "product",
        "matmul-mismatch",
        "g (float[N,M] x, float[K,L] w) => (float[A,B] y) { [product] y = MatMul (x, w) }",
        {"x": ones(2, 3), "w": ones(4, 5)},
    ),
    "matmul, inferred": Case(
        "product",
        "matmul-mismatch",
        "g (float[2,3] x, float[4,5] w) => (float[A,B] y) { [product] y = MatMul (x, w) }",
    ),
    "matmul fused with add": Case(
        "product",
        "matmul-mismatch",
        "g (float[N,M] x) => (float[A,B] y)\n"
        "<float[3,2] w = {1,1,1,1,1,1}, float[2] b = {1,1}>\n"
        "{ [product] t = MatMul (x, w) [sum] y = Add (t, b) }",
        {"x": ones(2, 5)},
    ),
    "reshape": Case(
        "flat",
        "reshape-mismatch",
        "g (float[N] x) => (float[A,B] y)\n"
        "{ c = Constant <value_ints: ints = [2, 3]> () [flat] y = Reshape (x, c) }",
        {"x": ones(7)},
    ),
    "gather": Case(
        "take",
        "index-out-of-range",
        "g (float[N] x, int64[K] i) => (float[K] y) { [take] y = Gather (x, i) }",
        {"x": ones(7), "i": np.array([99])},
    ),
    "convolution": Case(
        "conv",
        "channel-mismatch",
        "g (float[N,C,H,W] x, float[M,K,3,3] w) => (float[A,B,D,E] y) { [conv] y = Conv (x, w) }",
        {"x": ones(1, 3, 8, 8), "w": ones(4, 5, 3, 3)},
    ),
    "concatenate": Case(
        "join",
        "concatenate-mismatch",
        "g (float[N,M] x, float[K,L] w) => (float[A,B] y)\n"
        "{ [join] y = Concat <axis: int = 0> (x, w) }",
        {"x": ones(2, 3), "w": ones(4, 5)},
    ),
    "kernel": Case("erf", "no-kernel", "g (double[2] x) => (double[2] y) { [erf] y = Erf (x) }"),
    "unknown operator": Case(
        "strange", "unknown-operator", "g (float[2] x) => (float[2] y) { [strange] y = Foo (x) }"
    ),
    "unknown domain": Case(
        "strange",
        "unknown-operator",
        "g (float[2] x) => (float[2] y) { [strange] y = local.Foo (x) }",
    ),
    "element types": Case(
        "sum",
        "type-mismatch",
        "g (float[2] x, int64[2] i) => (float[2] y) { [sum] y = Add (x, i) }",
    ),
    "attribute": Case(
        "soft",
        "bad-attribute",
        "g (float[2] x) => (float[2] y) { [soft] y = Softmax <axis: int = 5> (x) }",
    ),
    "loop": Case(
        "inner",
        "broadcast-mismatch",
        """g (float[N] x, float[M] w) => (float[K] y) {
          n = Constant <value_int: int = 3> ()
          c = Constant <value: tensor = bool {1}> ()
          [outer] y = Loop (n, c, x) <body: graph = b (int64 i, bool ci, float[P] a)
            => (bool co, float[Q] r) { co = Identity (ci) [inner] r = Add (a, w) }>
        }""",
        {"x": ones(2), "w": ones(3)},
    ),
    "branch": Case(
        "inner",
        "broadcast-mismatch",
        """g (float[N] x, float[M] w, bool c) => (float[K] y) {
          [outer] y = If (c) <
            then_branch: graph = t () => (float[P] r) { [inner] r = Add (x, w) },
            else_branch: graph = e () => (float[P] q) { [other] q = Identity (x) }>
        }""",
        {"x": ones(2), "w": ones(3), "c": np.array(True)},
    ),
    "function": Case(
        "/f/Add",
        "broadcast-mismatch",
        """g (float[N] x, float[M] w) => (float[K] y)
        { [first] z = local.f (x, x) [second] y = local.f (z, w) }
        <domain: "local", opset_import: ["": 23]>
        f (a, b) => (r) { ["/f/Neg"] t = Neg (a) ["/f/Add"] r = Add (t, b) }""",
        {"x": ones(2), "w": ones(3)},
    ),
    "no name": Case(
        "",
        "broadcast-mismatch",
        "g (float[N] x, float[K] w) => (float[A] y) { t = Neg (x) y = Add (t, w) }",
        {"x": ones(2), "w": ones(3)},
    ),
    "wrong rank": Case(
        "negative",
        "wrong-input",
        "g (float[N,M] x) => (float[N,M] y) { [negative] y = Neg (x) }",
        {"x": ones(2)},
    ),
    "wrong size": Case(
        "negative",
        "wrong-input",
        "g (float[2,3] x) => (float[2,3] y) { [negative] y = Neg (x) }",
        {"x": ones(2, 4)},
    ),
    "missing input": Case(
        "negative",
        "wrong-input",
        "g (float[2,3] x) => (float[2,3] y) { [negative] y = Neg (x) }",
        {"z": ones(2, 3)},
    ),
    "wrong type": Case(
        None,
        "wrong-input",
        "g (float[2,3] x) => (float[2,3] y) { [negative] y = Neg (x) }",
        {"x": np.ones((2, 3))},
    ),
}


def session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def failure(model: bytes, feeds: dict[str, Any] | None) -> Exception:
    """Returns the exception that onnxruntime raises when it loads or runs the model."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        session(model).run(None, feeds or {})
    return caught.value


def explain(capfd: pytest.CaptureFixture[str], *arguments: object) -> Any:
    assert _core.main(["explain", *map(str, arguments), "--json"]) == 0
    return json.loads(capfd.readouterr().out)


@pytest.mark.parametrize("name", CASES)
def test_an_error_leads_to_its_node(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    model = onnx.parser.parse_model(HEAD + case.graph)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    error = failure(model.SerializeToString(), case.feeds)
    (finding,) = explain(capfd, path, str(error))["findings"]
    assert finding["code"] == case.code, str(error)
    assert (finding["node"] or {}).get("name") == case.node


def test_a_dangling_value_leads_to_its_reader(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    node = onnx.helper.make_node("Neg", ["nowhere"], ["y"], name="negative")
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])
    opsets = [onnx.helper.make_opsetid("", 23)]
    graph = onnx.helper.make_graph([node], "g", [], [output])
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.save(model, tmp_path / "model.onnx")
    error = failure(model.SerializeToString(), None)
    (finding,) = explain(capfd, tmp_path / "model.onnx", str(error))["findings"]
    assert (finding["name"], finding["code"]) == ("nowhere", "dangling-value")
    assert finding["node"]["name"] == "negative"


def layer(x: jax.Array, w: jax.Array) -> jax.Array:
    def step(total: jax.Array, row: jax.Array) -> tuple[jax.Array, None]:
        return total + row @ w, None

    return jax.lax.scan(step, jnp.zeros(3), x)[0]


def exported(**options: Any) -> onnx.ModelProto:
    """Exports `layer` with inputs that accept any size, so that it may fail inside."""
    options = {"stacktrace_metadata": "sourcemap", **options}
    model = to_onnx(layer, [(5, 8), (8, 3)], **options)
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{axis}"
    return model


def raised(model: Any, runs: onnx.ModelProto) -> BaseException:
    fail = onnxruntime.capi.onnxruntime_pybind11_state.Fail
    with pytest.raises(fail) as caught, jax2onnx.explain_errors(model):
        session(runs.SerializeToString()).run(None, {"x": ones(5, 8), "w": ones(9, 3)})
    return caught.value


@pytest.mark.parametrize("kind", ["path", "proto", "bytes", "ir"])
def test_an_error_is_raised_with_the_line_behind_it(kind: str, tmp_path: Path) -> None:
    model = exported()
    onnx.save(model, tmp_path / "model.onnx")
    sources = {
        "path": lambda: tmp_path / "model.onnx",
        "proto": lambda: model,
        "bytes": model.SerializeToString,
        "ir": lambda: pytest.importorskip("onnx_ir").from_proto(model),
    }
    (note,) = raised(sources[kind](), model).__notes__
    line = layer.__code__.co_firstlineno + 2
    assert f"test_explain.py:{line}:24 in layer.<locals>.step" in note
    assert "return total + row @ w, None" in note
    assert "^^^^^^^\n" in note
    assert "[matmul-mismatch]" in note


def test_an_error_that_another_led_to_is_explained_once() -> None:
    model = exported()

    def serve() -> None:
        try:
            session(model.SerializeToString()).run(None, {"x": ones(5, 8), "w": ones(9, 3)})
        except Exception as error:
            raise RuntimeError("no answer") from error

    def serve_badly() -> None:
        try:
            session(model.SerializeToString()).run(None, {"x": ones(5, 8), "w": ones(9, 3)})
        except Exception:
            raise KeyError("lost")  # noqa: B904 (the context is what is tested)

    for fail in (serve, serve_badly):
        with pytest.raises((RuntimeError, KeyError)) as caught, jax2onnx.explain_errors(model):
            fail()
        (note,) = caught.value.__notes__
        assert "[matmul-mismatch]" in note

    def serve_nested() -> None:
        try:
            with jax2onnx.explain_errors(model):
                serve()
        except RuntimeError as error:
            raise RuntimeError("outer") from error

    with (
        pytest.raises(RuntimeError, match="outer") as nested,
        jax2onnx.explain_errors(model),
        jax2onnx.explain_errors(model.SerializeToString()),
    ):
        serve_nested()
    inner = nested.value.__cause__
    assert inner is not None
    assert len(inner.__notes__) == 1
    assert not hasattr(nested.value, "__notes__")


def test_two_sizes_of_one_dimension_differ_from_a_mismatch() -> None:
    model = to_onnx(lambda x, y: x + jnp.sin(y), [("B", 5), ("B", 5)])
    feeds = {value.name: ones(2 + i, 5) for i, value in enumerate(model.graph.input)}
    fail = onnxruntime.capi.onnxruntime_pybind11_state.Fail
    with pytest.raises(fail) as caught, jax2onnx.explain_errors(model):
        session(model.SerializeToString()).run(None, feeds)
    (note,) = caught.value.__notes__
    assert "[dimension-conflict]" in note
    assert "the inputs give the dimension `B` two sizes: 2 and 3" in note


def test_unexplained_errors_are_raised_unchanged(tmp_path: Path) -> None:
    model = exported()
    (tmp_path / "model.onnx").write_bytes(b"no model")
    (note,) = raised(tmp_path / "model.onnx", model).__notes__
    assert "cannot explain" in note
    with pytest.raises(ValueError, match="mine") as caught, jax2onnx.explain_errors(model):
        raise ValueError("mine: Node (/MatMul) Op (MatMul) [")
    assert not hasattr(caught.value, "__notes__")


def test_text_syntax_is_read_by_onnx(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = exported(stacktrace_metadata=False)
    onnx.save(model, tmp_path / "model.onnx")
    assert _core.main(["show", str(tmp_path / "model.onnx"), "--text"]) == 0
    read = onnx.parser.parse_model(capfd.readouterr().out)
    onnx.checker.check_model(read, full_check=True)
    for m in (model, read):
        for attribute in (a for node in m.graph.node for a in node.attribute if a.HasField("g")):
            attribute.g.name = "g"  # the text syntax allows only plain words as names
    printed = [onnx.printer.to_text(m.graph) for m in (model, read)]
    assert printed[0] == printed[1]
    x, w = ones(5, 8), ones(8, 3)
    results = [session(m.SerializeToString()).run(None, {"x": x, "w": w}) for m in (model, read)]
    np.testing.assert_array_equal(results[0][0], results[1][0])


@jax2onnx.onnx_function
def inner(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.tanh(a) + b  # body


def outer(x: jax.Array, z: jax.Array) -> jax.Array:
    y = inner(x, z)  # first
    return inner(jnp.abs(y), z)  # second


@pytest.mark.parametrize("detail", ["sourcemap", "full"])
def test_a_node_of_a_function_has_its_own_line_and_all_callers(
    detail: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    to_onnx(outer, [(2,), (2,)], return_mode="file", output_path=path, stacktrace_metadata=detail)
    body = line_of("body", inner)
    first, second = (line_of(which, outer) for which in ("first", "second"))
    (finding,) = explain(capfd, path, "_inlfunc_inner_token_0_/inner/Add")["findings"]
    assert finding["node"]["name"] == "/inner/Add"
    assert finding["node"]["function"].endswith(".inner")
    (source,) = finding["node"]["sources"]
    assert source["site"]["line"] == body
    lines = [
        [frame["line"] for frame in stack if frame["file"].endswith("test_explain.py")]
        for stack in (source["stack"], *(other["stack"] for other in source["others"]))
    ]
    assert lines == [[body, first], [body, second]]


def test_time_in_a_function_is_that_of_its_body(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    to_onnx(
        outer, [(2,), (2,)], return_mode="file", output_path=path, stacktrace_metadata="sourcemap"
    )
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    run = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    run.run(None, {value.name: ones(2) for value in run.get_inputs()})
    profile = run.end_profiling()
    expected = {line_of("body", inner), line_of("second", outer)}  # the latter calls `abs`
    for model in (path, tmp_path / "optimised.onnx"):
        assert _core.main(["profile", str(model), profile, "--json"]) == 0
        lines = json.loads(capfd.readouterr().out)["lines"]
        assert {entry["line"] for entry in lines} == expected
