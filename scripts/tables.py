"""Generated tables in docs/operator-measurements.md."""

from pathlib import Path

_DOCS = Path(__file__).parent.parent / "docs/operator-measurements.md"


def write(name: str, script: str, made: str) -> None:
    """Prints `made`, the output of `script`, and writes it to the section marked `name`."""
    print(made)
    begin = f"<!-- {name}: made by scripts/{Path(script).name} -->\n"
    end = f"<!-- end of {name} -->\n"
    before, rest = _DOCS.read_text().split(begin)
    _, after = rest.split(end)
    _DOCS.write_text(f"{before}{begin}\n{made}\n{end}{after}")
