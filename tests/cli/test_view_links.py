"""Links into the page of `jax2onnx view`, and from it to an editor."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

from harness.browser import Page, browser
from harness.viewed import INSPECTOR, LIT, PICKED, export, line, make, pick, show, source_line, view
from harness.waiting import until
from jax2onnx import _core, onnx_function
from models.nnx.gpt import gpt

MASKED = "/blocks.1/attn/Add"
GPT = "tests/models/nnx/gpt.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("links")


@pytest.fixture(scope="module")
def tab(folder: Path) -> Iterator[Page]:
    with browser(folder) as page:
        yield page


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    # A single node for the mask, which is easy to hover over.
    return export(folder / "gpt.onnx", *gpt(layers=2), operators={"Trilu": "elementary"})


@pytest.fixture(scope="module")
def page(model: Path) -> Path:
    return view(model)


def test_the_address_follows_the_selection(tab: Page, page: Path) -> None:
    show(tab, page)
    pick(tab, MASKED)
    assert tab.evaluate("location.hash") == f"#node={MASKED}"
    tab.click(line("scores = jnp.where"))
    number = source_line(GPT, "scores = jnp.where")
    assert tab.evaluate("location.hash") == f"#{GPT}:{number}"
    tab.evaluate("history.back()")
    tab.wait(f"({PICKED}) === {MASKED!r}")
    tab.press("Escape")
    assert tab.evaluate("location.hash") == ""
    assert tab.errors == []


def test_an_address_selects(tab: Page, page: Path) -> None:
    show(tab, page, f"#node={MASKED}")
    assert tab.evaluate(PICKED) == MASKED
    assert MASKED in tab.evaluate(INSPECTOR)
    number = source_line(GPT, "scores = jnp.where")
    for fragment in (f"#{GPT}:{number}", f"#gpt.py:{number}"):
        show(tab, page, fragment)
        assert tab.evaluate(LIT) == ["/blocks.0/attn/Add", MASKED]
        assert f"{GPT}:{number}" in tab.evaluate(INSPECTOR)
        shown = "rowsOfLines.get(cursorLine).getBoundingClientRect().top"
        assert 0 < tab.evaluate(shown) < 900
    tab.evaluate("location.hash = 'node=/blocks.0/attn/Softmax'")
    tab.wait(f"({PICKED}) === '/blocks.0/attn/Softmax'")
    for fragment in ("#node=/none", "#none.py:3", "#%", "#node=%", "#", "#:", "#x"):
        show(tab, page, fragment)
        assert tab.evaluate(PICKED) is None
    show(tab, page, "#node=/none")
    assert tab.evaluate("$('lit').textContent") == "The model has no node /none."
    assert tab.errors == []


def test_names_with_any_characters_are_linked(tab: Page, tmp_path: Path) -> None:
    def fn(x: jax.Array) -> jax.Array:
        with jax.named_scope("é&at=1#?%41 b"):
            return jnp.sin(x)

    page = make(tmp_path, fn, [jnp.ones(2)])
    show(tab, page)
    tab.evaluate("jump(nodes.find((node) => node.op === 'Sin').index)")
    tab.wait(f"({PICKED}) !== null")
    name, fragment = tab.evaluate(PICKED), tab.evaluate("location.hash")
    assert unquote(fragment) == f"#node={name}"
    show(tab, page, fragment)
    assert tab.evaluate(PICKED) == name


def test_each_call_of_a_function_has_a_link(tab: Page, tmp_path: Path) -> None:
    @onnx_function
    def inner(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    page = make(tmp_path, lambda x: inner(inner(x) + 1), [jnp.ones(2)])
    show(tab, page)
    second = tab.evaluate("nodes.findLastIndex((node) => node.op === 'Sin')")
    tab.evaluate(f"jump({second})")
    fragment = tab.evaluate("location.hash")
    assert fragment.endswith(f"&at={second}")
    show(tab, page, fragment)
    assert tab.evaluate("state.pick") == second


def test_commands_print_links(
    model: Path, page: Path, tab: Page, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _core.main(["explain", str(model), MASKED, "--page", str(page)])
    told = capfd.readouterr().out.split()
    link = next(word for word in told if word.startswith("file://"))
    tab.leave()
    tab.open(link)
    tab.wait(f"({PICKED}) === {MASKED!r}")
    wrong = onnx.load(model)
    node = next(node for node in wrong.graph.node if node.name == "/blocks.1/attn/Div")
    node.op_type = "Mul"
    onnx.save(wrong, tmp_path / "wrong.onnx")
    np.savez(tmp_path / "x.npz", tokens=np.ones((2, 16), np.int32))
    command = ["verify", str(tmp_path / "wrong.onnx"), "--reference", str(model)]
    command += ["--inputs", str(tmp_path / "x.npz"), "--page", str(page)]
    assert _core.main(command) == 1
    assert f"page:  {page.as_uri()}#node=/blocks.1/attn/Div\n" in capfd.readouterr().out
    assert _core.main([*command, "--json"]) == 1
    assert json.loads(capfd.readouterr().out)["link"].endswith("#node=/blocks.1/attn/Div")


def test_a_line_opens_in_the_editor(
    tab: Page, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "my project"
    source = project / GPT
    source.parent.mkdir(parents=True)
    shutil.copy(GPT, source)
    (project / "pages").mkdir()
    monkeypatch.chdir(project)
    page = view(model, page=Path("pages/gpt.html"))
    assert str(project) not in page.read_text(), "the page has no absolute path"
    address = "inspector.querySelector('a.editor')?.getAttribute('href') ?? null"
    number = source_line(GPT, "scores = jnp.where")
    show(tab, page.absolute(), f"#{GPT}:{number}")
    escaped = str(source).replace(" ", "%20")
    assert tab.evaluate(address) == f"vscode://file{escaped}:{number}"
    pick(tab, MASKED)
    assert tab.evaluate(address) == f"vscode://file{escaped}:{number}", "frames have it, too"
    monkeypatch.setenv("JAX2ONNX_EDITOR", "idea://open?file={path}&line={line}")
    show(tab, view(model, page=Path("pages/gpt.html")).absolute(), f"#{GPT}:{number}")
    assert tab.evaluate(address) == f"idea://open?file={escaped}&line={number}"
    source.write_text(source.read_text() + "# changed\n")
    show(tab, view(model, page=Path("pages/gpt.html")).absolute(), f"#{GPT}:{number}")
    assert tab.evaluate(address) is None, "it is not the file that was exported"


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell script")
def test_open(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, seen = tmp_path / "browser", tmp_path / "seen"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > "{seen}.new" && mv "{seen}.new" "{seen}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(program))
    page = view(model, "--open", page=tmp_path / "page.html")
    until(seen.exists)
    assert seen.read_text() == str(page)
    monkeypatch.setenv("BROWSER", str(tmp_path / "none"))
    assert _core.main(["view", str(model), "-o", str(page), "--open"]) == 2
