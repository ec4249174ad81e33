"""Reference architectures in four frameworks: the model computes the same as JAX for any batch, and
keeps the user's names.
"""

from typing import Any

import jax
import onnx
import pytest

from harness.checking import assert_close, check_model, quick, run
from jax2onnx import to_onnx
from models import catalogue
from models.nnx.cnn import cnn
from models.nnx.gpt import gpt

# Parameters and node scopes that each model must have.
EXPECTED: dict[str, tuple[set[str], set[str]]] = {
    "nnx/mlp": ({"first.kernel", "norm.scale", "last.bias"}, {"/first/", "/norm/", "/last/"}),
    "linen/mlp": ({"Dense_0.kernel", "head.bias"}, {"/MLP/Dense_0/", "/MLP/head/"}),
    "equinox/mlp": (
        {"embed.weight", "body.layers.1.bias", "scale"},
        {"/embed/", "/body/layers.1/"},
    ),
    "haiku/mlp": ({"embed.w", "body.~.linear_1.b", "norm.offset"}, {"/embed/", "/body/linear_1/"}),
    "nnx/cnn": ({"conv1.kernel", "norm2.mean", "head.bias"}, {"/conv1/", "/norm2/", "/head/"}),
    "linen/cnn": ({"conv1.kernel", "batch_stats.norm2.mean"}, {"/CNN/conv1/", "/CNN/norm2/"}),
    "equinox/cnn": (
        {"layers.0.weight", "layers.1.bias", "head.bias"},
        {"/layers.0/", "/layers.1/", "/layers.2/", "/head/"},
    ),
    "haiku/cnn": (
        {"cnn.conv1.w", "state.cnn.norm1.~.mean_ema.average", "cnn.norm2.scale"},
        {"/cnn/conv1/", "/cnn/norm2/", "/cnn/max_pool/", "/cnn/head/"},
    ),
    "nnx/resnet50": (
        {"stem.kernel", "blocks.0.project.layers.0.kernel", "blocks.15.norm3.var"},
        {"/stem/", "/blocks.0/project/layers.0/", "/blocks.15/norm3/"},
    ),
    "linen/resnet50": (
        {"stem.kernel", "blocks_0.project.kernel", "batch_stats.blocks_15.norm3.var"},
        {"/ResNet50/stem/", "/ResNet50/blocks_0/project/", "/ResNet50/blocks_15/norm3/"},
    ),
    "equinox/resnet50": (
        {"stem.weight", "blocks.0.project.layers.0.weight", "blocks.15.norm3.bias"},
        {"/stem/", "/blocks.0/project/layers.0/", "/blocks.15/norm3/"},
    ),
    "haiku/resnet50": (
        {"resnet50.~.initial_conv.w", "resnet50.~.block_group_3.~.block_2.~.conv_2.w"},
        {"/resnet50/initial_conv/", "/resnet50/block_group_3/block_2/conv_2/"},
    ),
    "nnx/vit": (
        {"token", "positions", "blocks.1.attention.query.kernel"},
        {"/patches/", "/blocks.1/attention/query/", "/head/"},
    ),
    "linen/vit": (
        {"token", "positions", "blocks_1.attention.query.kernel"},
        {"/ViT/patches/", "/ViT/blocks_1/attention/query/", "/ViT/head/"},
    ),
    "equinox/vit": (
        {"token", "positions", "blocks.1.attention.query_proj.weight"},
        {"/patches/", "/blocks.1/attention/query_proj/", "/head/"},
    ),
    "haiku/vit": (
        {"vit.token", "vit.positions", "vit.blocks_1.attention.query.w"},
        {"/vit/patches/", "/vit/blocks_1/attention/query/", "/vit/head/"},
    ),
    "nnx/gpt": (
        {"tokens.embedding", "blocks.1.attn.q.kernel", "head.kernel"},
        {"/tokens/", "/blocks.1/attn/q/", "/head/"},
    ),
    "linen/gpt": (
        {"tokens.embedding", "blocks_1.attn.q.kernel"},
        {"/GPT/GPT.step/tokens/", "/GPT/GPT.step/blocks_1/attn/q/"},
    ),
    "equinox/gpt": (
        {"tokens.weight", "blocks.1.attn.q.weight", "head.weight"},
        {"/tokens/", "/blocks.1/attn/q/", "/head/"},
    ),
    "haiku/gpt": (
        {"tokens.embeddings", "blocks_1.attn.q.w", "head.w"},
        {"/tokens/", "/blocks_1/attn/q/", "/head/"},
    ),
    "nnx/gpt_step": ({"blocks.1.attn.k.kernel"}, {"/blocks.1/attn/k/", "/blocks.1/attn/"}),
    "linen/gpt_step": ({"blocks_1.attn.k.kernel"}, {"/GPT.step/blocks_1/attn/k/"}),
    "equinox/gpt_step": ({"blocks.1.attn.k.weight"}, {"/blocks.1/attn/k/", "/blocks.1/attn/"}),
    "haiku/gpt_step": ({"blocks_1.attn.k.w"}, {"/blocks_1/attn/k/", "/blocks_1/attn/"}),
    "nnx/rnn": ({"lstm.cell.W", "gru.cell.dense_h.kernel"}, {"/lstm/", "/gru/", "/head/"}),
    "linen/rnn": ({"lstm.W", "gru.W"}, {"/Classifier/RNN_0/", "/Classifier/head/"}),
    "equinox/rnn": ({"lstm.weight_ih", "gru.weight_hh"}, {"/lstm/", "/GRU", "/head/"}),
    "haiku/rnn": ({"lstm.linear.W", "gru.w_h"}, {"/LSTM", "/GRU", "/head/"}),
    "nnx/unet": ({"down.2.conv1.kernel", "grow.0.kernel"}, {"/down.2/norm1/", "/up.1/conv2/"}),
    "linen/unet": (
        {"down_2.conv1.kernel", "grow_0.kernel"},
        {"/UNet/down_2/norm1/", "/UNet/up_1/"},
    ),
    "equinox/unet": (
        {"down.2.layers.layers.0.weight", "grow.0.weight"},
        {"/down.2/layers/layers.1/", "/grow.0/", "/up.1/layers/layers.3/"},
    ),
    "haiku/unet": (
        {"unet.down_2.conv1.w", "unet.grow_0.w"},
        {"/unet/down_2/norm1/", "/unet/up_1/"},
    ),
    "nnx/moe": ({"router.kernel", "experts.up.kernel"}, {"/router/", "/experts/up/"}),
    "linen/moe": ({"router.kernel", "experts.up.kernel"}, {"/Mixture/experts/up/"}),
    "equinox/moe": ({"router.weight", "experts.layers.0.weight"}, {"/experts/layers.0/"}),
    "haiku/moe": ({"mixture.experts_3.~.linear_0.w"}, {"/mixture/experts_3/linear_0/"}),
    "nnx/denoiser": ({"time.kernel", "mix.kernel", "SIGNAL"}, {"/time/", "/norm/", "/mix/"}),
    "linen/denoiser": ({"time.kernel", "mix.kernel"}, {"/Denoiser/time/", "/Denoiser/mix/"}),
    "equinox/denoiser": ({"time.weight", "mix.weight"}, {"/time/", "/norm/", "/mix/"}),
    "haiku/denoiser": ({"time.w", "mix.w"}, {"/time/", "/norm/", "/mix/"}),
    "nnx/flow": ({"networks.2.layers.0.kernel"}, {"/networks.2/layers.0/"}),
    "linen/flow": ({"networks_2.layers_0.kernel"}, {"/Flow/networks_2/layers_0/"}),
    "equinox/flow": ({"networks.2.layers.0.weight"}, {"/networks.2/layers.0/"}),
    "haiku/flow": ({"networks_2.~.linear_0.w"}, {"/networks_2/linear_0/"}),
    "nnx/ode": ({"up.kernel", "down.bias"}, {"/up/", "/down/"}),
    "equinox/ode": ({"network.layers.0.weight"}, {"/network/layers.0/"}),
}

