"""Models of the gallery beyond those of the tests: published configurations and libraries.

A configuration is reduced: few layers, narrow ones, random weights. What remains is the structure,
such as the ratio of heads or the order of layers with a window.
"""

import json
import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax2onnx import families

Model = tuple[Callable[..., Any], tuple[Any, ...]]
Entry = tuple[str, str, Callable[[], Model]]

PUBLISHED = Path(__file__).parent.parent / "tests" / "generation" / "published_configs.json"

# The sizes that replace those of a published configuration. Heads keep their ratio.
REDUCED = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "vocab_size": 256,
    "head_dim": 16,
    "query_pre_attn_scalar": 16,
    "num_local_experts": 8,
}
TOKENS = 16

# Applications of Keras, with their options.
KERAS: dict[str, dict[str, Any]] = {
    "MobileNetV2": {"alpha": 0.35, "input_shape": (96, 96, 3)},
    "MobileNetV3Small": {"alpha": 0.75, "minimalistic": True, "input_shape": (96, 96, 3)},
    "EfficientNetV2B0": {"input_shape": (64, 64, 3)},
    "DenseNet121": {"input_shape": (64, 64, 3)},
    "ResNet50V2": {"input_shape": (64, 64, 3)},
    "InceptionV3": {"input_shape": (96, 96, 3)},
    "Xception": {"input_shape": (96, 96, 3)},
    "ConvNeXtTiny": {"input_shape": (64, 64, 3)},
    "NASNetMobile": {"input_shape": (64, 64, 3)},
}

# Flax models of transformers: the class, and the fields of its configuration that are reduced.
NARROW = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
FLAX: dict[str, dict[str, Any]] = {
    "Bert": {**NARROW, "intermediate_size": 64, "vocab_size": 128},
    "Roberta": {**NARROW, "intermediate_size": 64, "vocab_size": 128},
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 128},
    "Albert": {**NARROW, "intermediate_size": 64, "embedding_size": 16, "vocab_size": 128},
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 128},
    "OPT": {**NARROW, "ffn_dim": 64, "vocab_size": 128, "word_embed_proj_dim": 32},
    "ViT": {**NARROW, "intermediate_size": 64, "image_size": 32, "patch_size": 8},
    "Beit": {**NARROW, "intermediate_size": 64, "image_size": 32, "patch_size": 8},
    "Dinov2": {**NARROW, "image_size": 28, "patch_size": 7},
}


def published() -> Iterator[Entry]:
    """Yields language models with the configurations of published checkpoints, reduced."""
    for title, (_, fields) in json.loads(PUBLISHED.read_text()).items():
        name = "".join(c if c.isalnum() else "_" for c in title.lower())
        yield name, f"{title}, reduced", lambda fields=fields: _published(fields)


def _published(fields: dict[str, Any]) -> Model:
    heads, groups = fields["num_attention_heads"], fields["num_key_value_heads"]
    ratio = heads // groups
    reduced = {name: value for name, value in REDUCED.items() if name in fields}
    reduced |= {"num_attention_heads": 2 * ratio, "num_key_value_heads": 2, "head_dim": 16}
    config = families.Config({**fields, **reduced})
    model = families.FAMILIES[config.family].read(config, 128)
    random = np.random.default_rng(0)

    def weight(kind: Any) -> jax.Array:
        return jnp.asarray(random.standard_normal(kind.shape, np.float32) * 0.1)

    params = jax.tree.map(weight, model.parameters())
    buffer = jnp.zeros((1, model.sizes.key_value_heads, TOKENS, model.sizes.head_size))
    cache = [{"key": buffer, "value": buffer}] * model.sizes.layers
    positions = jnp.arange(TOKENS, dtype=jnp.int32)[None]

    def logits(input_ids: jax.Array) -> jax.Array:
        return model.decode(params, input_ids, positions, cache)[0]

    return logits, (random.integers(0, 256, (1, TOKENS), dtype=np.int32),)


def of_keras() -> Iterator[Entry]:
    """Yields applications of Keras."""
    for name, options in KERAS.items():
        yield name.lower(), f"{name} of Keras", lambda name=name, o=options: _of_keras(name, o)


def _of_keras(name: str, options: dict[str, Any]) -> Model:
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import keras

    model = getattr(keras.applications, name)(
        weights=None, classes=10, classifier_activation=None, **options
    )
    image = np.random.default_rng(0).normal(size=(1, *options["input_shape"]))
    return model, (image.astype(np.float32),)


