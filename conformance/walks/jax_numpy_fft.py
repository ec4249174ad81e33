"""Calls to functions of `jax.numpy.fft`."""

from conformance.walks.arguments import Table, call, complexes, each, floats

X, Z, HALF = floats(4, 6), complexes(4, 6), complexes(4, 5)

TABLE = Table(
    {
        **each("fft ifft", call(Z), call(X), call(Z, 4), call(Z, 8, axis=0), call(Z, norm="ortho")),
        **each("fft2 ifft2 fftn ifftn", call(Z), call(X), call(Z, norm="forward")),
        **each("rfft ihfft", call(X), call(X, 5), call(X, axis=0, norm="ortho")),
        **each("rfft2 rfftn", call(X), call(X, (3, 5))),
        **each("irfft hfft", call(HALF), call(HALF, 7), call(HALF, axis=0)),
        **each("irfft2 irfftn", call(HALF), call(HALF, (4, 7))),
        **each("fftshift ifftshift", call(X), call(Z, axes=1)),
        **each("fftfreq rfftfreq", call(6), call(5, 0.1)),
    }
)
