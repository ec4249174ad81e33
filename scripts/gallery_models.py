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


# Decoders of MaxText that no published family above has, with the ratios of their configurations:
# heads and groups, experts and how many of them a token takes, and the ranks of latent attention.
MAXTEXT: dict[str, dict[str, int]] = {
    "gpt3-175b": {"heads": 6},
    "mixtral-8x7b": {"heads": 4, "groups": 1, "experts": 8, "taken": 2},
    "deepseek2-16b": {"heads": 4, "latent": 32, "experts": 16, "taken": 6, "shared": 2},
}

# Denoisers of MaxDiffusion, whose structure is that of Diffusers' Flax models: the fields of their
# configurations, with fewer channels, layers and features of the text.
CHANNELS = {"sample_size": 8, "layers_per_block": 1, "cross_attention_dim": 32}
ATTENDING = ("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",)
MAXDIFFUSION: dict[str, dict[str, Any]] = {
    "Stable Diffusion 1.4": {
        **CHANNELS,
        "block_out_channels": (32, 64, 128, 128),
        "down_block_types": ATTENDING,
        "up_block_types": ("UpBlock2D", *("CrossAttnUpBlock2D",) * 3),
        "attention_head_dim": 4,
    },
    "Stable Diffusion 2.1": {
        **CHANNELS,
        "block_out_channels": (32, 64, 128, 128),
        "down_block_types": ATTENDING,
        "up_block_types": ("UpBlock2D", *("CrossAttnUpBlock2D",) * 3),
        "attention_head_dim": (2, 4, 8, 8),
        "use_linear_projection": True,
    },
    "SDXL": {
        **CHANNELS,
        "block_out_channels": (32, 64, 128),
        "down_block_types": ("DownBlock2D", *("CrossAttnDownBlock2D",) * 2),
        "up_block_types": (*("CrossAttnUpBlock2D",) * 2, "UpBlock2D"),
        "attention_head_dim": (2, 4, 8),
        "transformer_layers_per_block": (1, 2, 4),
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 8,
        "projection_class_embeddings_input_dim": 32 + 6 * 8,
    },
}

# Policies for robots in MuJoCo's MJX: observations, actions and hidden layers of the networks.
MJX = {"go1_joystick": (48, 12, (512, 256, 128)), "g1_joystick": (103, 29, (512, 256, 128))}


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


def of_maxtext() -> Iterator[Entry]:
    """Yields decoders with the structure of MaxText's configurations."""
    for title, fields in MAXTEXT.items():
        name = "".join(c if c.isalnum() else "_" for c in f"maxtext {title}")
        yield name, f"{title} of MaxText, reduced", lambda fields=fields: _decoder(**fields)


