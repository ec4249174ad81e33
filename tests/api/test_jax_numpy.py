from harness.walking import check, functions


@functions("jax.numpy")
def test_function(calls):
    check(calls)
