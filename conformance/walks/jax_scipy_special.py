"""Calls to functions of `jax.scipy.special`."""

import jax.scipy.special as jsp
import numpy as np

from conformance.walks.arguments import SPECIAL, Table, call, complexes, each, floats, integers, via

X, POSITIVE, UNIT = floats(3, 4), floats(3, 4, low=0.1, high=6), floats(3, 4, low=0.05, high=0.95)
Y, OTHER = floats(3, 4, low=0.1, high=6, seed=1), floats(3, 4, low=0.1, high=4, seed=2)
N = integers(3, 4, low=1, high=6)

TABLE = Table(
    {
        **each(
            """
            dawsn entr erf erfc erfcx erfinv expi expit gamma gammaln gammasgn i0 i0e i1 i1e
            log_ndtr loggamma logit ndtr spence
            """,
            call(X),
            call(POSITIVE),
            call(UNIT),
            call(SPECIAL),
        ),
        # The value at zero depends on the version of JAX.
        "digamma": [call(X), call(POSITIVE), call(UNIT), call(SPECIAL[SPECIAL != 0])],
        **each("erfcinv ndtri", call(UNIT), call(SPECIAL)),
        **each("fresnel sici", call(X), call(POSITIVE)),
        **each("wofz", call(X), call(complexes(3, 4))),
        **each(
            "beta betaln kl_div rel_entr xlog1py xlogy boxcox boxcox1p poch gammainc gammaincc",
            call(POSITIVE, Y),
            call(POSITIVE, SPECIAL[3:7]),
        ),
        **each("logsumexp softmax log_softmax", call(X), call(X, axis=1)),
        "bernoulli": [call(8)],
        "bessel_jn": [call(POSITIVE, v=3)],
        "betainc": [call(POSITIVE, Y, UNIT)],
        "comb": [call(N + 4, N), call(POSITIVE + 6, N.astype(np.float32))],
        # Beside large numbers, JAX takes a million iterations for very small ones.
        "exp1": [call(X), call(POSITIVE), call(SPECIAL[:-2])],
        "expn": [call(N, POSITIVE)],
        "factorial": [call(N), call(N.astype(np.float32))],
        "hyp1f1": [call(POSITIVE, Y, X)],
        "hyp2f1": [call(POSITIVE, Y, OTHER, UNIT * 0.8)],
        "logsumexp": [call(X), call(X, axis=0, b=Y), call(X, axis=1, return_sign=True, b=X)],
        "multigammaln": [call(POSITIVE + 4, 3)],
        "owens_t": [call(X, Y)],
        "polygamma": [call(N, POSITIVE)],
        "sph_harm_y": [
            via(
                lambda n, m, t, p: jsp.sph_harm_y(n, m, t, p, n_max=5),
                np.int32([3]),
                np.int32([2]),
                np.float32([0.4]),
                np.float32([1.1]),
            )
        ],
        "zeta": [call(POSITIVE + 1, Y), via(lambda x, q: jsp.zeta(x, q), Y + 2, OTHER)],
    }
)
