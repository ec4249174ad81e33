"""Models of every framework, as their users hold them."""

import functools
import os
import warnings
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import keras
import numpy as np
import optax
import pytest
from flax import linen as nn
from flax import nnx
from flax.errors import ScopeParamNotFoundError
from flax.training import train_state

from jax2onnx import InvalidInputError, export, to_onnx

X = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
KEY = jax.random.key(0)


def close(one: Any, other: Any) -> None:
    np.testing.assert_allclose(one, other, 1e-5, 1e-5)


def inputs_of(model: Any) -> list[str]:
    return [i.name for i in model.proto.graph.input]


class Linen(nn.Module):
    @nn.compact
    def __call__(self, image: jax.Array) -> jax.Array:
        x = nn.Dense(3)(image)
        return nn.BatchNorm(use_running_average=True)(x)


def test_a_linen_module_with_variables() -> None:
    module = Linen()
    variables = module.init(jax.random.key(0), X)
    model = export(module, ("B", 4), variables=variables, check=[X])
    assert [i.name for i in model.proto.graph.input] == ["image"]
    close(model(X), module.apply(variables, X))
    more = jax.tree_util.tree_map(lambda a: a + 1, variables)
    close(model.with_weights(more)(X), module.apply(more, X))
    parts = {"params": variables["params"], "state": {"batch_stats": variables["batch_stats"]}}
    close(export(module, ("B", 4), **parts)(X), model(X))
    for function in (export, lambda m, x: to_onnx(m, [x])):
        with pytest.raises(InvalidInputError, match=r"(?s)missing-parameters.*variables="):
            function(module, ("B", 4))


@pytest.mark.parametrize("with_rng", [False, True])
def test_haiku_functions_with_params(with_rng: bool) -> None:
    transformed = hk.transform(lambda image: hk.Linear(3)(image))
    params = transformed.init(jax.random.key(0), X)
    used = transformed if with_rng else hk.without_apply_rng(transformed)
    model = export(used, ("B", 4), params=params, check=[X])
    assert [i.name for i in model.proto.graph.input] == ["image"]
    close(model(X), transformed.apply(params, None, X))
    more = jax.tree_util.tree_map(lambda a: a + 1, params)
    close(model.with_weights(more)(X), transformed.apply(more, None, X))
    with pytest.raises(InvalidInputError, match=r"(?s)missing-parameters.*params="):
        export(used, ("B", 4))


def test_haiku_functions_with_state() -> None:
    def fn(image: jax.Array, train: bool = False) -> jax.Array:
        return hk.BatchNorm(True, True, 0.9)(image, train)

    transformed = hk.transform_with_state(fn)
    params, state = transformed.init(jax.random.key(0), X, True)
    model = export(transformed, ("B", 4), params=params, state=state, check=[X])
    assert [i.name for i in model.proto.graph.input] == ["image"]
    close(model(X), transformed.apply(params, state, None, X)[0])


class Stateful(eqx.Module):
    norm: eqx.nn.BatchNorm

    def __init__(self) -> None:
        self.norm = eqx.nn.BatchNorm(4, "batch", mode="batch")

    def __call__(self, x: jax.Array, state: Any) -> Any:
        return self.norm(x, state)


class OtherNames(Stateful):
    def __call__(self, x: jax.Array, averages: Any, *, key: Any = None) -> Any:
        return self.norm(x, averages)


@pytest.mark.parametrize("kind", [Stateful, OtherNames])
def test_an_equinox_model_with_state(kind: Any) -> None:
    model, state = eqx.nn.make_with_state(kind)()
    model = eqx.nn.inference_mode(model)
    exported = export(model, (4,), state=state, check=[X[0]])
    close(exported(X[0]), model(X[0], state)[0])


class Flagged(nn.Module):
    @nn.compact
    def __call__(self, image: jax.Array, train: bool) -> jax.Array:
        x = nn.BatchNorm(use_running_average=not train)(nn.Dense(3)(image))
        return nn.Dropout(0.5, deterministic=not train)(x)

    def doubled(self, image: jax.Array) -> jax.Array:
        return 2 * self(image, train=False)


