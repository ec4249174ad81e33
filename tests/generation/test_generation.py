"""Folders for text generation with onnxruntime-genai."""

import itertools
import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

import jax2onnx
from harness.checkpoints import flat, write
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
from jax2onnx import InvalidInputError, generation
from jax2onnx._generation.genai import _SETTINGS, check_search

PROMPT = [3, 7, 9, 4, 1]
COUNT = 20


def generated(folder, prompt=PROMPT, count=COUNT, extra=None, **search):
    """Returns the tokens that onnxruntime-genai generates with the folder."""
    genai = pytest.importorskip(
        "onnxruntime_genai", reason="onnxruntime-genai is not installed", exc_type=ImportError
    )
    model = genai.Model(str(folder))
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=len(prompt) + count, **search)
    generator = genai.Generator(model, params)
    for name, value in (extra or {}).items():
        generator.set_model_input(name, value)
    generator.append_tokens(prompt)
    while not generator.is_done():
        generator.generate_next_token()
    return [int(token) for token in generator.get_sequence(0)]


def empty_cache(style):
    shape = cache_shape(style, batch=1, past=0)
    return [(jnp.zeros(shape), jnp.zeros(shape))] * LAYERS


def until_the_end(tokens):
    """Cuts the tokens before the end token, where onnxruntime-genai stops."""
    ends = [i for i, token in enumerate(tokens) if token == VOCABULARY - 1 and i >= len(PROMPT)]
    return tokens[: ends[0]] if ends else tokens


def save(folder, style, **options):
    shape = cache_shape(style)
    decode = decoder(style)
    generation.save(folder, decode, [(shape, shape)] * LAYERS, ABOUT, **options)
    return decode


@pytest.mark.slow
@pytest.mark.parametrize(
    "style",
    [
        Style(),
        Style(cache="buffer"),
        Style(cache="buffer, heads last"),
        Style(one_plus=True, soft_cap=30.0, window=4),
        Style(experts=4),
        Style(cache="buffer", window=6),
    ],
    ids=["llama", "buffer", "heads last", "gemma", "experts", "window"],
)
def test_greedy_tokens_are_those_of_jax(style, tmp_path):
    decode = save(tmp_path / "model", style)
    wanted = until_the_end(greedy(decode, empty_cache(style), PROMPT, COUNT))
    assert generated(tmp_path / "model") == wanted


@pytest.mark.parametrize("style", [Style(), Style(cache="buffer")], ids=["grows", "buffer"])
def test_a_second_turn(style, tmp_path):
    """The README of the folder shows how to append tokens to a generated text."""
    genai = pytest.importorskip(
        "onnxruntime_genai", reason="onnxruntime-genai is not installed", exc_type=ImportError
    )
    decode = save(tmp_path / "model", style)
    model = genai.Model(str(tmp_path / "model"))
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=LENGTH)
    generator = genai.Generator(model, params)
    generator.append_tokens(PROMPT)
    for _ in range(4):
        generator.generate_next_token()
    readme = (tmp_path / "model" / "README.md").read_text()
    code = readme.split("```python\n")[2].split("```")[0]
    tokens = [int(token) for token in generator.get_sequence(0)]
    exec(code, {"generator": generator, "tokens": tokens, "new_tokens": [5, 6]})
    text = jnp.asarray([[*tokens, 5, 6]])
    wanted, _ = decode(text, jnp.arange(text.shape[1])[None], empty_cache(style))
    logits = generator.get_logits().reshape(-1, VOCABULARY)[-1]
    np.testing.assert_allclose(logits, wanted[0, -1], rtol=1e-4, atol=1e-5)


def test_the_decoder_of_an_encoder(tmp_path):
    style = Style(encoder=True)
    extra = {"encoded": ("batch", "source", WIDTH)}
    decode = save(tmp_path / "model", style, extra_inputs=extra)
    encoded = np.random.default_rng(3).standard_normal((1, 7, WIDTH), np.float32)
    wanted = until_the_end(greedy(decode, empty_cache(style), PROMPT, COUNT, encoded))
    assert generated(tmp_path / "model", extra={"encoded": encoded}) == wanted


