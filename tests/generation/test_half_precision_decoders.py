"""Published checkpoints in half precision, for a GPU whose attention over a cache needs it."""

import json
import logging
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

from harness import idle_cuda
from harness.checkpoints import publish, random_tensor
from jax2onnx import generation
from jax2onnx._generation import published
from jax2onnx._generation.decoder_cache import leaf_paths

FIXTURES = Path(__file__).parent / "families"
# The names of the tensors in models with images differ from those of the parameters.
MODELS = sorted(
    path.stem for path in FIXTURES.glob("*.json") if path.stem not in ("lora", "gemma3_with_images")
)
LENGTH = 48
TYPES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}


def fixture(folder, name):
    made = json.loads((FIXTURES / f"{name}.json").read_text())
    return publish(folder / name, made["config"], made["tensors"]), made


def save(folder, checkpoint, dtype, **options):
    given = {"context_length": LENGTH, "target": "cuda", "compute": dtype, **options}
    generation.save_checkpoint(folder, checkpoint, **given)
    return onnx.load(folder / "model.onnx")


def widen(graph):
    """Puts float32 in place of bfloat16, for a CPU without its kernels."""
    half = TensorProto.BFLOAT16
    for tensor in graph.initializer:
        if tensor.data_type == half:
            array = onnx.numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == half:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == half:
                attribute.i = TensorProto.FLOAT
            if attribute.HasField("g"):
                widen(attribute.g)


def logits_of_steps(model, tokens):
    """Returns the logits of a prompt and of the tokens after it, which follow one at a time."""
    options = onnxruntime.SessionOptions()
    # The runtime would round operands of products with integers to 8 bits.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    kinds = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
    cache = {
        i.name: np.zeros((1, i.shape[1], 0, i.shape[3]), kinds[i.type])
        for i in session.get_inputs()
        if i.name.startswith("past")
    }
    found, start = [], 0
    for end in (len(tokens) - 3, len(tokens) - 2, len(tokens) - 1, len(tokens)):
        feeds = {
            "input_ids": np.asarray([tokens[start:end]]),
            "attention_mask": np.ones((1, end), np.int64),
        }
        logits, *held = session.run(None, {**feeds, **cache})
        cache = dict(zip(cache, held, strict=True))
        found.append(logits[0].astype(np.float32))
        start = end
    return np.concatenate(found)


def jax_logits(checkpoint, tokens, dtype):
    """Returns the logits that JAX computes in a type."""
    source = published.read(checkpoint, LENGTH, dtype=dtype)
    leaves, tree = jax.tree.flatten(source.parameters)
    names = leaf_paths(source.parameters)
    arrays = [
        jnp.asarray(random_tensor(n, p.shape)).astype(dtype)
        for n, p in zip(names, leaves, strict=True)
    ]
    cache = [
        {kind: jnp.zeros((1, p.shape[1], 0, p.shape[3]), p.dtype) for kind, p in layer.items()}
        for layer in source.cache()
    ]
    positions = jnp.arange(len(tokens))[None]
    params = jax.tree.unflatten(tree, arrays)
    logits, _ = source.decode.func(params, jnp.asarray([tokens]), positions, cache)
    assert logits.dtype == dtype
    return np.asarray(logits[0], np.float32)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", MODELS)
def test_errors_are_those_of_jax(name, dtype, tmp_path):
    checkpoint, made = fixture(tmp_path, name)
    model = save(tmp_path / "model", checkpoint, dtype, all_logits=True)
    layers = made["config"].get("num_hidden_layers")
    operators = Counter(node.op_type for node in model.graph.node)
    assert operators["GroupQueryAttention"] == layers
    values = {
        v.name: v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)
    }
    assert {kind for v, kind in values.items() if v.startswith(("past", "present", "logits"))} == {
        TYPES[dtype]
    }
    tokens = [*made["prompt"], *made["greedy"]]
    widen(model.graph)
    found = logits_of_steps(model, tokens)
    exact = jax_logits(checkpoint, tokens, jnp.dtype("float32"))
    np.testing.assert_allclose(exact[: len(made["prompt"])], made["logits"], rtol=1e-4, atol=2e-5)
    error = np.abs(found - exact).mean()
    usual = np.abs(jax_logits(checkpoint, tokens, jnp.dtype(dtype)) - exact).mean()
    # Another expert may be chosen where scores are nearly equal.
    assert error <= 1.5 * usual


def test_a_step_has_no_copies_and_suits_cuda_graphs(tmp_path):
    checkpoint, _ = fixture(tmp_path, "mistral")
    paths = []
    for weights in (None, "int4"):
        folder = tmp_path / str(weights)
        model = save(folder, checkpoint, "float16", weights=weights)
        config = json.loads((folder / "genai_config.json").read_text())
        assert config["search"]["past_present_share_buffer"]
        assert config["model"]["decoder"]["session_options"]["provider_options"] == [{"cuda": {}}]
        # All layers read the same cosines and sines.
        nodes = [node for node in model.graph.node if node.op_type == "GroupQueryAttention"]
        assert len({tuple(node.input[7:9]) for node in nodes}) == 1 < len(nodes)
        assert nodes[0].input[7] != nodes[0].input[8]
        products = [n for n in model.graph.node if n.op_type == "MatMulNBits"]
        assert bool(products) == (weights == "int4")
        assert not any(a.name == "accuracy_level" for n in products for a in n.attribute)
        paths.append(folder / "model.onnx")
    if not idle_cuda.is_installed():
        return
    for capture in (False, True):
        for found in idle_cuda.placements(paths, capture):
            assert found == idle_cuda.Placement(["Cast", "Squeeze"], 0)


def test_a_growing_cache_for_want_of_half_precision_is_reported(tmp_path, caplog):
    checkpoint, _ = fixture(tmp_path, "llama")
    with caplog.at_level(logging.WARNING, "jax2onnx"):
        save(tmp_path / "half", checkpoint, "float16")
        assert "half precision" not in caplog.text
        save(tmp_path / "whole", checkpoint, None)
    assert 'pass compute="float16", or the cache is copied in each step' in caplog.text


def test_integers_are_those_of_the_elementary_form(tmp_path):
    checkpoint, made = fixture(tmp_path, "llama")
    tokens = [*made["prompt"], *made["greedy"]]
    found = []
    for name, form in (("native", "native"), ("standard", "elementary")):
        forms = dict.fromkeys(("MatMulNBits", "GatherBlockQuantized"), form)
        options = {"weights": "int4", "operators": forms, "all_logits": True}
        model = save(tmp_path / name, checkpoint, "float16", **options)
        found.append(logits_of_steps(model, tokens))
    native, standard = found
    assert np.abs(native - standard).max() < 0.02 * np.abs(standard).max()
