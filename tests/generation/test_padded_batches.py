"""Batches of prompts of several lengths: onnxruntime-genai fills the shorter ones at the end."""

import dataclasses
import json
import logging
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

from harness import decoders
from harness.checkpoints import publish
from harness.decoders import (
    GROUPS,
    HEADS,
    LAYERS,
    LENGTH,
    SIZE,
    VOCABULARY,
    Style,
    cache_shape,
    decoder,
    parameters,
)
from jax2onnx import generation

# No text contains these tokens, so none ends early.
PAD, END = 0, 1
PROMPTS = [[3, 7, 9, 4, 2, 8, 5], [6, 11, 3], [9, 2, 2, 13, 5]]
COUNT = 8
NATIVE = {"GroupQueryAttention": "native"}
ABOUT = dataclasses.replace(decoders.ABOUT, eos=END, pad=PAD)


def save(folder, decode, style=None, about=ABOUT, **options):
    shape = cache_shape(style or Style())
    generation.save(folder, decode, [(shape, shape)] * about.layers, about, **options)


class Steps:
    """onnxruntime with buffers as onnxruntime-genai shares them, and its masks and positions."""

    def __init__(self, folder, prompts):
        self.session = onnxruntime.InferenceSession(
            folder / "model.onnx", providers=["CPUExecutionProvider"]
        )
        self.rows = [list(prompt) for prompt in prompts]
        self.mask = np.zeros((len(prompts), max(map(len, prompts))), np.int64)
        for row, prompt in zip(self.mask, prompts, strict=True):
            row[: len(prompt)] = 1
        inputs = {value.name: value.shape for value in self.session.get_inputs()}
        self.names = [name for name in inputs if not name.startswith("past")]
        self.past = {}
        for name in inputs.keys() - set(self.names):
            sizes = [size if isinstance(size, int) else LENGTH for size in inputs[name][1:]]
            # The content of an unused buffer does not matter.
            start = np.full((len(prompts), *sizes), 7.0, np.float32)
            self.past[name] = onnxruntime.OrtValue.ortvalue_from_numpy(start)

    def run(self, ids):
        """Returns the logits after each row's last token, and appends the likeliest tokens."""
        lengths = self.mask.sum(1, keepdims=True)
        first = np.maximum(lengths - ids.shape[1], 0)
        given = {
            "input_ids": ids,
            "attention_mask": self.mask,
            "position_ids": first + np.arange(ids.shape[1]),
        }
        binding = self.session.io_binding()
        for name in self.names:
            binding.bind_cpu_input(name, given[name].astype(np.int64))
        for name, value in self.past.items():
            binding.bind_ortvalue_input(name, value)
            binding.bind_ortvalue_output(name.replace("past_key_values", "present"), value)
        binding.bind_output("logits")
        self.session.run_with_iobinding(binding)
        logits = binding.get_outputs()[-1].numpy()
        if logits.shape[1] > 1:
            logits = np.stack(
                [one[len(row) - 1] for one, row in zip(logits, self.rows, strict=True)]
            )
        logits = logits.reshape(len(self.rows), -1)
        for row, one in zip(self.rows, logits, strict=True):
            row.append(int(np.argmax(one)))
        self.mask = np.pad(self.mask, ((0, 0), (0, 1)), constant_values=1)
        return logits

    def start(self):
        ids = np.full_like(self.mask, PAD)
        for row, tokens in zip(ids, self.rows, strict=True):
            row[: len(tokens)] = tokens
        return self.run(ids)

    def step(self):
        return self.run(np.array([row[-1:] for row in self.rows]))


def check_rows(folder):
    """Compares a batch of prompts with the single prompts."""
    batch = Steps(folder, PROMPTS)
    alone = [Steps(folder, [prompt]) for prompt in PROMPTS]
    for index in range(COUNT):
        found = batch.start() if index == 0 else batch.step()
        wanted = [one.start() if index == 0 else one.step() for one in alone]
        np.testing.assert_allclose(found, np.concatenate(wanted), rtol=1e-4, atol=1e-4)
    assert batch.rows == [row for one in alone for row in one.rows]
    return batch.rows


def published(folder, name):
    made = json.loads((Path(__file__).parent / "families" / f"{name}.json").read_text())
    checkpoint = publish(folder / name, made["config"], made["tensors"])
    tokens = {"eos_token_id": END, "pad_token_id": PAD}
    (checkpoint / "generation_config.json").write_text(json.dumps(tokens))
    return checkpoint