def test_further_inputs_may_be_pytrees(tmp_path):
    inner = decoder(Style(encoder=True))

    def decode(input_ids, position_ids, cache, memory):
        return inner(input_ids, position_ids, cache, memory["left"][0] + memory["right"])

    shape = cache_shape(Style())
    part = ("batch", "source", WIDTH)
    extra = {"memory": {"left": [part], "right": part}}
    folder = tmp_path / "model"
    generation.save(folder, decode, [(shape, shape)] * LAYERS, ABOUT, extra_inputs=extra)
    left, right = np.random.default_rng(3).standard_normal((2, 1, 7, WIDTH), np.float32)
    empty = empty_cache(Style())
    wanted = greedy(decode, empty, PROMPT, COUNT, {"left": [left], "right": right})
    given = {"memory.left.0": left, "memory.right": right}
    assert generated(folder, extra=given) == until_the_end(wanted)
    with pytest.raises(jax2onnx.InvalidInputError, match="`extra_inputs` has `memories`"):
        save(tmp_path / "other", Style(), extra_inputs={"memories": part})
    assert os.listdir(tmp_path) == ["model"]


def test_half_precision_caches(tmp_path):
    style = Style()
    save(tmp_path / "model", style, cache_dtype=jnp.float16)
    model = onnx.load(tmp_path / "model" / "model.onnx", load_external_data=False)
    types = {
        v.name: v.type.tensor_type.elem_type for v in [*model.graph.input, *model.graph.output]
    }
    assert types.pop("logits") == onnx.TensorProto.FLOAT
    assert [types.pop(n) for n in ("input_ids", "attention_mask")] == [onnx.TensorProto.INT64] * 2
    assert set(types.values()) == {onnx.TensorProto.FLOAT16}
    assert len(generated(tmp_path / "model")) > len(PROMPT)


def test_prompts_by_another_function(tmp_path):
    style = Style()
    decode = decoder(style)

    def prefill(input_ids, position_ids):
        empty = jnp.zeros((input_ids.shape[0], GROUPS, 0, SIZE))
        return decode(input_ids, position_ids, [(empty, empty)] * LAYERS)

    folder = tmp_path / "model"
    shape = cache_shape(style)
    generation.save(folder, decode, [(shape, shape)] * LAYERS, ABOUT, prefill=prefill)
    assert {"prefill.onnx", "decode.onnx", "weights.data"} < set(os.listdir(folder))
    size = os.path.getsize(folder / "weights.data")
    generation.save(tmp_path / "alone", decode, [(shape, shape)] * LAYERS, ABOUT)
    assert size == os.path.getsize(tmp_path / "alone" / "weights.data")
    wanted = until_the_end(greedy(decode, empty_cache(style), PROMPT, COUNT))
    assert generated(folder) == wanted


def test_sampling(tmp_path):
    save(tmp_path / "model", Style(), search={"temperature": 1.5})
    config = json.loads((tmp_path / "model" / "genai_config.json").read_text())
    assert config["search"]["temperature"] == 1.5
    options = {"do_sample": True, "top_k": 50, "top_p": 0.99}
    texts = {tuple(generated(tmp_path / "model", random_seed=i, **options)) for i in range(4)}
    assert len(texts) > 1
    assert all(0 <= token < VOCABULARY for text in texts for token in text)


def test_settings_of_the_search_are_those_of_the_runtime(tmp_path):
    """onnxruntime-genai loads exactly the settings that we accept."""
    genai = pytest.importorskip(
        "onnxruntime_genai", reason="onnxruntime-genai is not installed", exc_type=ImportError
    )
    save(tmp_path / "model", Style())
    path = tmp_path / "model" / "genai_config.json"
    config = json.loads(path.read_text())
    names = [*_SETTINGS, "min_p", "num_beam"]
    for name, value in itertools.product(names, (1, 0.5, True, "a")):
        try:
            check_search({name: value})
            is_right = True
        except InvalidInputError:
            is_right = False
        if (name, value) == ("chunk_size", 0.5):
            assert not is_right  # the runtime truncates the fraction
            continue
        path.write_text(json.dumps({**config, "search": {name: value}}))
        try:
            genai.Config(os.fspath(path.parent))
            loads = True
        except Exception:
            loads = False
        assert is_right == loads, (name, value)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"tempreature": 0.8}, "`search` has 'tempreature', which onnxruntime-genai does not know"),
        ({"top_k": 0.5}, "`search` has 0.5 for `top_k`"),
    ],
)
def test_wrong_settings_of_the_search(tmp_path, search, message):
    with pytest.raises(InvalidInputError, match=message):
        save(tmp_path / "model", Style(), search=search)
    assert not (tmp_path / "model").exists()


