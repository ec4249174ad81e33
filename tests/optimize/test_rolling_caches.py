"""Caches of the last few tokens: numbers over several turns, and in-place updates."""

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from jax import lax

from jax2onnx import to_onnx

HEADS, WINDOW, SIZE = 2, 8, 4
RNG = np.random.default_rng(0)
WEIGHTS = {
    name: jnp.asarray(RNG.standard_normal((8, HEADS * SIZE), np.float32))
    for name in ("q", "k", "v")
}


def by_slice(buffer, new, position):
    return lax.dynamic_update_slice_in_dim(buffer, new, position % WINDOW, 2)


def by_index(buffer, new, position):
    return buffer.at[:, :, position % WINDOW].set(new[:, :, 0])


def by_remainder(buffer, new, position):
    return lax.dynamic_update_slice(buffer, new, (0, 0, lax.rem(position, WINDOW), 0))


def by_roll(buffer, new, _):
    return jnp.roll(buffer, -1, 2).at[:, :, -1:].set(new)


def by_concatenation(buffer, new, _):
    return jnp.concatenate([buffer[:, :, 1:], new], 2)


def step_with(update):
    """Returns one step of attention to the last tokens. Missing ones are zero and masked."""
    from_the_end = update in (by_roll, by_concatenation)

    def step(x, position, keys, values):
        def heads(name):
            return (x @ WEIGHTS[name]).reshape(1, 1, HEADS, SIZE).transpose(0, 2, 1, 3)

        keys, values = update(keys, heads("k"), position), update(values, heads("v"), position)
        places = jnp.arange(WINDOW)
        known = places >= WINDOW - 1 - position if from_the_end else places <= position
        scores = jnp.where(known, heads("q") @ keys.transpose(0, 1, 3, 2), -1e9)
        return jax.nn.softmax(scores) @ values, keys, values

    return step


@pytest.mark.parametrize(
    ("update", "in_place"),
    [
        (by_slice, True),
        (by_index, True),
        (by_remainder, True),
        (by_roll, False),
        (by_concatenation, False),
    ],
)
def test_several_turns(update, in_place):
    step = step_with(update)
    empty = np.zeros((1, HEADS, WINDOW, SIZE), np.float32)
    model = to_onnx(step, [(1, 8), jax.ShapeDtypeStruct((), jnp.int32), empty, empty])
    makers = {name: node for node in model.graph.node for name in node.output}
    names = [value.name for value in model.graph.input]
    for output, past in zip(model.graph.output[1:], names[2:], strict=True):
        scatters = makers[output.name].op_type in ("ScatterND", "TensorScatter")
        assert (scatters and makers[output.name].input[0] == past) == in_place
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    caches = [onnxruntime.OrtValue.ortvalue_from_numpy(empty.copy()) for _ in range(2)]
    expected, jitted = [empty, empty], jax.jit(step)
    for position in range(3 * WINDOW + 3):
        x = RNG.standard_normal((1, 8), np.float32)
        right, *expected = jitted(x, jnp.int32(position), *expected)
        binding = session.io_binding()
        binding.bind_cpu_input(names[0], x)
        binding.bind_cpu_input(names[1], np.asarray(position, np.int32))
        binding.bind_output(model.graph.output[0].name)
        # Past and present share memory where that is allowed.
        present = (
            caches
            if in_place
            else [onnxruntime.OrtValue.ortvalue_from_numpy(empty.copy()) for _ in range(2)]
        )
        for i, name in enumerate(names[2:]):
            binding.bind_ortvalue_input(name, caches[i])
            binding.bind_ortvalue_output(model.graph.output[1 + i].name, present[i])
        session.run_with_iobinding(binding)
        caches = present
        np.testing.assert_allclose(binding.get_outputs()[0].numpy(), right, rtol=1e-5, atol=1e-5)
        for found, cache in zip(caches, expected, strict=True):
            np.testing.assert_allclose(found.numpy(), cache, rtol=1e-6, atol=1e-6)
