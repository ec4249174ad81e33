"""Writes THIRD-PARTY-LICENSES.txt: the licences of all code that is linked into the package.

With --check, fails if the file is out of date. In both modes, fails if a crate has a licence that
`deny.toml` does not allow, or if there are two versions of a crate.
"""

import collections
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

TOP = Path(__file__).parent.parent
OUTPUT = TOP / "THIRD-PARTY-LICENSES.txt"

# The platforms of releases. Other platforms would only add crates that are never linked.
PLATFORMS = (
    "aarch64-apple-darwin",
    "aarch64-pc-windows-msvc",
    "aarch64-unknown-linux-gnu",
    "aarch64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "x86_64-pc-windows-msvc",
    "x86_64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
)

# Third-party code inside a crate.
VENDORED = {"libmimalloc-sys": "c_src/mimalloc/**/LICENSE"}

INTRODUCTION = """\
The compiled part of jax2onnx contains the libraries below, and the standard library of Rust
(MIT or Apache-2.0, https://www.rust-lang.org). Where a library offers a choice of licences, the one
that is used here is stated.
"""


def linked(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the linked third-party packages in alphabetical order."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    (root,) = (i for i, p in packages.items() if p["name"] == "python" and p["source"] is None)
    seen: set[str] = set()
    queue = [root]
    while queue:
        current = queue.pop()
        if current in seen or _is_macro(packages[current]):
            continue
        seen.add(current)
        for dep in nodes[current]["deps"]:
            queue += [dep["pkg"] for kind in dep["dep_kinds"] if kind["kind"] is None]
    found = [packages[i] for i in seen if packages[i]["source"]]
    return sorted(found, key=lambda package: package["name"])


def _is_macro(package: dict[str, Any]) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


def choice(package: dict[str, Any], allowed: list[str]) -> str:
    """Returns the licence to use: the first allowed one."""
    offered = package["license"].replace("/", " OR ").split(" OR ")
    if any(" AND " in one or "(" in one for one in offered):
        sys.exit(f"{package['name']}: {package['license']} needs a manual review")
    for name in allowed:
        if name in offered:
            return name
    sys.exit(f"{package['name']}: {package['license']} is not among {', '.join(allowed)}")


def texts(package: dict[str, Any], spdx: str) -> list[str]:
    """Returns the texts of a package's licence."""
    folder = Path(package["manifest_path"]).parent
    files = [f for f in sorted(folder.iterdir()) if f.name.lower().startswith("licen")]
    # `LICENSE-MIT`, or a single `LICENSE`.
    named = [f for f in files if spdx.lower() in f.name.lower()]
    short = spdx.split("-", maxsplit=1)[0].lower()
    chosen = named or [f for f in files if short in f.name.lower()] or files[:1]
    if not chosen:
        sys.exit(f"{package['name']}: there is no text of its licence")
    if package["name"] in VENDORED:
        chosen = [*chosen, *sorted(folder.glob(VENDORED[package["name"]]))]
    return [_tidy(file.read_text(encoding="utf-8")) for file in chosen]


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def document(packages: list[dict[str, Any]], allowed: list[str]) -> str:
    """Builds the whole file. A text that several packages share appears once."""
    users: dict[str, list[str]] = collections.defaultdict(list)
    for package in packages:
        spdx = choice(package, allowed)
        for text in texts(package, spdx):
            users[text].append(f"{package['name']} {package['version']} ({spdx})")
    parts = [INTRODUCTION]
    for text, names in sorted(users.items(), key=lambda item: item[1]):
        parts += ["─" * 80, "\n".join(dict.fromkeys(names)) + "\n", text + "\n"]
    return "\n".join(parts)


def check_versions(metadata: dict[str, Any], skipped: set[str]) -> None:
    """Fails if there are several versions of a crate."""
    versions = collections.defaultdict(set)
    for package in metadata["packages"]:
        versions[package["name"]].add(package["version"])
    twice = {
        name: found for name, found in versions.items() if len(found) > 1 and name not in skipped
    }
    if twice:
        sys.exit("\n".join(f"{name}: versions {', '.join(sorted(v))}" for name, v in twice.items()))


def main() -> None:
    """Writes or checks the file."""
    platforms = [word for platform in PLATFORMS for word in ("--filter-platform", platform)]
    command = ["cargo", "metadata", "--format-version=1", "--locked", *platforms]
    done = subprocess.run(command, cwd=TOP, check=True, capture_output=True, text=True)
    metadata = json.loads(done.stdout)
    rules = tomllib.loads((TOP / "deny.toml").read_text())
    check_versions(metadata, {entry["name"] for entry in rules["bans"]["skip"]})
    text = document(linked(metadata), rules["licenses"]["allow"])
    if "--check" not in sys.argv[1:]:
        OUTPUT.write_text(text, encoding="utf-8")
    elif not OUTPUT.exists() or OUTPUT.read_text(encoding="utf-8") != text:
        sys.exit(f"{OUTPUT.name} is not up to date: run python scripts/gen_licenses.py")


if __name__ == "__main__":
    main()
