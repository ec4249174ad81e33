"""Every node has a line, and it is the correct one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import onnx
import pytest
from flax import nnx

from harness import provenance_of
from harness.provenance_of import (
    KEYS,
    PLUGIN,
    STACKTRACE,
    all_nodes,
    callsite,
    metadata,
    of_type,
    strip,
    traceback,
)
from jax2onnx import SourceMap, stacktrace_metadata, to_onnx
from models.nnx.cnn import cnn
from models.nnx.gpt import gpt

HERE = "test_provenance.py"
X = jax.ShapeDtypeStruct((4,), jnp.float32)
LEVELS = ["minimal", "full", "sourcemap"]


def line_of(mark: str) -> int:
    return provenance_of.line_of(mark, line_of)


def export(fn: Callable[..., Any], *inputs: Any, level: Any = "full", **options: Any) -> Any:
    return to_onnx(fn, list(inputs) or [X], stacktrace_metadata=level, **options)  # to_onnx


def frames(node: onnx.NodeProto) -> list[int]:
    """Returns the lines of this file in the traceback of a node."""
    entries = [entry for entry in traceback(node) if f"{HERE}:" in entry]
    return [int(entry.split(f"{HERE}:")[1].split(" ")[0]) for entry in entries]


@jax.jit
def shared(x: jax.Array) -> jax.Array:
    return jnp.sin(x)  # shared


def two_callers(x: jax.Array) -> jax.Array:
    first = shared(x * 2.0)  # first caller
    second = shared(x + 3.0)  # second caller
    return first - second


@pytest.mark.parametrize("warm", [False, True])
def test_a_function_jitted_once_names_each_caller(warm: bool) -> None:
    if warm:  # JAX caches the trace together with the frames of the first caller
        shared(jnp.ones(4))  # stranger
    first, second = of_type(export(two_callers), "Sin")
    lines = {mark: line_of(mark) for mark in ("shared", "first caller", "second caller")}
    for node, own in ((first, "first caller"), (second, "second caller")):
        assert callsite(node) == f"shared:{lines['shared']}"
        assert frames(node) == [lines["shared"], lines[own]]


def test_the_source_map_names_each_caller_too() -> None:
    model = export(two_callers, level="sourcemap")
    sources = SourceMap.load(model)
    stacks = []
    for node in of_type(model, "Sin"):
        (source,) = sources.lookup_node(node)
        stacks.append([frame.line for frame in source.stack if frame.file.endswith(HERE)])
    shared_line = line_of("shared")
    assert stacks == [
        [shared_line, line_of("first caller")],
        [shared_line, line_of("second caller")],
    ]


def through_scan(x: jax.Array) -> Any:
    def body(carry: jax.Array, each: jax.Array) -> Any:
        return carry + jnp.sin(each), each  # scan body

    return jax.lax.scan(body, 0.0, x)  # scan call


def through_while(x: jax.Array) -> jax.Array:
    def go_on(x: jax.Array) -> jax.Array:
        return jnp.sum(x) < 3.0

    def body(x: jax.Array) -> jax.Array:
        return jnp.sin(x) + 1.0  # while body

    return jax.lax.while_loop(go_on, body, x)  # while call


def through_while_condition(x: jax.Array) -> jax.Array:
    def go_on(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(x)) < 3.0  # condition body

    return jax.lax.while_loop(go_on, lambda x: x + 1.0, x)  # condition call


def through_fori(x: jax.Array) -> jax.Array:
    def body(_: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # fori body

    return jax.lax.fori_loop(0, 3, body, x)  # fori call


def through_cond(x: jax.Array) -> jax.Array:
    def yes(x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # cond body

    return jax.lax.cond(jnp.sum(x) > 0, yes, lambda x: x, x)  # cond call


def through_switch(x: jax.Array) -> jax.Array:
    def second(x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # switch body

    which = jnp.sum(x).astype(jnp.int32)
    return jax.lax.switch(which, [lambda x: x, second, lambda x: -x], x)  # switch call


def through_map(x: jax.Array) -> jax.Array:
    def each(x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # map body

    return jax.lax.map(each, x)  # map call


CONTROL_FLOW = {
    "scan": through_scan,
    "while": through_while,
    "condition": through_while_condition,
    "fori": through_fori,
    "cond": through_cond,
    "switch": through_switch,
    "map": through_map,
}


@pytest.mark.parametrize("kind", CONTROL_FLOW)
def test_a_body_names_its_line_and_the_line_of_the_control_flow(kind: str) -> None:
    model = export(CONTROL_FLOW[kind])
    body, call = line_of(f"{kind} body"), line_of(f"{kind} call")
    nodes = of_type(model, "Sin")
    assert nodes
    for node in nodes:
        assert callsite(node).endswith(f":{body}")
        assert frames(node) == [body, call]
        rules = [entry for entry in metadata(node)[STACKTRACE].split("\n") if ".rs:" in entry]
        assert rules[-1].endswith(" in sin.lower")
        assert len(rules) >= 2, "the rule of the control flow led to it"
    holders = of_type(model, "Loop", "Scan", "If")
    holding = set() if kind == "map" else {str(call)}  # a map is vectorised over all rows
    assert {callsite(node).split(":")[1] for node in holders} == holding


def by_vmap(x: jax.Array) -> jax.Array:
    def one(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * 2.0  # vmap primal

    return jax.vmap(one)(x)


def by_grad(x: jax.Array) -> jax.Array:
    def loss(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(x))  # grad primal

    return jax.grad(loss)(x)


@jax.custom_jvp
def custom(x: jax.Array) -> jax.Array:
    return jnp.sin(x)  # custom_jvp primal


@custom.defjvp
def custom_rule(primals: Any, tangents: Any) -> Any:
    return custom(*primals), jnp.cos(primals[0]) * tangents[0]  # custom_grad primal


def by_checkpoint(x: jax.Array) -> jax.Array:
    @jax.checkpoint
    def inner(x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # checkpoint primal

    return inner(x)


def by_vmapped_grad(x: jax.Array) -> jax.Array:
    def loss(x: jax.Array) -> jax.Array:
        return jnp.sin(x * x)  # vmapped_grad primal

    return jax.vmap(jax.grad(loss))(x)


def by_grad_of_checkpoint(x: jax.Array) -> jax.Array:
    @jax.checkpoint
    def inner(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(x))  # checkpoint_grad primal

    return jax.grad(inner)(x)


@pytest.mark.parametrize(
    ("name", "fn", "op"),
    [
        ("vmap", by_vmap, "Sin"),
        ("grad", by_grad, "Cos"),
        ("custom_jvp", custom, "Sin"),
        ("custom_grad", lambda x: jax.grad(lambda x: jnp.sum(custom(x)))(x), "Cos"),
        ("checkpoint", by_checkpoint, "Sin"),
        ("vmapped_grad", by_vmapped_grad, "Cos"),
        ("checkpoint_grad", by_grad_of_checkpoint, "Cos"),
    ],
)
def test_transformations_keep_the_line_of_the_primal(
    name: str, fn: Callable[..., Any], op: str
) -> None:
    nodes = of_type(export(fn), op)
    assert nodes
    assert {callsite(n).split(":")[1] for n in nodes} == {str(line_of(f"{name} primal"))}


class Nnx(nnx.Module):
    def __init__(self) -> None:
        self.dense = nnx.Linear(4, 4, rngs=nnx.Rngs(0))
        self.norm = nnx.LayerNorm(4, rngs=nnx.Rngs(0))

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.norm(self.dense(x))  # nnx


class Linen(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.LayerNorm()(nn.Dense(4)(x))  # linen


class Equinox(eqx.Module):
    mlp: eqx.nn.MLP

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.mlp(x)  # equinox


def linen() -> Callable[..., Any]:
    module = Linen()
    return module.bind(module.init(jax.random.key(0), jnp.ones((2, 4))))


def by_jax_nn(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(jax.nn.gelu(x))  # jax.nn


def by_optax(x: jax.Array) -> jax.Array:
    optax = pytest.importorskip("optax")
    return optax.softmax_cross_entropy(x, jnp.ones_like(x))  # optax


def haiku() -> Callable[..., Any]:
    hk = pytest.importorskip("haiku")

    def forward(x: jax.Array) -> jax.Array:
        return hk.Linear(4)(x)  # haiku

    pair = hk.without_apply_rng(hk.transform(forward))
    params = pair.init(jax.random.key(0), jnp.ones((2, 4)))
    return lambda x: pair.apply(params, x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("mark", "make"),
    [
        ("nnx", Nnx),
        ("linen", linen),
        ("equinox", lambda: jax.vmap(Equinox(eqx.nn.MLP(4, 4, 8, 2, key=jax.random.key(0))))),
        ("jax.nn", lambda: by_jax_nn),
        ("optax", lambda: by_optax),
        ("haiku", haiku),
    ],
)
def test_library_code_never_hides_the_line_of_the_user(
    mark: str, make: Callable[[], Callable[..., Any]]
) -> None:
    model = export(make(), (2, 4))
    line = str(line_of(mark))
    own = [node for node in all_nodes(model) if node.op_type != "Identity"]
    assert own
    assert {callsite(node).split(":")[1] for node in own} == {line}


def test_without_a_frame_of_the_user_the_library_is_named() -> None:
    model = export(nnx.Linear(4, 4, rngs=nnx.Rngs(0)), (2, 4))
    assert {callsite(node).split(":")[0] for node in all_nodes(model)} == {"Linear.__call__"}


@pytest.mark.parametrize(
    "fn", [two_callers, jnp.sin, jax.nn.gelu, nnx.Linear(4, 4, rngs=nnx.Rngs(0))]
)
def test_the_call_of_to_onnx_is_never_a_call_site(fn: Callable[..., Any]) -> None:
    call = line_of("to_onnx")
    for node in all_nodes(export(fn)):
        assert not callsite(node).startswith("export:")
        assert call not in frames(node)
        entry = metadata(node)[STACKTRACE]
        assert f"{HERE}:{call} in export" in entry, "the stack of its creation does begin there"


def test_names_are_qualified() -> None:
    class Inner:
        def __call__(self, x: jax.Array) -> jax.Array:
            return (lambda y: jnp.sin(y))(x)  # lambda

    (node,) = of_type(export(Inner()), "Sin")
    name = "test_names_are_qualified.<locals>.Inner.__call__.<locals>.<lambda>"
    assert callsite(node) == f"{name}:{line_of('lambda')}"


def test_two_expressions_on_one_line_differ_by_column() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jnp.sin(x) + jnp.cos(x)  # columns

    model = export(fn, level="sourcemap")
    sources = SourceMap.load(model)
    sites = {n.op_type: sources.lookup_node(n)[0].site for n in model.graph.node}
    text = Path(__file__).read_text().split("\n")[line_of("columns") - 1]
    found = {op: text[s.column : s.end_column] for op, s in sites.items() if s is not None}
    assert found == {"Sin": "jnp.sin(x)", "Cos": "jnp.cos(x)", "Add": "jnp.sin(x) + jnp.cos(x)"}


def test_two_instances_of_a_class_differ_by_scope() -> None:
    model, (tokens,) = gpt(layers=2)
    exported = export(model, tokens, level="sourcemap")
    sources = SourceMap.load(exported)
    by_scope = {s.scope for n in all_nodes(exported) for s in sources.lookup_node(n)[:1]}
    assert {"blocks.0/attn/q", "blocks.1/attn/q", "blocks.0/mlp_norm", "head"} <= by_scope


def merged_cse(x: jax.Array) -> jax.Array:
    first = jnp.sin(x)  # cse kept
    second = jnp.sin(x)  # cse gone
    return first * jnp.exp(second)


def merged_gemm(x: jax.Array) -> jax.Array:
    product = x @ jnp.ones((4, 3))  # gemm gone
    return product + jnp.arange(3.0)  # gemm kept


def merged_fold(x: jax.Array) -> jax.Array:
    table = jnp.arange(4.0)  # fold gone
    return x + table  # fold kept


@pytest.mark.parametrize(
    ("name", "fn", "op"),
    [
        ("cse", merged_cse, "Sin"),
        ("gemm", merged_gemm, "Gemm"),
        ("fold", merged_fold, "Add"),
    ],
)
def test_a_merged_node_keeps_all_of_its_sources(name: str, fn: Callable[..., Any], op: str) -> None:
    kept, gone = line_of(f"{name} kept"), line_of(f"{name} gone")
    shape = (2, 4) if op == "Gemm" else (4,)
    (node,) = of_type(export(fn, shape), op)
    assert callsite(node).endswith(f":{kept}")
    own, *others = "\n".join(traceback(node)).split("\nalso from:\n")
    assert f"{HERE}:{kept} " in own
    assert f"{HERE}:{gone} " not in own
    assert any(f"{HERE}:{gone} " in other for other in others)

    model = export(fn, shape, level="sourcemap")
    (node,) = of_type(model, op)
    found = SourceMap.load(model).lookup_node(node)
    lines = [source.site.line for source in found if source.site is not None]
    assert lines[0] == kept
    assert gone in lines


def wide(image: jax.Array, scale: jax.Array) -> Any:
    """Contains every source of nodes: layouts, bodies, types that the runtime lacks, rewrites."""
    image = jnp.sin(image)
    half = jnp.tanh(scale.astype(jnp.bfloat16) * 3)
    total, parts = jax.lax.scan(lambda c, x: (c + jnp.sum(x), jnp.cos(x)), 0.0, image)
    chosen = jax.lax.cond(total > 0, lambda: scale * 2.0, lambda: jnp.flip(scale))
    found = jax.lax.while_loop(lambda v: jnp.sum(v) < 9.0, lambda v: v + jnp.abs(v) + 1.0, chosen)
    product = found[None] @ jnp.ones((4, 2)) + jnp.arange(2.0)
    return image, scale, half, parts, product, jnp.arange(3), scale


WIDE = {"inputs_as_nchw": [0], "outputs_as_nchw": [0]}
WIDE_INPUTS = ((2, 8, 8, 3), (4,))


@pytest.mark.parametrize("level", KEYS)
def test_every_node_has_exactly_the_keys_of_its_level(level: str) -> None:
    models = [export(wide, *WIDE_INPUTS, level=False if level == "off" else level, **WIDE)]
    net, args = cnn()
    models.append(export(net, *args, level=False if level == "off" else level))
    for model in models:
        nodes = all_nodes(model)
        assert nodes
        for node in nodes:
            assert [entry.key for entry in node.metadata_props] == list(KEYS[level]), node
            assert all(entry.value for entry in node.metadata_props), node
        own = {entry.key for entry in model.metadata_props if "jax2onnx" in entry.key}
        assert own == ({"pkg.jax2onnx.sourcemap"} if level == "sourcemap" else set())
    kinds = {node.op_type for node in all_nodes(models[0])}
    assert {"Transpose", "Identity", "Cast", "Scan", "If", "Loop", "Gemm"} <= kinds


def test_off_mentions_nothing() -> None:
    model = export(wide, *WIDE_INPUTS, level=None, **WIDE)
    assert b"pkg.jax2onnx" not in model.SerializeToString()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("make", [gpt, cnn, lambda: (wide, WIDE_INPUTS)])
def test_the_graph_is_the_same_with_and_without(level: str, make: Callable[[], Any]) -> None:
    fn, args = make()
    options = WIDE if fn is wide else {}
    bare = export(fn, *args, level=False, **options)
    assert strip(export(fn, *args, level=level, **options)) == strip(bare)


def test_every_rule_is_a_stage_and_a_line() -> None:
    for node in all_nodes(export(wide, *WIDE_INPUTS, **WIDE)):
        name, line = metadata(node)[PLUGIN].rsplit(":", 1)
        assert name.rsplit(".", 1)[1] in {"lower", "rewrite", "legalize"}
        assert int(line) > 0
        innermost = metadata(node)[STACKTRACE].split("\n")[-1]
        assert innermost.endswith(f":{line} in {name}")


def keys_of(model: onnx.ModelProto) -> tuple[str, ...]:
    (found,) = {tuple(e.key for e in node.metadata_props) for node in all_nodes(model)}
    return found


def test_the_argument_beats_the_context_beats_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAX2ONNX_ENABLE_STACKTRACE_METADATA", "1")
    monkeypatch.setenv("JAX2ONNX_STACKTRACE_DETAIL", "full")
    assert keys_of(export(two_callers, level=None)) == KEYS["full"]
    with stacktrace_metadata("minimal"):
        assert keys_of(export(two_callers, level=None)) == KEYS["minimal"]
        assert keys_of(export(two_callers, level="full")) == KEYS["full"]
        assert keys_of(export(two_callers, level=False)) == ()
        with stacktrace_metadata(False):
            assert keys_of(export(two_callers, level=None)) == ()
        assert keys_of(export(two_callers, level=None)) == KEYS["minimal"]
    assert keys_of(export(two_callers, level=None)) == KEYS["full"]


def test_stepwise_folding_inherits_each_source_once() -> None:
    """Every step reads the previous one several times, so lists of origins must not double."""

    def fn(x: jax.Array) -> jax.Array:
        y = jnp.float32(1)
        for _ in range(50):
            y = jnp.where(y > 2, y - 1, y + y * 0.5)
        return x + y

    (node,) = to_onnx(fn, [(3,)]).graph.node
    assert node.op_type == "Add"
