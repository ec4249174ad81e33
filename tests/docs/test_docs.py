"""Every code block in the documentation runs: Python as it is, commands of `jax2onnx` on the files
that earlier blocks wrote.
"""

import glob
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

import jax2onnx
from jax2onnx import _core

TOP = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(TOP)): path.read_text()
    for path in (TOP / "README.md", TOP / "python/README.md", *sorted((TOP / "docs").rglob("*.md")))
}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Code that runs before a page: what stands for files of the reader, and for a GPU.
GIVEN = {
    "docs/language-models.md": """
import json, pathlib
from harness.checkpoints import publish
made = json.loads(pathlib.Path(FIXTURE).read_text())
config = {**made["config"], "max_position_embeddings": 40960}
publish(pathlib.Path("Qwen3-0.6B"), config, made["tensors"])
""".replace("FIXTURE", repr(str(TOP / "tests/generation/families/qwen3.json"))),
    "docs/large-models.md": """
import json, os
import numpy as np

os.mkdir("llama")
header, data, where = {}, b"", {}
for name, shape in {"embed": (50, 64), "head": (64, 50)}.items():
    content = np.ones(shape, np.float32).tobytes()
    offsets = [len(data), len(data) + len(content)]
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
    data += content
    where[name] = "1.safetensors"
text = json.dumps(header).encode()
with open("llama/1.safetensors", "wb") as file:
    file.write(len(text).to_bytes(8, "little") + text + data)
with open("llama/model.safetensors.index.json", "w") as file:
    json.dump({"weight_map": where}, file)
""",
    "docs/gpu.md": """
import sys, types, onnxruntime as real
class Session(real.InferenceSession):
    def __init__(self, path, providers, **options):
        super().__init__(path, providers=["CPUExecutionProvider"], **options)
    def io_binding(self):
        binding = super().io_binding()
        binding.bind_output = lambda name, _: type(binding).bind_output(binding, name, "cpu")
        return binding
sys.modules["onnxruntime"] = types.SimpleNamespace(InferenceSession=Session, OrtValue=real.OrtValue)
""",
}

# Blocks that fail, as documented.
FAILS = {
    "docs/debugging.md": [
        "print(session.run(None, {",
        'with jax2onnx.explain_errors("ranker.onnx")',
    ],
}


