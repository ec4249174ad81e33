"""Trains a small language model on a text, letter by letter, exports it, and lets it write.

    python examples/tiny_language_model.py              # trains for about a minute
    python examples/tiny_language_model.py --steps 50   # a few seconds, and nonsense

The model writes with onnxruntime-genai, or with onnxruntime alone if that is not installed. Then
the time that it took is listed by line of this file, and what weights of 4 bits change.
"""

import argparse
import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime

from jax2onnx import generation, verify

HERE = Path(__file__).parent
TEXT = (HERE / "harbour.txt").read_text(encoding="utf-8")

# Token 0 ends a text; the others are its letters.
LETTERS = sorted(set(TEXT))
VOCABULARY = len(LETTERS) + 1
LAYERS, WIDTH, HEADS, LENGTH = 2, 96, 4, 256
SIZE = WIDTH // HEADS


def encode(text):
    """The tokens of a text."""
    return [1 + LETTERS.index(letter) for letter in text]


def decode_text(tokens):
    """The text of tokens."""
    return "".join(LETTERS[token - 1] for token in tokens if token)


def initial_parameters(key):
    """Random weights."""
    keys = iter(jax.random.split(key, 100))

    def weight(rows, columns):
        return jax.random.normal(next(keys), (rows, columns)) / np.sqrt(rows)

    def layer():
        names = {"query": WIDTH, "key": WIDTH, "value": WIDTH, "mix": WIDTH}
        return {name: weight(WIDTH, columns) for name, columns in names.items()} | {
            "up": weight(WIDTH, 4 * WIDTH),
            "down": weight(4 * WIDTH, WIDTH),
            "norm1": jnp.ones(WIDTH),
            "norm2": jnp.ones(WIDTH),
        }

    return {
        "letters": jax.random.normal(next(keys), (VOCABULARY, WIDTH)),
        "layers": [layer() for _ in range(LAYERS)],
        "norm": jnp.ones(WIDTH),
        "head": weight(WIDTH, VOCABULARY),
    }


def rms_norm(x, scale):
    """Root mean square normalisation."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def rotate(x, positions):
    """Rotary embedding."""
    rates = 10000.0 ** (-jnp.arange(0, SIZE, 2) / SIZE)
    angles = positions[:, None, :, None] * rates
    one, two = jnp.split(x, 2, -1)
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([one * cos - two * sin, two * cos + one * sin], -1)


def attention(layer, x, positions, cache):
    """Attention to all tokens so far, and their keys and values."""
    batch, length, _ = x.shape

    def heads(weights):
        return (x @ weights).reshape(batch, length, HEADS, SIZE).transpose(0, 2, 1, 3)

    query, key = rotate(heads(layer["query"]), positions), rotate(heads(layer["key"]), positions)
    key = jnp.concatenate([cache["key"], key], 2)
    value = jnp.concatenate([cache["value"], heads(layer["value"])], 2)
    scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(SIZE)
    visible = jnp.arange(key.shape[2]) <= positions[:, None, :, None]
    mixed = jax.nn.softmax(jnp.where(visible, scores, -1e9)) @ value
    mixed = mixed.transpose(0, 2, 1, 3).reshape(batch, length, WIDTH)
    return mixed @ layer["mix"], {"key": key, "value": value}


def language_model(parameters, input_ids, position_ids, cache):
    """The logits of the letter after each letter, and the new cache."""
    x = parameters["letters"][input_ids]
    new_cache = []
    for layer, old in zip(parameters["layers"], cache, strict=True):
        mixed, new = attention(layer, rms_norm(x, layer["norm1"]), position_ids, old)
        new_cache.append(new)
        x = x + mixed
        x = x + jax.nn.gelu(rms_norm(x, layer["norm2"]) @ layer["up"]) @ layer["down"]
    return rms_norm(x, parameters["norm"]) @ parameters["head"], new_cache


def empty_cache(batch):
    """What there is before the first letter."""
    nothing = jnp.zeros((batch, HEADS, 0, SIZE))
    return [{"key": nothing, "value": nothing}] * LAYERS


def train(parameters, steps, length=160, batch=8):
    """Parameters after some steps of Adam on pieces of the text."""
    tokens = np.asarray(encode(TEXT), np.int32)
    positions = jnp.arange(length)[None]

    def loss_of(parameters, inputs, targets):
        logits, _ = language_model(parameters, inputs, positions, empty_cache(batch))
        likely = jax.nn.log_softmax(logits)
        return -jnp.mean(jnp.take_along_axis(likely, targets[..., None], -1))

    @jax.jit
    def step(parameters, first, second, number, inputs, targets):
        loss, slopes = jax.value_and_grad(loss_of)(parameters, inputs, targets)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slopes)
        second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, slopes)
        rate = 3e-3 * jnp.minimum(1.0, (number + 1) / 30)

        def changed(p, m, v):
            m, v = m / (1 - 0.9 ** (number + 1)), v / (1 - 0.99 ** (number + 1))
            return p - rate * m / (jnp.sqrt(v) + 1e-8)

        return jax.tree.map(changed, parameters, first, second), first, second, loss

    zeros = jax.tree.map(jnp.zeros_like, parameters)
    first, second, random = zeros, zeros, np.random.default_rng(0)
    loss = np.nan
    for number in range(steps):
        starts = random.integers(0, len(tokens) - length - 1, batch)
        pieces = np.stack([tokens[start : start + length + 1] for start in starts])
        parameters, first, second, loss = step(
            parameters, first, second, number, pieces[:, :-1], pieces[:, 1:]
        )
        if number % 50 == 0:
            print(f"step {number:4}  loss {loss:.2f}")
    print(f"step {steps:4}  loss {loss:.2f}")
    return parameters


def decoder(parameters):
    """The function that is exported."""

    def decode(input_ids, position_ids, cache):
        return language_model(parameters, input_ids, position_ids, cache)

    return decode


def export(parameters, folder, **options):
    """Writes the folder that onnxruntime-genai loads."""
    shape = ("batch", HEADS, "past", SIZE)
    about = generation.Description(
        name="Harbour",
        layers=LAYERS,
        heads=HEADS,
        head_size=SIZE,
        vocabulary=VOCABULARY,
        context_length=LENGTH,
        eos=0,
    )
    cache = [{"key": shape, "value": shape}] * LAYERS
    generation.save(folder, decoder(parameters), cache, about, stacktrace_metadata=True, **options)


def written_by_genai(folder, prompt, count):
    """What onnxruntime-genai writes after a prompt: always the most likely letter."""
    import onnxruntime_genai

    model = onnxruntime_genai.Model(str(folder))
    params = onnxruntime_genai.GeneratorParams(model)
    params.set_search_options(max_length=len(prompt) + count, do_sample=False)
    generator = onnxruntime_genai.Generator(model, params)
    generator.append_tokens(prompt)
    while not generator.is_done():
        generator.generate_next_token()
    return [int(token) for token in generator.get_sequence(0)]


def written_by_onnxruntime(folder, prompt, count, profile=None):
    """The same with onnxruntime alone. `profile` is where the profile goes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(profile)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
    names = [value.name for value in session.get_inputs()]
    cache = [np.zeros((1, HEADS, 0, SIZE), np.float32)] * (2 * LAYERS)
    tokens, new = list(prompt), list(prompt)
    for _ in range(count):
        mask = np.ones((1, len(tokens)), np.int64)
        feeds = dict(zip(names, [np.asarray([new]), mask, *cache], strict=True))
        logits, *cache = session.run(None, feeds)
        new = [int(np.argmax(logits[0, -1]))]
        tokens += new
    return tokens, session.end_profiling() if profile is not None else None


