"""The source map works on models that other tools have changed."""

import hashlib
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import onnx
import onnx.version_converter
import pytest

from harness.other_tools import TOOLS, export
from harness.provenance_of import all_nodes
from jax2onnx import InvalidInputError, SourceMap, _core, to_onnx
from models.equinox.mlp import mlp as eqx_mlp
from models.linen.cnn import cnn as linen_cnn
from models.nnx.cnn import cnn
from models.nnx.gpt import gpt
from models.nnx.mlp import mlp

MODELS = {"gpt": gpt, "mlp": mlp, "cnn": cnn, "linen_cnn": linen_cnn, "eqx_mlp": eqx_mlp}
KEY = "pkg.jax2onnx.sourcemap"


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", MODELS)
def test_every_surviving_node_is_found(name: str, tool: str, tmp_path: Path) -> None:
    fn, args = MODELS[name]()
    model = TOOLS[tool](export(fn, args), tmp_path)
    found = SourceMap.load(model).lookup_model(model)
    assert {id(node) for node, _ in found} == {id(node) for node in all_nodes(model)}
    for node, sources in found:
        # Which product a shared reshape belongs to may be unknown. Then all candidates are listed.
        sites = [s for source in sources for s in ([source.site] if source.site else source.sites)]
        assert sites, (node.op_type, list(node.output))
        assert all(site.file.startswith("tests/models/") for site in sites), node


def test_values_added_by_the_runtime_are_traced_back(tmp_path: Path) -> None:
    """The runtime inserts `Gemm` between two `Reshape` nodes, with new values."""
    weights, bias = jnp.ones((4, 3)), jnp.arange(3.0)

    def fn(x: jax.Array) -> jax.Array:
        x = jnp.sin(x)
        y = x @ weights
        y = y + bias
        return jnp.cos(y)

    model = TOOLS["onnxruntime, extended"](export(fn, [(2, 5, 4)]), tmp_path)
    first = fn.__code__.co_firstlineno
    lines: dict[str, set[int]] = {}
    for node, sources in SourceMap.load(model).lookup_model(model):
        found = {s.site.line - first for s in sources if s.site is not None}
        lines[node.op_type] = lines.get(node.op_type, set()) | found
    assert lines == {"Sin": {1}, "Reshape": {2, 3}, "Gemm": {2, 3}, "Cos": {4}}


def test_a_fused_node_has_the_sources_of_all_it_replaced(tmp_path: Path) -> None:
    def fn(x: jax.Array) -> jax.Array:
        y = x / jnp.sqrt(2.0)
        z = jax.lax.erf(y)
        s = z + 1.0
        p = x * s
        return p * 0.5

    fused = TOOLS["onnxruntime, extended"](export(fn, [(2, 4)]), tmp_path)
    (node,) = fused.graph.node
    assert node.op_type == "Gelu"
    found = SourceMap.load(fused).lookup_node(node)
    first = fn.__code__.co_firstlineno
    assert {s.site.line - first for s in found if s.site is not None} == {1, 2, 3, 4, 5}


def test_results_that_are_named_like_their_nodes(tmp_path: Path) -> None:
    """The runtime moves transposes, and names recomputed values after the nodes."""
    weights = jnp.ones((4, 3))

    def fn(x: jax.Array) -> jax.Array:
        y = (weights.T @ x.T).T
        y = jnp.sin(y)
        return jnp.cos(y)

    model = TOOLS["onnxruntime, extended"](export(fn, [(2, 4)]), tmp_path)
    first = fn.__code__.co_firstlineno
    for node, sources in SourceMap.load(model).lookup_model(model):
        lines = {source.site.line - first for source in sources if source.site is not None}
        assert lines == {{"Sin": 2, "Cos": 3}.get(node.op_type, 1)}, node


@pytest.mark.slow
def test_the_map_is_far_smaller_than_full_metadata() -> None:
    model, args = gpt(layers=12)
    sizes = {}
    for level in (False, "full"):
        sizes[level] = len(export(model, args, stacktrace_metadata=level).SerializeToString())
    mapped = export(model, args)
    (text,) = (entry.value for entry in mapped.metadata_props if entry.key == KEY)
    assert len(text) * 10 <= sizes["full"] - sizes[False]


