"""Published checkpoints of small random models, compared with the numbers of transformers.

`scripts/gen_family_fixtures.py` writes the fixtures.
"""

import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest

import jax2onnx
from harness.checkpoints import publish, random_tensor, write
from jax2onnx import InvalidInputError, UnsupportedError, _core, families, generation
from jax2onnx._generation import mxfp4

FIXTURES = Path(__file__).parent / "families"
MODELS = sorted(path.stem for path in FIXTURES.glob("*.json") if path.stem != "lora")
LENGTH = 48

# Options of a folder whose logits are compared.
SCORED = {"context_length": LENGTH, "all_logits": True}


def fixture(name):
    return json.loads((FIXTURES / f"{name}.json").read_text())


def published_folder(folder, name):
    made = fixture(name)
    return publish(folder / name, made["config"], made["tensors"]), made


def run(folder, prompt, count):
    """Returns onnxruntime's logits for a prompt, and the most likely tokens after it."""
    session = onnxruntime.InferenceSession(
        folder / "model.onnx", providers=["CPUExecutionProvider"]
    )
    shapes = {value.name: value.shape for value in session.get_inputs()}
    outputs = [value.name.replace("present", "past_key_values") for value in session.get_outputs()]
    past = {name: shapes[name] for name in outputs[1:]}
    # A cache grows from nothing, or is a buffer of a fixed length.
    sizes = {name: [size if isinstance(size, int) else 0 for size in past[name]] for name in past}
    cache = {name: np.zeros((1, *sizes[name][1:]), np.float32) for name in past}
    tokens, new, first = list(prompt), list(prompt), None
    for _ in range(count):
        given = {
            "input_ids": np.asarray([new]),
            "position_ids": np.arange(len(tokens) - len(new), len(tokens))[None],
            "attention_mask": np.ones((1, len(tokens)), np.int64),
        }
        feeds = {name: value for name, value in given.items() if name in shapes}
        logits, *held = session.run(None, {**feeds, **cache})
        cache = dict(zip(past, held, strict=True))
        first = logits[0] if first is None else first
        new = [int(np.argmax(logits[0, -1]))]
        tokens += new
    return first, tokens[len(prompt) :]


@pytest.mark.parametrize("name", MODELS)
def test_the_folder_computes_the_numbers_of_transformers(name, tmp_path):
    folder, made = published_folder(tmp_path, name)
    generation.save_checkpoint(tmp_path / "model", folder, **SCORED)
    logits, tokens = run(tmp_path / "model", made["prompt"], len(made["greedy"]))
    np.testing.assert_allclose(logits, made["logits"], rtol=1e-4, atol=2e-5)
    assert tokens == made["greedy"]


def test_names_of_older_models_with_images(tmp_path):
    made = fixture("gemma3_with_images")
    prefixes = {
        "model.language_model.": "language_model.model.",
        "model.vision_tower.": "vision_tower.",
        "model.multi_modal_projector.": "multi_modal_projector.",
    }
    tensors = {}
    for name, shape in made["tensors"].items():
        (prefix,) = [prefix for prefix in prefixes if name.startswith(prefix)]
        tensors[name.replace(prefix, prefixes[prefix])] = random_tensor(name, shape)
    folder = publish(tmp_path / "published", made["config"], {}, **tensors)
    generation.save_checkpoint(tmp_path / "model", folder, **SCORED)
    logits, _ = run(tmp_path / "model", made["prompt"], 1)
    np.testing.assert_allclose(logits, made["logits"], rtol=1e-4, atol=2e-5)
    # The rest of a model that is only for texts is not ignored.
    made = fixture("gemma3")
    extra = {"vision_tower.weight": np.ones(4, np.float32)}
    publish(folder, made["config"], made["tensors"], **extra)
    with pytest.raises(UnsupportedError, match=r"the tensor `vision_tower.weight`"):
        generation.save_checkpoint(tmp_path / "model", folder)