def test_stacked_layers(tmp_path):
    inner = decoder(Style())

    def decode(input_ids, position_ids, cache):
        layers = [(cache["k"][i], cache["v"][i]) for i in range(LAYERS)]
        logits, layers = inner(input_ids, position_ids, layers)
        return logits[:, -1], {
            name: jnp.stack(z) for name, z in zip("kv", zip(*layers, strict=True), strict=True)
        }

    shape = (LAYERS, *cache_shape(Style()))
    generation.save(tmp_path / "model", decode, {"k": shape, "v": shape}, ABOUT)
    wanted = until_the_end(greedy(inner, empty_cache(Style()), PROMPT, COUNT))
    assert generated(tmp_path / "model") == wanted


def test_the_folder_explains_itself(tmp_path):
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_text("{}")
    (tokenizer / "notes.txt").write_text("mine")
    save(tmp_path / "model", Style(cache="buffer"), tokenizer=tokenizer)
    assert set(os.listdir(tmp_path / "model")) == {
        "README.md",
        "genai_config.json",
        "model.onnx",
        "tokenizer.json",
        "weights.data",
    }
    text = (tmp_path / "model" / "README.md").read_text()
    assert 'og.Model("model")' in text
    assert "updated in place" in text
    config = json.loads((tmp_path / "model" / "genai_config.json").read_text())
    assert config["search"]["past_present_share_buffer"] is True
    assert config["model"]["decoder"]["num_key_value_heads"] == GROUPS
    model = onnx.load(tmp_path / "model" / "model.onnx", load_external_data=False)
    names = {tensor.name for tensor in model.graph.initializer}
    assert {"embedding", "layers.0.q", "layers.1.down", "head"} <= names


def test_buffers_are_written_in_place(tmp_path):
    """A step does not copy the buffer."""
    operators = {"GroupQueryAttention": "elementary"}
    save(tmp_path / "model", Style(cache="buffer"), operators=operators)
    model = onnx.load(tmp_path / "model" / "model.onnx", load_external_data=False)
    makers = {name: node for node in model.graph.node for name in node.output}
    inputs = {value.name for value in model.graph.input}
    for output in model.graph.output:
        if output.name.startswith("present"):
            maker = makers[output.name]
            assert maker.op_type in ("ScatterND", "TensorScatter")
            assert maker.input[0] in inputs