def test_a_linen_module_with_a_required_flag() -> None:
    module = Flagged()
    variables = module.init(KEY, X, False)
    parts = {"params": variables["params"], "state": {"batch_stats": variables["batch_stats"]}}
    right = module.apply(variables, X, False)
    for fn in (module, module.apply):
        for given in ({"variables": variables}, parts):
            model = export(functools.partial(fn, train=False), ("B", 4), **given, check=[X])
            assert inputs_of(model) == ["image"]
            close(model(X), right)
        with pytest.raises(InvalidInputError) as caught:
            export(fn, ("B", 4), variables=variables)
        assert "in Flagged.__call__" in caught.value.place
        assert caught.value.help == (
            "its signature is (image, train); if `train` never changes, bind it: "
            "functools.partial(fn, train=…)"
        )
    with pytest.warns(UserWarning, match="fails for `train=True`"):
        flagged = export(
            module, ("B", 4), variables=variables, keyword_inputs={"train": False}, check=[X]
        )
    assert inputs_of(flagged) == ["image", "train"]
    close(flagged(X, train=False), right)
    with pytest.raises(InvalidInputError, match="missing-parameters"):
        export(functools.partial(module, train=False), ("B", 4))
    with pytest.raises(TypeError) as unknown:
        export(module, ("B", 4), variables=variables, train=False)
    assert "functools.partial(fn, train=…)" in unknown.value.__notes__[0]


def test_methods_of_a_linen_module() -> None:
    module = Flagged()
    variables = module.init(KEY, X, False)
    right = 2 * module.apply(variables, X, False)
    by_name = functools.partial(module.apply, method="doubled")
    for fn in (module.doubled, by_name):
        close(export(fn, ("B", 4), variables=variables, check=[X])(X), right)
    with pytest.raises(InvalidInputError, match="`Flagged` has no variables"):
        export(module.doubled, ("B", 4))


def test_missing_collections_of_a_linen_module_have_advice() -> None:
    module = Linen()
    variables = module.init(KEY, X)
    with pytest.raises(Exception, match="batch_stats") as caught:
        export(module, ("B", 4), params=variables["params"])
    assert "pass every collection that `init` returned" in caught.value.__notes__[-1]
    with pytest.raises(Exception, match="kernel") as caught:
        export(module, ("B", 7), variables=variables)
    assert "other sizes than those that `init` got" in caught.value.__notes__[-1]


def test_haiku_functions_with_a_required_flag() -> None:
    def fn(image: jax.Array, is_training: bool) -> jax.Array:
        return hk.BatchNorm(True, True, 0.9)(hk.Linear(3)(image), is_training)

    transformed = hk.transform_with_state(fn)
    params, state = transformed.init(KEY, X, True)
    given: Any = {"params": params, "state": state}
    right = transformed.apply(params, state, None, X, False)[0]
    bound = functools.partial(transformed.apply, is_training=False)
    model = export(bound, ("B", 4), **given, check=[X])
    assert inputs_of(model) == ["image"]
    close(model(X), right)
    more = jax.tree.map(lambda a: a + 1, params)
    close(model.with_weights(more)(X), transformed.apply(more, state, None, X, False)[0])
    with pytest.raises(InvalidInputError) as caught:
        export(transformed, ("B", 4), **given)
    assert caught.value.place.endswith("test_haiku_functions_with_a_required_flag.<locals>.fn")
    assert caught.value.help == (
        "its signature is (image, is_training); if `is_training` never changes, bind it: "
        "functools.partial(fn.apply, is_training=…)"
    )
    with pytest.raises(TypeError) as unknown:
        export(transformed, ("B", 4), **given, is_training=False)
    assert "functools.partial(fn.apply, is_training=…)" in unknown.value.__notes__[0]
    with pytest.raises(InvalidInputError, match=r"(?s)have no state.*state="):
        export(bound, ("B", 4), params=params)


class KeywordState(Stateful):
    def __call__(self, x: jax.Array, *, state: Any) -> Any:
        return self.norm(x, state)


def test_an_equinox_model_with_a_keyword_for_its_state() -> None:
    model, state = eqx.nn.make_with_state(KeywordState)()
    model = eqx.nn.inference_mode(model)
    close(export(model, (4,), state=state, check=[X[0]])(X[0]), model(X[0], state=state)[0])


