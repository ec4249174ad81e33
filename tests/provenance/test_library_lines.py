"""A user's line unfolds into the lines of the library that it calls."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

from harness.profiles import profile
from harness.provenance_of import line_of
from jax2onnx import InvalidInputError, SourceMap, _core, to_onnx

PHYSICS = """\
import jax
import jax.numpy as jnp


def energy(x):
    return jnp.sum(jnp.cos(x))  # energy


def step(x):
    force = jax.grad(energy)(x)
    return _integrate(x, force)


def _integrate(x, force):
    return x + 0.1 * force


def dense(x, weights, bias):
    y = x @ weights
    return y + bias
"""


@pytest.fixture
def physics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """An installed package."""
    folder = tmp_path / "site-packages"
    (folder / "physics").mkdir(parents=True)
    (folder / "physics" / "__init__.py").write_text("from physics.world import step\n")
    (folder / "physics" / "world.py").write_text(PHYSICS)
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module("physics")
    for name in ("physics", "physics.world"):
        sys.modules.pop(name)


def _played(physics: ModuleType, **options: object) -> onnx.ModelProto:
    def play(x: jax.Array) -> jax.Array:
        return jnp.tanh(physics.step(x))  # play

    options = {"stacktrace_metadata": "sourcemap", **options}
    return to_onnx(play, [(3,)], **options)  # type: ignore[arg-type]


def _saved(model: onnx.ModelProto, tmp_path: Path) -> str:
    path = str(tmp_path / "model.onnx")
    onnx.save(model, path)
    return path


def _printed(*arguments: str) -> str:
    status, output, errors = _core.command(list(arguments))
    assert status == 0, errors
    return output


def test_a_line_unfolds_into_the_librarys_lines(physics: ModuleType, tmp_path: Path) -> None:
    path = _saved(_played(physics), tmp_path)
    here = f"tests/provenance/test_library_lines.py:{line_of('play', _played)}"
    unfolded = _printed("show", path, "--by", "line")
    assert here in unfolded
    assert "→ physics/world.py:15 in _integrate" in unfolded
    assert "physics/" not in _printed("show", path, "--by", "line", "--frames", "user")
    assert "physics/" in _printed("show", path, "--by", "line", "--package", "physics.world")
    status, _, errors = _core.command(["show", path, "--by", "line", "--package", "flax"])
    assert status == 1
    assert "no line of the package `flax`" in errors
    chain = _printed("show", path, "--by", "line", "--frames", "all")
    assert chain.index("→ physics/world.py:11 in step") < chain.index("→ physics/world.py:15")
    tree = _printed("show", path, "--frames", "library")
    assert f"{here} → physics/world.py:15" in tree


def test_the_librarys_source_is_found_and_checked(
    physics: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _played(physics)
    path = _saved(model, tmp_path)
    add = next(node.name for node in model.graph.node if node.op_type == "Add")
    # The file is found below a folder that contains the package.
    monkeypatch.chdir(tmp_path / "site-packages")
    said = _printed("explain", path, add)
    assert "your line calls" in said
    assert "physics/world.py:11 in step  return _integrate(x, force)" in said
    assert "physics/world.py:15 in _integrate  return x + 0.1 * force" in said
    (tmp_path / "site-packages" / "physics" / "world.py").write_text("\n" + PHYSICS)
    said = _printed("explain", path, add)
    assert "physics/world.py:15 in _integrate\n" in said
    assert "return x + 0.1 * force" not in said


def test_a_profile_divides_a_fused_node_among_the_librarys_lines(
    physics: ModuleType, tmp_path: Path
) -> None:
    dense = importlib.import_module("physics.world").dense
    weights, bias = np.ones((3, 4), np.float32), np.ones(4, np.float32)
    x = np.ones((2, 3), np.float32)
    model = to_onnx(lambda x: dense(x, weights, bias), [x], stacktrace_metadata="sourcemap")
    assert [node.op_type for node in model.graph.node] == ["Gemm"]
    path = _saved(model, tmp_path)
    times = profile(Path(path), [x], 2)
    (line,) = json.loads(_printed("profile", path, str(times), "--json"))["lines"]
    below = {entry["line"]: entry["ns"] for entry in line["below"]}
    assert below == {19: line["ns"] / 2, 20: line["ns"] / 2}


def test_frames_tell_whose_they_are(physics: ModuleType, tmp_path: Path) -> None:
    model = _played(physics)
    path = _saved(model, tmp_path)
    add = next(node.name for node in model.graph.node if node.op_type == "Add")
    stack = json.loads(_printed("show", path, "--node", add, "--json"))["sources"][0]["stack"]
    kinds = {frame["file"].split("/")[0]: frame["kind"] for frame in stack}
    assert (kinds["physics"], kinds["tests"]) == ("library", "user")


def test_packages_may_count_as_the_users(physics: ModuleType) -> None:
    def site(**options: object) -> str:
        model = _played(physics, **options)
        (add,) = (node for node in model.graph.node if node.op_type == "Add")
        (source, *_) = SourceMap.load(model).lookup(add.name)
        assert source.site is not None
        return source.site.file

    assert site() == "tests/provenance/test_library_lines.py"
    assert site(user_packages="physics") == "physics/world.py"
    assert site(user_packages=["physics", "-physics.world"]).startswith("tests/")
    with pytest.raises(InvalidInputError, match="not the name of a package"):
        site(user_packages=["physics/world"])


def test_functions_name_nodes_on_request(physics: ModuleType) -> None:
    plain, named = (_played(physics, node_names=names) for names in ("modules", "functions"))
    assert any(node.name == "/Add" for node in plain.graph.node)
    assert any(node.name == "/step/_integrate/Add" for node in named.graph.node)
    assert any(node.name == "/Tanh" for node in named.graph.node)
    assert [node.op_type for node in plain.graph.node] == [n.op_type for n in named.graph.node]
    # Metadata does not change names.
    off = _played(physics, node_names="functions", stacktrace_metadata=False)
    for model in (named, off):
        for node in model.graph.node:
            del node.metadata_props[:]
    assert off.graph == named.graph
