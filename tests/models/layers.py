"""Layers of the frameworks, with inputs for each."""

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import keras
import numpy as np
from flax import linen as nn
from flax import nnx

KEY = jax.random.key(0)
ROWS, SEQUENCE, IMAGE, TOKENS = (2, 8), (2, 5, 8), (2, 6, 6, 8), (2, 5)


def array(shape: tuple[int, ...]) -> np.ndarray:
    random = np.random.default_rng(0)
    if shape == TOKENS:
        return random.integers(0, 10, shape, dtype=np.int32)
    return random.standard_normal(shape).astype(np.float32)


def _nnx() -> dict[str, tuple[Any, tuple[int, ...]]]:
    rngs = nnx.Rngs(0)
    layers = {
        "Linear": (nnx.Linear(8, 4, rngs=rngs), ROWS),
        "LinearGeneral": (nnx.LinearGeneral(8, (2, 4), rngs=rngs), ROWS),
        "Einsum": (nnx.Einsum("bd,df->bf", (8, 4), (4,), rngs=rngs), ROWS),
        "Conv": (nnx.Conv(8, 4, (3, 3), rngs=rngs), IMAGE),
        "ConvTranspose": (nnx.ConvTranspose(8, 4, (3, 3), strides=2, rngs=rngs), IMAGE),
        "Embed": (nnx.Embed(10, 8, rngs=rngs), TOKENS),
        "BatchNorm": (nnx.BatchNorm(8, rngs=rngs), IMAGE),
        "LayerNorm": (nnx.LayerNorm(8, rngs=rngs), ROWS),
        "RMSNorm": (nnx.RMSNorm(8, rngs=rngs), ROWS),
        "GroupNorm": (nnx.GroupNorm(8, num_groups=2, rngs=rngs), IMAGE),
        "InstanceNorm": (nnx.InstanceNorm(8, rngs=rngs), IMAGE),
        "Dropout": (nnx.Dropout(0.5, rngs=rngs), ROWS),
        "MultiHeadAttention": (nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs), SEQUENCE),
        "RNN of LSTMCell": (nnx.RNN(nnx.LSTMCell(8, 4, rngs=rngs)), SEQUENCE),
        "RNN of GRUCell": (nnx.RNN(nnx.GRUCell(8, 4, rngs=rngs)), SEQUENCE),
        "RNN of SimpleCell": (nnx.RNN(nnx.SimpleCell(8, 4, rngs=rngs)), SEQUENCE),
    }
    for layer, _ in layers.values():
        layer.eval()
    return layers


def _bound(module: nn.Module, shape: tuple[int, ...], *more: Any) -> Any:
    bound = module.bind(module.init(KEY, array(shape), *more))
    return (lambda x: bound(x, *more)) if more else bound


def _linen() -> dict[str, tuple[Any, tuple[int, ...]]]:
    modules: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
        "Dense": (nn.Dense(4), ROWS),
        "DenseGeneral": (nn.DenseGeneral((2, 4)), ROWS),
        "Conv": (nn.Conv(4, (3, 3)), IMAGE),
        "ConvTranspose": (nn.ConvTranspose(4, (3, 3), (2, 2)), IMAGE),
        "ConvLocal": (nn.ConvLocal(4, (3, 3)), IMAGE),
        "Embed": (nn.Embed(10, 8), TOKENS),
        "BatchNorm": (nn.BatchNorm(use_running_average=True), IMAGE),
        "LayerNorm": (nn.LayerNorm(), ROWS),
        "RMSNorm": (nn.RMSNorm(), ROWS),
        "GroupNorm": (nn.GroupNorm(2), IMAGE),
        "InstanceNorm": (nn.InstanceNorm(), IMAGE),
        "Dropout": (nn.Dropout(0.5, deterministic=True), ROWS),
        "MultiHeadDotProductAttention": (nn.MultiHeadDotProductAttention(2), SEQUENCE),
        "RNN of LSTMCell": (nn.RNN(nn.LSTMCell(4)), SEQUENCE),
        "RNN of GRUCell": (nn.RNN(nn.GRUCell(4)), SEQUENCE),
        "PReLU": (nn.PReLU(), ROWS),
    }
    return {name: (_bound(module, shape), shape) for name, (module, shape) in modules.items()}


