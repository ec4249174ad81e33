from harness.walking import check, functions


@functions("jax.numpy.linalg")
def test_function(calls):
    check(calls)