@pytest.mark.parametrize("name", [name for name in MODELS if "images" not in name])
def test_configurations_of_older_and_newer_versions_are_the_same(name):
    made = fixture(name)
    read = families.FAMILIES[made["config"]["model_type"]].read
    models = [read(families.Config(made[key]), LENGTH) for key in ("config", "saved")]
    assert models[0] == models[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma3", "gpt_oss", "llama"])
def test_onnxruntime_genai_generates_the_same_tokens(name, tmp_path):
    genai = pytest.importorskip(
        "onnxruntime_genai", reason="onnxruntime-genai is not installed", exc_type=ImportError
    )
    folder, made = published_folder(tmp_path, name)
    # Another token ends the text, so that it is long enough to compare.
    end = min({*range(40)} - {*made["greedy"]})
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
    generation.save_checkpoint(tmp_path / "model", folder, context_length=LENGTH)
    model = genai.Model(str(tmp_path / "model"))
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=len(made["prompt"]) + len(made["greedy"]))
    generator = genai.Generator(model, params)
    generator.append_tokens(made["prompt"])
    while not generator.is_done():
        generator.generate_next_token()
    tokens = [int(token) for token in generator.get_sequence(0)]
    assert tokens == made["prompt"] + made["greedy"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma3", "gpt_oss", "qwen2"])
def test_chats_of_three_turns(name, tmp_path):
    """Layers with windows, sinks and biases keep what earlier turns wrote into their buffers."""
    genai = pytest.importorskip(
        "onnxruntime_genai", reason="onnxruntime-genai is not installed", exc_type=ImportError
    )
    folder, made = published_folder(tmp_path, name)
    # No text contains this token, so none ends early.
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 39}))
    generation.save_checkpoint(tmp_path / "model", folder, context_length=LENGTH)
    graph = onnx.load(tmp_path / "model" / "model.onnx", load_external_data=False).graph
    operators = [node.op_type for node in graph.node]
    assert operators.count("GroupQueryAttention") == made["config"]["num_hidden_layers"]
    model = genai.Model(str(tmp_path / "model"))
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=LENGTH)
    generator = genai.Generator(model, params)
    generator.append_tokens(made["prompt"])

    def check():
        tokens = [int(token) for token in generator.get_sequence(0)]
        wanted, _ = run(tmp_path / "model", tokens, 1)
        found = generator.get_logits().reshape(-1, wanted.shape[1])[-1]
        np.testing.assert_allclose(found, wanted[-1], rtol=1e-4, atol=1e-4)
        return tokens

    for turn in range(3):
        for _ in range(4):
            check()
            generator.generate_next_token()
        tokens = [int(token) for token in generator.get_sequence(0)]
        generator.rewind_to(len(tokens) - 1)
        generator.append_tokens([tokens[-1], 3 + turn, 5, 7])
    check()
    generator.rewind_to(7)
    generator.append_tokens([1, 9])
    assert check() == [*made["prompt"][:7], 1, 9]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma3", "gpt_oss", "mistral"])