def _equinox() -> dict[str, tuple[Any, tuple[int, ...]]]:
    image = (8, 6, 6)
    each: dict[str, tuple[Any, tuple[int, ...]]] = {
        "Linear": (eqx.nn.Linear(8, 4, key=KEY), (8,)),
        "MLP": (eqx.nn.MLP(8, 4, 8, 2, key=KEY), (8,)),
        "Conv2d": (eqx.nn.Conv2d(8, 4, 3, key=KEY), image),
        "ConvTranspose2d": (eqx.nn.ConvTranspose2d(8, 4, 3, key=KEY), image),
        "AvgPool2d": (eqx.nn.AvgPool2d(2, 2), image),
        "MaxPool2d": (eqx.nn.MaxPool2d(2, 2), image),
        "AdaptiveAvgPool2d": (eqx.nn.AdaptiveAvgPool2d(2), image),
        "LayerNorm": (eqx.nn.LayerNorm(8), (8,)),
        "RMSNorm": (eqx.nn.RMSNorm(8), (8,)),
        "GroupNorm": (eqx.nn.GroupNorm(2, 8), image),
        "PReLU": (eqx.nn.PReLU(0.1), (8,)),
        "Dropout": (eqx.nn.Dropout(0.5, inference=True), (8,)),
    }
    layers = {name: (jax.vmap(layer), (2, *shape)) for name, (layer, shape) in each.items()}
    attention = eqx.nn.MultiheadAttention(2, 8, key=KEY)
    layers["MultiheadAttention"] = (jax.vmap(lambda x: attention(x, x, x)), SEQUENCE)
    cell = eqx.nn.GRUCell(8, 4, key=KEY)

    def recurrent(x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda h, x: (cell(x, h), None), jnp.zeros(4), x)[0]

    layers["GRUCell"] = (jax.vmap(recurrent), SEQUENCE)
    return layers


def _haiku() -> dict[str, tuple[Any, tuple[int, ...]]]:
    makers: dict[str, tuple[Callable[[jax.Array], Any], tuple[int, ...]]] = {
        "Linear": (lambda x: hk.Linear(4)(x), ROWS),
        "nets.MLP": (lambda x: hk.nets.MLP([8, 4])(x), ROWS),
        "Conv2D": (lambda x: hk.Conv2D(4, 3)(x), IMAGE),
        "Conv2DTranspose": (lambda x: hk.Conv2DTranspose(4, 3, 2)(x), IMAGE),
        "DepthwiseConv2D": (lambda x: hk.DepthwiseConv2D(2, 3)(x), IMAGE),
        "Embed": (lambda x: hk.Embed(10, 8)(x), TOKENS),
        "LayerNorm": (lambda x: hk.LayerNorm(-1, True, True)(x), ROWS),
        "RMSNorm": (lambda x: hk.RMSNorm(-1)(x), ROWS),
        "GroupNorm": (lambda x: hk.GroupNorm(2)(x), IMAGE),
        "InstanceNorm": (lambda x: hk.InstanceNorm(True, True)(x), IMAGE),
        "AvgPool": (lambda x: hk.AvgPool((2, 2, 1), (2, 2, 1), "SAME")(x), IMAGE),
        "MaxPool": (lambda x: hk.MaxPool((2, 2, 1), (2, 2, 1), "SAME")(x), IMAGE),
        "MultiHeadAttention": (
            lambda x: hk.MultiHeadAttention(2, 4, w_init=hk.initializers.RandomNormal())(x, x, x),
            SEQUENCE,
        ),
        "GRU": (lambda x: hk.dynamic_unroll(hk.GRU(4), x, hk.GRU(4).initial_state(5))[0], SEQUENCE),
    }
    found: dict[str, tuple[Any, tuple[int, ...]]] = {}
    for name, (fn, shape) in makers.items():
        transformed = hk.without_apply_rng(hk.transform(fn))
        params = transformed.init(KEY, array(shape))
        found[name] = (lambda x, apply=transformed.apply, p=params: apply(p, x), shape)
    return found


def _keras() -> dict[str, tuple[Any, tuple[int, ...]]]:
    kinds = keras.layers
    each: dict[str, tuple[Any, tuple[int, ...]]] = {
        "Dense": (kinds.Dense(4), ROWS),
        "Conv2D": (kinds.Conv2D(4, 3), IMAGE),
        "Conv2DTranspose": (kinds.Conv2DTranspose(4, 3, 2), IMAGE),
        "DepthwiseConv2D": (kinds.DepthwiseConv2D(3), IMAGE),
        "SeparableConv2D": (kinds.SeparableConv2D(4, 3), IMAGE),
        "Embedding": (kinds.Embedding(10, 8), TOKENS),
        "BatchNormalization": (kinds.BatchNormalization(), IMAGE),
        "LayerNormalization": (kinds.LayerNormalization(), ROWS),
        "GroupNormalization": (kinds.GroupNormalization(2), IMAGE),
        "AveragePooling2D": (kinds.AveragePooling2D(2), IMAGE),
        "MaxPooling2D": (kinds.MaxPooling2D(2), IMAGE),
        "GlobalAveragePooling2D": (kinds.GlobalAveragePooling2D(), IMAGE),
        "UpSampling2D": (kinds.UpSampling2D(), IMAGE),
        "Dropout": (kinds.Dropout(0.5), ROWS),
        "LSTM": (kinds.LSTM(4), SEQUENCE),
        "GRU": (kinds.GRU(4), SEQUENCE),
    }
    found: dict[str, tuple[Any, tuple[int, ...]]] = {}
    for name, (layer, shape) in each.items():
        kind = "int32" if shape == TOKENS else "float32"
        whole = keras.Sequential([keras.Input(shape[1:], dtype=kind), layer])
        found[name] = (whole, shape)
    return found


FRAMEWORKS: dict[str, Callable[[], dict[str, tuple[Any, tuple[int, ...]]]]] = {
    "Flax NNX": _nnx,
    "Flax Linen": _linen,
    "Equinox": _equinox,
    "Haiku": _haiku,
    "Keras": _keras,
}
