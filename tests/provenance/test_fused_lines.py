"""The lines of fused nodes, compared with the ground truth.

The ground truth does not depend on names: all values of an optimised model are computed, and each
is compared with those of the exported model, regardless of layout. A node represents the exported
nodes between the values that it reads and those that it computes.
"""

import importlib.util
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

from harness.provenance_of import line_of
from jax2onnx import SourceMap, _core, onnx_function, to_onnx

SHAPE = (1, 16, 16, 3)
LEVELS = ("BASIC", "EXTENDED", "ALL")
LAYOUTS = ("ReorderInput", "ReorderOutput")

HEAD = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_draw = np.random.default_rng(0)


def weights(*shape):
    return jnp.asarray(_draw.normal(size=shape).astype("float32") * 0.3)


kernels = [weights(3, 3, 3, 16)] + [weights(3, 3, 16, 16) for _ in range(8)]
depthwise = weights(3, 3, 1, 16)
scale, shift, mean, spread = weights(16), weights(16), weights(16), 1 + jnp.abs(weights(16))
axes = ("NHWC", "HWIO", "NHWC")


def fn(x):
    y = lax.conv_general_dilated(x, kernels[0], (1, 1), "SAME", dimension_numbers=axes)
    z = y
"""

MATRICES = jnp.asarray(np.random.default_rng(0).normal(size=(4, 16, 16)).astype("float32"))

#: What may happen to the value `y`; `z` is an earlier one of the same shape.
STEPS = (
    'y = lax.conv_general_dilated(y, kernels[{k}], (1, 1), "SAME", dimension_numbers=axes)',
    'y = lax.conv_general_dilated(y, kernels[{k}], (1, 1), "SAME", dimension_numbers=axes)',
    'y = lax.conv_general_dilated(y, depthwise, (1, 1), "SAME", (1, 1), (1, 1), axes, 16)',
    "y = (y - mean) / jnp.sqrt(spread + 1e-5) * scale + shift",
    "y = jax.nn.relu(y)",
    "y = jax.nn.gelu(y)",
    "y = jax.nn.silu(y)",
    "y = jnp.tanh(y)",
    "y = y * scale",
    "y = y + shift",
    "y = y + z",
    "y = y * z",
    "z = y",
    "y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 1, 1, 1), 'SAME')",
    "y = jnp.concatenate([y, z], -1)[..., ::2]",
    "y = y * jax.nn.sigmoid(jnp.mean(y, (1, 2), keepdims=True))",
)


STEMS = {
    "gelu": "gelu z=y conv bn relu conv bias skip relu",
    "resnet": "bn relu pool z=y conv bn relu conv bn skip relu z=y conv bn relu conv bn skip relu",
    "gates": "z=y conv silu conv tanh gate conv squeeze conv skip silu",
    "scaled": "conv scale silu conv tanh scale silu conv relu scale skip tanh conv",
    "norms": "z=y bn skip tanh conv relu z=y bn relu conv tanh scale skip gate gelu bn",
    "branches": "relu z=y depthwise bn silu concat conv bn scale skip gelu pool",
    "projections": "relu z=y conv bn swap conv bn relu conv bn skip relu",
}
SHORT = dict(
    zip(
        [
            "conv",
            "another",
            "depthwise",
            "bn",
            "relu",
            "gelu",
            "silu",
            "tanh",
            "scale",
            "bias",
            "skip",
            "gate",
            "z=y",
            "pool",
            "concat",
            "squeeze",
        ],
        STEPS,
        strict=True,
    )
)
SHORT["swap"] = "y, z = z, y"


def stem(steps: str) -> list[str]:
    return [SHORT[name] for name in steps.split()]


def random_stem(seed: int) -> list[str]:
    draw = random.Random(seed)
    return [draw.choice(STEPS) for _ in range(draw.randint(4, 12))]


def load(folder: Path, steps: list[str]) -> Callable[..., Any]:
    """Writes a program with one step per line, and imports it."""
    lines = [f"    {step.format(k=1 + number % 8)}" for number, step in enumerate(steps)]
    path = folder / "stem.py"
    path.write_text(HEAD + "\n".join([*lines, "    return jnp.sum(y, (1, 2))", ""]))
    spec = importlib.util.spec_from_file_location("stem", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    fn: Callable[..., Any] = module.fn
    return fn


def optimise(model: onnx.ModelProto, level: str, path: Path) -> onnx.ModelProto:
    options = onnxruntime.SessionOptions()
    name = f"ORT_ENABLE_{level}"
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, name)
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    text = model.SerializeToString()
    onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    return onnx.load(path)


def values(model: onnx.ModelProto, x: np.ndarray) -> dict[str, np.ndarray]:
    """Returns all values that a model computes."""
    shown = onnx.ModelProto.FromString(model.SerializeToString())
    del shown.graph.output[:]
    names = [name for node in model.graph.node for name in node.output if name]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    text = shown.SerializeToString()
    session = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    found = session.run(names, {model.graph.input[0].name: x})
    return {**dict(zip(names, found, strict=True)), model.graph.input[0].name: x}


def same(left: np.ndarray, right: np.ndarray) -> bool:
    """Returns `True` if two values have the same elements, in any order."""
    if left.size != right.size or left.dtype != right.dtype:
        return False
    return np.allclose(np.sort(left, None), np.sort(right, None), rtol=2e-3, atol=1e-4)


def lines(sources: Any) -> list[int]:
    return [source.site.line for source in sources if source.site is not None]


def possible_lines(sources: Any) -> set[int]:
    return {frame.line for source in sources for frame in source.sites}


def truths(
    exported: onnx.ModelProto, optimised: onnx.ModelProto, sources: SourceMap
) -> Iterator[tuple[set[int], bool]]:
    """The lines of each node of an optimised model, and whether all of them are certain: the second
    of two activations may change nothing.
    """
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    known, new = values(exported, x), values(optimised, x)
    makers = {name: node for node in exported.graph.node for name in node.output}
    computed = {name for node in optimised.graph.node for name in node.output} & makers.keys()

    def equal(name: str) -> set[str]:
        if name in known or name not in new:
            return {name}
        return {other for other in known if same(new[name], known[other])}

    for node in optimised.graph.node:
        candidates = [equal(name) for name in (*node.input, *node.output)]
        certain = all(len(names) == 1 for names in candidates)
        reads = set().union(*candidates[: len(node.input)])
        results = set().union(*candidates[len(node.input) :])
        todo, seen = list(results if node.op_type in LAYOUTS else results - reads), set[str]()
        while todo:
            name = todo.pop()
            if name in makers and name not in seen:
                seen.add(name)
                if node.op_type not in LAYOUTS:
                    outside = reads | (computed - set(node.output))
                    todo.extend(read for read in makers[name].input if read not in outside)
        yield {line for name in seen for line in lines(sources.lookup(name))}, certain


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("steps", [*map(stem, STEMS.values()), *map(random_stem, range(8))])
def test_lines_of_fused_nodes_are_those_that_were_fused(
    steps: list[str], level: str, tmp_path: Path
) -> None:
    fn = load(tmp_path, steps)
    inputs = [jax.ShapeDtypeStruct(SHAPE, "float32")]
    exported = to_onnx(fn, inputs, stacktrace_metadata="sourcemap")
    optimised = optimise(exported, level, tmp_path / "optimised.onnx")
    sources = SourceMap.load(exported)
    found = sources.lookup_model(optimised)
    actual = truths(exported, optimised, sources)
    for (node, own), (truth, certain) in zip(found, actual, strict=True):
        if truth:
            assert lines(own), node.name
            assert set(lines(own)) <= truth, (node.name, lines(own), truth)
        assert not certain or set(lines(own)) == truth, (node.name, lines(own), truth)


def test_a_convolution_has_no_line_of_its_neighbours(tmp_path: Path) -> None:
    """Each convolution transposes its operand and its result; most of that cancels out."""
    fn = load(tmp_path, stem("conv conv relu depthwise conv tanh conv squeeze conv"))
    exported = to_onnx(
        fn, [jax.ShapeDtypeStruct(SHAPE, "float32")], stacktrace_metadata="sourcemap"
    )
    sources = SourceMap.load(exported)
    found = [lines(sources.lookup(node.name)) for node in exported.graph.node]
    assert all(len(own) == 1 for own in found), found


def attention(x: jax.Array) -> jax.Array:
    q = x @ MATRICES[0]
    k = x @ MATRICES[1]
    v = x @ MATRICES[2]
    scores = q @ k.T
    scores = jax.nn.softmax(scores)
    y = scores @ v
    y = jnp.sin(y)
    y = y * jax.nn.sigmoid(x @ MATRICES[3])
    return y @ MATRICES[0] - x


def renamed(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a model whose inner values and constants have other names, and its nodes none."""
    model = onnx.ModelProto.FromString(proto.SerializeToString())
    graph = model.graph
    names = {value.name: value.name for value in (*graph.input, *graph.output)} | {"": ""}
    for tensor in graph.initializer:
        tensor.name = names.setdefault(tensor.name, f"v{len(names)}")
    for node in graph.node:
        node.name = ""
        node.input[:] = [names[name] for name in node.input]
        node.output[:] = [names.setdefault(name, f"v{len(names)}") for name in node.output]
    del graph.value_info[:]
    return model


