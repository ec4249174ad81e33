"""The list of cases that cannot be exported, or not at the default opset: `known_gaps.toml`.

Results are checked against it in both directions: an unlisted gap is an error, and so is an entry
that no longer applies.
"""

import re
import tomllib
from functools import cache
from pathlib import Path

from conformance.evaluate import MATCH, NEWER, SKIPPED, UNSUPPORTED, Result

_FILE = Path(__file__).with_name("known_gaps.toml")


@cache
def known_gaps() -> list[tuple[re.Pattern[str], str]]:
    """Returns the entries of the list: a pattern of names, and the reason."""
    entries = tomllib.loads(_FILE.read_text(encoding="utf-8")).get("gap", [])
    return [(re.compile(entry["names"]), entry["reason"]) for entry in entries]


def surprise(name: str, result: Result) -> str:
    """Describes how a result contradicts the list; empty if it does not."""
    gap = next((reason for names, reason in known_gaps() if names.fullmatch(name)), None)
    if result.outcome == SKIPPED:
        return ""
    if gap is None:
        return "" if result.outcome == MATCH else f"{name}: {result.outcome}: {result.why}"
    if result.outcome == MATCH:
        return f"{name}: matches, but the ledger has it as a gap"
    is_known = result.outcome in (UNSUPPORTED, NEWER)
    return "" if is_known else f"{name}: {result.outcome}: {result.why}"