def _decoder(
    heads: int, groups: int = 0, latent: int = 0, experts: int = 0, taken: int = 0, shared: int = 0
) -> Model:
    """Returns a decoder: with learned positions and biases if it has no experts, else with rotary
    positions and gated experts.
    """
    random, width, size, words = np.random.default_rng(0), 48, 16, 256

    def weight(*shape: int) -> jax.Array:
        return jnp.asarray(random.standard_normal(shape, np.float32) / np.sqrt(shape[-2]))

    def norm(x: jax.Array) -> jax.Array:
        if not experts:
            return jax.nn.standardize(x, epsilon=1e-5)
        return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)

    angles = jnp.arange(TOKENS)[:, None] / 10000 ** (jnp.arange(size // 2) / (size // 2))
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]

    def rotated(x: jax.Array) -> jax.Array:
        a, b = jnp.split(x, 2, -1)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def split(x: jax.Array, w: jax.Array) -> jax.Array:
        return (x @ w).reshape(*x.shape[:2], -1, size)

    def attention(x: jax.Array, w: dict[str, jax.Array]) -> jax.Array:
        q, k, v = split(x, w["q"]), None, None
        if latent:
            # Keys and values come from a few numbers; positions have features of their own.
            small = norm(x @ w["down"])
            k, v = split(small, w["k"]), split(small, w["v"])
            turned = jnp.broadcast_to(rotated(split(x, w["turned"])), k.shape)
            q = jnp.concatenate([q, rotated(split(x, w["q_turned"]))], -1)
            k, v = jnp.concatenate([k, turned], -1), jnp.pad(v, [(0, 0)] * 3 + [(0, size)])
        else:
            k, v = split(x, w["k"]), split(x, w["v"])
            q, k = (rotated(q), rotated(k)) if experts else (q, k)
        found = jax.nn.dot_product_attention(q, k, v, is_causal=True)[..., :size]
        return found.reshape(*x.shape[:2], -1) @ w["out"]

    def network(x: jax.Array, w: dict[str, jax.Array]) -> jax.Array:
        if not experts:
            return jax.nn.gelu(x @ w["up"] + w["bias"]) @ w["leave"]
        scores, chosen = jax.lax.top_k(jax.nn.softmax(x @ w["router"]), taken)
        parts = (
            jax.nn.one_hot(chosen, experts) * (scores / scores.sum(-1, keepdims=True))[..., None]
        )
        gate, up = (jnp.einsum("btd,edf->btef", x, w[key]) for key in ("gate", "up"))
        each = jnp.einsum("btef,efd->bted", jax.nn.silu(gate) * up, w["leave"])
        found = jnp.einsum("btke,bted->btd", parts, each)
        if shared:
            gate, up = jnp.split(x @ w["shared"], 2, -1)
            found = found + (jax.nn.silu(gate) * up) @ w["shared_leave"]
        return found

    def layer() -> dict[str, jax.Array]:
        few, inner = latent or width, (groups or heads) * size
        attention = {
            "q": weight(width, heads * size),
            "k": weight(few, inner),
            "v": weight(few, inner),
            "out": weight(heads * size, width),
        }
        if latent:
            attention |= {
                "down": weight(width, latent),
                "turned": weight(width, size),
                "q_turned": weight(width, heads * size),
            }
        if not experts:
            rest = {"up": weight(width, 4 * width), "leave": weight(4 * width, width)}
            return attention | rest | {"bias": weight(1, 4 * width)[0]}
        rest = {
            "router": weight(width, experts),
            "gate": weight(experts, width, 32),
            "up": weight(experts, width, 32),
            "leave": weight(experts, 32, width),
            "shared": weight(width, 2 * 32 * max(shared, 1)),
            "shared_leave": weight(32 * max(shared, 1), width),
        }
        return attention | rest

    layers = [layer() for _ in range(2)]
    table, positions = weight(words, width), weight(TOKENS, width)

    def logits(tokens: jax.Array) -> jax.Array:
        x = table[tokens] if experts else table[tokens] + positions
        for w in layers:
            x = x + attention(norm(x), w)
            x = x + network(norm(x), w)
        return norm(x) @ table.T

    return logits, (random.integers(0, words, (1, TOKENS), dtype=np.int32),)


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
    needed = {
        "transformers": "transformers<5",
        "diffusers": "diffusers<0.35",
        "keras_hub": "keras-hub",
        "brax": "brax",
    }
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
    for name, sizes in MJX.items():
        yield f"mjx_{name}", f"A policy for MJX's {name}", lambda sizes=sizes: _policy(*sizes)
    for title, fields in MAXDIFFUSION.items():
        name = "".join(c if c.isalnum() else "_" for c in f"maxdiffusion {title.lower()}")
        yield (
            name,
            f"The denoiser of {title}, as in MaxDiffusion, reduced",
            lambda fields=fields: _denoiser(fields),
        )


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

    env = envs.get_environment(name)
    return _policy(env.observation_size, env.action_size, (32, 32))


def _policy(observations: int, actions: int, layers: tuple[int, ...]) -> Model:
    from brax.training.agents.ppo import networks

    ppo = networks.make_ppo_networks(observations, actions, policy_hidden_layer_sizes=layers)
    params = ppo.policy_network.init(jax.random.PRNGKey(0))

    def act(observation: jax.Array) -> jax.Array:
        logits = ppo.policy_network.apply(None, params, observation)
        return ppo.parametric_action_distribution.mode(logits)

    given = np.random.default_rng(0).standard_normal((4, observations))
    return act, (given.astype(np.float32),)


def _denoiser(fields: dict[str, Any]) -> Model:
    # Flax models do not need other frameworks, which may not load beside JAX.
    os.environ.setdefault("USE_TF", "0")
    os.environ.setdefault("USE_TORCH", "0")
    from diffusers.models.unets.unet_2d_condition_flax import FlaxUNet2DConditionModel

    model = FlaxUNet2DConditionModel(**fields)
    params = model.init_weights(jax.random.key(0))
    normal = np.random.default_rng(0).standard_normal
    given = [normal((1, 4, 8, 8)), np.full(1, 3, np.int32), normal((1, TOKENS, 32))]
    if "addition_embed_type" in fields:
        given += [normal((1, 32)), normal((1, 6))]

    def denoised(x: jax.Array, time: jax.Array, text: jax.Array, *added: jax.Array) -> jax.Array:
        more = dict(zip(("text_embeds", "time_ids"), added, strict=False)) or None
        return model.apply({"params": params}, x, time, text, added_cond_kwargs=more).sample

    arrays = (jnp.asarray(a, jnp.int32 if a.dtype == np.int32 else jnp.float32) for a in given)
    return denoised, tuple(arrays)