SMALL = {"resnet50": {"width": 8, "classes": 10, "size": 64}}


def nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Returns the nodes of a graph and of its subgraphs."""
    found = []
    for node in graph.node:
        found.append(node)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += nodes(attribute.g)
    return found


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_a_model_computes_what_jax_computes(name: str) -> None:
    framework, architecture = name.split("/")
    pytest.importorskip(catalogue.FRAMEWORKS[framework])
    sizes = SMALL.get(architecture, {})
    fn, args = catalogue.build(name, batch=3, **sizes)
    _, single = catalogue.build(name, batch=1, **sizes)

    # The sizes that differ between batches of one and of three are the batch.
    def spec(one: Any, three: Any) -> Any:
        shape = [a if a == b else "B" for a, b in zip(one.shape, three.shape, strict=True)]
        return Described(tuple(shape), one.dtype)

    specs = jax.tree.map(spec, single, args)
    model = to_onnx(fn, list(specs))
    onnx.checker.check_model(model, full_check=True)
    expected = jax.tree.leaves(quick(fn)(*args))
    assert_close(run(model, jax.tree.leaves(args)), expected)
    batched = [output.type.tensor_type.shape.dim[0].dim_param for output in model.graph.output]
    assert batched == ["B"] * len(expected)
    first = [leaf[:1] for leaf in expected]
    assert_close(run(model, jax.tree.leaves(first_of(args, specs))), first)

    parameters, scopes = EXPECTED[name]
    found = {tensor.name for tensor in model.graph.initializer}
    assert parameters <= found, sorted(found)
    names = [node.name for node in nodes(model.graph)]
    assert len({*names}) == len(names)
    for scope in scopes:
        assert any(name.startswith(scope) for name in names), (scope, names)


class Described:
    """A shape, which may have symbolic sizes, and an element type."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype


def first_of(args: Any, specs: Any) -> Any:
    """Returns the first example of a batch; arguments without a batch are unchanged."""
    return jax.tree.map(lambda x, spec: x[:1] if "B" in spec.shape else x, args, specs)


def test_every_model_is_tested() -> None:
    assert set(EXPECTED) == set(catalogue.NAMES)


@pytest.mark.slow
def test_sizes_may_all_be_known() -> None:
    fn, args = gpt(tied=True)
    assert "tokens.embedding" in {tensor.name for tensor in check_model(fn, args).graph.initializer}


@pytest.mark.slow
def test_training_mode_is_exported_as_it_is() -> None:
    """Batch statistics are those of the batch; without dropout, nothing is random."""
    model, (image,) = cnn(training=True)
    model.dropout.deterministic = True
    exported = check_model(model, (image,), training="allow")
    names = {tensor.name for tensor in exported.graph.initializer}
    assert "norm1.scale" in names
    assert "norm1.mean" not in names
