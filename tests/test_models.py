"""Reference architectures: the model computes what JAX computes, and its names are the user's."""

from collections.abc import Callable
from typing import Any

import pytest

from checking import check_model
from models.cnn import cnn
from models.eqx_cnn import eqx_cnn
from models.eqx_mlp import eqx_mlp
from models.gpt import gpt
from models.linen_cnn import linen_cnn
from models.linen_mlp import linen_mlp
from models.mlp import mlp
from models.resnet50 import resnet50
from models.vit import vit


def tied() -> Any:
    return gpt(tied=True)


def narrow() -> Any:
    return resnet50(width=8, classes=10)


# Each model with parameters and node scopes that must be found in it.
MODELS: list[tuple[Callable[[], Any], set[str], set[str]]] = [
    (mlp, {"first.kernel", "norm.scale", "last.bias"}, {"/first/", "/norm/", "/last/"}),
    (cnn, {"conv1.kernel", "norm2.mean", "head.bias"}, {"/conv1/", "/norm2/", "/head/"}),
    (
        narrow,
        {"stem.kernel", "blocks.0.project.layers.0.kernel", "blocks.15.norm3.var"},
        {"/stem/", "/blocks.0/project/layers.0/", "/blocks.15/norm3/"},
    ),
    (
        vit,
        {"token", "positions", "blocks.1.attention.query.kernel"},
        {"/patches/", "/blocks.1/attention/query/", "/head/"},
    ),
    (
        gpt,
        {"tokens.embedding", "blocks.1.attn.q.kernel", "head.kernel"},
        {"/tokens/", "/blocks.1/attn/q/", "/head/"},
    ),
    (tied, {"tokens.embedding"}, {"/blocks.0/attn/out/"}),
    (eqx_mlp, {"embed.weight", "body.layers.1.bias", "scale"}, {"/embed/", "/body/layers.1/"}),
    (eqx_cnn, {"layers.0.weight", "head.bias"}, {"/layers.0/", "/layers.1/", "/head/"}),
    (linen_mlp, {"Dense_0.kernel", "head.bias"}, {"/MLP/Dense_0/", "/MLP/head/"}),
    (linen_cnn, {"conv.kernel", "batch_stats.norm.mean"}, {"/CNN/conv/", "/CNN/head/"}),
]


@pytest.mark.parametrize(
    ("build", "parameters", "scopes"), MODELS, ids=[build.__name__ for build, *_ in MODELS]
)
def test_a_model_computes_what_jax_computes(
    build: Callable[[], Any], parameters: set[str], scopes: set[str]
) -> None:
    fn, args = build()
    graph = check_model(fn, args).graph
    assert parameters <= {tensor.name for tensor in graph.initializer}
    names = [node.name for node in graph.node]
    assert len({*names}) == len(names)
    for scope in scopes:
        assert any(name.startswith(scope) for name in names), scope


def test_training_mode_is_exported_as_it_is() -> None:
    """Batch statistics are those of the batch; nothing is random without dropout."""
    model, (image,) = cnn(training=True)
    model.dropout.deterministic = True
    names = {tensor.name for tensor in check_model(model, (image,)).graph.initializer}
    assert "norm1.scale" in names
    assert "norm1.mean" not in names
