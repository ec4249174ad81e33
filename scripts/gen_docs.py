"""Prepares the documentation site in build/docs: the pages of docs/ and the generated pages.

The generated pages are the references for Python (from docstrings) and the command line (from its
help), a page with a real model in it, and two files for language models: llms.txt lists the pages,
llms-full.txt contains them.
"""

import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import gallery
import yaml
from profiled_model import gpt_page

import jax2onnx
from jax2onnx import generation, testing

TOP = Path(__file__).parent.parent
PLACE = TOP / "build" / "docs"

PLAIN = re.DOTALL | re.MULTILINE

# Pages at the top level of the repository.
ELSEWHERE = {
    "architecture.md": "ARCHITECTURE.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}

SECTIONS = {
    "Args": "Parameters",
    "Returns": "Returns",
    "Raises": "Raises",
    "Attributes": "Attributes",
}

# The names of the package, by purpose.
NAMES = {
    "Export": ("export", "ExportedModel", "Input", "Output", "Provenance", "Profile", "Page"),
    "Convert": ("to_onnx", "to_onnx_set", "onnx_function", "stacktrace_metadata"),
    "Weights": (
        "Checkpoint",
        "Stored",
        "quantize",
        "Quantization",
        "WeightError",
        "calibrate",
        "CalibratedWeights",
        "WeightRounding",
    ),
    "Precision": ("mixed_precision", "MixedPrecision", "LinePrecision"),
    "Compare with JAX": (
        "allclose",
        "allclose_onnxruntime_web",
        "verify",
        "Verification",
        "LineError",
        "readiness",
        "Readiness",
        "Check",
    ),
    "Reduce a failure": ("reduce", "Reduction", "Verdict"),
    "Find lines": ("explain_errors", "SourceMap"),
    "Write rules": ("lowering", "local_lowerings", "LoweringContext", "Value"),
    "Errors": (
        "Jax2OnnxError",
        "InvalidInputError",
        "UnsupportedError",
        "MismatchError",
        "InternalError",
    ),
}

# Classes that only functions of the package create.
RETURNED = (
    "ExportedModel",
    "Profile",
    "Page",
    "Verification",
    "LineError",
    "Readiness",
    "Check",
    "Quantization",
    "WeightError",
    "CalibratedWeights",
    "WeightRounding",
    "MixedPrecision",
    "LinePrecision",
    "SourceMap",
    "LoweringContext",
    "Value",
)

LIVE_NODE = "/blocks.1/attn/Softmax"

LIVE = f"""\
---
hide: [navigation, toc]
---

# A model to look at

This is what `jax2onnx view gpt.onnx -o gpt.html --profile profile.json` writes for a small GPT.
Point at a line to see the nodes it became, or at a node to see its line. Colours show the time that
onnxruntime took. [Open it on a page of its own](gpt.html#node={LIVE_NODE}).

<iframe src="gpt.html#node={LIVE_NODE}" title="jax2onnx view"
  style="width: 100%; height: 44rem; border: 1px solid #8888"></iframe>
"""


def command_line(*arguments: str) -> str:
    """Returns the output of a command."""
    command = [sys.executable, "-m", "jax2onnx", *arguments]
    # The width of a code block on the page.
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "80"}
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment
    ).stdout


def commands() -> list[str]:
    """Returns the names of all commands, as listed in the help."""
    listed = command_line("--help").partition("Commands:\n")[2].partition("\n\n")[0]
    names = re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE)
    return [name for name in names if name != "help"]


def command_reference() -> str:
    """Builds the page about the command line."""
    parts = ["# Command line\n", f"```text\n{command_line('--help').rstrip()}\n```\n"]
    for name in commands():
        parts += [f"## {name}\n", f"```text\n{command_line(name, '--help').rstrip()}\n```\n"]
    return "\n".join(parts)


def python_reference() -> str:
    """Builds the page about the package."""
    listed = [name for names in NAMES.values() for name in names]
    assert sorted(listed) == sorted(jax2onnx.__all__), "NAMES is not what the package has"
    parts = ["# Python\n", f"{inspect.getdoc(jax2onnx)}\n"]
    for title, names in NAMES.items():
        parts.append(f"## {title}\n")
        parts += [described(f"jax2onnx.{name}", getattr(jax2onnx, name)) for name in names]
    for module in (generation, testing):
        parts += [f"## {module.__name__}\n", f"{inspect.getdoc(module)}\n"]
        parts += [described(f"{module.__name__}.{n}", value) for n, value in public(module)]
    return "\n".join(parts)