def test_caches_of_windows(name, tmp_path):
    """Layers with a window keep few tokens more than that."""
    genai = pytest.importorskip(
        "onnxruntime_genai", reason="onnxruntime-genai is not installed", exc_type=ImportError
    )
    folder, made = published_folder(tmp_path, name)
    # No text contains this token, so none ends early.
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 39}))
    for kind, options in {"whole": {}, "windows": {"assume": ["windowed_caches"]}}.items():
        generation.save_checkpoint(tmp_path / kind, folder, context_length=LENGTH, **options)
    model = genai.Model(str(tmp_path / "windows"))
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=LENGTH)
    generator = genai.Generator(model, params)
    generator.append_tokens(made["prompt"])
    for turn in range(4):
        for _ in range(2 + turn):
            generator.generate_next_token()
        tokens = [int(token) for token in generator.get_sequence(0)]
        # As the folder's README says.
        kept = len(tokens) - 1
        try:
            generator.rewind_to(kept)
        except RuntimeError:
            kept, generator = 0, genai.Generator(model, params)
        generator.append_tokens([*tokens[kept:], 3 + turn, 5])
        wanted, _ = run(tmp_path / "whole", [*tokens, 3 + turn, 5], 1)
        found = generator.get_logits().reshape(-1, wanted.shape[1])[-1]
        np.testing.assert_allclose(found, wanted[-1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("adapter", "given"),
    [(["a", "b"], "a list"), ({"a": "b"}, "a dict"), ("a.onnx_adapter", "`a.onnx_adapter`")],
)
def test_adapters_are_not_switched(adapter, given, tmp_path):
    folder, _ = published_folder(tmp_path, "llama")
    with pytest.raises(InvalidInputError) as error:
        generation.save_checkpoint(tmp_path / "model", folder, adapter=adapter)
    assert f"`adapter` is {given}, which cannot be merged" in str(error.value)
    assert "export one folder for each adapter" in str(error.value)


def test_an_adapter_is_merged(tmp_path):
    folder, made = published_folder(tmp_path, "lora")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps(made["adapter"]))
    thin = {name: random_tensor(name, shape) for name, shape in made["adapter_tensors"].items()}
    write(adapter / "adapter_model.safetensors", thin)
    options = {**SCORED, "adapter": adapter}
    generation.save_checkpoint(tmp_path / "model", folder, **options)
    logits, tokens = run(tmp_path / "model", made["prompt"], len(made["greedy"]))
    np.testing.assert_allclose(logits, made["logits"], rtol=1e-4, atol=1e-4)
    assert tokens == made["greedy"]

    def rejected(message, error=UnsupportedError, tensors=thin, **changes):
        (adapter / "adapter_config.json").write_text(json.dumps({**made["adapter"], **changes}))
        write(adapter / "adapter_model.safetensors", tensors)
        with pytest.raises(error) as found:
            generation.save_checkpoint(tmp_path / "model", folder, **options)
        assert message in str(found.value)

    rejected("fields that are not implemented: `use_dora`", use_dora=True)
    rejected("fields that are not implemented: `alpha_pattern`", alpha_pattern={"q_proj": 3})
    rejected("does not describe a LoRA adapter", peft_type="IA3")
    first = next(iter(thin))
    extra = {"base_model.model.lm_head.weight": thin[first]}
    rejected("the tensor `base_model.model.lm_head.weight`", tensors={**thin, **extra})
    other = {name.replace("layers.0", "layers.7"): thin[name] for name in thin}
    rejected("`model.layers.7.", InvalidInputError, other)
    rejected("only one of the two matrices", InvalidInputError, {first: thin[first]})


def test_experts_in_mxfp4(tmp_path):
    """The blocks that are published for GPT-OSS, decoded by the types of ml_dtypes."""
    made = fixture("gpt_oss")
    random = np.random.default_rng(0)
    shapes, packed, wanted = dict(made["tensors"]), {}, {}
    # Blocks have 32 inputs.
    made["config"]["intermediate_size"] = 64
    for name, shape in made["tensors"].items():
        if name.endswith("_proj") and "experts" in name:
            del shapes[name]
            experts, rows = shape[0], {48: 64, 96: 128}.get(shape[2], shape[2])
            groups = {48: 64}.get(shape[1], shape[1]) // 32
            codes = random.integers(0, 16, (experts, rows, groups, 32), np.uint8)
            powers = random.integers(122, 127, (experts, rows, groups), np.uint8)
            packed[f"{name}_blocks"] = codes[..., ::2] | codes[..., 1::2] << 4
            packed[f"{name}_scales"] = powers
            floats = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32)
            floats *= powers.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)[..., None]
            wanted[name] = floats.reshape(experts, rows, -1).transpose(0, 2, 1)
        elif shape[-1] == 96:
            shapes[name] = [shape[0], 128]
    for name, decoded in wanted.items():
        found = mxfp4.experts(packed[f"{name}_blocks"], packed[f"{name}_scales"])
        np.testing.assert_array_equal(found, decoded)
    plain = publish(tmp_path / "plain", made["config"], shapes, **wanted)
    method = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}
    config = {**made["config"], "quantization_config": method}
    blocks = publish(tmp_path / "blocks", config, shapes, **packed)
    results = []
    for folder in (plain, blocks):
        generation.save_checkpoint(tmp_path / "model", folder, **SCORED)
        results.append(run(tmp_path / "model", made["prompt"], 3))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    config["quantization_config"] = {"quant_method": "gptq"}
    publish(blocks, config, shapes, **packed)
    with pytest.raises(UnsupportedError, match="quantised by `gptq`"):
        generation.save_checkpoint(tmp_path / "model", blocks)


