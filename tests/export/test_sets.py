"""Several functions over one model, as models that share their weights."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from flax import nnx

import jax2onnx
from jax2onnx import to_onnx_set


class Coder(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.encoder = nnx.Linear(32, 64, rngs=rngs)
        self.decoder = nnx.Linear(64, 32, rngs=rngs)

    def encode(self, x):
        return nnx.relu(self.encoder(x))

    def __call__(self, x):
        return self.decoder(self.encode(x))


def initializers(path):
    """Returns the locations of a model's weights in the data file by name, if they are there."""
    model = onnx.load(path, load_external_data=False)
    found = {}
    for tensor in model.graph.initializer:
        external = {entry.key: entry.value for entry in tensor.external_data}
        found[tensor.name] = (external["location"], external["offset"]) if external else None
    return found


def run(path, *arrays):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return session.run(None, dict(zip(names, map(np.asarray, arrays), strict=True)))


def test_models_share_their_weights(tmp_path):
    model = Coder()
    x = jnp.asarray(np.random.default_rng(0).standard_normal((3, 32)), jnp.float32)
    paths = to_onnx_set(
        {"encode": (model.encode, [x]), "whole": (lambda x: model(x), [x])}, tmp_path / "coder"
    )
    assert sorted(os.listdir(tmp_path / "coder")) == ["encode.onnx", "weights.data", "whole.onnx"]
    encode, whole = initializers(paths["encode"]), initializers(paths["whole"])
    assert encode["encoder.kernel"] == whole["encoder.kernel"] == ("weights.data", "0")
    assert whole.keys() > encode.keys()
    # Two kernels of 8 KiB; biases are small.
    assert os.path.getsize(tmp_path / "coder" / "weights.data") == 2 * 32 * 64 * 4
    for name, fn in (("encode", model.encode), ("whole", model)):
        onnx.checker.check_model(paths[name], full_check=True)
        assert onnx.load(paths[name], load_external_data=False).graph.name == name
        np.testing.assert_allclose(run(paths[name], x)[0], fn(x), rtol=1e-5, atol=1e-5)


def test_blocks_of_other_columns_are_stored_apart(tmp_path):
    """One array in two shapes: its integers and scales differ."""
    w = jnp.asarray(np.random.default_rng(0).standard_normal((256, 512)), jnp.float32)
    models = {"tall": lambda x: x @ w.reshape(512, 256), "wide": lambda x: x[:, :256] @ w}
    x = jnp.asarray(np.random.default_rng(1).standard_normal((2, 512)), jnp.float32)
    inputs = {name: (fn, [x]) for name, fn in models.items()}
    paths = to_onnx_set(inputs, tmp_path / "set", weights="int8")
    for name, fn in models.items():
        np.testing.assert_allclose(run(paths[name], x)[0], fn(x), atol=1.5)


def test_an_array_has_one_name_wherever_it_is(tmp_path):
    weights = {"w": jnp.arange(1024.0).reshape(32, 32), "b": jnp.ones(32)}
    inner = weights["w"]
    other = {"w": jnp.ones((32, 32))}

    def first(x):
        return x @ weights["w"] + weights["b"]

    def second(x):
        return x @ inner @ other["w"]

    paths = to_onnx_set({"first": (first, [(32,)]), "second": (second, [(32,)])}, tmp_path)
    one, two = initializers(paths["first"]), initializers(paths["second"])
    one, two = ({k: v for k, v in found.items() if v} for found in (one, two))
    assert len(one) == 1
    assert len(two) == 2
    assert one.items() < two.items()
    x = np.ones(32, np.float32)
    np.testing.assert_allclose(run(paths["second"], x)[0], second(x), rtol=1e-5)


def test_linen_and_equinox(tmp_path):
    import equinox
    import flax.linen as nn

    dense = nn.Dense(40)
    variables = dense.init(jax.random.key(0), jnp.zeros((1, 40)))
    linear = equinox.nn.Linear(40, 40, key=jax.random.key(1))
    sets = {
        "linen": lambda x: dense.apply(variables, x),
        "equinox": lambda x: jax.vmap(linear)(x),
    }
    for name, fn in sets.items():

        def twice(x, fn=fn):
            return fn(fn(x))

        paths = to_onnx_set({"once": (fn, [(2, 40)]), "twice": (twice, [(2, 40)])}, tmp_path / name)
        once, double = initializers(paths["once"]), initializers(paths["twice"])
        large = {key: place for key, place in once.items() if place}
        assert large
        assert all(double[key] == place for key, place in large.items())


def test_options_of_all_and_of_one(tmp_path):
    paths = to_onnx_set(
        {
            "a": (jnp.sin, [(2,)], {"output_names": ["wave"]}),
            "b": (jnp.cos, [(2,)], {"opset": 24, "model_name": "other"}),
        },
        tmp_path,
        opset=22,
    )
    a, b = (onnx.load(path) for path in paths.values())
    assert [m.opset_import[0].version for m in (a, b)] == [22, 24]
    assert [m.graph.name for m in (a, b)] == ["a", "other"]
    assert a.graph.output[0].name == "wave"


