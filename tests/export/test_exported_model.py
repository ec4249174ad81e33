"""`jax2onnx.export` and the model that it returns."""

import copy
import itertools
import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir
import pytest
from flax import nnx

import jax2onnx
from jax2onnx import (
    ExportedModel,
    Input,
    InvalidInputError,
    MismatchError,
    Output,
    Provenance,
    SourceMap,
    export,
    to_onnx,
)

X = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)


class Net(nnx.Module):
    def __init__(self, seed: int = 0) -> None:
        rngs = nnx.Rngs(seed)
        self.first = nnx.Linear(4, 8, rngs=rngs)
        self.second = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.second(nnx.gelu(self.first(x)))


def tree(x: jax.Array, batch: dict[str, jax.Array]) -> Any:
    return {"sum": x + batch["a"], "both": (x * batch["b"], batch["b"].sum())}


def close(one: Any, other: Any) -> None:
    assert jax.tree_util.tree_structure(one) == jax.tree_util.tree_structure(other)
    jax.tree_util.tree_map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5, 1e-5), one, other)


def test_the_same_model_as_to_onnx() -> None:
    model = export(Net(), ("B", 4), provenance=False)
    assert model.proto == to_onnx(Net(), [("B", 4)])
    assert isinstance(model.ir, onnx_ir.Model)


def test_calls_take_and_return_pytrees() -> None:
    model = export(tree, "f32[B,4]", {"a": "f32[B,4]", "b": ("B", 4)})
    batch = {"a": X + 1, "b": X - 1}
    close(model(X, batch), tree(X, batch))
    assert [i.name for i in model.proto.graph.input] == ["x", "batch.a", "batch.b"]
    with pytest.raises(InvalidInputError, match="the arguments have the structure"):
        model(X, {"a": X})


def test_complex_results_and_keys() -> None:
    def fn(x: jax.Array, key: jax.Array) -> Any:
        return jnp.fft.fft(x), jax.random.split(key)[0]

    key = jax.random.key(1)
    spectrum, new = export(fn, "f32[8]", key)(X.ravel()[:8], key)
    np.testing.assert_allclose(spectrum, jnp.fft.fft(X.ravel()[:8]), atol=1e-5)
    assert (jax.random.key_data(new) == jax.random.key_data(jax.random.split(key)[0])).all()


def test_flags_have_defaults() -> None:
    def fn(x: jax.Array, double: bool = False) -> jax.Array:
        return x * 2 if double else x

    model = export(fn, ("B", 4), keyword_inputs={"double": False}, check=[X])
    close(model(X), X)
    close(model(X, double=True), X * 2)


def scaled(x: jax.Array, *, scale: jax.Array) -> jax.Array:
    return x * scale


def test_every_method_takes_the_keyword_arguments_of_the_function() -> None:
    by_name: dict[str, Any] = {"x": X, "scale": 3.0}
    model = export(scaled, "f32[B,4]", keyword_inputs={"scale": "f32[]"}, check=by_name)
    close(model(X, scale=3.0), X * 3)
    close(model(**by_name), X * 3)
    assert model.verify(X, scale=3.0)
    assert model.verify("f32[5,4]", keyword_inputs={"scale": 3.0})
    assert model.profile(X, scale=3.0, runs=1).data["runs"] == 1
    model.check(**by_name)
    with pytest.raises(InvalidInputError, match=r"`scale` is no input: .* keyword_inputs={'scale'"):
        export(lambda x, scale=2.0: x * scale, "f32[B,4]")(X, scale=3.0)
    taken = r"the structure \(\*\), but the model takes \(\*, scale=\*\)"
    for method in (model, model.verify, model.profile, model.check):
        with pytest.raises(InvalidInputError, match=taken):
            method(X)
        with pytest.raises(InvalidInputError, match=r"`x` has the shape \[5, 3\].* \[B, 4\]"):
            method(X[:, :3], scale=3.0)