def test_experts_in_few_bits(tmp_path):
    """A prompt reads experts one after the other, and a single token those that it chose."""
    folder, made = published_folder(tmp_path, "gpt_oss")
    errors = []
    for name, dtype in (("int8", onnx.TensorProto.INT8), ("int4", onnx.TensorProto.UINT8)):
        options = {**SCORED, "weights": {"*experts.*_proj": name}}
        generation.save_checkpoint(tmp_path / name, folder, **options)
        graph = onnx.load(tmp_path / name / "model.onnx", load_external_data=False).graph
        types = {t.name: t.data_type for t in graph.initializer}
        experts = [n for n in made["tensors"] if n.endswith("_proj") and "experts" in n]
        assert {types[n] for n in experts} == {dtype}
        logits, _ = run(tmp_path / name, made["prompt"], 1)
        few, _ = run(tmp_path / name, made["prompt"][:3], 1)
        np.testing.assert_allclose(few, logits[:3], rtol=1e-4, atol=1e-4)
        errors.append(np.abs(logits - made["logits"]).mean() / np.abs(made["logits"]).mean())
    assert errors[0] < 0.01 < errors[1] < 0.2


def test_one_head_of_keys_and_values(tmp_path):
    """With a single head, the numbers of queries and of heads that share it look alike."""
    made = fixture("gemma3")
    config = {**made["config"], "num_key_value_heads": 1}
    shapes = {
        n: [16, 32] if "k_proj" in n or "v_proj" in n else s for n, s in made["tensors"].items()
    }
    folder = publish(tmp_path / "published", config, shapes)
    results = []
    for form in ("native", "elementary"):
        operators = {"GroupQueryAttention": form}
        generation.save_checkpoint(tmp_path / form, folder, **SCORED, operators=operators)
        graph = onnx.load(tmp_path / form / "model.onnx", load_external_data=False).graph
        found = [node for node in graph.node if node.op_type == "GroupQueryAttention"]
        assert len(found) == (config["num_hidden_layers"] if form == "native" else 0)
        results.append(run(tmp_path / form, made["prompt"], 8))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-4, atol=1e-5)
    assert results[0][1] == results[1][1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma2", "llama", "phi3"])
def test_beams(name, tmp_path):
    genai = pytest.importorskip(
        "onnxruntime_genai", reason="onnxruntime-genai is not installed", exc_type=ImportError
    )
    folder, made = published_folder(tmp_path, name)
    written = []
    for form in ("auto", "elementary"):
        operators = {"GroupQueryAttention": form}
        generation.save_checkpoint(tmp_path / form, folder, operators=operators)
        model = genai.Model(str(tmp_path / form))
        params = genai.GeneratorParams(model)
        params.set_search_options(max_length=24, num_beams=3)
        generator = genai.Generator(model, params)
        generator.append_tokens(made["prompt"])
        while not generator.is_done():
            generator.generate_next_token()
        written.append([int(token) for token in generator.get_sequence(0)])
    assert written[0] == written[1]


def types_by_weight(model):
    """Returns the types of stored weights. The names of concatenated ones are joined."""
    values = [t for t in model.graph.initializer if not t.name.endswith("/scale")]
    return {name: t.data_type for t in values for name in t.name.split("+")}


@pytest.mark.slow
def test_shards_of_bfloat16_and_fewer_bits(tmp_path):
    """The usual form of large checkpoints: several files, an index, and bfloat16."""
    folder, made = published_folder(tmp_path, "llama")
    tensors = {n: random_tensor(n, s).astype(jnp.bfloat16) for n, s in made["tensors"].items()}
    names = sorted(tensors)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    (folder / "model.safetensors").unlink()
    for file, held in parts.items():
        write(folder / file, {name: tensors[name] for name in held})
    index = {name: file for file, held in parts.items() for name in held}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    generation.save_checkpoint(tmp_path / "model", folder, **SCORED)
    logits, _ = run(tmp_path / "model", made["prompt"], 1)
    error = np.abs(logits - np.asarray(made["logits"]))
    assert 0 < error.max() < 0.3
    generation.save_checkpoint(tmp_path / "small", folder, **SCORED, weights="int4")
    model = onnx.load(tmp_path / "small" / "model.onnx", load_external_data=False)
    types = types_by_weight(model)
    weights = {name for name in made["tensors"] if "mlp" in name or "head" in name}
    # `MatMulNBits` reads bytes. Columns that do not consist of whole blocks stay standard.
    found = {types[name] for name in weights}
    assert found == {onnx.TensorProto.UINT8, onnx.TensorProto.INT4}
    operators = {node.op_type for node in model.graph.node}
    assert {"MatMulNBits", "SkipSimplifiedLayerNormalization"} <= operators
    few, _ = run(tmp_path / "small", made["prompt"], 1)
    correlation = np.corrcoef(few.ravel(), logits.ravel())[0, 1]
    assert correlation > 0.9
    # The operators of ONNX compute the same numbers.
    elementary = {"MatMulNBits": "elementary", "SkipSimplifiedLayerNormalization": "elementary"}
    options = {"weights": "int4", "operators": elementary, **SCORED}
    generation.save_checkpoint(tmp_path / "standard", folder, **options)
    model = onnx.load(tmp_path / "standard" / "model.onnx", load_external_data=False)
    types = {t.name: t.data_type for t in model.graph.initializer}
    assert {types[name] for name in weights} == {onnx.TensorProto.INT4}
    same, _ = run(tmp_path / "standard", made["prompt"], 1)
    np.testing.assert_allclose(few, same, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"weights": "int4"}])
