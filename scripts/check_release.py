"""Checks that the repository is ready for a release: a single version, a section in the changelog,
and the repository's address. With a tag, also checks that the tag matches the version.
"""

import re
import sys
import tomllib
from pathlib import Path

TOP = Path(__file__).parent.parent


def problems(tag: str | None) -> list[str]:
    """Returns the problems, in full sentences."""
    found = []
    version = tomllib.loads((TOP / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    if tag is not None and tag != f"v{version}":
        found.append(f"the tag is {tag}, but Cargo.toml has version {version}")
    if f"\nversion: {version}\n" not in (TOP / "CITATION.cff").read_text():
        found.append(f"CITATION.cff does not have version {version}")
    if not re.search(
        rf"^## {re.escape(version)} ", (TOP / "CHANGELOG.md").read_text(), re.MULTILINE
    ):
        found.append(f"CHANGELOG.md has no section `## {version} (date)`")
    lock = tomllib.loads((TOP / "Cargo.lock").read_text())["package"]
    ours = {p["version"] for p in lock if "source" not in p}
    if ours != {version}:
        found.append(f"Cargo.lock has versions {', '.join(sorted(ours))} of our crates")
    if "urls" not in tomllib.loads((TOP / "pyproject.toml").read_text())["project"]:
        found.append("pyproject.toml has no [project.urls]")
    return found


if __name__ == "__main__":
    for problem in (messages := problems(sys.argv[1] if len(sys.argv) > 1 else None)):
        print(f"not ready: {problem}", file=sys.stderr)
    sys.exit(bool(messages))