def test_nodes_of_a_renamed_model_have_their_own_lines() -> None:
    exported = to_onnx(attention, [(8, 16)], stacktrace_metadata="sourcemap")
    sources = SourceMap.load(exported)
    found = sources.lookup_model(renamed(exported))
    for (_, own), node in zip(found, exported.graph.node, strict=True):
        assert lines(own) == lines(sources.lookup(node.name)), node.name


def test_a_renamed_and_changed_model_has_no_certain_lines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One of the products is gone, so that the order of the others does not identify them."""
    exported = to_onnx(attention, [(8, 16)], stacktrace_metadata="sourcemap")
    sources = SourceMap.load(exported)
    changed = renamed(exported)
    first, second, *_ = (n for n in changed.graph.node if n.op_type == "MatMul")
    for node in changed.graph.node:
        node.input[:] = [first.output[0] if n == second.output[0] else n for n in node.input]
    changed.graph.node.remove(second)
    nodes = [node for node in exported.graph.node if node.name != "/MatMul_1"]
    for (_, own), node in zip(sources.lookup_model(changed), nodes, strict=True):
        assert {*lines(sources.lookup(node.name))} <= possible_lines(own), node.name
    onnx.save(changed, tmp_path / "model.onnx")
    assert _core.main(["show", str(tmp_path / "model.onnx"), "--node", first.output[0]]) == 0
    shown = capfd.readouterr().out
    assert ": one of 9 possible lines" in shown
    assert ": or this line" in shown
    assert "merged into the same node" not in shown


def parallel(x: jax.Array) -> jax.Array:
    a = x @ MATRICES[0]
    b = x @ MATRICES[1]
    c = x @ MATRICES[2]
    return jnp.concatenate([a, b, c])


def test_products_are_not_identified_by_order_if_one_is_gone() -> None:
    exported = to_onnx(parallel, [(8, 16)], stacktrace_metadata="sourcemap")
    sources = SourceMap.load(exported)
    changed = renamed(exported)
    _, second, third, concat = changed.graph.node
    concat.input[1] = third.output[0]
    changed.graph.node.remove(second)
    products = {
        line for node in exported.graph.node[:3] for line in lines(sources.lookup(node.name))
    }
    assert len(products) == 3
    for node, own in sources.lookup_model(changed)[:2]:
        assert lines(own) == [], node
        assert products <= possible_lines(own)
        assert " or " in repr(own[0])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(6))
def test_an_optimised_model_without_its_names_has_no_wrong_line(
    seed: int, level: str, tmp_path: Path
) -> None:
    fn = load(tmp_path, random_stem(seed))
    inputs = [jax.ShapeDtypeStruct(SHAPE, "float32")]
    exported = to_onnx(fn, inputs, stacktrace_metadata="sourcemap")
    optimised = optimise(renamed(exported), level, tmp_path / "optimised.onnx")
    sources = SourceMap.load(exported)
    actual = truths(exported, optimised, sources)
    for (node, own), (truth, _) in zip(sources.lookup_model(optimised), actual, strict=True):
        if truth:
            assert {*lines(own)[:1]} <= truth, (node.name, lines(own), truth)
            assert truth & possible_lines(own), (node.name, possible_lines(own), truth)


def profile(
    model: onnx.ModelProto, level: str, folder: Path, settings: dict[str, str] | None = None
) -> Path:
    """Returns the profile of one run. It shares only node names with the model."""
    options = onnxruntime.SessionOptions()
    for key, value in (settings or {}).items():
        options.add_session_config_entry(key, value)
    name = f"ORT_ENABLE_{level}"
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, name)
    options.log_severity_level = 3
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    text = model.SerializeToString()
    session = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    shape = [dimension.dim_value for dimension in model.graph.input[0].type.tensor_type.shape.dim]
    session.run(None, {model.graph.input[0].name: np.ones(shape, np.float32)})
    return Path(session.end_profiling())


def charged(
    model: onnx.ModelProto,
    level: str,
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    settings: dict[str, str] | None = None,
) -> dict[str, set[int]]:
    """Returns the lines that `profile` attributes each kernel to, given the exported model."""
    onnx.save(model, folder / "model.onnx")
    times = profile(model, level, folder, settings)
    assert _core.main(["profile", str(folder / "model.onnx"), str(times), "--json"]) == 0
    kernels = json.loads(capfd.readouterr().out)["kernels"]
    return {
        kernel["name"]: {int(site.rpartition(":")[2]) for site in kernel["sites"]}
        for kernel in kernels
    }


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", STEMS)
def test_a_profile_charges_all_lines_of_a_fused_kernel(
    name: str, level: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fn = load(tmp_path, stem(STEMS[name]))
    inputs = [jax.ShapeDtypeStruct(SHAPE, "float32")]
    exported = to_onnx(fn, inputs, stacktrace_metadata="sourcemap")
    optimised = optimise(exported, level, tmp_path / "optimised.onnx")
    nodes = SourceMap.load(exported).lookup_model(optimised)
    expected = {node.name: {*lines(s for s in own if not s.idle)} for node, own in nodes}
    found = charged(exported, level, tmp_path, capfd)
    assert found.keys() == expected.keys()
    # onnxruntime numbers the changes of layout in arbitrary order.
    layouts = [name for name in expected if name.startswith(LAYOUTS)]
    own = [sorted(found.pop(name)) for name in layouts]
    assert sorted(own) == sorted(sorted(expected.pop(name)) for name in layouts)
    assert found == expected


def test_renamed_kernels_are_charged_to_the_nodes_they_replaced(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bias, weights = jnp.arange(32.0), jnp.ones((32, 32))

    def fn(x: jax.Array) -> jax.Array:
        y = jnp.sin(x)
        y = y + bias
        y = jax.nn.gelu(y, approximate=False)
        y = y * 2
        y = y + bias
        y = jax.nn.gelu(y, approximate=True)
        y = y @ weights
        y = y + bias
        return jnp.cos(y)

    inputs = [jax.ShapeDtypeStruct((2, 8, 32), "float32")]
    exported = to_onnx(fn, inputs, stacktrace_metadata="sourcemap")
    first = fn.__code__.co_firstlineno
    found = charged(exported, "ALL", tmp_path, capfd)
    expected = {"BiasGelu": {2, 3}, "FastGelu": {5, 6}, "/MatMul/MatMulAddFusion": {7, 8}}
    assert {name: {line - first for line in found[name]} for name in expected} == expected


@pytest.mark.parametrize("level", LEVELS)
def test_lines_that_compute_nothing_are_not_charged(
    level: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Products do not compute what becomes part of a layout, nor a guard that cannot apply."""
    steps = """
        y = x.reshape(4, 8, 2, 8)
        y = jnp.einsum("bqhd,bkhd->bhqk", y, y)
        y = jnp.einsum("bhqk,bkd->bqhd", y, x[:, :, :8])
        y = y.reshape(4, 8, 16)
        y = y @ MATRICES[0]
        y = jax.nn.softplus(y)
        y = jax.nn.relu(y)
        y = jnp.clip(y, -1, 3)
    """
    own = [line.strip() for line in steps.strip().splitlines()]
    path = tmp_path / "stem.py"
    text = HEAD.partition("def fn")[0] + "MATRICES = weights(1, 16, 16)\n\n\ndef fn(x):\n    "
    path.write_text(text + "\n    ".join([*own, "return y", ""]))
    spec = importlib.util.spec_from_file_location("stem", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    exported = to_onnx(module.fn, [(4, 8, 16)], stacktrace_metadata="sourcemap")
    first = text.count("\n") + 1
    found = charged(exported, level, tmp_path, capfd)
    products = {
        name: {own[line - first] for line in charges}
        for name, charges in found.items()
        if "MatMul" in name or "Relu" in name
    }
    assert sorted(len(lines) for lines in products.values()) == [1] * len(products), products
    assert {line for lines in products.values() for line in lines} >= {own[1], own[2], own[4]}


@onnx_function
def scores(x: jax.Array, weights: jax.Array) -> jax.Array:
    y = x @ jnp.swapaxes(x @ weights, -1, -2)
    return jax.nn.softmax(y / 4.0)


def test_a_fused_node_of_a_function_is_charged_in_every_call(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def twice(x: jax.Array) -> jax.Array:
        return scores(scores(x, MATRICES[0]), MATRICES[1])

    exported = to_onnx(twice, [(2, 16, 16)], stacktrace_metadata="sourcemap")
    found = charged(exported, "EXTENDED", tmp_path, capfd)
    assert [len(own) for name, own in found.items() if "MatMulScale" in name] == [2, 2], found


def spelled(x: jax.Array, bias: jax.Array, weights: jax.Array) -> jax.Array:
    y = x @ weights  # product
    y = y + bias  # bias
    z = y / np.float32(np.sqrt(2))  # quotient
    z = jax.lax.erf(z) + 1  # erf
    return y * z * 0.5  # gelu


@pytest.mark.parametrize("approximate", [False, True])
def test_a_product_and_the_activation_after_it_are_charged_separately(
    approximate: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """onnxruntime turns the product into a `Gemm` between two reshapes. Its option replaces the
    exact `Gelu` by the approximate one.
    """
    bias, weights = jnp.arange(32.0), jnp.ones((32, 32))

    def fn(x: jax.Array) -> jax.Array:
        return spelled(spelled(x, bias, weights), bias, weights)

    exported = to_onnx(fn, [(2, 8, 32)], opset=17, stacktrace_metadata="sourcemap")
    settings = {"optimization.enable_gelu_approximation": "1"} if approximate else {}
    found = charged(exported, "ALL", tmp_path, capfd, settings)
    products = {line_of(mark, spelled) for mark in ("product", "bias")}
    gelus = {line_of(mark, spelled) for mark in ("quotient", "erf", "gelu")}
    gelu = "FastGelu" if approximate else "Gelu"
    assert len(found) == 8
    for name, own in found.items():
        assert own == (gelus if name.startswith(gelu) else products), name


# A parameter, which the user may replace, so that the export keeps the branch.
DONE = jnp.array(False)


def split(x: jax.Array) -> jax.Array:
    y = jnp.sin(x)
    a = y[:, 0] * 2.0  # first
    b = jnp.cos(y[:, 1])  # second
    c = jnp.tanh(y[:, 2])  # third
    z = jnp.exp(x)
    return a + b * c + z[0] * z[1] * z[2]  # others


def test_parts_of_a_value_that_onnxruntime_splits_have_their_own_lines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """onnxruntime replaces the three by a `Split` and a `Squeeze` for each."""
    exported = to_onnx(split, [(3, 3)], stacktrace_metadata="sourcemap")
    optimised = optimise(exported, "ALL", tmp_path / "optimised.onnx")
    marks = ("first", "second", "third", "others")
    first, second, third, others = (line_of(mark, split) for mark in marks)
    nodes = SourceMap.load(exported).lookup_model(optimised)
    squeezed = [{*lines(own)} for node, own in nodes if node.op_type == "Squeeze"]
    expected = [{first}, {second}, {third}, {others}, {others}, {others}]
    assert sorted(squeezed, key=min) == expected
    charges = charged(exported, "ALL", tmp_path, capfd)
    groups = [own for name, own in charges.items() if name.endswith("/GatherSliceToSplitFusion")]
    assert sorted(groups, key=len) == [{others}, {first, second, third}]
    squeezed_too = [own for name, own in charges.items() if name.startswith("Squeeze")]
    assert sorted(squeezed_too, key=len) == [{others}] * 3 + [{first, second, third}] * 3


def chosen(x: jax.Array) -> jax.Array:
    def first(y: jax.Array) -> jax.Array:
        y = jnp.sin(y)  # not taken
        return y * 2

    def second(y: jax.Array) -> jax.Array:
        y = jnp.cos(y) + DONE.astype("float32")  # cosine
        y = jnp.cumsum(jnp.cos(y), 0)  # again
        return jnp.tanh(y) @ y.T  # result

    return jax.lax.cond(DONE, first, second, x) + 1


def test_a_branch_that_onnxruntime_inlines_has_its_own_lines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    exported = to_onnx(chosen, [(3, 3)], stacktrace_metadata="sourcemap")
    assert "If" in {node.op_type for node in exported.graph.node}
    optimised = optimise(exported, "ALL", tmp_path / "optimised.onnx")
    assert "If" not in {node.op_type for node in optimised.graph.node}
    marks = ("cosine", "again", "result")
    cosine, again, result = (line_of(mark, chosen) for mark in marks)
    nodes = SourceMap.load(exported).lookup_model(optimised)
    found = [(node.op_type, {*lines(own)}) for node, own in nodes]
    assert [own for op, own in found if op == "Cos"] == [{cosine}, {again}]
    assert [own for op, own in found if op == "CumSum"] == [{again}]
    assert [own for op, own in found if op == "Tanh"] == [{result}]
    charges = charged(exported, "ALL", tmp_path, capfd)
    moved = {name: own for name, own in charges.items() if name.startswith("_if_else_branch_")}
    assert moved["_if_else_branch_Cos"] == {cosine}
    assert [own for name, own in moved.items() if "Cos_token" in name] == [{again}]
    assert moved["_if_else_branch_CumSum"] == {again}
    assert moved["_if_else_branch_Tanh"] == {result}


@pytest.mark.parametrize(
    ("level", "options"), [*((level, {}) for level in LEVELS), ("ALL", {"weights": "int8"})]
)
def test_merged_reshapes_belong_to_a_product(
    level: str, options: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """onnxruntime merges the reshapes between two products with a bias, and names the result after
    neither of them.
    """
    bias, weights = jnp.arange(32.0), jnp.arange(3 * 32 * 32.0).reshape(3, 32, 32)

    def fn(x: jax.Array) -> jax.Array:
        x = x @ weights[0]
        x = x + bias
        x = x @ weights[1]
        x = x + bias
        x = x @ weights[2]
        x = x + bias
        x = x.reshape(2, 8, 4, 8)
        return jnp.cos(x)

    exported = to_onnx(fn, [(2, 8, 32)], stacktrace_metadata="sourcemap", **options)
    first = fn.__code__.co_firstlineno
    optimised = optimise(exported, level, tmp_path / "optimised.onnx")
    nodes = SourceMap.load(exported).lookup_model(optimised)
    found = {node.name: {line - first for line in lines(own)} for node, own in nodes}
    products = {"": {1, 2}, "_1": {3, 4}, "_2": {5, 6}}
    expected = {f"/MatMul{number}/MatMulAddFusion": at for number, at in products.items()}
    assert {name: found[name] for name in expected} == expected
    merged = [found[name] for name in found if name.endswith("_new_reshape")]
    assert merged == [{1, 2}, {3, 4}, {7}]
    times = charged(exported, level, tmp_path, capfd)
    assert {name: {line - first for line in at} for name, at in times.items()} == found