def test_logits_of_the_last_token_alone(options, tmp_path):
    folder, made = published_folder(tmp_path, "llama")
    results = []
    for last in (False, True):
        given = {**options, "context_length": LENGTH, "all_logits": not last}
        generation.save_checkpoint(tmp_path / "model", folder, **given)
        results.append(run(tmp_path / "model", made["prompt"], 3))
    (every, tokens), (last, same) = results
    assert last.shape == (1, *every.shape[1:]) if every.ndim == 2 else last.shape[1] == 1
    np.testing.assert_allclose(last[-1], every[-1], rtol=1e-5, atol=1e-5)
    assert tokens == same


def test_the_checkpoint_is_not_overwritten(tmp_path):
    folder, _ = published_folder(tmp_path, "llama")
    (folder / "README.md").write_text("about the model")
    link = tmp_path / "link"
    link.symlink_to(folder)
    for output in (folder, link):
        with pytest.raises(InvalidInputError, match="the folder to write is the checkpoint"):
            generation.save_checkpoint(output, folder)
    assert (folder / "README.md").read_text() == "about the model"


def test_a_type_that_nothing_computes_in_is_an_error(tmp_path):
    folder, _ = published_folder(tmp_path, "llama")
    with pytest.raises(InvalidInputError, match="nothing in the model can compute in bfloat16"):
        generation.save_checkpoint(tmp_path / "model", folder, compute="bfloat16")
    assert not (tmp_path / "model").exists()


