import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import not_run

EVERY_NEED = {need for need, _, _ in not_run.NEEDS}


def test_a_sample_has_every_function_and_fewer_of_many_cases():
    counts = {"one": 1, "two": 2, "ten": 10, "many": 400}
    items = [(name, n) for name, count in counts.items() for n in range(count)]
    kept = not_run.sampled(items, lambda item: item[0])
    chosen = {name: [] for name in counts}
    for (name, n), wanted in zip(items, kept, strict=True):
        if wanted:
            chosen[name].append(n)
    assert chosen == {
        "one": [0],
        "two": [0],
        "ten": [0, 4, 7],
        "many": list(range(0, 400, 20)),
    }


def test_the_summary_says_how_to_get_what_is_missing():
    reasons = ["no browser: none is on PATH"] * 2 + ["this version of JAX does not have it"]
    (line,) = not_run.summary(reasons)
    assert line.startswith("2 tests were not run: no browser")
    assert "apt install chromium" in line
    assert not_run.unexpected(reasons) == reasons[:2]


def test_what_a_machine_cannot_have_is_not_avoidable():
    reasons = ["no browser: none is on PATH", "axe-core is not here", "Keras is not installed"]
    assert not_run.avoidable(reasons, []) == reasons
    assert not_run.avoidable(reasons, ["npm"]) == [reasons[0], reasons[2]]
    assert not_run.avoidable(reasons, ["browser", "npm", "packages"]) == []
    assert not_run.avoidable(["a reason that nobody listed"], ["browser", "npm", "packages"])


def reasons_in(source: Path) -> Iterator[str]:
    """The reasons for skips that a test file states."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        stated = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
        if called == "pytest.skip":
            stated += node.args[:1]
        elif called not in ("pytest.importorskip", "pytest.mark.skipif"):
            continue
        yield from map(plain, stated)


def plain(text: ast.expr) -> str:
    """A string, with a version where something is filled in: that is a name or a version."""
    if isinstance(text, ast.JoinedStr):
        return "".join(map(plain, text.values))
    return str(text.value) if isinstance(text, ast.Constant) else "1.0"


HERE = Path(__file__).parent
STATED = sorted({reason for path in HERE.rglob("*.py") for reason in reasons_in(path)})


@pytest.mark.parametrize("reason", STATED)
def test_every_reason_is_right_everywhere_or_can_be_helped(reason):
    assert not not_run.avoidable([reason], EVERY_NEED), "add it to EXPECTED or NEEDS"