def written_by_jax(parameters, prompt, count):
    """The same with JAX, which reads all letters again for each new one."""
    length = len(prompt) + count

    @jax.jit
    def next_letter(tokens, number):
        logits, _ = language_model(parameters, tokens, jnp.arange(length)[None], empty_cache(1))
        return jnp.argmax(logits[0, number - 1])

    tokens = np.zeros((1, length), np.int32)
    tokens[0, : len(prompt)] = prompt
    for number in range(len(prompt), length):
        tokens[0, number] = next_letter(tokens, number)
    return tokens[0].tolist()


def compare_with_int4(parameters, folder, prompt, tokens):
    """Exports again with weights of 4 bits, and prints what that changes."""
    small = folder.with_name(f"{folder.name}-int4")
    export(parameters, small, weights="int4")
    before, after = (
        sum((place / name).stat().st_size for name in ("model.onnx", "weights.data"))
        for place in (folder, small)
    )
    print(f"\nWith weights of 4 bits: {after:,} bytes instead of {before:,}.")
    count = min(64, len(tokens) - len(prompt))
    found, _ = written_by_onnxruntime(small, prompt, count)
    new = slice(len(prompt), len(prompt) + count)
    same = sum(one == other for one, other in zip(found[new], tokens[new], strict=True))
    print(f"{same} of the first {count} letters are the same. Errors by line:\n")

    def counted(input_ids, attention_mask, cache):
        """The arguments of the model: positions follow from the length of the mask."""
        past = attention_mask.shape[1] - input_ids.shape[1]
        places = past + jnp.arange(input_ids.shape[1])[None]
        return decoder(parameters)(input_ids, places, cache)

    arguments = [np.asarray([prompt], np.int32), np.ones((1, len(prompt)), np.int32)]
    report = verify(counted, small / "model.onnx", [*arguments, empty_cache(1)])
    print(report.table(limit=6).partition("\n\n")[0])


def main(argv=None) -> None:
    """Trains, exports, writes, profiles, and compares with weights of 4 bits."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300, help="how long to train")
    parser.add_argument("--letters", type=int, default=100, help="how much to write")
    parser.add_argument("--folder", type=Path, default=Path("build/harbour"))
    options = parser.parse_args(argv)

    start = time.perf_counter()
    parameters = train(initial_parameters(jax.random.key(0)), options.steps)
    print(f"trained for {time.perf_counter() - start:.0f} s\n")
    export(parameters, options.folder)

    # Long enough for the model to know where it is in the text.
    prompt = encode("He called again, and the gulls answered, as they")
    profile_to = options.folder.parent / "harbour"
    tokens, profile = written_by_onnxruntime(options.folder, prompt, options.letters, profile_to)
    if importlib.util.find_spec("onnxruntime_genai"):
        runtime, tokens = (
            "onnxruntime-genai",
            written_by_genai(options.folder, prompt, options.letters),
        )
    else:
        runtime = "onnxruntime"
    print(f"{runtime} writes:\n\n{decode_text(tokens)}\n")
    same = tokens == written_by_jax(parameters, prompt, options.letters)
    print(f"These are {'the letters' if same else 'NOT the letters'} that JAX writes.\n")

    model = str(options.folder / "model.onnx")
    arguments = ["profile", model, str(profile), "--skip", "1", "--top", "8"]
    subprocess.run([sys.executable, "-m", "jax2onnx", *arguments], check=True)
    compare_with_int4(parameters, options.folder, prompt, tokens)
    if not same:
        sys.exit("the model does not write what JAX writes")


if __name__ == "__main__":
    main()
