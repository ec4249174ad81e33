"""A whole generation inside one model: a loop with a cache, and JAX's own sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

from harness.decoders import GROUPS, LAYERS, LENGTH, SIZE, VOCABULARY, Style, decoder
from jax2onnx import to_onnx

DECODE = decoder(Style(cache="buffer"))


def generate(prompt, key, temperature):
    """Returns a text of the context length that begins with the prompt, and its length."""
    empty = jnp.zeros((1, GROUPS, LENGTH, SIZE))
    cache = [(empty, empty)] * LAYERS
    positions = jnp.arange(prompt.shape[1])[None]
    logits, cache = DECODE(prompt, positions, cache)
    tokens = jnp.zeros((1, LENGTH), jnp.int32)
    tokens = jax.lax.dynamic_update_slice(tokens, prompt, (0, 0))

    def goes_on(state):
        tokens, length, *_ = state
        return (length < LENGTH) & (tokens[0, length - 1] != VOCABULARY - 1)

    def body(state):
        tokens, length, logits, cache, key = state
        key, now = jax.random.split(key)
        token = jax.random.categorical(now, logits / temperature)
        tokens = jax.lax.dynamic_update_slice(tokens, token[None, None], (0, length))
        logits, cache = DECODE(token[None, None], length[None, None], cache)
        return tokens, length + 1, logits[0, -1], cache, key

    start = (tokens, jnp.asarray(prompt.shape[1]), logits[0, -1], cache, key)
    tokens, length, *_ = jax.lax.while_loop(goes_on, body, start)
    return tokens, length


@pytest.mark.slow
def test_the_same_random_tokens_as_jax():
    prompt = np.asarray([[3, 7, 9, 4]], np.int32)
    model = to_onnx(
        generate,
        [jax.ShapeDtypeStruct((1, 4), jnp.int32), jax.random.key(0), ()],
        input_dtypes={"prompt": "int64"},
        output_names=["tokens", "length"],
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    compiled = jax.jit(generate)
    texts = set()
    for seed in range(3):
        key = jax.random.key(seed)
        feeds = {
            "prompt": prompt.astype(np.int64),
            "key": np.asarray(jax.random.key_data(key)),
            "temperature": np.asarray(0.7, np.float32),
        }
        tokens, length = session.run(None, feeds)
        wanted, wanted_length = compiled(prompt, key, np.float32(0.7))
        assert length == wanted_length
        np.testing.assert_array_equal(tokens, wanted)
        texts.add(tokens.tobytes())
    assert len(texts) == 3