def public(module: ModuleType) -> list[tuple[str, object]]:
    """Returns the functions and classes that a module defines."""
    own = [(n, v) for n, v in vars(module).items() if not n.startswith("_") and callable(v)]
    return [(n, v) for n, v in own if getattr(v, "__module__", None) == module.__name__]


def described(name: str, value: object) -> str:
    """Describes a function or a class with its members."""
    parts = [f"### {name}\n"]
    plain_class = inspect.isclass(value) and not issubclass(value, Exception)
    last = name.rpartition(".")[2]
    if last not in RETURNED and (plain_class or not inspect.isclass(value)):
        parts.append(signature(last, value))
    parts.append(docstring(value))
    if plain_class:
        for member, function in vars(value).items():
            plain = getattr(function, "__func__", function)
            # Other members are defaults of fields, which have the docstring of their type.
            is_member = callable(plain) or inspect.isdatadescriptor(plain)
            if is_member and (not member.startswith("_") or member == "__call__"):
                if not plain.__doc__:
                    continue
                shown = last if member == "__call__" else member
                parts += [f"#### {member}\n", signature(shown, plain), docstring(plain)]
    return "\n".join(parts)


def signature(name: str, value: object) -> str:
    """Formats a signature as a code block, one parameter per line if it is long."""
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    # `unknown` only exists for its error.
    hidden = ("self", "cls", "unknown")
    parameters = [p for p in found.parameters.values() if p.name not in hidden]
    if inspect.isclass(value):
        found = found.replace(return_annotation=inspect.Signature.empty)
    text = _short(str(found.replace(parameters=parameters)))
    if len(name + text) <= 80:
        return f"```python\n{name}{text}\n```\n"
    plain = [_short(str(parameter)) for parameter in parameters]
    stars = [i for i, p in enumerate(parameters) if p.kind is inspect.Parameter.KEYWORD_ONLY]
    if stars and not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        plain.insert(stars[0], "*")
    _, arrow, result = text.rpartition(") -> ")
    lines = ",\n    ".join(plain)
    return f"```python\n{name}(\n    {lines},\n){arrow[1:]}{result if arrow else ''}\n```\n"


def _short(text: str) -> str:
    """Removes the modules of types and the quotes around them, and writes unions as `A | B`."""
    while union := re.search(r"(?:typing\.)?(Union|Optional)\[", text):
        inside, rest = _bracketed(text[union.end() :])
        parts = [*inside, *(["None"] if union[1] == "Optional" else [])]
        text = f"{text[: union.start()]}{' | '.join(parts)}{rest}"
    text = re.sub(r"\b(?:typing|collections\.abc|jax2onnx(?:\.\w+)+|_core|os)\.(?=[A-Z])", "", text)
    return re.sub(r"(?<=: |> )'([^']*)'|ForwardRef\('([^']*)'\)", r"\1\2", text)


def _bracketed(text: str) -> tuple[list[str], str]:
    """Splits the text after a bracket into its entries and what follows the closing bracket."""
    entries, depth = [""], 0
    for i, character in enumerate(text):
        if character == "]" and depth == 0:
            return entries, text[i + 1 :]
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            entries.append("")
        else:
            entries[-1] += character if entries[-1] or character != " " else ""
    raise AssertionError(text)


def docstring(value: object) -> str:
    """Converts a docstring in Google's style to Markdown."""
    lines: list[str] = []
    in_section = False
    for line in (inspect.getdoc(value) or "").splitlines():
        heading = re.fullmatch(r"(\w+):", line)
        if heading and heading[1] in SECTIONS:
            in_section = True
            lines += ["", f"**{SECTIONS[heading[1]]}**", ""]
        elif in_section and line.startswith("    unknown: "):
            continue  # it only exists for its error
        elif in_section and (item := re.fullmatch(r"    (\*{0,2}[\w.]+): (.*)", line)):
            lines.append(f"- `{item[1]}`: {item[2]}")
        elif in_section and line.startswith("    "):
            lines.append(f"  {line.strip()}")
        else:
            in_section = in_section and not line.strip()
            lines.append(line)
    return "\n".join(lines) + "\n"


