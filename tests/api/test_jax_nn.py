from harness.walking import check, functions


@functions("jax.nn")
def test_function(calls):
    check(calls)
