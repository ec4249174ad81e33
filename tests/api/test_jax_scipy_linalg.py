from harness.walking import check, functions


@functions("jax.scipy.linalg")
def test_function(calls):
    check(calls)