def with_links(text: str, source: Path) -> str:
    """Adapts links to the site. Those to files outside of it become paths in the repository."""
    inside = {(TOP / file).resolve(): page for page, file in ELSEWHERE.items()}

    def replaced(match: re.Match[str]) -> str:
        link, hash_, anchor = match[2].partition("#")
        if not link or ":" in link:
            return match[0]
        target = (source.parent / link).resolve()
        if target in inside:
            return f"[{match[1]}]({inside[target]}{hash_}{anchor})"
        if target.is_relative_to(TOP / "docs"):
            # Relative to the top level of the repository, the pages are in docs/.
            here = source.parent if source.is_relative_to(TOP / "docs") else TOP / "docs"
            return f"[{match[1]}]({os.path.relpath(target, here)}{hash_}{anchor})"
        path = f"`{target.relative_to(TOP)}`"
        return path if match[1].strip("`") in path else f"{match[1]} ({path})"

    return re.sub(r"\[([^]]*)\]\(([^)\s]+)\)", replaced, text)


def navigation() -> dict[str, dict[str, str]]:
    """Returns the pages by section, each with its title, as listed in mkdocs.yml."""
    # Other parts of the file have tags that only MkDocs understands.
    text = (TOP / "mkdocs.yml").read_text()
    sections: dict[str, dict[str, str]] = {"": {}}
    for entry in yaml.safe_load(text[text.index("\nnav:") :])["nav"]:
        for title, what in entry.items():
            if isinstance(what, str):
                sections[""][title] = what
            else:
                sections[title] = {t: page for item in what for t, page in item.items()}
    return sections


def first_sentence(page: str) -> str:
    """Returns the first sentence of a page's text."""
    # Skips front matter, code, headings, tables, pictures and lists.
    text = re.sub(r"\A---\n.*?\n---\n|^```.*?^```$", "", page, flags=PLAIN)
    found = re.search(r"^(?![#!<|\[]|- ).+(?:\n(?!\n).+)*", text, re.MULTILINE)
    sentence = re.split(r"(?<=\.)\s", " ".join(found[0].split()))[0] if found else ""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", sentence).rstrip(":")


def llms() -> str:
    """Builds an index of the pages for language models."""
    lines = [
        "# jax2onnx",
        "",
        "> Converts JAX functions to ONNX. Every node of the model knows the line of",
        "> Python it came from.",
        "",
        "[llms-full.txt](llms-full.txt) contains all of these pages except the changelog and the",
        "tables of coverage.",
    ]
    for section, pages in navigation().items():
        lines += ["", f"## {section}" if section else "## Start", ""]
        for title, page in pages.items():
            about = first_sentence((PLACE / page).read_text())
            address = Path(page).with_suffix(".html")
            lines.append(f"- [{title}]({address})" + (f": {about}" if about else ""))
    return "\n".join(lines) + "\n"


def llms_full() -> str:
    """Concatenates all pages in the order of the navigation."""
    pages = [page for pages in navigation().values() for page in pages.values()]
    kept = [page for page in pages if page not in ("COVERAGE.md", "live.md", "changelog.md")]
    texts = ((page, (PLACE / page).read_text().strip()) for page in kept)
    return "\n\n".join(f"<!-- {page} -->\n\n{text}" for page, text in texts) + "\n"


def main() -> None:
    """Writes all pages."""
    shutil.rmtree(PLACE, ignore_errors=True)
    shutil.copytree(TOP / "docs", PLACE)
    for name, source in ELSEWHERE.items():
        (PLACE / name).write_text(with_links((TOP / source).read_text(), TOP / source))
    for page in (TOP / "docs").rglob("*.md"):
        (PLACE / page.relative_to(TOP / "docs")).write_text(with_links(page.read_text(), page))
    (PLACE / "reference").mkdir()
    (PLACE / "reference" / "python.md").write_text(python_reference())
    (PLACE / "reference" / "command-line.md").write_text(command_reference())
    with tempfile.TemporaryDirectory() as folder:
        sizes = {"layers": 4, "width": 128, "heads": 4, "vocabulary": 512, "length": 64}
        shutil.copy(gpt_page(Path(folder), **sizes), PLACE)
    (PLACE / "live.md").write_text(LIVE)
    gallery.write(PLACE)
    (PLACE / "llms.txt").write_text(llms())
    (PLACE / "llms-full.txt").write_text(llms_full())


if __name__ == "__main__":
    main()