def test_the_map_beside_the_model(tmp_path: Path) -> None:
    fn, args = mlp()
    file = tmp_path / "deep" / "model.onnx.map"
    model = to_onnx(fn, list(args), source_map=file)
    props = {entry.key: entry.value for entry in model.metadata_props}
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert props[f"{KEY}.digest"] == f"sha256:{digest}"
    assert KEY not in props
    assert not any(node.metadata_props for node in all_nodes(model))
    beside, inside = SourceMap.load(file), SourceMap.load(export(fn, args))
    assert len(beside) == len(inside) > 0
    for node in all_nodes(model):
        assert repr(beside.lookup_node(node)) == repr(inside.lookup_node(node))
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]


def test_every_form_of_a_model_is_read(tmp_path: Path) -> None:
    fn, args = mlp()
    path = export(fn, args, return_mode="file", output_path=tmp_path / "model.onnx")
    for form in (path, Path(path), export(fn, args), export(fn, args, return_mode="ir")):
        assert len(SourceMap.load(form)) > 0


def tables(model: onnx.ModelProto) -> dict[str, Any]:
    """Returns the JSON of a model's map, as another tool would read it."""
    import base64
    import zlib

    (text,) = (entry.value for entry in model.metadata_props if entry.key == KEY)
    if text.startswith("zlib:"):
        text = zlib.decompress(base64.b64decode(text[5:])).decode()
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def test_the_format_is_as_documented() -> None:
    fn, args = gpt(layers=2)
    model = export(fn, args, source_text=True)
    table = tables(model)
    assert table["version"] == 1
    names = [entry[0] for entry in table["nodes"]]
    assert sorted(names) == sorted(node.name for node in all_nodes(model))

    def site(name: str) -> tuple[str, str, int]:
        """Returns the call site, according to the document alone."""
        _, origin, _, _ = table["nodes"][names.index(name)]
        call = table["origins"][origin][0]
        frames = []
        while call != -1:
            stack, call, _ = table["calls"][call]
            while stack != -1:
                frame, stack = table["stacks"][stack]
                frames.append(table["frames"][frame])
        ranked = [f for kind in (0, 1) for f in frames if f[6] == kind]
        file, function, line, *_ = ranked[0]
        return table["files"][file][0], table["functions"][function], line

    sources = SourceMap.load(model)
    for node in all_nodes(model):
        found = sources.lookup(node.name)[0].site
        assert found is not None
        assert site(node.name) == (found.file, found.function, found.line)

    texts = {path: (digest, text) for path, digest, text in table["files"]}
    digest, text = texts["tests/models/nnx/gpt.py"]
    assert text == Path(gpt.__code__.co_filename).read_text()
    assert digest == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    assert all(value == (None, None) for path, value in texts.items() if path.startswith("jax/"))


def test_source_texts_are_included_only_on_request() -> None:
    fn, args = mlp()
    assert all(text is None for _, _, text in tables(export(fn, args))["files"])


def hostile() -> dict[str, str]:
    fn, args = mlp()
    good = tables(export(fn, args))

    def with_(**changes: Any) -> str:
        return json.dumps({**good, **changes})

    return {
        "empty": "",
        "no JSON": "{",
        "no table": "[]",
        "no tables": '{"version": 1}',
        "a newer version": with_(version=2),
        "no base64": "zlib:!!!",
        "no zlib": "zlib:AAAA",
        "a frame of no file": with_(files=[]),
        "a cycle of stacks": with_(stacks=[[0, 0]]),
        "a stack before itself": with_(stacks=[[0, 1], [0, -1]]),
        "a cycle of calls": with_(calls=[[0, 0, -1]]),
        "a negative call": with_(calls=[[-2, -1, -1]]),
        "an origin of no scope": with_(scopes=[]),
        "a node of no origin": with_(origins=[]),
        "a node that reads none": with_(nodes=[["n", 0, [9], []]]),
        "a huge number": with_(nodes=[["n", 2**40, [], []]]),
        "a word for a number": with_(nodes=[["n", "0", [], []]]),
    }


