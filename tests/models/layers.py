"""Layers of the frameworks, with inputs for each."""

import functools
import os
import re
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
VOLUME, FRAMES = (2, 4, 4, 4, 8), (2, 3, 6, 6, 8)


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
        "RNN of OptimizedLSTMCell": (nnx.RNN(nnx.OptimizedLSTMCell(8, 4, rngs=rngs)), SEQUENCE),
        "Bidirectional": (
            nnx.Bidirectional(*(nnx.RNN(nnx.GRUCell(8, 4, rngs=rngs)) for _ in range(2))),
            SEQUENCE,
        ),
        "PReLU": (nnx.PReLU(), ROWS),
        "LoRA": (nnx.LoRA(8, 2, 4, rngs=rngs), ROWS),
        "LoRALinear": (nnx.LoRALinear(8, 4, lora_rank=2, rngs=rngs), ROWS),
        "SpectralNorm": (nnx.SpectralNorm(nnx.Linear(8, 4, rngs=rngs), rngs=rngs), ROWS),
        "WeightNorm": (nnx.WeightNorm(nnx.Linear(8, 4, rngs=rngs), rngs=rngs), ROWS),
        "Sequential": (
            nnx.Sequential(nnx.Linear(8, 8, rngs=rngs), nnx.relu, nnx.Linear(8, 4, rngs=rngs)),
            ROWS,
        ),
    }
    for layer, _ in layers.values():
        layer.eval()
    return layers


def _bound(module: nn.Module, shape: tuple[int, ...]) -> Any:
    return module.bind(module.init(KEY, array(shape)))


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
        "RNN of SimpleCell": (nn.RNN(nn.SimpleCell(4)), SEQUENCE),
        "RNN of MGUCell": (nn.RNN(nn.MGUCell(4)), SEQUENCE),
        "RNN of OptimizedLSTMCell": (nn.RNN(nn.OptimizedLSTMCell(4)), SEQUENCE),
        "RNN of ConvLSTMCell": (nn.RNN(nn.ConvLSTMCell(4, (3, 3))), FRAMES),
        "Bidirectional": (nn.Bidirectional(nn.RNN(nn.GRUCell(4)), nn.RNN(nn.GRUCell(4))), SEQUENCE),
        "PReLU": (nn.PReLU(), ROWS),
        "Einsum": (nn.Einsum((8, 4), "bd,df->bf"), ROWS),
        "MultiHeadAttention": (nn.MultiHeadAttention(2), SEQUENCE),
        "WeightNorm": (nn.WeightNorm(nn.Dense(4)), ROWS),
        "Sequential": (nn.Sequential([nn.Dense(8), nn.relu, nn.Dense(4)]), ROWS),
    }
    layers = {name: (_bound(module, shape), shape) for name, (module, shape) in modules.items()}
    spectral = nn.SpectralNorm(nn.Dense(4))
    variables = spectral.init(KEY, array(ROWS), update_stats=False)
    layers["SpectralNorm"] = (
        functools.partial(spectral.bind(variables), update_stats=False),
        ROWS,
    )
    return layers