REJECTED = {
    "unknown field": ("llama", {"attention_multiplier": 0.2}, "unknown for llama models"),
    "activation": ("llama", {"hidden_act": "gelu"}, '`hidden_act` is "gelu"'),
    "rotation": (
        "llama",
        {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
        "is scaled by `dynamic`",
    ),
    "field of the rotation": (
        "llama",
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0, "mrope_section": [1, 2]}},
        "unknown fields in",
    ),
    "bidirectional": ("gemma3", {"use_bidirectional_attention": True}, "`use_bidirectional"),
    "caps": ("gemma3", {"attn_logit_softcapping": 30.0}, "`attn_logit_softcapping` is 30.0"),
    "long texts": ("phi3_long", {"original_max_position_embeddings": 16}, "at most 16"),
    "family": ("llama", {"model_type": "bloom"}, "a model of the type `bloom`"),
    "quantised": ("llama", {"quantization_config": {"quant_method": "awq"}}, "by `awq`"),
    "biases of phi": ("phi3", {"lm_head_bias": True}, "`lm_head_bias` is true"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_what_is_not_implemented_is_an_error(case, tmp_path):
    name, changes, message = REJECTED[case]
    made = fixture(name)
    folder = publish(tmp_path / "published", {**made["config"], **changes}, made["tensors"])
    with pytest.raises(UnsupportedError) as error:
        generation.save_checkpoint(tmp_path / "model", folder, context_length=LENGTH)
    assert message in str(error.value)
    assert not (tmp_path / "model").exists()


INVALID = {
    "missing field": ({"hidden_size": None}, "has no field `hidden_size`"),
    "wrong type": ({"hidden_size": "32"}, "it has to be a positive integer"),
    "heads": ({"num_key_value_heads": 3}, "it has to divide 4 heads"),
    "no end": ({"eos_token_id": None}, "has the field `eos_token_id`"),
    "rotation": ({"rope_scaling": {"rope_type": "llama3"}}, "has no `low_freq_factor`"),
    "other shapes": ({"intermediate_size": 64}, "`model.layers.0.mlp.gate_proj.weight` is"),
    "more layers": ({"num_hidden_layers": 4}, "lacks 9 of"),
}


def test_the_rotation_of_gpt_oss_has_no_default(tmp_path):
    made = fixture("gpt_oss")
    config = {name: value for name, value in made["config"].items() if name != "rope_scaling"}
    folder = publish(tmp_path / "published", config, made["tensors"])
    with pytest.raises(InvalidInputError, match="has no field `rope_scaling`"):
        generation.save_checkpoint(tmp_path / "model", folder)


@pytest.mark.parametrize("case", INVALID)
def test_invalid_checkpoints(case, tmp_path):
    changes, message = INVALID[case]
    made = fixture("llama")
    folder = publish(tmp_path / "published", {**made["config"], **changes}, made["tensors"])
    with pytest.raises(InvalidInputError) as error:
        generation.save_checkpoint(tmp_path / "model", folder, context_length=LENGTH)
    assert message in str(error.value)
    assert not (tmp_path / "model").exists()


def test_tensors_that_the_model_does_not_read(tmp_path):
    made = fixture("llama")
    extra = {"model.layers.0.self_attn.q_proj.bias": np.ones(32, np.float32)}
    folder = publish(tmp_path / "published", made["config"], made["tensors"], **extra)
    with pytest.raises(UnsupportedError, match=r"the tensor `model.layers.0.self_attn.q_proj.bias"):
        generation.save_checkpoint(tmp_path / "model", folder)
    harmless = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32)}
    publish(folder, made["config"], made["tensors"], **harmless)
    generation.save_checkpoint(tmp_path / "model", folder)


