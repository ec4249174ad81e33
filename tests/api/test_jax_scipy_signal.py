from harness.walking import check, functions


@functions("jax.scipy.signal")
def test_function(calls):
    check(calls)