def test_keyword_inputs_may_be_passed_by_position() -> None:
    model = export(lambda x, y: x - y, "f32[B,4]", keyword_inputs={"y": "f32[B,4]"})
    close(model(X, 2 * X), -X)
    with pytest.raises(InvalidInputError, match="the arguments have the structure"):
        model(X, X, X)


def test_pages_are_written_to_new_folders(tmp_path: Path) -> None:
    model = export(Net(), ("B", 4))
    assert model.view(tmp_path / "new" / "page.html").content
    assert (tmp_path / "new" / "page.html").exists()
    with pytest.raises(InvalidInputError, match=r"(?s)is a directory.*choose a file name"):
        model.view(tmp_path)


def test_random_arguments_fit_the_others() -> None:
    model = export(
        lambda x, y: x + y[: x.shape[0]], "f32[B,4]", keyword_inputs={"y": "f32[2*B,4]"}, check=[X]
    )
    assert model.verify(X, y="f32[2*B,4]")
    assert model.verify("f32[B,4]", y="f32[2*B,4]")


def test_sizes_with_one_name_are_equal() -> None:
    model = export(lambda x, y: x + y, "f32[B,4]", "f32[B,4]")
    for method in (model, model.verify):
        with pytest.raises(InvalidInputError, match="`B` is 5 in the argument `x`, but 2 in `y`"):
            method(X, X[:2])


def test_sizes_that_an_expression_cannot_have() -> None:
    model = export(lambda x, y: x.reshape(-1, 2) + y, "f32[2*B]", "f32[B,2]")
    close(model(X[0], X[:2, :2]), X[0].reshape(-1, 2) + X[:2, :2])
    with pytest.raises(InvalidInputError, match=r"`x` has the shape \[5\], .* takes \[2\*B\]"):
        model(X[:, 0], X[:2, :2])
    with pytest.raises(InvalidInputError, match=r"`y` has the shape \[3, 2\], .* takes \[B, 2\]"):
        model(X[0], X[:3, :2])
    power = export(lambda x: x.sum(), "f32[B*B]")  # which determines no size
    close(power(X[:, 0]), X[:, 0].sum())


def test_runtime_errors_of_a_call_show_the_line() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return x[:7] + jnp.arange(7.0)

    shape = jax.export.symbolic_shape("B", constraints=["B >= 7"])
    with pytest.raises(Exception, match="Add") as caught:
        export(fn, jax.ShapeDtypeStruct(shape, np.float32))(X[:, 0])
    assert "in test_runtime_errors_of_a_call_show_the_line.<locals>.fn" in caught.value.__notes__[0]


def test_functions_that_take_models_name_the_attribute() -> None:
    model = export(Net(), ("B", 4))
    for call in (
        lambda: jax2onnx.allclose(Net(), model, [X]),
        lambda: SourceMap.load(model),
    ):
        with pytest.raises(InvalidInputError, match="attribute `proto`"):
            call()


def test_a_model_cannot_be_traced() -> None:
    with pytest.raises(InvalidInputError, match="traced by JAX, but the model runs in onnxruntime"):
        jax.jit(export(Net(), ("B", 4)))(X)


def test_a_profile_of_a_function_with_an_argument_like_an_option() -> None:
    model = export(lambda x, *, runs: x * runs, "f32[3]", keyword_inputs={"runs": "f32[]"})
    with pytest.raises(InvalidInputError, match="pass keyword_inputs="):
        model.profile("f32[3]", runs=2.0)
    assert "Mul" in str(model.profile("f32[3]", keyword_inputs={"runs": 2.0}))


@pytest.mark.parametrize("option", [{"runs": 0}, {"top": -1}, {"runs": "3"}])
def test_numbers_of_a_profile(option: Any) -> None:
    with pytest.raises(InvalidInputError, match="pass a positive integer"):
        export(Net(), ("B", 4)).profile(X, **option)


