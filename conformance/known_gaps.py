"""The ledger of what cannot be exported, or not at the default opset: `known_gaps.toml`.

Results are checked against it in both directions: a gap that is not in it is an error, and so is an
entry that is no longer true.
"""

import re
import tomllib
from functools import cache
from pathlib import Path

from conformance.evaluate import MATCH, NEWER, SKIPPED, UNSUPPORTED, Result

_FILE = Path(__file__).with_name("known_gaps.toml")


@cache
def known_gaps() -> list[tuple[re.Pattern[str], str]]:
    """The entries of the ledger: which names, and why."""
    entries = tomllib.loads(_FILE.read_text(encoding="utf-8")).get("gap", [])
    return [(re.compile(entry["names"]), entry["reason"]) for entry in entries]


def surprise(name: str, result: Result) -> str:
    """How a result differs from the ledger; empty if it does not."""
    gap = next((reason for names, reason in known_gaps() if names.fullmatch(name)), None)
    if result.outcome == SKIPPED:
        return ""
    if gap is None:
        return "" if result.outcome == MATCH else f"{name}: {result.outcome}: {result.why}"
    if result.outcome == MATCH:
        return f"{name}: matches, but the ledger has it as a gap"
    is_known = result.outcome in (UNSUPPORTED, NEWER)
    return "" if is_known else f"{name}: {result.outcome}: {result.why}"