def linen_decoder():
    import flax.linen as nn

    class Decoder(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.Embed(VOCABULARY, WIDTH)(tokens)
            for _ in range(LAYERS):
                attention = nn.MultiHeadDotProductAttention(HEADS, decode=True)
                x = x + attention(nn.RMSNorm()(x))
            return nn.Dense(VOCABULARY)(x)

    model = Decoder()
    variables = model.init(jax.random.key(0), jnp.zeros((1, LENGTH), jnp.int32))

    def decode(input_ids, cache):
        logits, new = model.apply(
            {"params": variables["params"], "cache": cache}, input_ids, mutable=["cache"]
        )
        return logits, new["cache"]

    return decode, variables["cache"]


@pytest.mark.slow
def test_linen_with_its_own_cache(tmp_path):
    decode, cache = linen_decoder()
    about = generation.Description(
        layers=LAYERS,
        heads=HEADS,
        head_size=SIZE,
        vocabulary=VOCABULARY,
        context_length=LENGTH,
        eos=VOCABULARY - 1,
    )
    generation.save(tmp_path / "model", decode, cache, about, one_token=True)
    tokens = list(PROMPT)
    state = jax.tree.map(jnp.zeros_like, cache)
    for i in range(len(PROMPT) + COUNT - 1):
        logits, state = decode(jnp.asarray([tokens[i : i + 1]]), state)
        if i >= len(PROMPT) - 1:
            tokens.append(int(jnp.argmax(logits[0, -1])))
    assert generated(tmp_path / "model") == until_the_end(tokens)


def nnx_layers():
    from flax import nnx

    rngs = nnx.Rngs(0)

    class Model(nnx.Module):
        def __init__(self):
            self.embed = nnx.Embed(VOCABULARY, WIDTH, rngs=rngs)
            self.projections = nnx.List([nnx.Linear(WIDTH, WIDTH, rngs=rngs) for _ in range(4)])

    model = Model()

    def apply(i, x):
        return model.projections[i](x)

    return model.embed, apply, model.embed.attend


def equinox_layers():
    import equinox

    *keys, last = jax.random.split(jax.random.key(0), 5)
    embed = equinox.nn.Embedding(VOCABULARY, WIDTH, key=last)
    projections = [equinox.nn.Linear(WIDTH, WIDTH, key=key) for key in keys]

    def look_up(ids):
        return jax.vmap(jax.vmap(embed))(ids)

    def apply(i, x):
        return jax.vmap(jax.vmap(projections[i]))(x)

    def head(x):
        return x @ embed.weight.T

    return look_up, apply, head


@pytest.mark.slow
@pytest.mark.parametrize("layers", [nnx_layers, equinox_layers])
def test_modules(layers, tmp_path):
    look_up, apply, head = layers()

    def decode(input_ids, cache):
        x = look_up(input_ids)
        q, k, v = (apply(i, x).reshape(*x.shape[:2], HEADS, SIZE) for i in range(3))
        k = jnp.concatenate([cache["layer_0"]["cached_key"], k], 1)
        v = jnp.concatenate([cache["layer_0"]["cached_value"], v], 1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
        past = k.shape[1] - x.shape[1]
        mask = jnp.arange(k.shape[1]) <= past + jnp.arange(x.shape[1])[:, None]
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v)
        x = x + apply(3, mixed.reshape(x.shape))
        return head(x), {"layer_0": {"cached_key": k, "cached_value": v}}

    about = generation.Description(
        layers=1,
        heads=HEADS,
        head_size=SIZE,
        vocabulary=VOCABULARY,
        context_length=LENGTH,
        eos=VOCABULARY - 1,
    )
    shape = ("batch", "past", HEADS, SIZE)
    cache = {"layer_0": {"cached_key": shape, "cached_value": shape}}
    generation.save(tmp_path / "model", decode, cache, about)
    empty = jnp.zeros((1, 0, HEADS, SIZE))
    start = {"layer_0": {"cached_key": empty, "cached_value": empty}}
    wanted = greedy(lambda ids, _, cache: decode(ids, cache), start, PROMPT, COUNT)
    assert generated(tmp_path / "model") == until_the_end(wanted)


def described(**changes):
    return generation.Description(**{**ABOUT.__dict__, **changes})


PAIR = [(cache_shape(Style()), cache_shape(Style()))] * LAYERS


def wrong_cache(input_ids, position_ids, cache):
    logits, cache = decoder(Style())(input_ids, position_ids, cache)
    return logits, [cache[0], (cache[1][0], cache[1][1][:, :, 1:])]


def returning(change):
    """Returns a decoder that changes its returned cache."""

    def decode(input_ids, position_ids, cache):
        logits, cache = decoder(Style())(input_ids, position_ids, cache)
        return logits, change(cache)

    return decode


@pytest.mark.parametrize(
    ("decode", "cache", "about", "message"),
    [
        (
            returning(lambda c: [c[0], (c[1][0].astype(jnp.float16), c[1][1])]),
            PAIR,
            ABOUT,
            "the leaf `1.0` of the cache is returned as float16[batch, 2, ",
        ),
        (
            returning(lambda c: [c[0], (c[1][0], 3.0)]),
            PAIR,
            ABOUT,
            "the leaf `1.1` of the cache is returned as 3.0",
        ),
        (returning(lambda c: c[:1]), PAIR, ABOUT, "the leaf `1.0` of the cache is not returned"),
        (
            returning(lambda c: [*c, (c[0][0], c[0][1])]),
            PAIR,
            ABOUT,
            "the leaf `2.0` of the returned cache is not in the cache as passed",
        ),
        (returning(tuple), PAIR, ABOUT, "takes and returns caches of different structures"),
        (decoder(Style()), PAIR, described(eos=True), "the special token `eos` cannot be True"),
        (decoder(Style()), PAIR, described(eos="</s>"), "the special token `eos` cannot be '</s>'"),
        (wrong_cache, PAIR, ABOUT, "the leaf `1.1` of the cache is returned as float32[batch, 2, "),
        (decoder(Style()), PAIR, described(eos=50), "the special token `eos` cannot be 50"),
        (decoder(Style()), PAIR, described(bos=-1), "the special token `bos` cannot be -1"),
        (decoder(Style()), PAIR, described(layers=3), "the cache has no key for layer 2 of 3"),
        (decoder(Style()), PAIR, described(heads=3), "`heads` is 3, which is not a multiple of 2"),
        (decoder(Style()), PAIR, described(heads=8), "`heads` is 8, but queries have 4 heads ("),
        (
            decoder(Style()),
            PAIR,
            described(hidden_size=64),
            "`hidden_size` is 64, but the model has a width of 32 (",
        ),
        (
            lambda input_ids, position_ids, cache: decoder(Style())(
                input_ids + jnp.ones((LENGTH // 2, 1), int)[position_ids][..., 0],
                position_ids,
                cache,
            ),
            PAIR,
            ABOUT,
            "`context_length` is 48, but there are 24 rows for positions (",
        ),
        (
            decoder(Style()),
            dict.fromkeys("kv", (3, "batch", 2, "past", 8)),
            ABOUT,
            "the leaf `k` of the cache holds 3 layers, but `layers` is 2",
        ),
        (decoder(Style()), PAIR, described(head_size=9), "the last axis is not the head size of 9"),
        (decoder(Style()), PAIR, described(vocabulary=51), "the logits are float32"),
        (decoder(Style()), PAIR, described(context_length=0), "`context_length` cannot be 0"),
        (decoder(Style()), [{"a": PAIR[0][0], "b": PAIR[0][0]}] * 2, ABOUT, "the leaf `0.a` of"),
        (
            decoder(Style()),
            [(("batch", 2, 8), PAIR[0][0])] * 2,
            ABOUT,
            "`0.0` of the cache has rank",
        ),
        (lambda tokens, cache: None, PAIR, ABOUT, "has no argument `input_ids`"),
        (lambda input_ids, a, b: None, PAIR, ABOUT, "has the arguments `a`, `b`"),
        (lambda input_ids, cache: input_ids, PAIR, ABOUT, "return the logits and the cache"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_written(
    decode, cache, about, message, tmp_path
):
    with pytest.raises(jax2onnx.InvalidInputError) as error:
        generation.save(tmp_path / "model", decode, cache, about)
    assert message in str(error.value)
    assert not os.listdir(tmp_path)


def one_head_at_a_time(params, input_ids, position_ids, cache):
    """Computes the scores of each head in a product of its own, and has a head of its own width."""
    x = params["in"][input_ids]
    q = (x @ params["q"]).reshape(*x.shape[:2], HEADS, SIZE)
    k, v = (jnp.concatenate([old, x[:, :, None, :SIZE]], 1) for old in cache[0])
    mask = jnp.arange(k.shape[1]) <= position_ids[..., None]
    mixed = []
    for head in range(HEADS):
        scores = jnp.einsum("bqd,bkd->bqk", q[:, :, head], k[:, :, 0])
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
        mixed.append(jnp.einsum("bqk,bkd->bqd", weights, v[:, :, 0]))
    x = x + jnp.concatenate(mixed, -1) @ params["o"]
    return x @ params["out"], [(k, v)]


@pytest.mark.parametrize(("heads", "is_right"), [(HEADS, True), (2 * HEADS, False)])
def test_heads_may_be_computed_one_by_one(heads, is_right, tmp_path):
    shapes = {"in": (50, 24), "q": (24, 32), "o": (32, 24), "out": (24, 50)}
    params = {name: jnp.ones(shape) for name, shape in shapes.items()}

    def decode(input_ids, position_ids, cache):
        return one_head_at_a_time(params, input_ids, position_ids, cache)

    about = described(layers=1, heads=heads, key_value_heads=1)
    shape = ("batch", "past", 1, SIZE)
    if not is_right:
        with pytest.raises(InvalidInputError, match="`heads` is 8, but queries have 4 heads"):
            generation.save(tmp_path / "model", decode, [(shape, shape)], about)
        return
    generation.save(tmp_path / "model", decode, [(shape, shape)], about)
    config = json.loads((tmp_path / "model" / "genai_config.json").read_text())
    # As wide as the embedding, which differs from all heads together.
    assert config["model"]["decoder"]["hidden_size"] == 24


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"{i}.k": "key", "{i}.v": "value"}, "has `{i}.k`, which matches no leaf of the cache"),
        ({"{i}.0": "keys", "{i}.1": "value"}, "maps `{i}.0` to 'keys'"),
        ({"{i}.0": "key"}, "no pattern matches the leaf `0.1` of the cache"),
        ({"{i}.*": "key"}, "both `0.0` and `0.1` are the key of layer 0"),
        ({"{i}.0": "key", "{i}.1": "value", "{i}.2": "key"}, "has `{i}.2`, which matches no leaf"),
    ],
)
def test_patterns_have_to_match_the_cache(names, message, tmp_path):
    with pytest.raises(jax2onnx.InvalidInputError) as error:
        generation.save(tmp_path / "m", decoder(Style()), PAIR, ABOUT, cache_names=names)
    assert message in str(error.value)
    assert not os.listdir(tmp_path)


def test_layers_have_numbers(tmp_path):
    shape = cache_shape(Style())
    cache = {name: {"k": shape, "v": shape} for name in ("first", "second")}
    names = {"{i}.k": "key", "{i}.v": "value"}
    with pytest.raises(jax2onnx.InvalidInputError, match=r"of `{i}\.k` is `first`"):
        generation.save(tmp_path / "m", decoder(Style()), cache, ABOUT, cache_names=names)


def test_numbers_of_numpy(tmp_path):
    shape = cache_shape(Style())
    about = described(eos=np.int64(4), layers=np.int32(LAYERS))
    generation.save(tmp_path / "m", decoder(Style()), [(shape, shape)] * LAYERS, about)
    config = json.loads((tmp_path / "m" / "genai_config.json").read_text())["model"]
    assert config["eos_token_id"] == [4]
    assert config["decoder"]["num_hidden_layers"] == LAYERS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.pop("layers.1.up"),
            "the checkpoint lacks one of 21 parameters:\n  `layers.1.up`",
        ),
        (
            lambda t: t.update({"layers.0.q": t["layers.0.q"][:, :3]}),
            "`layers.0.q` is float32[32, 32] in the function, but `layers.0.q` is float32[32, 3]",
        ),
    ],
)
def test_a_checkpoint_that_does_not_fit_leaves_the_old_folder(change, message, tmp_path):
    params = parameters(Style())
    tensors = {name: np.asarray(leaf) for name, leaf in flat(params).items()}
    change(tensors)
    path = write(tmp_path / "m.safetensors", tensors)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.onnx").write_text("old")
    decode = decoder(Style(), jax.eval_shape(lambda: params))
    with pytest.raises(jax2onnx.InvalidInputError) as error:
        generation.save(folder, decode, PAIR, ABOUT, checkpoint=path)
    assert message in str(error.value)
    assert sorted(os.listdir(tmp_path)) == ["m.safetensors", "model"]
    assert os.listdir(folder) == ["model.onnx"]
    assert (folder / "model.onnx").read_text() == "old"