@pytest.mark.parametrize("vmap", [jax.vmap, eqx.filter_vmap])
def test_maps_of_equinox_models_with_state(vmap: Any) -> None:
    model, state = eqx.nn.make_with_state(Stateful)()
    model = eqx.nn.inference_mode(model)
    batched = vmap(model, in_axes=(0, None), out_axes=(0, None), axis_name="batch")
    exported = export(batched, ("B", 4), state=state, check=[X])
    assert inputs_of(exported) == ["x"]
    close(exported(X), batched(X, state)[0])
    if vmap is jax.vmap:
        with pytest.raises(ValueError, match="vmap") as caught:
            export(vmap(model, axis_name="batch"), ("B", 4), state=state)
        assert "the state has no batch axis" in caught.value.__notes__[0]


def test_a_map_of_an_equinox_layer_whose_docstring_has_braces() -> None:
    """JAX does not say of which function it is a map."""
    model, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(4, "batch", mode="batch")
    maps = {"in_axes": (0, None), "out_axes": (0, None), "axis_name": "batch"}
    batched = jax.vmap(eqx.nn.inference_mode(model), **maps)
    exported = export(batched, ("B", 4), state=state, check=[X])
    assert inputs_of(exported) == ["x"]
    close(exported(X), batched(X, state)[0])
    assert inputs_of(export(jax.vmap(eqx.nn.LayerNorm(4)), ("B", 4), check=[X])) == ["x"]
    with pytest.raises(InvalidInputError, match="missing a required argument: 'state'"):
        export(batched, ("B", 4))
    training = jax.vmap(eqx.nn.inference_mode(model, value=False), **maps)
    with pytest.raises(jax.errors.InconclusiveDimensionOperation) as caught:
        export(training, ("B", 4), state=state)
    assert caught.value.__notes__[-1].endswith("export `eqx.nn.inference_mode(model)`")


def test_parameters_of_another_model_have_advice() -> None:
    variables = nn.Dense(3).init(KEY, X)
    network = hk.transform(lambda x: hk.Linear(3)(x))
    calls: list[tuple[Any, type[Exception], str]] = [
        (
            lambda: export(nn.Sequential([nn.Dense(3)]), "f32[B,4]", variables=variables),
            ScopeParamNotFoundError,
            "the variables belong to another model",
        ),
        (
            lambda: export(network, "f32[B,4]", params={"other": {}}),
            ValueError,
            "the parameters belong to another model",
        ),
        (lambda: export(lambda x: hk.Linear(3)(x), "f32[B,4]"), ValueError, "hk.transform(fn)"),
    ]
    for call, kind, advice in calls:
        with pytest.raises(kind) as caught:
            call()
        assert advice in caught.value.__notes__[-1]


def test_an_equinox_model_on_a_batch_has_advice() -> None:
    model = eqx.nn.MLP(4, 2, 8, 1, key=KEY)
    stateful, state = eqx.nn.make_with_state(Stateful)()
    for batch in ("f32[B,4]", "f32[5,4]"):
        for fn, held in ((model, None), (eqx.nn.inference_mode(stateful), state)):
            with pytest.raises((TypeError, ValueError)) as caught:
                export(fn, batch, state=held)
            assert "export `jax.vmap(model)`" in caught.value.__notes__[-1]


def test_mistakes_with_models_have_messages() -> None:
    dense = nn.Dense(3)
    variables = dense.init(KEY, X)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    calls: list[tuple[Any, str]] = [
        (lambda: export(nn.Dense, "f32[B,4]", variables=variables), "is the class `Dense`"),
        (lambda: export(dense, "f32[B,4]", variables=X), "`Dense` are of type ndarray"),
        (lambda: export(model.predict, "f32[B,4]"), "(?s)`predict` of .*export the model itself"),
        (lambda: export(dense.bind(variables)), "for each argument"),
        (lambda: export(eqx.nn.BatchNorm(4, "batch", mode="ema"), "f32[4]"), "pass state= to"),
        (lambda: export(lambda params, x: x, "f32[4]"), "pass params= to"),
    ]
    held = train_state.TrainState.create(
        apply_fn=dense.apply, params=variables["params"], tx=optax.sgd(0.1)
    )
    calls.append((lambda: export(held, "f32[B,4]"), r"(?s)is a TrainState.*fn\.apply_fn"))
    close(export(held.apply_fn, "f32[B,4]", params=held.params)(X), dense.apply(variables, X))
    for call, message in calls:
        with pytest.raises(InvalidInputError, match=message):
            call()
    with pytest.raises(TypeError) as caught:
        export(dense.apply, "f32[B,4]")
    assert "pass variables= to jax2onnx.export" in caught.value.__notes__[-1]
    with pytest.raises(TypeError) as caught:
        export(jax.grad(dense.bind(variables)), "f32[B,4]")
    assert not any("write a number" in note for note in caught.value.__notes__)