@pytest.mark.parametrize("case", hostile())
def test_a_hostile_map_is_an_error(case: str, tmp_path: Path) -> None:
    text = hostile()[case]
    model = onnx.ModelProto()
    onnx.helper.set_model_props(model, {KEY: text})
    with pytest.raises(InvalidInputError):
        SourceMap.load(model)
    file = tmp_path / "hostile.map"
    file.write_text(text)
    with pytest.raises(InvalidInputError):
        SourceMap.load(file)


def test_no_map_is_an_error(tmp_path: Path) -> None:
    fn, args = mlp()
    with pytest.raises(InvalidInputError, match="has no source map"):
        SourceMap.load(export(fn, args, stacktrace_metadata=False))
    with pytest.raises(FileNotFoundError):
        SourceMap.load(tmp_path / "nowhere.map")


def test_names_that_the_map_does_not_know() -> None:
    fn, args = mlp()
    assert SourceMap.load(export(fn, args)).lookup("nobody") == []


def sums(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    n = x.shape[0]
    total = x.sum(axis=1).reshape(n, 1)  # of: first
    other = jnp.sum(jnp.cos(x), axis=1, keepdims=True)  # of: second
    last = jnp.sum(jnp.sin(x), axis=1)  # of: third
    return total + other, last[:, None]  # of: axis


def test_a_reduction_names_its_own_line_and_no_other_ones() -> None:
    text = Path(__file__).read_text().splitlines()
    names = {i: line.split("# of: ")[1] for i, line in enumerate(text, 1) if "  # of: " in line}
    model = export(sums, [("B", 3)])
    sources = SourceMap.load(model)
    lines = [
        [names[source.site.line] for source in sources.lookup(node.name) if source.site]
        for node in model.graph.node
        if node.op_type == "ReduceSum"
    ]
    # The sum and the reshape of the first line are two expressions.
    assert lines == [["first", "first"], ["second"], ["third", "axis"]]


def test_a_map_beside_its_model_is_found(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    beside = tmp_path / "model.onnx.map"
    to_onnx(jnp.sin, [(3,)], return_mode="file", output_path=path, source_map=beside)
    expected = repr(SourceMap.load(beside).lookup("/Sin"))
    assert expected != "[]"
    assert repr(SourceMap.load(path).lookup("/Sin")) == expected
    with pytest.raises(InvalidInputError, match="is a separate file") as error:
        SourceMap.load(onnx.load(path))
    assert "pass the path" in error.value.help
    beside.rename(tmp_path / "model.onnx.map.next")
    assert repr(SourceMap.load(path).lookup("/Sin")) == expected
    (tmp_path / "model.onnx.map.next").rename(tmp_path / "elsewhere.map")
    with pytest.raises(InvalidInputError, match="separate file that was not found"):
        SourceMap.load(path)
    to_onnx(jnp.cos, [(3,)], return_mode="file", output_path=tmp_path / "b.onnx", source_map=beside)
    with pytest.raises(InvalidInputError, match="belongs to another export"):
        SourceMap.load(path)


@pytest.mark.parametrize("level", [False, "sourcemap"])
def test_the_map_of_another_export_is_refused(
    level: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its lines would be wrong: two exports number their nodes alike."""
    maps = {}
    for name, fn in (("sin", jnp.sin), ("cos", jnp.cos)):
        path, maps[name] = tmp_path / f"{name}.onnx", tmp_path / f"{name}.map"
        options: dict[str, Any] = {"source_map": maps[name], "stacktrace_metadata": level}
        to_onnx(fn, [(3,)], return_mode="file", output_path=path, **options)
    model = onnx.load(tmp_path / "sin.onnx")
    assert SourceMap.load(maps["sin"]).lookup_model(model)
    with pytest.raises(InvalidInputError, match="belongs to another export"):
        SourceMap.load(maps["cos"]).lookup_model(model)
    command = ["show", str(tmp_path / "sin.onnx"), "--map"]
    assert _core.main([*command, str(maps["sin"])]) == 0
    assert _core.main([*command, str(maps["cos"])]) == 2
    assert "belongs to another export" in capfd.readouterr().err
