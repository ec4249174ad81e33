from harness.walking import check, functions


@functions("jax.numpy.fft")
def test_function(calls):
    check(calls)
