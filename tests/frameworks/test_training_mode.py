"""Layers that run in training mode are named, by module and line; others are not."""

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import pytest
from flax import linen as nn
from flax import nnx

from jax2onnx import InvalidInputError, to_onnx

X = (4, 8)
KEY = jax.random.key(3)


class NNX(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.drop(self.norm(x))


class Linen(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        x = nn.BatchNorm(use_running_average=not train)(x)
        return nn.Dropout(0.5, deterministic=not train)(x)


class Equinox(eqx.Module):
    norm: eqx.nn.BatchNorm
    drop: eqx.nn.Dropout

    def __init__(self) -> None:
        self.norm = eqx.nn.BatchNorm(8, "batch", mode="batch")
        self.drop = eqx.nn.Dropout(0.5)

    def __call__(self, x: jax.Array, state: Any, key: Any) -> Any:
        x, state = self.norm(x, state)
        return self.drop(x, key=key), state


def haiku_model(x: jax.Array, train: bool) -> jax.Array:
    x = hk.BatchNorm(True, True, 0.9)(x, train)
    return hk.dropout(hk.next_rng_key(), 0.5, x) if train else x


def in_mode(name: str, train: bool) -> Any:
    """Returns a model of a framework, in training mode or not."""
    if name == "nnx":
        model = NNX()
        if not train:
            model.eval()
        return model
    if name == "linen":
        module = Linen()
        rngs = {"params": KEY, "dropout": KEY}
        variables = module.init(rngs, jnp.ones(X), True)
        if not train:
            return lambda x: module.apply(variables, x, False)
        return lambda x: module.apply(
            variables, x, True, rngs={"dropout": KEY}, mutable=["batch_stats"]
        )[0]
    if name == "equinox":
        whole, state = eqx.nn.make_with_state(Equinox)()
        chosen = whole if train else eqx.nn.inference_mode(whole)
        one = lambda x: chosen(x, state, KEY)  # noqa: E731
        return lambda x: jax.vmap(one, axis_name="batch")(x)[0]
    transformed = hk.transform_with_state(haiku_model)
    params, state = transformed.init(KEY, jnp.ones(X), True)
    return lambda x: transformed.apply(params, state, KEY, x, train)[0]


ADVICE = {
    "nnx": "model.eval()",
    "linen": "use_running_average=True",
    "equinox": "eqx.nn.inference_mode(model)",
    "haiku": "is_training=False",
}
MODULES = {
    "nnx": ("`norm`", "`drop`"),
    "linen": ("BatchNorm_0`", "Dropout_0`"),
    "equinox": ("`norm`", "`drop`"),
    "haiku": ("`batch_norm`", "`dropout`"),
}


@pytest.mark.parametrize("name", ADVICE)
def test_training_mode_is_reported(name: str) -> None:
    with pytest.warns(UserWarning, match=r"\[training-mode\]") as caught:
        to_onnx(in_mode(name, train=True), [X])
    (said,) = [str(warning.message) for warning in caught]
    norm, drop = MODULES[name]
    assert f"{norm} normalises by the batch\n" in said
    assert f"{drop} draws the same random numbers in each run\n" in said
    assert said.count("test_training_mode.py:") == 2
    assert ADVICE[name] in said


@pytest.mark.parametrize("name", ADVICE)
def test_inference_is_not_reported(name: str) -> None:
    to_onnx(in_mode(name, train=False), [X])


@pytest.mark.parametrize("folder", ["user/site-packages", "checkout"])
def test_frameworks_may_be_installed_anywhere(folder: str, tmp_path: Path) -> None:
    """Packages may be in the user's site, or in a folder on Python's path."""
    shutil.copytree(Path(eqx.__file__).parent, tmp_path / folder / "equinox")
    (tmp_path / "program.py").write_text("""\
import equinox, jax, jax2onnx
drop = equinox.nn.Dropout(0.5)
jax2onnx.to_onnx(lambda x: drop(x, key=jax.random.key(0)), [(3,)])
""")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / folder), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "program.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "[training-mode]" in done.stderr
    assert "program.py:3 in <lambda>" in done.stderr


def test_training_mode_may_be_an_error_or_allowed() -> None:
    model = in_mode("nnx", train=True)
    with pytest.raises(InvalidInputError, match="training-mode"):
        to_onnx(model, [X], training="error")
    to_onnx(model, [X], training="allow")


def test_lines_of_each_layer() -> None:
    """Both dropouts call the same jitted function of JAX."""
    drop = eqx.nn.Dropout(0.5)

    @jax.jit
    def inner(x: jax.Array) -> jax.Array:
        return drop(x, key=KEY)

    def fn(x: jax.Array) -> jax.Array:
        x = drop(x, key=KEY)
        return inner(x)

    with pytest.warns(UserWarning, match=r"\[training-mode\]") as caught:
        to_onnx(fn, [X])
    said = str(caught[0].message)
    for function, offset in ((fn, 1), (inner.__wrapped__, 2)):
        line = function.__code__.co_firstlineno + offset
        assert f"test_training_mode.py:{line} in " in said


def test_a_module_that_adds_noise_of_its_own() -> None:
    class Noisy(nnx.Module):
        def __init__(self) -> None:
            self.rngs = nnx.Rngs(noise=0)

        def __call__(self, x: jax.Array) -> jax.Array:
            return x + jax.random.normal(self.rngs.noise(), x.shape)

    with pytest.warns(UserWarning, match=r"\[constant-key\]") as caught:
        to_onnx(Noisy(), [X])
    (said,) = [str(warning.message) for warning in caught]
    line = Noisy.__call__.__code__.co_firstlineno + 1
    assert f"test_training_mode.py:{line} in Noisy.__call__" in said.replace(
        "test_a_module_that_adds_noise_of_its_own.<locals>.", ""
    )
    assert "layer" not in said


def test_a_module_that_draws_from_its_generator() -> None:
    """The generator is a callable of the framework, but no layer."""

    class Noisy(nnx.Module):
        def __init__(self) -> None:
            self.rngs = nnx.Rngs(0)

        def __call__(self, x: jax.Array) -> jax.Array:
            return x + self.rngs.normal(x.shape)

    with pytest.warns(UserWarning, match=r"\[constant-key\]") as caught:
        to_onnx(Noisy(), [X])
    (said,) = [str(warning.message) for warning in caught]
    assert "Noisy.__call__" in said
    assert "rngs_random_method" not in said


def test_a_layer_alone_has_the_name_of_its_class() -> None:
    with pytest.warns(UserWarning, match=r"`Dropout` draws the same random numbers"):
        to_onnx(nnx.Dropout(0.5, rngs=nnx.Rngs(0)), [X])


def test_layers_and_draws_are_told_apart() -> None:
    drop = nnx.Dropout(0.5, rngs=nnx.Rngs(0))

    def fn(x: jax.Array) -> jax.Array:
        return drop(x) + jax.random.normal(KEY, x.shape)

    with pytest.warns(UserWarning, match=r"-mode\]|-key\]") as caught:
        to_onnx(fn, [X])
    codes = [str(warning.message).split()[0] for warning in caught]
    assert codes == ["[training-mode]", "[constant-key]"]


@pytest.mark.parametrize("key", [None, KEY])
def test_attention_with_dropout_is_a_layer(key: Any) -> None:
    """The key of a Linen module is often made inside the function."""
    module = nn.MultiHeadDotProductAttention(2, dropout_rate=0.5)
    variables = module.init(KEY, jnp.ones((2, 4, 8)), deterministic=True)

    def fn(x: jax.Array) -> jax.Array:
        rngs = {"dropout": jax.random.key(0) if key is None else key}
        return module.apply(variables, x, deterministic=False, rngs=rngs)

    with pytest.warns(UserWarning, match="deterministic=True"):
        to_onnx(fn, [(2, 4, 8)])


def test_a_model_that_is_made_inside_the_function_is_not_reported() -> None:
    """Initial values are random numbers, too."""

    def fn(x: jax.Array) -> jax.Array:
        attend = nnx.MultiHeadAttention(2, 8, rngs=nnx.Rngs(0), decode=False)
        return attend(x)

    to_onnx(fn, [(2, 4, 8)])


def test_errors_of_frameworks_have_advice() -> None:
    module = Linen()
    variables = module.init(KEY, jnp.ones(X), False)
    with pytest.raises(Exception, match="batch_stats") as caught:
        to_onnx(lambda x: module.apply(variables, x, True), [X])
    assert "use_running_average=True" in "".join(caught.value.__notes__)
    with pytest.raises(RuntimeError, match="key") as caught:
        to_onnx(eqx.nn.Dropout(0.5), [(8,)])
    assert "eqx.nn.inference_mode(model)" in "".join(caught.value.__notes__)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, key: x + jax.random.normal(key, x.shape),
        lambda x, key: nnx.Dropout(0.5)(x, rngs=nnx.Rngs(key)),
        lambda x, key: x + jax.random.uniform(jax.random.split(key)[0], x.shape),
        lambda x, key: jax.lax.fori_loop(
            0, 2, lambda i, c: (c[0] + jax.random.normal(c[1], x.shape), c[1]), (x, key)
        )[0],
    ],
)
def test_keys_that_are_inputs_are_not_reported(fn: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_onnx(fn, [X, jax.eval_shape(lambda: jax.random.key(0))])


def test_a_key_that_the_function_makes_is_not_reported() -> None:
    """Random features, say, which are the same in each run on purpose."""
    to_onnx(lambda x: x @ jax.random.normal(jax.random.key(0), (8, 3)), [X])


def test_a_mean_over_the_batch_is_not_reported() -> None:
    to_onnx(lambda x: x - x.mean(0), [X])


def test_a_flag_that_chooses_is_not_reported() -> None:
    drop = nnx.Dropout(0.5, rngs=nnx.Rngs(0))

    def fn(x: jax.Array, deterministic: bool) -> jax.Array:
        return drop(x, deterministic=deterministic)

    to_onnx(fn, [X], {"deterministic": True})
