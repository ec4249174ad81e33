from harness.walking import check, functions


@functions("jax.scipy.ndimage")
def test_function(calls):
    check(calls)