def blocks(page: str, *languages: str) -> list[str]:
    return [code for language, code in BLOCK.findall(PAGES[page]) if language in languages]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_python(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UPDATE_SNAPSHOTS", "1")  # there are none to compare with
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setitem(sys.modules, "onnxruntime", onnxruntime)  # restores it
    exec(GIVEN.get(page, ""), {})
    # Blocks use only names that the page defines.
    names: dict[str, Any] = {"__name__": "documented"}
    with jax2onnx.local_lowerings():
        for number, code in enumerate(blocks(page, "python")):
            file = tmp_path / f"part{number}.py"
            file.write_text(code)
            program = compile(code, str(file), "exec")
            if any(start in code for start in FAILS.get(page, [])):
                with pytest.raises(Exception, match=r"Shape mismatch|dimension"):
                    exec(program, names)
            else:
                exec(program, names)
            for name in [name for name in names if name.startswith("test_")]:
                names.pop(name)()
    commands(page)


def test_the_page_about_failures_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    page = "docs/debugging.md"
    monkeypatch.chdir(tmp_path)
    for name, code in zip(("ranker.py", "serve.py"), blocks(page, "python"), strict=False):
        Path(name).write_text(code)
    runpy.run_path("ranker.py")
    with pytest.raises(Exception, match="Shape mismatch") as failure:
        runpy.run_path("serve.py")
    Path("serve.log").write_text(str(failure.value))
    for arguments in (["explain", "ranker.onnx", "serve.log"], ["show", "ranker.onnx"]):
        capfd.readouterr()
        assert _core.main(arguments) == 0
        printed = capfd.readouterr().out
        message = f"jax2onnx {' '.join(arguments)} prints\n{printed}"
        assert without_lines_of_rules(printed) in without_lines_of_rules(PAGES[page]), message


def without_lines_of_rules(text: str) -> str:
    """Removes the line numbers of rules and of libraries, which change too often for a page."""
    return re.sub(r"(?:(?<=\.lower)|(?<=\.rewrite)|(?<=linear\.py)):\d+|(?<=─)─+", "", text)


def commands(page: str) -> None:
    """Runs the commands of a page whose files exist."""
    for line in "".join(blocks(page, "sh")).splitlines():
        if not line.startswith("jax2onnx ") or line.startswith("jax2onnx export "):
            continue
        words = shlex.split(line)[1:]
        found = [match for word in words for match in (sorted(glob.glob(word)) or [word])]
        outputs = {words[i + 1] for i, word in enumerate(words) if word == "-o"}
        files = [w for w in found if re.search(r"\.(onnx|json|npz|py)$", w) and w not in outputs]
        if all(Path(file).exists() for file in files):
            assert _core.main(found) == 0, line


def test_every_option_in_a_command_exists(capfd: pytest.CaptureFixture[str]) -> None:
    """Also covers commands with output, and pipelines."""
    helps: dict[str, str] = {}
    seen = 0
    for page in PAGES:
        text = "\n".join(blocks(page, "sh", "", "console"))
        for command, rest in re.findall(
            r"(?:^|[|$] |^\$ )jax2onnx ([a-z]+(?:-[a-z]+)*)\b([^|\n]*)", text, re.MULTILINE
        ):
            if command not in helps:
                assert _core.main([command, "--help"]) == 0, (page, command)
                helps[command] = capfd.readouterr().out
            for option in re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest):
                assert option in helps[command], (page, command, option)
                seen += 1
    assert seen > 20


def test_every_metadata_key_and_variable_is_described() -> None:
    sources = [*TOP.glob("crates/*/src/**/*.rs"), *TOP.glob("python/jax2onnx/**/*.py")]
    text = "".join(source.read_text() for source in sources)
    names = {*re.findall(r"pkg\.jax2onnx(?:\.[a-z_]+)+|JAX2ONNX_[A-Z_]+", text)}
    assert len(names) > 15
    described = PAGES["docs/versioning.md"]
    assert [name for name in sorted(names) if f"`{name}`" not in described] == []


def test_the_readme_is_short() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 120


def test_nothing_installs_the_other_package() -> None:
    """The name belongs to another package on PyPI."""
    sources = [*TOP.glob("python/jax2onnx/**/*.py"), *TOP.glob("crates/*/src/**/*.rs")]
    texts = {**PAGES, **{str(path): path.read_text() for path in sources}}
    for page, text in texts.items():
        assert not re.search(r"pip install [^`\n]*\bjax2onnx\b", text), page


def test_no_address_is_a_placeholder() -> None:
    tracked = subprocess.run(
        ["git", "grep", "-lI", "github.com/OWN" + "ER"], cwd=TOP, capture_output=True, check=False
    )
    assert tracked.stdout == b""


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r": (\S+\.md)$", (TOP / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}
    assert pages <= set(listed), "mkdocs.yml does not list all pages"


def test_the_reference_has_every_name() -> None:
    listed = (TOP / "scripts" / "gen_docs.py").read_text()
    assert [name for name in jax2onnx.__all__ if f'"{name}"' not in listed] == []


def test_links_lead_somewhere() -> None:
    generated = {
        "docs/live.md",
        "docs/gallery.md",
        "docs/reference/python.md",
        "docs/reference/command-line.md",
    }
    for page, text in PAGES.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if link.startswith(("http:", "https:", "#")):
                continue
            target = (TOP / page).parent / link.partition("#")[0]
            known = str(target.resolve().relative_to(TOP)) in generated
            assert known or target.exists(), (page, link)
