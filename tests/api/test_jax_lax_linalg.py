from harness.walking import check, functions


@functions("jax.lax.linalg")
def test_function(calls):
    check(calls)
