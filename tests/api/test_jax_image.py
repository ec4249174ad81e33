from harness.walking import check, functions


@functions("jax.image")
def test_function(calls):
    check(calls)