FAMILIES = ["gemma2", "gemma3", "gpt_oss", "llama", "mistral", "phi3", "qwen2", "qwen3"]


@pytest.mark.parametrize("all_logits", [False, True], ids=["last", "all"])
@pytest.mark.parametrize("name", FAMILIES)
def test_rows_of_published_models_are_independent(name, all_logits, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "jax2onnx"):
        generation.save_checkpoint(
            tmp_path / "m",
            published(tmp_path, name),
            context_length=LENGTH,
            all_logits=all_logits,
        )
    assert "length" not in caplog.text
    assert "at the end, not at the beginning" in (tmp_path / "m" / "README.md").read_text()
    check_rows(tmp_path / "m")


def from_genai(folder, prompts):
    """Returns the tokens after each prompt."""
    genai = pytest.importorskip(
        "onnxruntime_genai", reason="onnxruntime-genai is not installed", exc_type=ImportError
    )
    model = genai.Model(str(folder))
    length = max(map(len, prompts))
    params = genai.GeneratorParams(model)
    params.set_search_options(
        max_length=LENGTH, min_length=length + COUNT, batch_size=len(prompts), do_sample=False
    )
    generator = genai.Generator(model, params)
    padded = [[*prompt, *[PAD] * (length - len(prompt))] for prompt in prompts]
    generator.append_tokens(np.array(padded, np.int32))
    for _ in range(COUNT):
        generator.generate_next_token()
    return [generator.get_sequence(row)[length:].tolist() for row in range(len(prompts))]


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, "int4"])
@pytest.mark.parametrize("name", ["llama", "gemma2", "gemma3", "gpt_oss"])
def test_onnxruntime_genai_generates_rows_of_published_models(name, weights, tmp_path):
    checkpoint = published(tmp_path, name)
    generation.save_checkpoint(tmp_path / "m", checkpoint, context_length=LENGTH, weights=weights)
    found = from_genai(tmp_path / "m", PROMPTS)
    assert found == [from_genai(tmp_path / "m", [prompt])[0] for prompt in PROMPTS]


STYLES = {
    "grows": Style(),
    "buffer": Style(cache="buffer"),
    "heads last": Style(cache="buffer, heads last"),
    "gpt-oss": Style(sinks=True, window=6),
    "gemma": Style(cache="buffer", one_plus=True, soft_cap=5.0, window=6),
}


def check_against_jax(decode, rows):
    """Compares the likeliest tokens with those of JAX, one row at a time."""
    for prompt, row in zip(PROMPTS, rows, strict=True):
        shape = cache_shape(Style(), batch=1, past=0)
        empty = [(jnp.zeros(shape),) * 2] * LAYERS
        logits, _ = decode(jnp.asarray([row]), jnp.arange(len(row))[None], empty)
        likeliest = np.argmax(logits[0, len(prompt) - 1 : -1], -1)
        assert likeliest.tolist() == row[len(prompt) :]


@pytest.mark.parametrize("name", STYLES)
def test_rows_of_functions_are_independent(name, tmp_path):
    style = STYLES[name]
    save(tmp_path / "m", decoder(style), style)
    rows = check_rows(tmp_path / "m")
    if style.cache == "grows":
        check_against_jax(decoder(style), rows)


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, "int4"])
def test_onnxruntime_genai_generates_rows_of_a_function(weights, tmp_path):
    save(tmp_path / "m", decoder(Style()), weights=weights)
    found = from_genai(tmp_path / "m", PROMPTS)
    assert found == [from_genai(tmp_path / "m", [prompt])[0] for prompt in PROMPTS]
    if weights is None:
        rows = zip(PROMPTS, found, strict=True)
        check_against_jax(decoder(Style()), [[*prompt, *row] for prompt, row in rows])


def learned(input_ids, position_ids, cache):
    """Adds a vector for each position to the logits."""
    logits, cache = decoder(Style())(input_ids, position_ids, cache)
    table = jax.random.normal(jax.random.key(3), (LENGTH, VOCABULARY))
    return logits + 3 * table[position_ids], cache


def test_positions_outside_of_attention_are_those_of_each_row(tmp_path):
    save(tmp_path / "m", learned)
    check_against_jax(learned, check_rows(tmp_path / "m"))