@pytest.mark.parametrize("option", ["input_names", "input_dtypes", "output_dtypes"])
def test_names_and_types_are_those_of_the_runtime(option, tmp_path):
    with pytest.raises(jax2onnx.InvalidInputError, match=f"`{option}` is given"):
        generation.save(tmp_path / "m", decoder(Style()), PAIR, ABOUT, **{option: {"*": "int32"}})


@pytest.mark.parametrize("style", [Style(), Style(cache="buffer")])
@pytest.mark.parametrize("weights", [None, {"head": "float16", "*": "int4"}])
def test_weights_from_a_checkpoint(style, weights, tmp_path):
    params = parameters(style)
    path = write(tmp_path / "m.safetensors", flat(params))
    abstract = jax.eval_shape(lambda: params)
    cache = [(cache_shape(style), cache_shape(style))] * LAYERS
    for name, values, source in (("here", params, None), ("there", abstract, path)):
        decode = decoder(style, values)
        options = {"checkpoint": source, "weights": weights}
        generation.save(tmp_path / name, decode, cache, ABOUT, **options)
    here, there = (onnx.load(tmp_path / name / "model.onnx").graph for name in ("here", "there"))
    assert {t.name for t in here.initializer} == {t.name for t in there.initializer}
    # The names of concatenated weights are joined.
    assert {"head", "layers.1.up"} < {name for t in here.initializer for name in t.name.split("+")}
    assert there.node == here.node
    one, other = ({t.name: t.raw_data for t in g.initializer} for g in (here, there))
    assert one == other