def test_inputs_and_outputs_have_names_layouts_and_types(tmp_path: Path) -> None:
    def fn(image: jax.Array, scale: jax.Array) -> tuple[jax.Array, jax.Array]:
        assert image.shape[1:] == (6, 7, 3)
        return image * scale, scale.astype(jnp.int32)

    model = export(
        fn,
        Input("B, 3, 6, 7", name="pixels", layout="nchw"),
        Input((), dtype="float32", model_dtype="float16"),
        outputs=[Output(name="scaled", layout="nchw"), Output(model_dtype="int64")],
    )
    graph = model.proto.graph
    found = [(v.name, v.type.tensor_type.elem_type) for v in (*graph.input, *graph.output)]
    assert found == [("pixels", 1), ("scale", 10), ("scaled", 1), ("output_1", 7)]
    image = np.random.default_rng(0).standard_normal((2, 6, 7, 3)).astype(np.float32)
    close(model(image, np.float32(2)), (image * 2, np.int64(2)))
    assert model.verify(image, np.float32(2))
    assert [d.dim_param or d.dim_value for d in graph.input[0].type.tensor_type.shape.dim] == [
        "B", 3, 6, 7,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ("f32[B,4]", ("float32", ("B", 4))),
        ("i16[]", ("int16", ())),
        ("B, 2*T + 1", ("float32", ("B", "2*T + 1"))),
        ("bf16[max(B,2)]", ("bfloat16", ("max(B, 2)",))),
        (Input("u8[3]"), ("uint8", (3,))),
    ],
)
def test_texts_are_inputs(spec: Any, kind: Any) -> None:
    (value,) = export(lambda x: x, spec).proto.graph.input
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    dims = value.type.tensor_type.shape.dim
    assert (str(dtype), tuple(d.dim_param or d.dim_value for d in dims)) == kind


@pytest.mark.parametrize(
    "text", ["f32[B", "f33[2]", "f32[2]x", "", "f32[B B]", "2 3", "B T, 4", "float32", "B"]
)
def test_wrong_texts(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"\[invalid-inputs\]"):
        export(lambda x: x, text)


def test_saving(tmp_path: Path) -> None:
    model = export(Net(), ("B", 4), output_path=tmp_path / "at_once.onnx")
    assert model.save(tmp_path / "new" / "a.onnx") == str(tmp_path / "new" / "a.onnx")
    assert (tmp_path / "at_once.onnx").read_bytes() == (tmp_path / "new" / "a.onnx").read_bytes()
    wide = nnx.Linear(4, 1024, rngs=nnx.Rngs(0))
    export(wide, ("B", 4)).save(tmp_path / "b.onnx", external_data=True)
    assert (tmp_path / "b.onnx.data").exists()
    for fn, name in ((Net(), "new/a.onnx"), (wide, "b.onnx")):
        assert jax2onnx.allclose(fn, tmp_path / name, [X])[0]
    with pytest.raises(InvalidInputError, match="`external_data` cannot be 'yes'"):
        model.save(tmp_path / "c.onnx", external_data="yes")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="would overwrite the source file"):
        model.save(__file__)


def test_provenance(tmp_path: Path) -> None:
    def keys(model: ExportedModel) -> set[str]:
        return {entry.key.rpartition(".")[2] for entry in model.proto.metadata_props}

    assert "sourcemap" in keys(export(Net(), ("B", 4)))
    assert "sourcemap" not in keys(export(Net(), ("B", 4), provenance=False))
    file = tmp_path / "m.map"
    model = export(Net(), ("B", 4), provenance=Provenance(file=file, text=True))
    assert not file.exists()
    model.save(tmp_path / "m.onnx")
    assert "sourcemap" not in keys(model)
    assert len(SourceMap.load(file)) == 3
    assert "test_exported_model.py" in model.summary(by="line")
    assert "class Net" in model.view().content