class Scaled(nnx.Module):
    def __init__(self, seed: int, scale: float = 2.0) -> None:
        self.linear = nnx.Linear(4, 3, rngs=nnx.Rngs(seed))
        self.norm = nnx.BatchNorm(3, rngs=nnx.Rngs(seed), use_running_average=True)
        self.scale = scale

    def __call__(self, x: jax.Array, *, twice: bool = False) -> jax.Array:
        x = self.norm(self.linear(x)) * self.scale
        return 2 * x if twice else x

    def features(self, x: jax.Array) -> jax.Array:
        return self.linear(x)


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError("traced again")


def test_new_weights_of_an_nnx_state(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = Scaled(0), Scaled(1)
    model = export(old, ("B", 4))
    monkeypatch.setattr("jax2onnx._export.to_onnx.trace", _never)
    for state in (nnx.state(new), nnx.state(new, nnx.Param), nnx.to_pure_dict(nnx.state(new))):
        close(model.with_weights(state)(X), new(X))
    close(model(X), old(X))
    monkeypatch.undo()
    doubled = export(functools.partial(old, twice=True), ("B", 4))
    close(doubled.with_weights(nnx.state(new))(X), new(X, twice=True))
    features = export(old.features, ("B", 4))
    close(features.with_weights(nnx.state(new))(X), new.features(X))
    for wrong, message in (
        ({"linear": {"weight": X}}, "`linear.weight`, but `Scaled` has no such variable"),
        ({"linear": {"bias": X}}, r"`linear.bias` is float32\[5, 4\] instead of float32\[3\]"),
        ([X], "list is not one"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            model.with_weights(wrong)


def test_new_weights_of_a_bound_linen_module() -> None:
    module = Linen()
    old, new = (module.init(jax.random.key(seed), X) for seed in range(2))
    model = export(module.bind(old), ("B", 4))
    for given in (new, module.bind(new)):
        close(model.with_weights(given)(X), module.apply(new, X))


def test_new_weights_that_jax_did_not_see() -> None:
    """NumPy computes before the trace, so the function is traced again."""

    def fn(p: Any, x: jax.Array) -> jax.Array:
        return x * np.exp(p["w"]) * p["scale"]

    ones: Any
    for ones in (jnp.ones(4), np.ones(4, np.float32)):
        params = {"w": ones, "scale": 2.0}
        model = export(fn, ("B", 4), params=params)
        for more in ({"w": ones * 3, "scale": 2.0}, {"w": ones, "scale": 3.0}):
            other = model.with_weights(more)
            close(other(X), fn(more, X))
            close(model(X), fn(params, X))
    close(export(Scaled(0), ("B", 4)).with_weights(Scaled(1, 3.0))(X), Scaled(1, 3.0)(X))


def test_specifications_that_become_narrower_have_a_warning() -> None:
    ids = jax.ShapeDtypeStruct(("B",), np.dtype("int64"))
    with pytest.warns(UserWarning, match=r"`x` is int64, and the model converts it to int32"):
        model = export(lambda x: x + 1, "i64[B]")
    assert model.proto.graph.input[0].type.tensor_type.elem_type == 7
    with pytest.warns(UserWarning, match=r"(?s)converts it to int32.*`input_dtypes`"):
        to_onnx(lambda x: x + 1, [ids])
    with pytest.warns(UserWarning, match=r"`x` is float64, and the model takes float32"):
        export(lambda x: x + 1, "f64[B]")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export(lambda x: x + 1, "i64[B]", x64=True)
        narrow = jax.ShapeDtypeStruct(("B",), np.dtype("int32"))
        to_onnx(lambda x: x + 1, [narrow], input_dtypes={"x": "int64"})
