import not_run


def test_a_sample_has_every_function_and_a_third_of_many_cases():
    items = [("few", n) for n in range(3)] + [("many", n) for n in range(10)]
    kept = not_run.sampled(items, lambda item: item[0])
    chosen = [item for item, wanted in zip(items, kept, strict=True) if wanted]
    assert chosen == [("few", 0), ("few", 1), ("few", 2)] + [("many", n) for n in (0, 3, 6, 9)]


def test_the_summary_says_how_to_get_what_is_missing():
    reasons = ["no browser: none is on PATH"] * 2 + ["this version of JAX does not have it"]
    (line,) = not_run.summary(reasons)
    assert line.startswith("2 tests were not run: no browser")
    assert "apt install chromium" in line
    assert not_run.unexpected(reasons) == reasons[:2]