@pytest.mark.parametrize(
    ("option", "value"),
    [("names", "nope"), ("paths", "nope"), ("text", "yes"), ("file", 3), ("user_packages", 3)],
)
def test_wrong_provenance_is_quoted_in_the_error(option: str, value: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        export(Net(), ("B", 4), provenance=Provenance(**{option: value}))
    assert caught.value.message == f"`Provenance({option}=…)` cannot be {value!r}"


def test_check_refuses_a_model_that_differs(tmp_path: Path) -> None:
    export(Net(), ("B", 4), check=[X])
    calls = itertools.count(1)

    def changes(x: jax.Array) -> jax.Array:
        return x * next(calls)

    path = tmp_path / "m.onnx"
    with pytest.raises(MismatchError, match=r"\[different-results\]"):
        export(changes, ("B", 4), check=[X], output_path=path)
    assert not path.exists()
    with pytest.raises(InvalidInputError, match="one entry for each argument"):
        export(Net(), ("B", 4), check=X)


def test_verify_and_its_display() -> None:
    found = export(Net(), ("B", 4)).verify(X)
    assert found
    assert "agree" in found._repr_html_()


def test_profile() -> None:
    profile = export(Net(), ("B", 4)).profile(X, runs=3)
    assert "test_exported_model.py" in str(profile)
    assert profile.data["runs"] == 3
    assert "<pre style=" in profile._repr_html_()


def test_displays(tmp_path: Path) -> None:
    model = export(Net(), ("B", 4))
    assert repr(model) == "<ExportedModel jax_model(x) -> output>"
    assert "input   x: f32[B,4]" in model._repr_html_()
    page = model.view(tmp_path / "page.html")
    assert page.path == str(tmp_path / "page.html")
    assert page._repr_html_().startswith('<iframe srcdoc="&lt;!')
    sources = SourceMap.load(model.proto)
    assert repr(sources) == "<SourceMap of 3 nodes>"
    assert "test_exported_model.py" in sources._repr_html_()


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError("traced again")


def test_new_weights_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = Net(0), Net(1)
    model = export(old, ("B", 4), weight_format={"first.kernel": "float16"})
    monkeypatch.setattr("jax2onnx._export.to_onnx.trace", _never)
    other = model.with_weights(new)
    np.testing.assert_allclose(other(X), new(X), atol=1e-2)
    np.testing.assert_allclose(model(X), old(X), atol=1e-2)
    assert other.proto.graph.node == model.proto.graph.node
    names = [tensor.name for tensor in other.proto.graph.initializer]
    assert names == [tensor.name for tensor in model.proto.graph.initializer]
    monkeypatch.undo()
    assert other.verify(X)


def test_new_weights_leave_call_stacks_to_the_user() -> None:
    params = {"w": jnp.ones((4, 3))}
    model = export(lambda params, x: x @ params["w"], ("B", 4), params=params, provenance="full")
    other = model.with_weights({"w": jnp.zeros((4, 3))})
    stacks = [
        prop.value
        for node in other.proto.graph.node
        for prop in node.metadata_props
        if prop.key == "pkg.jax2onnx.stacktrace"
    ]
    assert stacks
    assert all(Path(__file__).name in stack and "contextlib" not in stack for stack in stacks)


def test_new_weights_of_a_pytree() -> None:
    def fn(params: Any, x: jax.Array) -> jax.Array:
        return x @ params["w"] + params["b"]

    params = {"w": jnp.ones((4, 3)), "b": jnp.zeros(3)}
    model = export(fn, ("B", 4), params=params)
    assert sorted(t.name for t in model.proto.graph.initializer) == ["b", "w"]
    more = jax.tree_util.tree_map(lambda a: a + 1, params)
    close(model.with_weights(more)(X), fn(more, X))
    for wrong, why in (
        ({"w": jnp.ones((4, 3))}, "`b` is missing"),
        ({**params, "b": jnp.zeros(4)}, r"`b` is float32\[4\] instead of float32\[3\]"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            model.with_weights(wrong)


def test_models_cannot_be_pickled_or_copied() -> None:
    model = export(Net(), ("B", 4))
    for call in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match=r"use \.save\(path\), or \.proto"):
            call(model)


def test_shapes_with_a_layout_are_those_of_the_function() -> None:
    conv = nnx.Conv(3, 8, (3, 3), rngs=nnx.Rngs(0))
    model = export(conv, Input("B, 3, 6, 6", layout="nchw"))
    with pytest.raises(InvalidInputError, match=r"(?s)function takes \[B, 6, 6, 3\].*pass NHWC"):
        model(np.ones((2, 3, 6, 6), np.float32))
    with pytest.raises(InvalidInputError, match=r"model takes \[B, 4\]$"):
        export(Net(), ("B", 4), check=[np.ones((3, 5), np.float32)])
    for wrong, advice in (
        ("f32[B,3,6,6]", "take NHWC"),
        (Input("B, 6, 6, 3", layout="nchw"), "the function gets NHWC, here [B, 6, 3, 6]"),
    ):
        with pytest.raises(ValueError, match="feature dimension") as caught:
            export(conv, wrong)
        assert advice in caught.value.__notes__[-1]


def test_arguments_of_another_kind_are_refused() -> None:
    model = export(lambda x, n: x * n, "i32[3]", "i32[]")
    close(model(np.arange(3), 2), np.array([0, 2, 4], np.int32))
    with pytest.raises(InvalidInputError, match="`x` is float64, but the model takes int32"):
        model(np.ones(3), 2)
    for number in (1.5, float("nan")):
        with pytest.raises(InvalidInputError, match="`n` is float64, but the model takes int32"):
            model(np.arange(3), number)
    with pytest.raises(InvalidInputError, match=r"int32 cannot hold: 0 to 1099511627776"):
        model(np.array([0, 1, 2**40]), 2)


def test_arguments_by_name_and_samples_as_texts() -> None:
    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        return x - y

    model = export(fn, "f32[B,4]", "f32[4]", check=["f32[3,4]", (4,)])
    close(model(X, y=X[0]), X - X[0])
    close(model(y=X[0], x=X), X - X[0])
    assert model.verify("f32[2,4]", "f32[4]")
    assert model.profile("f32[2,4]", "f32[4]", runs=1).data["runs"] == 1
    for call, message in (
        (lambda: model.profile(), r"the structure \(\), but the model takes \(\*, \*\)"),
        (lambda: model(X[:, :3], X[0]), r"shape \[5, 3\], but the model takes \[B, 4\]"),
        (lambda: model.summary(by="layer"), "`by` cannot be 'layer'"),  # type: ignore[arg-type]
        (lambda: model.with_weights({"a": X}), "export with params="),
        (lambda: model(X), r"the structure \(\*\), but the model takes \(\*, \*\)"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            call()


def test_nan_on_both_sides_is_mentioned() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jnp.log(x)

    x = np.array([-1, 1], np.float32)
    with pytest.warns(UserWarning, match="is NaN on both sides in 1 of 2 elements"):
        model = export(fn, "f32[2]", check=[x])
    assert "`output` is NaN on both sides in 1 of 2 elements" in str(model.verify(x))


def test_more_than_protobuf_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = export(Net(), ("B", 4))
    monkeypatch.setattr("jax2onnx._export.result.LARGEST_MESSAGE", 100)
    with pytest.warns(UserWarning, match=r"help: use \.save\(path\), or \.ir"):
        assert model.proto.graph.node
    with pytest.raises(InvalidInputError, match="external_data=True"):
        model.save(tmp_path / "model.onnx", external_data=False)


def test_every_option_of_to_onnx_has_a_place() -> None:
    from inspect import signature

    from jax2onnx._export.option_names import RENAMED

    elsewhere = {
        "fn", "inputs", "unknown", "return_mode", "export_mode", "normalization_mode",
        "record_primitive_calls_file", "inputs_as_nchw", "outputs_as_nchw", "input_names",
        "output_names", "input_dtypes", "output_dtypes", "stacktrace_metadata", "source_map",
        "source_text", "paths", "user_packages", "node_names",
    }  # fmt: skip
    options = {RENAMED.get(name, name) for name in signature(export).parameters}
    assert {*signature(to_onnx).parameters} - elsewhere <= options
    assert set(RENAMED.values()) <= {*signature(to_onnx).parameters}