def test_the_old_set_stays_if_one_function_fails(tmp_path):
    folder = tmp_path / "set"
    to_onnx_set({"a": (jnp.sin, [(2,)]), "b": (jnp.cos, [(2,)])}, folder)
    before = {name: (folder / name).read_bytes() for name in os.listdir(folder)}

    def fails(x):
        return jax.pure_callback(np.sin, x, x)

    with pytest.raises(jax2onnx.UnsupportedError) as error:
        to_onnx_set({"a": (jnp.tan, [(2,)]), "b": (fails, [(2,)])}, folder)
    assert "This error occurred in the function `b`." in error.value.__notes__
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == before
    assert os.listdir(tmp_path) == ["set"]


@pytest.mark.parametrize(
    ("functions", "options", "message"),
    [
        ({}, {}, "`functions` cannot be {}"),
        ({"a/b": (jnp.sin, [(2,)])}, {}, "a function is named 'a/b'"),
        ({"a": jnp.sin}, {}, "`a` cannot be <"),
        ({"a": (jnp.sin, [(2,)], 3)}, {}, "the options of `a` are 3"),
        (
            {"a": (jnp.sin, [(2,)])},
            {"output_path": "x"},
            "the option `output_path` is for the file",
        ),
        ({"a": (jnp.sin, [(2,)])}, {"opsett": 3}, "the option `opsett` is unknown"),
        ({"a": (jnp.sin, [(2,)])}, {"opset": "new"}, "`opset` cannot be 'new'"),
        (
            {"a": (jnp.sin, [(2,)]), "b": (jnp.cos, [(2,)])},
            {"source_map": "set.map"},
            "`a` and `b` would both write `set.map`",
        ),
        (
            {"a": (jnp.sin, [(2,)], {"record": "x"}), "b": (jnp.cos, [(2,)], {"record": "./x"})},
            {},
            "`a` and `b` would both write `./x`",
        ),
    ],
)
def test_errors_are_raised_before_anything_is_written(functions, options, message, tmp_path):
    with pytest.raises(jax2onnx.InvalidInputError) as error:
        to_onnx_set(functions, tmp_path / "set", **options)
    assert message in str(error.value)
    assert not os.listdir(tmp_path)


def test_a_model_that_would_lose_its_weights_is_kept(tmp_path):
    model = Coder()
    to_onnx_set({"encode": (model.encode, [(1, 32)]), "whole": (model, [(1, 32)])}, tmp_path)
    with pytest.raises(jax2onnx.InvalidInputError, match=r"`encode\.onnx` in it is not replaced"):
        to_onnx_set({"whole": (model, [(1, 32)])}, tmp_path)
    run(str(tmp_path / "encode.onnx"), np.zeros((1, 32), np.float32))


def test_functions_for_all_models(tmp_path):
    model = Coder()
    x = jnp.ones((3, 32))
    models = {"encode": (model.encode, [x]), "whole": (lambda x: model(x), [x])}
    paths = to_onnx_set(models, tmp_path / "coder", functions="modules", weights="int8")
    for path in paths.values():
        assert onnx.load(path, load_external_data=False).functions
    np.testing.assert_allclose(run(paths["whole"], x)[0], model(x), rtol=0.05, atol=0.05)


def test_a_pattern_of_weights_may_be_about_one_of_the_models(tmp_path):
    model, x = Coder(), jnp.ones((3, 32))
    functions = {"encode": (model.encode, [x]), "whole": (lambda x: model(x), [x])}
    weights = {"decoder.kernel": "int8", "*": "int4"}
    paths = to_onnx_set(functions, tmp_path / "coder", weights=weights)
    whole, encode = (initializers(paths[name]) for name in ("whole", "encode"))
    assert "decoder.kernel/scale" in whole
    assert "decoder.kernel/scale" not in encode
    with pytest.raises(jax2onnx.errors.InvalidInputError) as error:
        to_onnx_set(functions, tmp_path / "coder", weights={"head": "int8", "*": "int4"})
    assert "`head`, which matches no parameter of the 2 functions" in str(error.value)
    # The option of one function applies only to that function.
    alone = {"whole": functions["whole"], "encode": (model.encode, [x], {"weights": weights})}
    with pytest.raises(jax2onnx.errors.InvalidInputError, match="no parameter of the function"):
        to_onnx_set(alone, tmp_path / "coder")


def test_names_that_are_one_file_on_some_systems(tmp_path):
    model, x = Coder(), jnp.ones((3, 32))
    with pytest.raises(jax2onnx.errors.InvalidInputError, match="differ only in case"):
        to_onnx_set({"A": (model, [x]), "a": (model.encode, [x])}, tmp_path / "coder")
    assert not (tmp_path / "coder").exists()
