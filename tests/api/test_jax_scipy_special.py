from harness.walking import check, functions


@functions("jax.scipy.special")
def test_function(calls):
    check(calls)