def _equinox() -> dict[str, tuple[Any, tuple[int, ...]]]:
    image = (8, 6, 6)
    each: dict[str, tuple[Any, tuple[int, ...]]] = {
        "Linear": (eqx.nn.Linear(8, 4, key=KEY), (8,)),
        "Sequential": (
            eqx.nn.Sequential([eqx.nn.Linear(8, 4, key=KEY), eqx.nn.Lambda(jax.nn.relu)]),
            (8,),
        ),
        "Lambda": (eqx.nn.Lambda(jax.nn.relu), (8,)),
        "Identity": (eqx.nn.Identity(), (8,)),
        "MLP": (eqx.nn.MLP(8, 4, 8, 2, key=KEY), (8,)),
        "LayerNorm": (eqx.nn.LayerNorm(8), (8,)),
        "RMSNorm": (eqx.nn.RMSNorm(8), (8,)),
        "GroupNorm": (eqx.nn.GroupNorm(2, 8), image),
        "PReLU": (eqx.nn.PReLU(0.1), (8,)),
        "Dropout": (eqx.nn.Dropout(0.5, inference=True), (8,)),
        "WeightNorm": (eqx.nn.WeightNorm(eqx.nn.Linear(8, 4, key=KEY)), (8,)),
        "RotaryPositionalEmbedding": (eqx.nn.RotaryPositionalEmbedding(8), (5, 8)),
    }
    for axes in (1, 2, 3):
        shape = (8, *[6] * axes)
        for name, given in {
            "Conv": (8, 4, 3),
            "ConvTranspose": (8, 4, 3),
            "AvgPool": (2, 2),
            "MaxPool": (2, 2),
            "AdaptiveAvgPool": (2,),
            "AdaptiveMaxPool": (2,),
        }.items():
            kind = getattr(eqx.nn, f"{name}{axes}d")
            key = {"key": KEY} if "Conv" in name else {}
            each[f"{name}{axes}d"] = (kind(*given, **key), shape)
    layers = {name: (jax.vmap(layer), (2, *shape)) for name, (layer, shape) in each.items()}
    attention = eqx.nn.MultiheadAttention(2, 8, key=KEY)
    layers["MultiheadAttention"] = (jax.vmap(lambda x: attention(x, x, x)), SEQUENCE)
    table = eqx.nn.Embedding(10, 8, key=KEY)
    layers["Embedding"] = (jax.vmap(jax.vmap(table)), TOKENS)
    zeros = jnp.zeros(4)
    for cell, start in (
        (eqx.nn.GRUCell(8, 4, key=KEY), zeros),
        (eqx.nn.LSTMCell(8, 4, key=KEY), (zeros, zeros)),
    ):

        def recurrent(x: jax.Array, cell: Any = cell, start: Any = start) -> Any:
            return jax.lax.scan(lambda h, x: (cell(x, h), None), start, x)[0]

        layers[type(cell).__name__] = (jax.vmap(recurrent), SEQUENCE)
    for make, shape in (
        (lambda: eqx.nn.BatchNorm(8, "batch", mode="batch"), (8,)),
        (lambda: eqx.nn.SpectralNorm(eqx.nn.Linear(8, 4, key=KEY), "weight", key=KEY), (8,)),
    ):
        made, state = eqx.nn.make_with_state(make)()
        layer = eqx.nn.inference_mode(made)
        call = functools.partial(
            lambda x, layer, state: layer(x, state)[0], layer=layer, state=state
        )
        layers[type(layer).__name__] = (jax.vmap(call), (2, *shape))
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
        "Bias": (lambda x: hk.Bias()(x), ROWS),
        "Flatten": (lambda x: hk.Flatten()(x), IMAGE),
        "Reshape": (lambda x: hk.Reshape((4, 2))(x), ROWS),
        "Sequential": (lambda x: hk.Sequential([hk.Linear(8), jax.nn.relu, hk.Linear(4)])(x), ROWS),
        "Conv1D": (lambda x: hk.Conv1D(4, 3)(x), SEQUENCE),
        "Conv1DTranspose": (lambda x: hk.Conv1DTranspose(4, 3)(x), SEQUENCE),
        "DepthwiseConv1D": (lambda x: hk.DepthwiseConv1D(2, 3)(x), SEQUENCE),
        "Conv3D": (lambda x: hk.Conv3D(4, 3)(x), VOLUME),
        "Conv3DTranspose": (lambda x: hk.Conv3DTranspose(4, 3)(x), VOLUME),
        "DepthwiseConv3D": (lambda x: hk.DepthwiseConv3D(2, 3)(x), VOLUME),
        "SeparableDepthwiseConv2D": (lambda x: hk.SeparableDepthwiseConv2D(2, (3, 3))(x), IMAGE),
        "GRU": (lambda x: _unrolled(hk.GRU(4), x), SEQUENCE),
        "LSTM": (lambda x: _unrolled(hk.LSTM(4), x), SEQUENCE),
        "VanillaRNN": (lambda x: _unrolled(hk.VanillaRNN(4), x), SEQUENCE),
        "DeepRNN": (lambda x: _unrolled(hk.DeepRNN([hk.LSTM(4), hk.LSTM(4)]), x), SEQUENCE),
        "Conv2DLSTM": (lambda x: _unrolled(hk.Conv2DLSTM((6, 6), 4, 3), x), FRAMES),
        "BatchNorm": (lambda x: hk.BatchNorm(True, True, 0.9)(x, hk.running_init()), IMAGE),
    }
    found: dict[str, tuple[Any, tuple[int, ...]]] = {}
    for name, (fn, shape) in makers.items():
        transformed = hk.without_apply_rng(hk.transform_with_state(fn))
        params, state = transformed.init(KEY, array(shape))
        found[name] = (
            lambda x, apply=transformed.apply, p=params, s=state: apply(p, s, x)[0],
            shape,
        )
    return found