def test_plain_onnxruntime_runs_it(tmp_path):
    style = Style()
    decode = save(tmp_path / "model", style)
    session = onnxruntime.InferenceSession(
        tmp_path / "model" / "model.onnx", providers=["CPUExecutionProvider"]
    )
    names = [i.name for i in session.get_inputs()]
    cache = [np.zeros((1, GROUPS, 0, SIZE), np.float32)] * (2 * LAYERS)
    tokens, new = list(PROMPT), list(PROMPT)
    for _ in range(COUNT):
        mask = np.ones((1, len(tokens)), np.int64)
        feeds = dict(zip(names, [np.asarray([new]), mask, *cache], strict=True))
        logits, *cache = session.run(None, feeds)
        new = [int(np.argmax(logits[0, -1]))]
        tokens += new
    assert tokens == greedy(decode, empty_cache(style), PROMPT, COUNT)


def attends_to_its_mask(input_ids, attention_mask, position_ids, cache):
    """A decoder of one layer for padded prompts."""
    params = parameters(Style())
    weights = params["layers"][0]

    def heads(x, count):
        return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)

    x = params["embedding"][input_ids] + jnp.sin(position_ids)[..., None]
    k = jnp.concatenate([cache["k"], heads(x @ weights["k"], GROUPS)], 2)
    v = jnp.concatenate([cache["v"], heads(x @ weights["v"], GROUPS)], 2)
    q = heads(x @ weights["q"], HEADS)
    scores = q @ jnp.repeat(k, HEADS // GROUPS, 1).swapaxes(2, 3) / np.sqrt(SIZE)
    places = jnp.arange(k.shape[2])
    mask = places <= k.shape[2] - x.shape[1] + jnp.arange(x.shape[1])[:, None]
    mask = mask & (attention_mask[:, None, None] > 0)
    mixed = jax.nn.softmax(jnp.where(mask, scores, -1e9)) @ jnp.repeat(v, HEADS // GROUPS, 1)
    x = x + mixed.transpose(0, 2, 1, 3).reshape(x.shape) @ weights["o"]
    return x @ params["head"], {"k": k, "v": v}


@pytest.mark.slow
def test_prompts_with_padding_on_the_left(tmp_path):
    """With the mask and the positions of a padded batch, rows do not affect each other."""
    shape = cache_shape(Style())
    generation.save(
        tmp_path / "m", attends_to_its_mask, {"k": shape, "v": shape}, described(layers=1)
    )
    session = onnxruntime.InferenceSession(
        tmp_path / "m" / "model.onnx", providers=["CPUExecutionProvider"]
    )
    tokens = np.array([[0, 0, 3, 7, 9], [4, 1, 8, 2, 6]])
    mask = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    positions = np.maximum(np.cumsum(mask, 1) - 1, 0)
    empty = np.zeros((2, GROUPS, 0, SIZE), np.float32)
    names = [value.name for value in session.get_inputs()]
    found = session.run(
        None, dict(zip(names, [tokens, mask, positions, empty, empty], strict=True))
    )[0]
    alone = {"k": empty[:1], "v": empty[:1]}
    for row, start in ((0, 2), (1, 0)):
        ids = tokens[row : row + 1, start:]
        places = np.arange(ids.shape[1])[None]
        wanted, _ = attends_to_its_mask(ids, np.ones_like(ids), places, alone)
        np.testing.assert_allclose(found[row, start:], wanted[0], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_prompts_of_several_lengths(tmp_path):
    """onnxruntime-genai masks the token for padding, and later positions do not count it."""
    genai = pytest.importorskip(
        "onnxruntime_genai", reason="onnxruntime-genai is not installed", exc_type=ImportError
    )
    pad = VOCABULARY - 2
    shape, about = cache_shape(Style()), described(layers=1, pad=pad)
    generation.save(tmp_path / "m", attends_to_its_mask, {"k": shape, "v": shape}, about)
    prompts = [[3, 7, 9], [4, 1, 8, 2, 6]]
    model = genai.Model(str(tmp_path / "m"))
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=LENGTH, batch_size=2)
    generator = genai.Generator(model, params)
    generator.append_tokens(np.array([[*prompts[0], pad, pad], prompts[1]], np.int32))
    for _ in range(4):
        generator.generate_next_token()
    empty = np.zeros((1, GROUPS, 0, SIZE), np.float32)
    for row, prompt in enumerate(prompts):
        tokens = np.array([[*prompt, *generator.get_sequence(row)[5:]]])
        places = np.arange(tokens.shape[1])[None]
        logits, _ = attends_to_its_mask(
            tokens, np.ones_like(tokens), places, {"k": empty, "v": empty}
        )
        likely = np.argmax(logits[0, len(prompt) - 1 : -1], -1)
        np.testing.assert_array_equal(likely, tokens[0, len(prompt) :])
