"""Blames a lowering rule, a rewrite, the runtime or the program itself for a failure."""

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal

from jax2onnx._checking.compare import not_numbers
from jax2onnx._export.lowering_rules import registered
from jax2onnx._reducing.case import Case
from jax2onnx._reducing.checks import Asks, Check, Differs, Fires, NotANumber, Raises, Slower
from jax2onnx._reducing.export import USUAL, Runtime, Way

Kind = Literal["rule", "rewrite", "runtime", "program", "option", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """The cause of a failure.

    Attributes:
        kind: "rule" (a lowering rule), "rewrite" (of our optimiser), "runtime" (onnxruntime),
            "program" (the function itself), "option" (of the export, such as an assumption that
            does not hold) or "unknown".
        name: The name of the rule, the rewrite or the option, or the part of the runtime.
        reason: The evidence.
    """

    kind: Kind
    name: str
    reason: str

    def __str__(self) -> str:
        title = {
            "rule": f"the lowering rule `{self.name}`",
            "rewrite": f"the rewrite `{self.name}`",
            "runtime": self.name,
            "program": "the program itself",
            "option": f"the option `{self.name}`",
            "unknown": "not determined",
        }[self.kind]
        return f"{title}: {self.reason}"


def verdict_of(case: Case, check: Check) -> Verdict:
    if isinstance(check, Fires):
        return Verdict("rewrite", check.rewrite, "the smallest program found that it applies to")
    for judge in (_program, _option, _rewrite, _runtime):
        found = judge(case, check)
        if found is not None:
            return found
    return _rule(case, check)


def _program(case: Case, check: Check) -> Verdict | None:
    """Blames the program if JAX in 32 bits is as far from JAX in 64 bits as the model is."""
    if isinstance(check, NotANumber) and any(map(not_numbers, check.exporter.expected(case))):
        return Verdict("program", "", "JAX's own results are NaN as well")
    if isinstance(check, Differs) and not check.is_genuine(case):
        return Verdict(
            "program",
            "",
            "JAX in float32 is as far from JAX in float64 as the model is, because rounding errors "
            "grow",
        )
    return None


# The options that permit other results than JAX's, with their defaults.
PERMISSIONS: dict[str, Any] = {"assume": (), "compute": (), "weights": ()}


def _option(case: Case, check: Check) -> Verdict | None:
    """Blames an option that permits other results than JAX's."""
    for name, default in PERMISSIONS.items():
        given = getattr(check.exporter.options, name)
        if not given:
            continue
        options = replace(check.exporter.options, **{name: default})
        other = copy(check)
        other.exporter = replace(check.exporter, options=options)
        if _fails(case, other, USUAL) is False:
            texts = ", ".join(map(_entry, given))
            return Verdict("option", f"{name}={texts}", f"without it the model {check.passing}")
    return None


def _entry(entry: str | tuple[str, str]) -> str:
    """Formats an entry of an option: a word, or a value for a pattern."""
    if isinstance(entry, str):
        return entry
    pattern, value = entry
    return value if pattern == "*" else f"{pattern}={value}"


def _fails(case: Case, check: Check, way: Way) -> bool | None:
    """Returns `True` if the check fails in this way; None if it cannot be run."""
    try:
        if check.failure(case, way) is not None:
            return True
        # A run without an error is right only if its results are.
        return isinstance(check, Raises) and Differs(check.exporter).failure(case, way) is not None
    except Exception:
        return None


def _rewrite(case: Case, check: Check) -> Verdict | None:
    """Blames the rewrite whose change makes the check fail."""
    if _fails(case, check, Way(fuel=0)) is not False:
        return None
    # The rewrite is ours if the failure needs no optimiser of the runtime.
    for runtime in ("unoptimised", "optimised"):
        bad = _first_bad(case, check, runtime)
        if bad is None:
            continue
        name = _applied(case, check, bad)
        if runtime == "optimised" and _fails(case, check, Way(bad, "unoptimised")) is False:
            return Verdict(
                "runtime",
                "onnxruntime's optimiser",
                f"without it the model {check.passing}; it fails from our rewrite `{name}` on "
                f"(change {bad} of the optimiser)",
            )
        if _fails(case, check, Way(bad, "reference")) is False:
            return Verdict(
                "runtime",
                f"onnxruntime's kernel of {_operators(case, check)}",
                f"ONNX's reference evaluator is right; the model contains it since our rewrite "
                f"`{name}`",
            )
        return Verdict("rewrite", name, f"the check fails from change {bad} of the optimiser on")
    return None


def _first_bad(case: Case, check: Check, runtime: Runtime) -> int | None:
    """Returns the smallest number of changes after which the check fails."""
    total = _total(case, check)
    if total is None or not _fails(case, check, Way(None, runtime)):
        return None
    good, bad = 0, total
    while bad - good > 1:
        middle = (good + bad) // 2
        if _fails(case, check, Way(middle, runtime)):
            bad = middle
        else:
            good = middle
    return bad


def _total(case: Case, check: Check) -> int | None:
    """Returns the number of changes of our optimiser. If it fails, the number is searched."""
    try:
        return sum(check.exporter.model(case).applied.values())
    except Exception:
        total = 1
        while not _fails(case, check, Way(total)):
            total *= 2
            if total > 1 << 20:
                return None
        return total


def _applied(case: Case, check: Check, number: int) -> str:
    """Returns the rewrite that makes the change with this number."""
    before = check.exporter.model(case, number - 1).applied
    try:
        after = check.exporter.model(case, number).applied
    except Exception as error:
        return getattr(error, "code", type(error).__name__)
    changed = [name for name, times in after.items() if times > before.get(name, 0)]
    return ", ".join(changed) or "unknown"


def _runtime(case: Case, check: Check) -> Verdict | None:
    """Blames onnxruntime if the model is right without its optimiser, or in another runtime."""
    if _fails(case, check, Way(runtime="unoptimised")) is False:
        reason = f"without it the model {check.passing}"
        return Verdict("runtime", "onnxruntime's optimiser", reason)
    if _fails(case, check, Way(runtime="reference")) is False:
        return Verdict(
            "runtime",
            f"onnxruntime's kernel of {_operators(case, check)}",
            "ONNX's reference evaluator is right",
        )
    return None


def _operators(case: Case, check: Check) -> str:
    nodes = check.exporter.proto(case).graph.node
    return ", ".join(dict.fromkeys(node.op_type for node in nodes))


def _rule(case: Case, check: Check) -> Verdict:
    """Blames the lowering rule of the remaining equations."""
    primitives = list(dict.fromkeys(eqn.primitive.name for eqn in case.eqns))
    if isinstance(check, Asks):
        return Verdict("unknown", "", "the check returns True without any rewrite as well")
    if isinstance(check, Slower):
        return Verdict("unknown", "", "the model is slow without any rewrite as well")
    reason = "the check fails without any rewrite"
    if isinstance(check, Raises):
        code = getattr(check.error(case), "code", None)
        if code is not None:
            where = "the conversion refuses" if code.startswith("unsupported") else "it fails in"
            reason = f"{where} its lowering ({code})"
    custom = [
        f"`{function}`, a rule of your own"
        for name, _, _, (_, function, _) in registered()
        if name in primitives
    ]
    if custom:
        reason = f"{reason}; it is {', '.join(custom)}"
    return Verdict("rule", ", ".join(primitives), reason)