def selected(input_ids, position_ids, cache, last_token):
    """Returns the logits of the last token that is not padding."""
    logits, cache = decoder(Style())(input_ids, position_ids, cache)
    return logits[jnp.arange(logits.shape[0]), last_token], cache


def test_the_last_token_of_each_row(tmp_path):
    save(tmp_path / "m", selected)
    check_against_jax(decoder(Style()), check_rows(tmp_path / "m"))


def masked(input_ids, attention_mask, position_ids, cache):
    """A decoder of one layer with a mask for padding."""
    w = parameters(Style())["layers"][0]
    params = parameters(Style())

    def heads(x, count):
        return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)

    x = params["embedding"][input_ids] + jnp.sin(position_ids)[..., None]
    k, v = (
        jnp.concatenate([old, heads(x @ w[name], GROUPS)], 2)
        for old, name in zip(cache[0], "kv", strict=True)
    )
    q = heads(x @ w["q"], HEADS)
    scores = q @ jnp.repeat(k, HEADS // GROUPS, 1).swapaxes(2, 3) / np.sqrt(SIZE)
    rows = k.shape[2] - x.shape[1] + jnp.arange(x.shape[1])[:, None]
    seen = (jnp.arange(k.shape[2]) <= rows) & (attention_mask[:, None, None] > 0)
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9))
    mixed = weights @ jnp.repeat(v, HEADS // GROUPS, 1)
    x = x + mixed.transpose(0, 2, 1, 3).reshape(x.shape) @ w["o"]
    return x @ params["head"], [(k, v)]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"operators": NATIVE}], ids=["kept", "native"])
def test_functions_with_a_mask(options, tmp_path):
    about = generation.Description(**{**ABOUT.__dict__, "layers": 1})
    save(tmp_path / "m", masked, about=about, **options)
    found = from_genai(tmp_path / "m", PROMPTS)
    for prompt, row in zip(PROMPTS, found, strict=True):
        tokens = jnp.asarray([[*prompt, *row]])
        empty = [(jnp.zeros(cache_shape(Style(), batch=1, past=0)),) * 2]
        places = jnp.arange(tokens.shape[1])[None]
        logits, _ = masked(tokens, jnp.ones_like(tokens), places, empty)
        assert np.argmax(logits[0, len(prompt) - 1 : -1], -1).tolist() == row


def from_shapes(input_ids, cache):
    past = cache[0][0].shape[2]
    places = jnp.broadcast_to(past + jnp.arange(input_ids.shape[1]), input_ids.shape)
    return decoder(Style())(input_ids, places, cache)


def last_position(input_ids, position_ids, cache):
    logits, cache = decoder(Style())(input_ids, position_ids, cache)
    return logits[:, -1], cache


def unused_mask(input_ids, attention_mask, position_ids, cache):
    return decoder(Style())(input_ids, position_ids, cache)


@pytest.mark.parametrize(
    ("decode", "options", "reason"),
    [
        (from_shapes, {}, "positions are computed from shapes; take an argument `position_ids`"),
        (last_position, {}, "the logits are those of the last position; take an argument"),
        (unused_mask, {}, "the function does not use `attention_mask`"),
        (
            decoder(Style()),
            {"operators": {"GroupQueryAttention": "elementary"}},
            "the function has no argument `attention_mask`",
        ),
        (decoder(Style()), {"one_token": True}, "the function takes one token at a time"),
        (
            decoder(Style(window=4)),
            {"assume": ["windowed_caches"]},
            "layers keep only the tokens of their window",
        ),
    ],
    ids=["shapes", "last position", "unused mask", "elementary", "one token", "windows"],
)
def test_equal_lengths_are_demanded_with_the_reason(decode, options, reason, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "jax2onnx"):
        save(tmp_path / "m", decode, **options)
    assert f"all prompts of a batch must have the same length: {reason}" in caplog.text
    assert f"must have the same length: {reason}" in (tmp_path / "m" / "README.md").read_text()


def test_a_batch_of_one_needs_no_remark(tmp_path, caplog):
    shape = (1, GROUPS, "past", SIZE)
    with caplog.at_level(logging.WARNING, "jax2onnx"):
        generation.save(tmp_path / "m", last_position, [(shape, shape)] * LAYERS, ABOUT)
    assert "length" not in caplog.text
