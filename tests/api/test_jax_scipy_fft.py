from harness.walking import check, functions


@functions("jax.scipy.fft")
def test_function(calls):
    check(calls)
