"""Prepares the documentation site in build/docs: the pages of docs/, and those that are generated.

Generated are the references for Python (from docstrings) and the command line (from its help), a
page with a real model in it, and llms.txt.
"""

import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import jax2onnx
from jax2onnx import errors, testing

TOP = Path(__file__).parent.parent
PLACE = TOP / "build" / "docs"

# Pages that live at the top of the repository.
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

LIVE = """\
# A model to look at

This is what `jax2onnx view` writes, here for the model of `make demo`. Point at a line to see the
nodes it became, or at a node to see its line. [Open it on a page of its own](ranker.html).

<iframe src="ranker.html" title="jax2onnx view"
  style="width: 100%; height: 44rem; border: 1px solid #8888"></iframe>
"""


def command_line(*arguments: str) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "jax2onnx", *arguments]
    environment = os.environ | {"NO_COLOR": "1"}
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment
    ).stdout


def commands() -> list[str]:
    """The names of all commands, as the help lists them."""
    listed = command_line("--help").partition("Commands:\n")[2].partition("\n\n")[0]
    names = re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)
    return [name for name in names if name != "help"]


def command_reference() -> str:
    """The page about the command line."""
    parts = ["# Command line\n", f"```text\n{command_line('--help').rstrip()}\n```\n"]
    for name in commands():
        parts += [f"## {name}\n", f"```text\n{command_line(name, '--help').rstrip()}\n```\n"]
    return "\n".join(parts)


def python_reference() -> str:
    """The page about the package."""
    parts = ["# Python\n", f"{inspect.getdoc(jax2onnx)}\n"]
    parts += [described(f"jax2onnx.{name}", getattr(jax2onnx, name)) for name in jax2onnx.__all__]
    for module in (testing, errors):
        parts += [f"## {module.__name__}\n", f"{inspect.getdoc(module)}\n"]
        for name, value in vars(module).items():
            own = getattr(value, "__module__", None) == module.__name__
            if own and not name.startswith("_") and module is testing and callable(value):
                parts.append(described(f"{module.__name__}.{name}", value, level=3))
    return "\n".join(parts)


def described(name: str, value: object, level: int = 2) -> str:
    """A function or a class, with its members."""
    parts = [f"{'#' * level} {name}\n"]
    if not (inspect.isclass(value) and issubclass(value, Exception)) and (
        text := signature(name.rpartition(".")[2], value)
    ):
        parts.append(f"```python\n{text}\n```\n")
    parts.append(docstring(value))
    if inspect.isclass(value) and not issubclass(value, Exception):
        for member, function in vars(value).items():
            if not member.startswith("_") and getattr(function, "__doc__", None):
                plain = getattr(function, "__func__", function)
                text = signature(member, plain) if callable(plain) else member
                parts += [f"{'#' * (level + 1)} `{text or member}`\n", docstring(plain)]
    return "\n".join(parts)


def signature(name: str, value: object) -> str | None:
    """A call, one parameter per line if it is long."""
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    parameters = [p for p in found.parameters.values() if p.name != "self"]
    text = str(found.replace(parameters=parameters)).replace("'", "")
    if len(text) <= 80:
        return f"{name}{text}"
    plain = [str(p.replace(annotation=inspect.Parameter.empty)) for p in parameters]
    stars = [i for i, p in enumerate(parameters) if p.kind is inspect.Parameter.KEYWORD_ONLY]
    if stars and not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        plain.insert(stars[0], "*")
    return f"{name}(\n    " + ",\n    ".join(plain) + ",\n)"


def docstring(value: object) -> str:
    """A docstring in Google's style, as Markdown."""
    lines: list[str] = []
    in_section = False
    for line in (inspect.getdoc(value) or "").splitlines():
        heading = re.fullmatch(r"(\w+):", line)
        if heading and heading[1] in SECTIONS:
            in_section = True
            lines += ["", f"**{SECTIONS[heading[1]]}**", ""]
        elif in_section and (item := re.fullmatch(r"    (\*{0,2}[\w.]+): (.*)", line)):
            lines.append(f"- `{item[1]}`: {item[2]}")
        elif in_section and line.startswith("    "):
            lines.append(f"  {line.strip()}")
        else:
            in_section = in_section and not line.strip()
            lines.append(line)
    return "\n".join(lines) + "\n"


def repository() -> str:
    """The address of the repository's files."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    return f"{project['urls']['Source']}/blob/main"


def with_links(text: str, source: Path) -> str:
    """A page whose links to files outside the site lead to the repository."""
    inside = {(TOP / file).resolve(): page for page, file in ELSEWHERE.items()}

    def replaced(match: re.Match[str]) -> str:
        link, hash_, anchor = match[1].partition("#")
        if not link or ":" in link:
            return match[0]
        target = (source.parent / link).resolve()
        if target in inside:
            return f"]({inside[target]}{hash_}{anchor})"
        if target.is_relative_to(TOP / "docs"):
            # From the top of the repository, the pages lie in docs/.
            here = source.parent if source.is_relative_to(TOP / "docs") else TOP / "docs"
            return f"]({os.path.relpath(target, here)}{hash_}{anchor})"
        return f"]({repository()}/{target.relative_to(TOP)}{hash_}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", replaced, text)


def llms() -> str:
    """An index of the pages for language models."""
    lines = [
        "# jax2onnx",
        "",
        "> Converts JAX functions to ONNX. Every node of the model knows the line of",
        "> Python it came from.",
        "",
    ]
    for page in sorted(PLACE.rglob("*.md")):
        text = page.read_text()
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        first = re.search(
            r"^(?![#!<|`\[\-]).+(?:\n(?!\n).+)*", text.partition("\n")[2], re.MULTILINE
        )
        about = re.split(r"(?<=\.)\s", " ".join(first[0].split()))[0] if first else ""
        address = page.relative_to(PLACE).with_suffix(".html")
        lines.append(f"- [{title[1] if title else page.stem}]({address}): {about}")
    return "\n".join(lines) + "\n"


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
    subprocess.run([sys.executable, "examples/tour.py"], cwd=TOP, check=True, capture_output=True)
    shutil.copy(TOP / "build" / "ranker.html", PLACE)
    (PLACE / "live.md").write_text(LIVE)
    (PLACE / "llms.txt").write_text(llms())


if __name__ == "__main__":
    main()