def _unrolled(core: Any, x: jax.Array) -> Any:
    return hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))[0]


def _keras() -> dict[str, tuple[Any, tuple[int, ...]]]:
    kinds = keras.layers
    each: dict[str, tuple[Any, tuple[int, ...]]] = {
        "Dense": (kinds.Dense(4), ROWS),
        "DepthwiseConv2D": (kinds.DepthwiseConv2D(3), IMAGE),
        "SeparableConv2D": (kinds.SeparableConv2D(4, 3), IMAGE),
        "Embedding": (kinds.Embedding(10, 8), TOKENS),
        "BatchNormalization": (kinds.BatchNormalization(), IMAGE),
        "LayerNormalization": (kinds.LayerNormalization(), ROWS),
        "GroupNormalization": (kinds.GroupNormalization(2), IMAGE),
        "Dropout": (kinds.Dropout(0.5), ROWS),
        "LSTM": (kinds.LSTM(4), SEQUENCE),
        "GRU": (kinds.GRU(4), SEQUENCE),
        "SimpleRNN": (kinds.SimpleRNN(4), SEQUENCE),
        "RNN of LSTMCell": (kinds.RNN(kinds.LSTMCell(4)), SEQUENCE),
        "RNN of GRUCell": (kinds.RNN(kinds.GRUCell(4)), SEQUENCE),
        "RNN of SimpleRNNCell": (kinds.RNN(kinds.SimpleRNNCell(4)), SEQUENCE),
        "RNN of StackedRNNCells": (
            kinds.RNN(kinds.StackedRNNCells([kinds.LSTMCell(4), kinds.LSTMCell(4)])),
            SEQUENCE,
        ),
        "ConvLSTM2D": (kinds.ConvLSTM2D(4, 3), FRAMES),
        "Bidirectional": (kinds.Bidirectional(kinds.LSTM(4)), SEQUENCE),
        "TimeDistributed": (kinds.TimeDistributed(kinds.Dense(4)), SEQUENCE),
        "EinsumDense": (kinds.EinsumDense("bd,df->bf", 4), ROWS),
        "RMSNormalization": (kinds.RMSNormalization(), ROWS),
        "UnitNormalization": (kinds.UnitNormalization(), ROWS),
        "SpectralNormalization": (kinds.SpectralNormalization(kinds.Dense(4)), ROWS),
        "Normalization": (kinds.Normalization(mean=[1.0] * 8, variance=[2.0] * 8), ROWS),
        "Rescaling": (kinds.Rescaling(1 / 255), IMAGE),
        "Resizing": (kinds.Resizing(12, 12), IMAGE),
        "CenterCrop": (kinds.CenterCrop(4, 4), IMAGE),
        "Activation": (kinds.Activation("gelu"), ROWS),
        "Flatten": (kinds.Flatten(), IMAGE),
        "Reshape": (kinds.Reshape((4, 2)), ROWS),
        "Permute": (kinds.Permute((2, 1)), SEQUENCE),
        "RepeatVector": (kinds.RepeatVector(3), ROWS),
        "Lambda": (kinds.Lambda(lambda x: x * 2), ROWS),
        "Identity": (kinds.Identity(), ROWS),
        "Masking": (kinds.Masking(), SEQUENCE),
        "SeparableConv1D": (kinds.SeparableConv1D(4, 3), SEQUENCE),
        "DepthwiseConv1D": (kinds.DepthwiseConv1D(3), SEQUENCE),
        **{
            name: (getattr(kinds, name)(), ROWS)
            for name in ("ReLU", "LeakyReLU", "PReLU", "ELU", "Softmax", "ActivityRegularization")
        },
        "GaussianNoise": (kinds.GaussianNoise(0.1), ROWS),
        "GaussianDropout": (kinds.GaussianDropout(0.1), ROWS),
        "AlphaDropout": (kinds.AlphaDropout(0.1), ROWS),
    }
    for axes, shape in ((1, SEQUENCE), (2, IMAGE), (3, VOLUME)):
        for pattern, given in {
            "Conv{}D": (4, 3),
            "Conv{}DTranspose": (4, 3),
            "AveragePooling{}D": (2,),
            "MaxPooling{}D": (2,),
            "AdaptiveAveragePooling{}D": (2,),
            "AdaptiveMaxPooling{}D": (2,),
            "GlobalAveragePooling{}D": (),
            "GlobalMaxPooling{}D": (),
            "UpSampling{}D": (2,),
            "ZeroPadding{}D": (1,),
            "Cropping{}D": (1,),
            "SpatialDropout{}D": (0.5,),
        }.items():
            name = pattern.format(axes)
            each[name] = (getattr(kinds, name)(*given), shape)
    found: dict[str, tuple[Any, tuple[int, ...]]] = {}
    for name, (layer, shape) in each.items():
        kind = "int32" if shape == TOKENS else "float32"
        whole = keras.Sequential([keras.Input(shape[1:], dtype=kind), layer])
        found[name] = (whole, shape)
    heads = {"num_query_heads": 4, "num_key_value_heads": 2}
    for name, layer in {
        "MultiHeadAttention": kinds.MultiHeadAttention(2, 4),
        "GroupQueryAttention": kinds.GroupQueryAttention(4, **heads),
    }.items():
        given = keras.Input(SEQUENCE[1:])
        found[name] = (keras.Model(given, layer(given, given)), SEQUENCE)
    for name in (
        *("Attention", "AdditiveAttention"),
        *("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"),
    ):
        given = keras.Input(SEQUENCE[1:])
        found[name] = (keras.Model(given, getattr(kinds, name)()([given, given * 2])), SEQUENCE)
    given = keras.Input(ROWS[1:])
    found["Dot"] = (keras.Model(given, kinds.Dot(1)([given, given * 2])), ROWS)
    return found


