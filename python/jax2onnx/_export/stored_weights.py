"""The table of weights that an export with the option `weights` logs."""

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass

_log = logging.getLogger("jax2onnx.weights")

# Reasons that need no action.
_EXPECTED = ("as requested", "it is small")
# The share of the stored bytes that weights in their old type may take without a warning.
_NOTABLE = 0.1


@dataclass(frozen=True)
class StoredWeight:
    """A parameter, and the way that it is stored.

    Attributes:
        name: Its name.
        dtype: Its element type before.
        size: Its bytes before.
        format: The format it is stored in, or None if it is unchanged.
        stored: The bytes that are stored, with scales and zero points.
        reason: The reason for the format, or for its absence; it may be empty.
    """

    name: str
    dtype: str
    size: int
    format: str | None
    stored: int
    reason: str


@dataclass(frozen=True)
class StoredWeights:
    """All parameters of a model, the largest first."""

    weights: tuple[StoredWeight, ...]

    @property
    def left(self) -> int:
        """The bytes of large weights that the requested formats do not suit."""
        return sum(w.stored for w in self.weights if w.format is None and w.reason not in _EXPECTED)

    def __str__(self) -> str:
        """Formats a table. Weights that differ only in the numbers of their names share a row."""
        groups: dict[tuple[str, str, str], list[StoredWeight]] = {}
        for weight in self.weights:
            form = weight.format or weight.dtype
            groups.setdefault((_pattern(weight.name), form, weight.reason), []).append(weight)
        rows = [f"{'bytes':>14} {'stored':>14}  {'format':<10} weight"]
        for (pattern, form, reason), members in groups.items():
            one = len(members) == 1
            name = members[0].name if one else f"{pattern}  ({len(members)} weights)"
            size, stored = (sum(getattr(m, part) for m in members) for part in ("size", "stored"))
            note = f"  {reason}" if reason else ""
            rows.append(f"{size:14,} {stored:14,}  {form:<10} {name}{note}")
        size, stored = (sum(getattr(w, part) for w in self.weights) for part in ("size", "stored"))
        rows.append(f"{size:14,} {stored:14,}  in all")
        return "\n".join(rows)

    def log(self) -> None:
        """Logs the table: as a warning if much stays in its old type."""
        stored = sum(weight.stored for weight in self.weights)
        level = logging.WARNING if self.left > _NOTABLE * stored else logging.INFO
        said = "%s of %s bytes of weights are unchanged:\n%s"
        _log.log(level, said, f"{self.left:,}", f"{stored:,}", self)


def stored_weights(rows: Iterable[tuple[str, str, int, str | None, int, str]]) -> StoredWeights:
    """Returns the weights that the compiled half reports."""
    return StoredWeights(tuple(StoredWeight(*row) for row in rows))


def _pattern(name: str) -> str:
    """Replaces the numbers that are components of a name."""
    return re.sub(r"(?<![^._/])\d+(?![^._/])", "*", name)