def test_the_context_length(tmp_path):
    folder, _ = published_folder(tmp_path, "llama")
    for given in (0, 129, 2.0):
        with pytest.raises(InvalidInputError, match="the model is for 1 to 128 tokens"):
            generation.save_checkpoint(tmp_path / "model", folder, context_length=given)
    generation.save_checkpoint(tmp_path / "model", folder)
    about = json.loads((tmp_path / "model" / "genai_config.json").read_text())
    assert about["model"]["context_length"] == 128


def test_defaults_of_the_publisher(tmp_path):
    """The tokenizer is copied, and `generation_config.json` has the last word on tokens."""
    folder, _ = published_folder(tmp_path, "llama")
    (folder / "tokenizer.json").write_text("{}")
    settings = {"eos_token_id": [1, 7], "do_sample": True, "temperature": 0.6, "max_length": 20}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    generation.save_checkpoint(tmp_path / "model", folder, search={"top_k": 5})
    assert (tmp_path / "model" / "tokenizer.json").read_text() == "{}"
    about = json.loads((tmp_path / "model" / "genai_config.json").read_text())
    assert about["model"]["eos_token_id"] == [1, 7]
    assert about["model"]["bos_token_id"] == 2
    search = {"do_sample": True, "temperature": 0.6, "top_k": 5, "max_length": 128}
    assert search.items() <= about["search"].items()


def test_nodes_know_the_lines_of_the_family(tmp_path):
    folder, _ = published_folder(tmp_path, "llama")
    generation.save_checkpoint(tmp_path / "model", folder, stacktrace_metadata=True)
    status, listing, _ = jax2onnx._core.command(["show", str(tmp_path / "model" / "model.onnx")])
    assert status == 0
    products = [line for line in listing.splitlines() if " MatMul " in line]
    # Seven projections a layer, the logits, and products of attention.
    of_layers = [line for line in products if "Llama.layer:" in line]
    of_model = [line for line in products if "Llama.decode:" in line]
    assert len(of_layers) >= 3 * 7
    assert len(of_model) == 1
    assert len(of_layers) + len(of_model) == len(products)


def test_the_command(tmp_path, capsys):
    folder, _ = published_folder(tmp_path, "llama")
    output = tmp_path / "model"

    def generated(checkpoint, *more):
        weights = ["--weights", "lm_head.*=keep", "--weights", "int4"]
        options = ["--context-length", "32", "--stacktrace", "sourcemap", *weights]
        return _core.main(["generate-folder", str(checkpoint), "-o", str(output), *options, *more])

    assert generated(folder) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith(f"{output}: ")
    named = ["README.md", "genai_config.json", "model.onnx", "weights.data"]
    assert [line.split(":")[0].strip() for line in printed[1:]] == named
    model = onnx.load(output / "model.onnx", load_external_data=False)
    types = types_by_weight(model)
    assert types["lm_head.weight"] == onnx.TensorProto.FLOAT
    # `MatMulNBits` reads bytes.
    assert types["model.layers.0.mlp.up_proj.weight"] == onnx.TensorProto.UINT8
    assert generated(tmp_path / "none") == 2
    assert "there is no file" in capsys.readouterr().err
    assert generated(folder, "--set", "opsett=3") == 2
    assert "did you mean 'opset'" in capsys.readouterr().err


PUBLISHED = json.loads((FIXTURES.parent / "published_configs.json").read_text())


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_have_the_published_number_of_parameters(name):
    count, fields = PUBLISHED[name]
    config = families.Config(fields)
    model = families.FAMILIES[config.family].read(config, 4096)
    # Read with the tensors.
    config.get("quantization_config")
    config.check_all_read()
    parameters = jax.tree_util.tree_leaves(model.parameters())
    assert sum(math.prod(parameter.shape) for parameter in parameters) == count
