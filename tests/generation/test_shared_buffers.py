"""Attention over shared buffers: `GroupQueryAttention` in the models of onnxruntime-genai."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

from harness.decoders import (
    ABOUT,
    GROUPS,
    HEADS,
    LAYERS,
    LENGTH,
    SIZE,
    VOCABULARY,
    WIDTH,
    Style,
    cache_shape,
    decoder,
    greedy,
    parameters,
)
from jax2onnx import InvalidInputError, allclose, generation, to_onnx

PROMPT = [3, 7, 9, 4, 1]
NATIVE = {"GroupQueryAttention": "native"}
ELEMENTARY = {"GroupQueryAttention": "elementary"}


def graph_of(folder):
    return onnx.load(folder / "model.onnx", load_external_data=False).graph


def grouped(graph):
    """Returns the attributes of each node."""
    nodes = [node for node in graph.node if node.op_type == "GroupQueryAttention"]
    return [{a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} for node in nodes]


def is_shared(folder):
    config = json.loads((folder / "genai_config.json").read_text())
    return config["search"]["past_present_share_buffer"]


def save(folder, style, **options):
    shape = cache_shape(style)
    generation.save(folder, decoder(style), [(shape, shape)] * LAYERS, ABOUT, **options)


def stepwise(folder, tokens, sizes, length, shape):
    """Returns the logits of onnxruntime, which runs chunks of these sizes on shared buffers."""
    session = onnxruntime.InferenceSession(
        folder / "model.onnx", providers=["CPUExecutionProvider"]
    )
    names = [v.name for v in session.get_inputs() if v.name.startswith("past")]
    buffer = partial(np.full, (1, *(length if n == "past" else n for n in shape[1:])), 7.0)
    past = {n: onnxruntime.OrtValue.ortvalue_from_numpy(buffer(dtype=np.float32)) for n in names}
    done, logits = 0, []
    for size in sizes:
        binding = session.io_binding()
        binding.bind_cpu_input("input_ids", np.array([tokens[done : done + size]], np.int64))
        binding.bind_cpu_input("attention_mask", np.ones((1, done + size), np.int64))
        for name, value in past.items():
            binding.bind_ortvalue_input(name, value)
            binding.bind_ortvalue_output(name.replace("past_key_values", "present"), value)
        binding.bind_output("logits")
        session.run_with_iobinding(binding)
        logits.append(binding.get_outputs()[-1].numpy()[0])
        done += size
    return np.concatenate(logits)


STYLES = {
    "grows": Style(),
    "buffer": Style(cache="buffer"),
    "heads last": Style(cache="buffer, heads last"),
    "soft cap": Style(soft_cap=3.0),
    "window": Style(window=4),
    "sinks": Style(sinks=True),
    "gpt-oss": Style(cache="buffer", sinks=True, window=6),
    "gemma": Style(cache="buffer", one_plus=True, soft_cap=5.0, window=6),
}


@pytest.mark.parametrize("name", STYLES)
def test_attention_and_its_cache_are_one_node(name, tmp_path):
    style = STYLES[name]
    save(tmp_path / "m", style)
    graph = graph_of(tmp_path / "m")
    found = grouped(graph)
    wanted = {"num_heads": HEADS, "kv_num_heads": GROUPS}
    wanted |= {"softcap": style.soft_cap} if style.soft_cap else {}
    wanted |= {"local_window_size": style.window} if style.window else {}
    scales = [attributes.pop("scale") for attributes in found]
    np.testing.assert_allclose(scales, [1 / np.sqrt(SIZE)] * LAYERS, rtol=1e-6)
    assert found == [wanted] * LAYERS
    assert is_shared(tmp_path / "m")
    assert not {n.op_type for n in graph.node} & {"Softmax", "ScatterND", "Where"}
    assert [v.name for v in graph.input][:2] == ["input_ids", "attention_mask"]

    tokens = np.random.default_rng(0).integers(0, VOCABULARY - 1, 20).tolist()
    empty = [(jnp.zeros(cache_shape(style, batch=1, past=0)),) * 2] * LAYERS
    exact, _ = decoder(style)(jnp.asarray([tokens]), jnp.arange(20)[None], empty)
    shape = cache_shape(Style(cache="buffer") if style.cache != "grows" else style)
    logits = stepwise(tmp_path / "m", tokens, [7, 1, 1, 5, 1, 5], LENGTH, shape)
    np.testing.assert_allclose(logits, exact[0], rtol=1e-5, atol=1e-5)


WINDOWED = ["windowed_caches"]


@pytest.mark.parametrize("capacity", [4, 7])
def test_buffers_may_have_the_size_of_the_window(capacity, tmp_path):
    style = Style(window=4)
    save(tmp_path / "m", style, assume=WINDOWED)
    found = grouped(graph_of(tmp_path / "m"))
    assert [attributes["sliding_window_cache"] for attributes in found] == [1] * LAYERS
    config = json.loads((tmp_path / "m" / "genai_config.json").read_text())
    windows = config["model"]["decoder"]["sliding_window"]
    assert (windows["window_size"], windows["layers"]) == (4, [*range(LAYERS)])
    tokens = np.random.default_rng(0).integers(0, VOCABULARY - 1, 20).tolist()
    empty = [(jnp.zeros(cache_shape(style, batch=1, past=0)),) * 2] * LAYERS
    exact, _ = decoder(style)(jnp.asarray([tokens]), jnp.arange(20)[None], empty)
    sizes = [9, 1, 1, 3, 1, 5]
    logits = stepwise(tmp_path / "m", tokens, sizes, capacity, cache_shape(style))
    np.testing.assert_allclose(logits, exact[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("style", "form", "message"),
    [
        (Style(), "native", "no layer has a cache of its window"),
        (Style(window=LENGTH), "native", "no layer has a cache of its window"),
        (Style(window=4, cache="buffer"), "native", "no layer has a cache of its window"),
        (Style(window=4), "elementary", "no layer has a cache of its window"),
        (Style(window=(4, 6)), "native", "layer 0 has 4 tokens and layer 1 has 6 tokens"),
    ],
)
def test_buffers_of_windows_have_one_size(style, form, message, tmp_path):
    options = {"assume": WINDOWED, "operators": {"GroupQueryAttention": form}}
    with pytest.raises(InvalidInputError, match=message):
        save(tmp_path / "m", style, **options)
    assert not (tmp_path / "m").exists()


def wide(rotate):
    """Returns a decoder of one layer with heads of 32 features, which `rotate` turns."""
    rng = np.random.default_rng(1)
    w = {
        name: jnp.asarray(rng.standard_normal(shape, np.float32) / np.sqrt(shape[0]))
        for name, shape in {
            "embedding": (VOCABULARY, 64),
            "q": (64, 128),
            "k": (64, 64),
            "v": (64, 64),
            "o": (128, 64),
            "head": (64, VOCABULARY),
        }.items()
    }

    def decode(input_ids, position_ids, cache):
        x = 5 * w["embedding"][input_ids]
        q, k, v = ((x @ w[n]).reshape(*x.shape[:2], -1, 32).swapaxes(1, 2) for n in "qkv")
        q, k = rotate(q, position_ids), rotate(k, position_ids)
        k = jnp.concatenate([cache["k"], k], 2)
        v = jnp.concatenate([cache["v"], v], 2)
        q = q.reshape(q.shape[0], 2, 2, *q.shape[2:])
        scores = jnp.einsum("bkgqd,bktd->bkgqt", q, k) / np.sqrt(32)
        seen = jnp.arange(k.shape[2]) <= position_ids[:, None, None, :, None]
        weights = jax.nn.softmax(jnp.where(seen, scores, jnp.finfo(jnp.float32).min))
        mixed = jnp.einsum("bkgqt,bktd->bqkgd", weights, v)
        x = x + mixed.reshape(*x.shape[:2], -1) @ w["o"]
        return x @ w["head"], {"k": k, "v": v}

    return decode


RATES = 10000.0 ** (-np.arange(16, dtype=np.float32) / 16)
TABLE = np.arange(LENGTH, dtype=np.float32)[:, None] * RATES
COS, SIN = jnp.cos(TABLE), jnp.sin(TABLE)


def computed(x, positions):
    angles = positions[:, None, :, None].astype(jnp.float32) * RATES
    one, two = jnp.split(x, 2, -1)
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([one * cos - two * sin, two * cos + one * sin], -1)


def looked_up(x, positions):
    cos, sin = (jnp.concatenate([t, t], -1)[positions][:, None] for t in (COS, SIN))
    one, two = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-two, one], -1) * sin


def partly(x, positions):
    angles = positions[:, None, :, None].astype(jnp.float32) * RATES[:8]
    one, two, rest = x[..., :8], x[..., 8:16], x[..., 16:]
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([one * cos - two * sin, two * cos + one * sin, rest], -1)


def interleaved(x, positions):
    angles = positions[:, None, :, None].astype(jnp.float32) * RATES
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    one, two = x[..., ::2], x[..., 1::2]
    turned = jnp.stack([one * cos - two * sin, two * cos + one * sin], -1)
    return turned.reshape(x.shape)


@pytest.mark.parametrize("rotate", [computed, looked_up, partly, interleaved])
def test_rotary_embeddings_are_part_of_the_node(rotate, tmp_path):
    decode = wide(rotate)
    about = generation.Description(
        **{**ABOUT.__dict__, "layers": 1, "head_size": 32, "key_value_heads": 2, "heads": 4}
    )
    shape = ("batch", 2, "past", 32)
    generation.save(tmp_path / "m", decode, {"k": shape, "v": shape}, about)
    graph = graph_of(tmp_path / "m")
    (attributes,) = grouped(graph)
    assert attributes["do_rotary"] == 1
    assert attributes.get("rotary_interleaved", 0) == (rotate is interleaved)
    assert not {n.op_type for n in graph.node} & {"RotaryEmbedding", "Cos", "Transpose"}
    tokens = np.random.default_rng(0).integers(0, VOCABULARY - 1, 20).tolist()
    empty = jnp.zeros((1, 2, 0, 32))
    exact, _ = decode(jnp.asarray([tokens]), jnp.arange(20)[None], {"k": empty, "v": empty})
    logits = stepwise(tmp_path / "m", tokens, [7, 1, 1, 5, 1, 5], LENGTH, shape)
    np.testing.assert_allclose(logits, exact[0], rtol=1e-5, atol=1e-5)


def later_too(input_ids, position_ids, cache):
    """Every token attends to all tokens."""
    return wide(computed)(input_ids, position_ids + LENGTH, cache)


def test_other_masks_stay_and_the_reason_is_recorded(tmp_path):
    about = generation.Description(
        **{**ABOUT.__dict__, "layers": 1, "head_size": 32, "key_value_heads": 2, "heads": 4}
    )
    shape = ("batch", 2, "past", 32)
    cache = {"k": shape, "v": shape}
    generation.save(tmp_path / "m", later_too, cache, about, stacktrace_metadata="full")
    model = onnx.load(tmp_path / "m" / "model.onnx", load_external_data=False)
    assert not grouped(model.graph)
    assert not is_shared(tmp_path / "m")
    texts = "\n".join(p.value for p in model.metadata_props)
    assert "it has no mask, so tokens see later ones" in texts


def test_a_function_with_a_mask_keeps_it_unless_asked(tmp_path):
    inner = decoder(Style())

    def decode(input_ids, attention_mask, position_ids, cache):
        assert attention_mask.shape[1] == cache[0][0].shape[2] + input_ids.shape[1]
        return inner(input_ids, position_ids, cache)

    shape = cache_shape(Style())
    for name, options in {"kept": {}, "counted": {"operators": NATIVE}}.items():
        folder = tmp_path / name
        generation.save(folder, decode, [(shape, shape)] * LAYERS, ABOUT, **options)
        assert is_shared(folder) == (name == "counted")
        inputs = {v.name for v in graph_of(folder).input}
        assert ("position_ids" in inputs) == (name == "kept")
        readme = (folder / "README.md").read_text()
        # The function ignores the mask.
        assert ("must have the same length" in readme) == (name == "kept")


def test_only_on_request_in_other_models():
    decode = decoder(Style())

    def step(tokens, cache):
        past = cache[0][0].shape[2]
        return decode(tokens, past + jnp.arange(tokens.shape[1])[None], cache)

    tokens, past = jax.export.symbolic_shape("S, P")
    inputs = [
        jax.ShapeDtypeStruct((1, tokens), np.int32),
        [(jax.ShapeDtypeStruct((1, GROUPS, past, SIZE), np.float32),) * 2] * LAYERS,
    ]
    for operators in ({}, "native", NATIVE):
        model = to_onnx(step, inputs, operators=operators or "auto", stacktrace_metadata="full")
        is_asked = operators is NATIVE
        assert len(grouped(model.graph)) == LAYERS * is_asked
        assert ("com.microsoft" in {o.domain for o in model.opset_import}) == is_asked
    rng = np.random.default_rng(0)
    shape = (2, 1, GROUPS, 6, SIZE)
    cache = [tuple(rng.standard_normal(shape, np.float32)) for _ in range(LAYERS)]
    matches, message = allclose(step, model, [np.array([[3, 4, 5]], np.int32), cache])
    assert matches, message
    nodes = [node for node in model.graph.node if node.op_type == "GroupQueryAttention"]
    texts = [p.value for p in nodes[0].metadata_props]
    assert any("decoders.py" in text for text in texts)


def generator_of(genai, folder, **search):
    params = genai.GeneratorParams(genai.Model(str(folder)))
    params.set_search_options(**search)
    return genai.Generator(genai.Model(str(folder)), params)


@pytest.fixture
def genai():
    return pytest.importorskip(
        "onnxruntime_genai", reason="onnxruntime-genai is not installed", exc_type=ImportError
    )


def written(generator):
    while not generator.is_done():
        generator.generate_next_token()
    return [int(token) for token in generator.get_sequence(0)]


@pytest.mark.parametrize("back", [1, 2, 3])
@pytest.mark.parametrize("cache", ["grows", "buffer"])
def test_rewinding(genai, cache, back, tmp_path):
    style = Style(cache=cache)
    save(tmp_path / "m", style)
    generator = generator_of(genai, tmp_path / "m", max_length=LENGTH)
    generator.append_tokens(PROMPT)
    for _ in range(4):
        generator.generate_next_token()
    tokens = [int(token) for token in generator.get_sequence(0)]
    generator.rewind_to(len(tokens) - back)
    generator.append_tokens([5, 6])
    text = jnp.asarray([[*tokens[:-back], 5, 6]])
    empty = [(jnp.zeros(cache_shape(style, batch=1, past=0)),) * 2] * LAYERS
    wanted, _ = decoder(style)(text, jnp.arange(text.shape[1])[None], empty)
    logits = generator.get_logits().reshape(-1, VOCABULARY)[-1]
    np.testing.assert_allclose(logits, wanted[0, -1], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_batches_and_beams(genai, tmp_path):
    save(tmp_path / "shared", Style())
    save(tmp_path / "grows", Style(), operators=ELEMENTARY)
    assert [is_shared(tmp_path / name) for name in ("shared", "grows")] == [True, False]
    beams = []
    for name in ("shared", "grows"):
        generator = generator_of(genai, tmp_path / name, max_length=16, num_beams=3)
        generator.append_tokens(PROMPT)
        beams.append(written(generator))
    assert beams[0] == beams[1]
    prompts = np.array([PROMPT, [8, 1, 2, 3, 4]], np.int32)
    generator = generator_of(genai, tmp_path / "shared", max_length=12, batch_size=2)
    generator.append_tokens(prompts)
    written(generator)
    empty = [(jnp.zeros(cache_shape(Style(), batch=1, past=0)),) * 2] * LAYERS
    for row, prompt in enumerate(prompts.tolist()):
        tokens = [int(token) for token in generator.get_sequence(row)]
        wanted = greedy(decoder(Style()), empty, prompt, 12 - len(prompt))
        assert tokens == wanted[: len(tokens)]


def ring(lengths):
    """Returns a decoder of one token at a time, with rings of these lengths."""
    params = parameters(Style())

    def heads(x, count):
        return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)

    def decode(input_ids, position_ids, cache):
        x = params["embedding"][input_ids] + jnp.sin(position_ids * 0.1)[..., None]
        position, new = position_ids[0, 0], []
        for p, old, length in zip(params["layers"], cache, lengths, strict=True):
            at = position % length
            keys, values = (
                jax.lax.dynamic_update_slice_in_dim(leaf, heads(x @ p[name], GROUPS), at, 2)
                for leaf, name in zip(old, "kv", strict=True)
            )
            new.append((keys, values))
            held = position - (at - jnp.arange(length)) % length
            k, v = (jnp.repeat(x, HEADS // GROUPS, 1) for x in (keys, values))
            scores = heads(x @ p["q"], HEADS) @ k.swapaxes(2, 3) / np.sqrt(SIZE)
            mixed = jax.nn.softmax(jnp.where(held >= 0, scores, -1e9)) @ v
            x = x + mixed.transpose(0, 2, 1, 3).reshape(*x.shape[:2], WIDTH) @ p["o"]
        return x @ params["head"], new

    return decode


@pytest.mark.parametrize("lengths", [(8, 8), (24, 24), (24, LENGTH), (LENGTH, 18)])
def test_rings(lengths, genai, tmp_path):
    """Some layers may hold all tokens."""
    decode = ring(lengths)
    shapes = [("batch", GROUPS, n, SIZE) for n in lengths]
    cache = [(shape, shape) for shape in shapes]
    generation.save(tmp_path / "m", decode, cache, ABOUT, one_token=True)
    generator = generator_of(genai, tmp_path / "m", max_length=LENGTH)
    generator.append_tokens(PROMPT)
    found = written(generator)
    state = [(jnp.zeros((1, GROUPS, n, SIZE)),) * 2 for n in lengths]
    tokens, step = list(PROMPT), jax.jit(decode)
    for i in range(len(found) - 1):
        logits, state = step(jnp.asarray([[tokens[i]]]), jnp.asarray([[i]]), state)
        if i >= len(PROMPT) - 1:
            tokens.append(int(jnp.argmax(logits[0, -1])))
    assert found == tokens
    assert len(found) > 24
    if min(lengths) > 8:
        with pytest.raises(RuntimeError, match="have already been evicted"):
            generator.rewind_to(len(found) - 2)
        readme = (tmp_path / "m" / "README.md").read_text()
        assert f"max_length={LENGTH}" in readme
        assert "except RuntimeError" in readme


@pytest.mark.parametrize("lengths", [(8, LENGTH), (24, 32), (17, LENGTH)])
def test_rings_of_lengths_that_the_runtime_does_not_have(lengths, tmp_path):
    cache = [[("batch", GROUPS, n, SIZE)] * 2 for n in lengths]
    with pytest.raises(InvalidInputError) as error:
        generation.save(tmp_path / "m", ring(lengths), cache, ABOUT, one_token=True)
    short, long = lengths
    wanted = f"the leaf `0.0` of the cache holds {short} tokens, but `1.0` holds {long}"
    assert wanted in str(error.value)
    assert "from 18 on" in str(error.value)


@pytest.mark.parametrize("cache", ["grows", "buffer"])
def test_sizes_may_be_fixed_when_the_model_is_loaded(cache, tmp_path):
    """onnxruntime then computes lengths before the operator checks their type."""
    save(tmp_path, Style(cache=cache))
    sizes = {
        dim.dim_param
        for value in graph_of(tmp_path).input
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    }
    options = onnxruntime.SessionOptions()
    for name in sizes:
        options.add_free_dimension_override_by_name(name, 1 if name == "batch" else 4)
    path, providers = tmp_path / "model.onnx", ["CPUExecutionProvider"]
    assert len(grouped(graph_of(tmp_path))) == LAYERS
    onnxruntime.InferenceSession(path, options, providers)
