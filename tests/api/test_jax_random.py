from harness.walking import check, functions


@functions("jax.random")
def test_function(calls):
    check(calls)
