"""Caches that `TensorScatter` updates: the numbers, and the in-place update."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from jax import lax

from harness.checking import assert_close, op_types, run
from jax2onnx import to_onnx

NATIVE = {"operators": {"TensorScatter": "native"}, "opset": 24}
BATCH, HEADS, LENGTH, SIZE = 2, 3, 8, 16
RNG = np.random.default_rng(0)


def numbers(*shape):
    return RNG.standard_normal(shape, np.float32)


def buffers(new=1, batch=BATCH):
    return numbers(batch, HEADS, LENGTH, SIZE), numbers(batch, HEADS, new, SIZE)


def at_a_position(buffer, new, position):
    return lax.dynamic_update_slice_in_dim(buffer, new, position, 2)


def by_index(buffer, new, position):
    return jnp.asarray(buffer).at[:, :, position].set(new[:, :, 0])


def by_row(buffer, new, positions):
    """Every example of the batch has its own position."""
    return jax.vmap(lambda b, n, p: lax.dynamic_update_slice_in_dim(b, n, p, 1))(
        buffer, new, positions
    )


def around_the_end(buffer, new, position):
    places = (position + jnp.arange(new.shape[2])) % LENGTH
    return jnp.asarray(buffer).at[:, :, places].set(new)


def scatters(model):
    return [node for node in model.graph.node if node.op_type == "TensorScatter"]


def modes(model):
    return [a.s for node in scatters(model) for a in node.attribute if a.name == "mode"]


@pytest.mark.parametrize("new", [1, 3])
@pytest.mark.parametrize("batch", [1, BATCH])
def test_positions_are_clamped_as_in_jax(batch, new):
    buffer, update = buffers(new, batch)
    model = to_onnx(at_a_position, [buffer, update, jnp.int32(0)], **NATIVE)
    assert len(scatters(model)) == 1
    assert "ScatterND" not in op_types(model)
    for position in (0, 3, LENGTH - new, LENGTH, 100, -1, -100):
        args = buffer, update, np.int32(position)
        assert_close(run(model, args), [at_a_position(*args)])


def test_an_index_outside_writes_nothing():
    buffer, update = buffers()
    model = to_onnx(by_index, [buffer, update, jnp.int32(0)], **NATIVE)
    assert len(scatters(model)) == 1
    for position in (0, LENGTH - 1, LENGTH, -1, -LENGTH, -LENGTH - 1):
        args = buffer, update, np.int32(position)
        assert_close(run(model, args), [by_index(*args)])


@pytest.mark.parametrize("new", [1, 3])
def test_a_position_for_each_example(new):
    buffer, update = buffers(new)
    positions = np.zeros(BATCH, np.int32)
    model = to_onnx(by_row, [buffer, update, positions], **NATIVE)
    assert len(scatters(model)) == 1
    assert not {"ScatterND", "Transpose"} & set(op_types(model))
    for positions in ([0, 5], [7, 2], [-1, 100]):
        args = buffer, update, np.asarray(positions, np.int32)
        assert_close(run(model, args), [by_row(*args)])


def test_batches_of_any_size():
    b, t = jax.export.symbolic_shape("B, T", constraints=[f"T <= {LENGTH}"])
    shapes = [(b, HEADS, LENGTH, SIZE), (b, HEADS, t, SIZE)]
    specs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    model = to_onnx(at_a_position, [*specs, jax.ShapeDtypeStruct((), jnp.int32)], **NATIVE)
    assert len(scatters(model)) == 1
    for batch, new in ((1, 1), (2, 5), (3, LENGTH)):
        for position in (0, 2, 9):
            args = *buffers(new, batch), np.int32(position)
            assert_close(run(model, args), [at_a_position(*args)])


def test_promised_positions_are_not_clamped():
    buffer, update = buffers()
    specs = [buffer, update, jnp.int32(0)]
    model = to_onnx(at_a_position, specs, assume=["indices_in_range"], **NATIVE)
    assert len(scatters(model)) == 1
    assert not {"Clip", "Max", "Min"} & set(op_types(model))
    for position in (0, LENGTH - 1, -1, -LENGTH):
        args = buffer, update, np.int32(position)
        assert_close(run(model, args), [at_a_position(*args)])


@pytest.mark.parametrize("new", [1, 3, LENGTH])
def test_rings(new):
    buffer, update = buffers(new)
    model = to_onnx(around_the_end, [buffer, update, jnp.int32(0)], **NATIVE)
    assert len(scatters(model)) == 1
    assert modes(model) == ([] if new == 1 else [b"circular"])
    for position in (0, 5, LENGTH - 1, 100, -3):
        args = buffer, update, np.int32(position)
        assert_close(run(model, args), [around_the_end(*args)])


@pytest.mark.parametrize("new", [1, 3])
def test_rows_are_written_without_turning_the_buffer(new):
    """The elementary form also writes in place."""
    buffer, update = buffers(new)
    model = to_onnx(by_row, [buffer, update, np.zeros(BATCH, np.int32)])
    assert "Transpose" not in op_types(model)
    for positions in ([0, 5], [-1, 100]):
        args = buffer, update, np.asarray(positions, np.int32)
        assert_close(run(model, args), [by_row(*args)])


def test_rings_are_not_padded():
    buffer, update = buffers(3)
    model = to_onnx(around_the_end, [buffer, update, jnp.int32(0)])
    assert not {"Pad", "Slice"} & set(op_types(model))
    for position in (0, 6, -3):
        args = buffer, update, np.int32(position)
        assert_close(run(model, args), [around_the_end(*args)])


def test_nobody_gets_it_without_asking():
    """onnxruntime prints a warning in each run that does not write into its input."""
    buffer, update = buffers()
    assert not scatters(to_onnx(at_a_position, [buffer, update, jnp.int32(0)], opset=24))


def test_other_scatters_stay():
    def two_axes(buffer, new, position):
        return lax.dynamic_update_slice(buffer, new, (0, position, position, 0))

    def some_features(buffer, new, position):
        return lax.dynamic_update_slice(buffer, new[..., :2], (0, 0, position, 0))

    def added(buffer, new, position):
        return jnp.asarray(buffer).at[:, :, position].add(new[:, :, 0])

    def no_batch(buffer, new, position):
        return lax.dynamic_update_slice_in_dim(buffer[0, 0], new[0, 0], position, 0)

    buffer, update = buffers()
    for fn in (two_axes, some_features, added, no_batch):
        model = to_onnx(fn, [buffer, update[:, :1], jnp.int32(0)], **NATIVE)
        assert not scatters(model), fn.__name__
        for position in (0, 2, 100):
            args = buffer, update[:, :1], np.int32(position)
            assert_close(run(model, args), [fn(*args)])


def test_older_opsets_have_none():
    buffer, update = buffers()
    options = {**NATIVE, "opset": 23}
    model = to_onnx(at_a_position, [buffer, update, jnp.int32(0)], **options)
    assert not scatters(model)


def test_the_reason_is_logged(caplog):
    def fn(buffer, new, position):
        return lax.dynamic_update_slice_in_dim(buffer, new, position, 0)

    with caplog.at_level(logging.INFO, "jax2onnx"):
        model = to_onnx(fn, [numbers(LENGTH, SIZE), numbers(1, SIZE), jnp.int32(0)], **NATIVE)
    assert not scatters(model)
    assert "the first axis of the buffer is not that of a batch" in caplog.text


@pytest.mark.parametrize("options", [NATIVE, {}])
def test_small_integers_wrap_around(options):
    """256 is 0 in eight bits: positions are computed in the same type as in JAX."""

    def narrowed(buffer, new, position):
        return buffer.at[:, jnp.clip(position, 0, 299).astype(jnp.uint8)].set(new[:, 0])

    def added(buffer, new, position):
        return buffer.at[:, position.astype(jnp.uint8) + jnp.uint8(3)].set(new[:, 0])

    def counted(buffer, new, position):
        places = position.astype(jnp.uint8) + jnp.arange(3, dtype=jnp.uint8)
        return buffer.at[:, places].set(new)

    buffer, new = jnp.asarray(numbers(2, 300, 4)), numbers(2, 3, 4)
    for fn in (narrowed, added, counted):
        model = to_onnx(fn, [buffer, new, jnp.int32(0)], **options)
        for position in (0, 253, 255, 256, 298):
            args = buffer, new, jnp.int32(position)
            assert_close(run(model, args), [fn(*args)])


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.int8])
def test_types(dtype):
    def fn(buffer, new, position):
        return at_a_position(buffer.astype(dtype), new.astype(dtype), position).astype(jnp.float32)

    buffer, update = buffers()
    model = to_onnx(fn, [buffer, update, jnp.int32(0)], **NATIVE)
    assert len(scatters(model)) == 1
    args = buffer, update, np.int32(4)
    assert_close(run(model, args), [fn(*args)])


def test_buffers_are_written_in_place():
    buffer, update = buffers()
    model = to_onnx(at_a_position, [buffer, update, jnp.int32(0)], **NATIVE)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in model.graph.input]
    memory = onnxruntime.OrtValue.ortvalue_from_numpy(buffer)
    address = memory.data_ptr()
    expected = buffer
    for position in (0, 5, LENGTH - 1):
        new = numbers(BATCH, HEADS, 1, SIZE)
        binding = session.io_binding()
        binding.bind_ortvalue_input(names[0], memory)
        binding.bind_cpu_input(names[1], new)
        binding.bind_cpu_input(names[2], np.asarray(position, np.int32))
        binding.bind_ortvalue_output(model.graph.output[0].name, memory)
        session.run_with_iobinding(binding)
        expected = np.asarray(at_a_position(expected, new, position))
        np.testing.assert_array_equal(memory.numpy(), expected)
    assert memory.data_ptr() == address
