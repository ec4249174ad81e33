"""The page `docs/COVERAGE.md`."""

import re
from collections import Counter, defaultdict
from importlib.metadata import version

from conformance import corpus, walks
from conformance.evaluate import (
    FAILED,
    MATCH,
    MISMATCH,
    NEWER,
    REFUSED,
    SKIPPED,
    UNSUPPORTED,
    Result,
)
from jax2onnx import _core

_PRIMITIVES = "## Primitives"
_BAD = (MISMATCH, REFUSED, FAILED)


def page(results: dict[str, Result]) -> str:
    """Builds the whole page from the results of a complete run."""
    groups: dict[str, dict[str, Result]] = defaultdict(dict)
    for name, case in corpus.cases().items():
        if results[name].outcome != SKIPPED:
            groups[case.group][name] = results[name]
    ran = [result for members in groups.values() for result in members.values()]
    skipped = len(corpus.cases()) - len(ran)
    mean = sum(map(_share, groups.values())) / len(groups)
    counts = Counter(result.outcome for result in ran)
    lines = [
        "# Coverage",
        "",
        "This page is written by `make coverage`, which exports every case of JAX's own "
        "conformance corpus (part of JAX's wheel), runs the models in ONNX Runtime (CPU, default "
        "optimisation) and compares types, shapes and numbers with JAX's.",
        "",
        f"Measured with {', '.join(versions())}.",
        "",
        "| | |",
        "|---|---|",
        f"| cases that JAX runs on a CPU | {len(ran)} in {len(groups)} groups |",
        f"| same as JAX, share of all cases | **{_percent(counts[MATCH] / len(ran))}** |",
        f"| same as JAX, average over the groups | **{_percent(mean)}** |",
        f"| unsupported: the export fails with a reason | {counts[UNSUPPORTED]} |",
        f"| the same as JAX only at a newer opset than the default | {counts[NEWER]} |",
        f"| models with wrong numbers | {counts[MISMATCH]} |",
        f"| models that ONNX Runtime rejects | {counts[REFUSED]} |",
        f"| exports that fail in another way | {counts[FAILED]} |",
        f"| cases that JAX does not run on a CPU | {skipped} |",
        "",
        *_gaps("## Cases that cannot be exported, or not at the default opset", groups),
        "## By group",
        "",
        "| group | cases | same as JAX | unsupported | at a newer opset | wrong or failed |",
        "|---|--:|--:|--:|--:|--:|",
        *(_row(group, members) for group, members in sorted(groups.items())),
        "",
        *_functions(results),
        *primitives(),
    ]
    return "\n".join(lines)


def with_primitives(page: str) -> str:
    """Replaces the table of primitives in the page by the current one."""
    measured, _, _ = page.partition(_PRIMITIVES)
    return measured + "\n".join(primitives())


def primitives() -> list[str]:
    """Builds the table of primitives and their supported types."""
    rows = _core.primitives()
    cells = (
        f"| {row.name} | {_support(row.without_complex)} | {_support(row.without_keys)} |"
        for row in rows
    )
    return [
        _PRIMITIVES,
        "",
        f"The {len(rows)} primitives that have a rule. A dash: JAX itself has no such equation.",
        "",
        "| primitive | complex numbers | PRNG keys |",
        "|---|---|---|",
        *cells,
        "",
    ]


def _support(refusal: str | None) -> str:
    if refusal is None:
        return "yes"
    return "—" if refusal == "JAX has none" else f"no: {refusal}"


def versions() -> list[str]:
    """Returns the measured versions."""
    return [f"{name} {version(name)}" for name in ("jax", "onnxruntime")]


def _row(group: str, members: dict[str, Result]) -> str:
    counts = Counter(result.outcome for result in members.values())
    bad = sum(counts[outcome] for outcome in _BAD)
    kinds = [counts[UNSUPPORTED] or "", counts[NEWER] or "", bad or ""]
    cells = [len(members), counts[MATCH], *kinds]
    return f"| {group} | " + " | ".join(map(str, cells)) + " |"


def _gaps(title: str, groups: dict[str, dict[str, Result]]) -> list[str]:
    reasons: Counter[tuple[str, str, str]] = Counter()
    for group, members in groups.items():
        for result in members.values():
            if result.outcome != MATCH:
                reasons[group, result.outcome, _without_numbers(result)] += 1
    if not reasons:
        return [title, "", "None.", ""]
    rows = [f"| {g} | {n} | {o} | {why} |" for (g, o, why), n in sorted(reasons.items())]
    return [title, "", "| | cases | | reason |", "|---|--:|---|---|", *rows, ""]


def _functions(results: dict[str, Result]) -> list[str]:
    """Lists the functions of JAX's modules, and those that cannot be exported."""
    lines = [
        "## Functions of JAX's modules",
        "",
        "Public functions are called with typical arguments, exported and compared in the same "
        "way.",
        "",
        "| module | functions | same as JAX | partly | unsupported | wrong or failed | not tried |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    gaps: dict[str, dict[str, Result]] = {}
    missing = []
    for module in walks.MODULES:
        calls: dict[str, dict[str, Result]] = defaultdict(dict)
        for name, call in walks.calls().items():
            if call.group == module and results[name].outcome != SKIPPED:
                calls[call.function][name] = results[name]
        counts = Counter(map(_verdict, calls.values()))
        untried = walks.untried(module)
        total = len(calls) + len(untried)
        cells = [total, *(counts[v] or "" for v in ("all", "some", "none", "bad"))]
        lines.append(f"| {module} | {' | '.join(map(str, cells))} | {len(untried) or ''} |")
        gaps |= {f"{module}.{function}": found for function, found in calls.items()}
        missing += [f"`{module}.{function}`" for function in untried]
    if missing:
        lines += ["", f"Not tried: {', '.join(missing)}."]
    return [*lines, "", *_gaps("## Functions that cannot be exported", gaps)]


def _verdict(calls: dict[str, Result]) -> str:
    outcomes = {result.outcome for result in calls.values()}
    if outcomes & set(_BAD):
        return "bad"
    if outcomes == {MATCH}:
        return "all"
    return "some" if MATCH in outcomes else "none"


def _share(members: dict[str, Result]) -> float:
    return sum(result.outcome == MATCH for result in members.values()) / len(members)


def _percent(share: float) -> str:
    """Formats a percentage, rounded down, so that 100 % means all of them."""
    return f"{int(share * 10000) / 100:.2f} %"


def _without_numbers(result: Result) -> str:
    """Returns the reason, without details that vary between cases of the same gap."""
    has_none = result.outcome in (UNSUPPORTED, NEWER)
    text = result.why if has_none else re.sub(r"-?\d[\d.e+-]*", "…", result.why)
    return text.replace("|", "\\|").replace("\n", " ")