# Classes that are no layers of a model: bases, containers, deprecated ones, and layers for training
# or for data.
_OTHERS = {
    "Flax NNX": "Module|RNNCellBase|Dict|List",
    "Flax Linen": "Module|RNNCellBase|SelfAttention|.*Fp8.*",
    "Equinox": "Conv|ConvTranspose|Pool|AdaptivePool|Shared|State.*",
    "Haiku": "Module|RNNCore|ConvND.*|EMA.*|SN.*|Exponential.*|SpectralNorm|.*Core|Conv[13]DLSTM",
    "Keras": "Layer|Wrapper|InputLayer|.*Layer|.*Wrapper|Pipeline|Random.*|RandAugment|AugMix"
    "|CutMix|MixUp|AutoContrast|Equalization|Contrast.*|Solarization|.*Lookup|.*Hash.*|Text.*"
    "|Discretization|CategoryEncoding|MaxNumBoundingBoxes|.*Spectrogram|ConvLSTM[13]D|ReversibleEmbedding",
}
_MODULES: dict[str, tuple[Any, type]] = {
    "Flax NNX": (nnx, nnx.Module),
    "Flax Linen": (nn, nn.Module),
    "Equinox": (eqx.nn, eqx.Module),
    "Haiku": (hk, hk.Module),
    "Keras": (keras.layers, keras.Layer),
}


def classes(framework: str) -> set[str]:
    """Returns the names of a framework's layers. A class with several names counts once."""
    module, base = _MODULES[framework]
    found = {kind: name for name, kind in sorted(vars(module).items()) if isinstance(kind, type)}
    return {
        name if kind.__name__ not in vars(module) else kind.__name__
        for kind, name in found.items()
        if issubclass(kind, base) and not re.fullmatch(_OTHERS[framework], name)
    }


FRAMEWORKS: dict[str, Callable[[], dict[str, tuple[Any, tuple[int, ...]]]]] = {
    "Flax NNX": _nnx,
    "Flax Linen": _linen,
    "Equinox": _equinox,
    "Haiku": _haiku,
    "Keras": _keras,
}