def of_libraries() -> Iterator[Entry]:
    """Yields models of packages that are not among the requirements of the tests."""
    needed = {"transformers": "transformers<5", "keras_hub": "keras-hub", "brax": "brax"}
    missing = [package for module, package in needed.items() if find_spec(module) is None]
    if missing:
        quoted = " ".join(f"'{package}'" for package in missing)
        raise SystemExit(f"these models need other packages: pip install {quoted}")
    for name, fields in FLAX.items():
        yield (
            f"flax_{name.lower()}",
            f"{name} of transformers (Flax), reduced",
            lambda name=name, fields=fields: _of_transformers(name, fields),
        )
    for name, build in HUB.items():
        yield f"hub_{name.lower()}", f"{name} of Keras Hub, reduced", build
    for name in ("ant", "humanoid", "reacher"):
        yield f"brax_{name}", f"A policy for Brax's {name}", lambda name=name: _brax_policy(name)


def _of_transformers(name: str, fields: dict[str, Any]) -> Model:
    # Flax models do not need TensorFlow, which may not load beside JAX.
    os.environ.setdefault("USE_TF", "0")
    import transformers

    config = getattr(transformers, f"{name}Config")(**fields)
    model = getattr(transformers, f"Flax{name}Model")(config, seed=0)
    random = np.random.default_rng(0)
    if hasattr(config, "image_size"):
        side = config.image_size
        given = random.standard_normal((1, 3, side, side)).astype(np.float32)
    else:
        given = random.integers(3, 128, (1, TOKENS), dtype=np.int32)
    return lambda x: model(x, params=model.params)[0], (given,)


def _dinov3() -> Model:
    from keras_hub import models

    model = models.DINOV3Backbone(
        patch_size=8,
        num_layers=2,
        hidden_dim=32,
        num_heads=4,
        intermediate_dim=64,
        num_register_tokens=4,
        image_shape=(32, 32, 3),
    )
    image = np.random.default_rng(0).standard_normal((1, 32, 32, 3)).astype(np.float32)
    return model, ({"pixel_values": image},)


def _flux() -> Model:
    from keras_hub import models

    model = models.FluxBackbone(
        input_channels=8,
        hidden_size=48,
        mlp_ratio=2.0,
        num_heads=4,
        depth=1,
        depth_single_blocks=1,
        axes_dim=[4, 4, 4],
        theta=10_000,
        use_bias=True,
        guidance_embed=True,
        image_shape=(16, 8),
        text_shape=(6, 24),
        image_ids_shape=(16, 3),
        text_ids_shape=(6, 3),
        y_shape=(32,),
    )
    random = np.random.default_rng(0)
    inputs = {key: value.shape[1:] for key, value in model.input.items()}
    given = {key: random.uniform(0, 1, (1, *shape)) for key, shape in inputs.items()}
    return model, ({key: value.astype(np.float32) for key, value in given.items()},)


def _sam() -> Model:
    from keras_hub import layers, models

    encoder = models.ViTDetBackbone(
        hidden_size=32,
        num_layers=2,
        intermediate_dim=64,
        num_heads=4,
        global_attention_layer_indices=[1],
        patch_size=8,
        num_output_channels=16,
        window_size=2,
        image_shape=(64, 64, 3),
    )
    prompts = layers.SAMPromptEncoder(
        hidden_size=16, image_embedding_size=(8, 8), input_image_size=(64, 64), mask_in_channels=4
    )
    decoder = layers.SAMMaskDecoder(
        hidden_size=16,
        num_layers=2,
        intermediate_dim=32,
        num_heads=4,
        embedding_dim=16,
        num_multimask_outputs=3,
        iou_head_depth=2,
        iou_head_hidden_dim=16,
    )
    model = models.SAMBackbone(image_encoder=encoder, prompt_encoder=prompts, mask_decoder=decoder)
    random = np.random.default_rng(0)
    given = {
        "images": random.standard_normal((1, 64, 64, 3)).astype(np.float32),
        "points": random.uniform(0, 64, (1, 2, 2)).astype(np.float32),
        "labels": np.array([[1, 0]], np.float32),
        "boxes": random.uniform(0, 64, (1, 1, 2, 2)).astype(np.float32),
        "masks": np.zeros((1, 0, 32, 32, 1), np.float32),
    }
    return model, (given,)


HUB: dict[str, Callable[[], Model]] = {"DINOv3": _dinov3, "Flux": _flux, "SAM": _sam}


def _brax_policy(name: str) -> Model:
    from brax import envs
    from brax.training.agents.ppo import networks

    env = envs.get_environment(name)
    ppo = networks.make_ppo_networks(
        env.observation_size, env.action_size, policy_hidden_layer_sizes=(32, 32)
    )
    params = ppo.policy_network.init(jax.random.PRNGKey(0))

    def act(observation: jax.Array) -> jax.Array:
        logits = ppo.policy_network.apply(None, params, observation)
        return ppo.parametric_action_distribution.mode(logits)

    shape = (4, env.observation_size)
    return act, (np.random.default_rng(0).standard_normal(shape).astype(np.float32),)
