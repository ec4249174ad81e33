from harness.walking import check, functions


@functions("jax.ops")
def test_function(calls):
    check(calls)
