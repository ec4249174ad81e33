"""Calls to functions of `jax.scipy.signal`."""

from conformance.walks.arguments import Table, call, complexes, each, floats

V, W, F, G, LONG = floats(8), floats(3, seed=1), floats(5, 6), floats(3, 2, seed=1), floats(64)

TABLE = Table(
    {
        **each("convolve correlate", call(V, W), call(V, W, mode="same"), call(F, G, mode="valid")),
        **each("convolve2d correlate2d", call(F, G), call(F, G, mode="same"), call(F, G, "valid")),
        **each("fftconvolve", call(V, W), call(F, G, mode="same"), call(complexes(8), W)),
        "csd": [call(LONG, LONG[::-1], nperseg=16)],
        "welch": [call(LONG, nperseg=16), call(LONG, nperseg=16, scaling="spectrum")],
        "stft": [call(LONG, nperseg=16)],
        "istft": [call(complexes(9, 9), nperseg=16)],
        "detrend": [call(F), call(F, type="constant"), call(F, axis=0)],
    }
)
