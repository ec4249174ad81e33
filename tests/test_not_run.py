import ast
from collections.abc import Iterator
from pathlib import Path

from harness import not_run

EVERY_NEED = {need for need, _, _ in not_run.NEEDS}


def sample_of(files: dict[str, dict[str, int]]) -> dict[str, dict[str, list[int]]]:
    items = [
        (file, function, number)
        for file, functions in files.items()
        for function, count in functions.items()
        for number in range(count)
    ]
    chosen: dict[str, dict[str, list[int]]] = {}
    for file, function, number in not_run.sampled(items, lambda item: item[:2]):
        chosen.setdefault(file, {}).setdefault(function, []).append(number)
    return chosen


def test_a_sample_has_fewer_of_many_cases():
    assert sample_of({"a": {"one": 1, "ten": 10}, "b": {"some": 20}}) == {
        "a": {"one": [0], "ten": [0, 4, 7]},
        "b": {"some": [0, 5, 10, 15]},
    }


def test_a_sample_has_fewer_of_many_functions():
    few, many = {f"f{n}": 1 for n in range(4)}, {f"f{n}": 1 for n in range(100)}
    chosen = sample_of({"few": few, "many": many})
    assert list(chosen["few"]) == list(few)
    assert list(chosen["many"]) == [f"f{n}" for n in range(0, 100, 5)]


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
    """Yields the reasons for skips that a test file contains."""
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
    """Returns a string, with "1.0" for interpolated names and versions."""
    if isinstance(text, ast.JoinedStr):
        return "".join(map(plain, text.values))
    return str(text.value) if isinstance(text, ast.Constant) else "1.0"


def test_every_reason_is_right_everywhere_or_can_be_helped():
    sources = Path(__file__).parent.rglob("*.py")
    stated = {reason for path in sources for reason in reasons_in(path)}
    assert len(stated) > 10
    assert not_run.avoidable(stated, EVERY_NEED) == [], "add it to EXPECTED or NEEDS"
