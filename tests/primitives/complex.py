"""Complex operands."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import linalg

from primitives.linear_algebra import positive, solved
from primitives.operands import Programs, X, Z, bind, c64, of_lax
from primitives.windows import convolution

ONE = """abs acos acosh asin asinh atan atanh conj cos cosh exp expm1 imag log log1p logistic
    neg real rsqrt sign sin sinh sqrt square tan tanh"""
TWO = "add div eq mul ne pow sub"
found: Programs = {f"{name}.complex": (of_lax(name), c64(2)) for name in ONE.split()}
found |= {f"{name}.complex": (of_lax(name), c64(2), c64(2)) for name in TWO.split()}
OF_MATRICES = {
    "broadcast_in_dim": lambda z: lax.broadcast_in_dim(z, (2, 2, 3), (1, 2)),
    "concatenate": lambda z: lax.concatenate((z, z), 0),
    "cumsum": lambda z: lax.cumsum(z, 1),
    "gather": lambda z: z[jnp.array([1, 0])],
    "integer_pow": lambda z: lax.integer_pow(z, 3),
    "pad": lambda z: lax.pad(z, 1j + z.dtype.type(0), ((1, 0, 0), (0, 0, 0))),
    "reduce_prod": lambda z: lax.reduce_prod(z, (1,)),
    "reduce_sum": lambda z: lax.reduce_sum(z, (1,)),
    "reshape": lambda z: z.reshape(3, 2),
    "rev": lambda z: lax.rev(z, (0,)),
    "select_n": lambda z: jnp.where(z.real > 0, z, -z),
    "slice": lambda z: z[:, 1:],
    "transpose": lambda z: z.T,
    "scan": lambda z: lax.scan(lambda c, row: (c * row, c), z[0], z),
    "cond": lambda z: lax.cond(z.real.sum() > 0, jnp.conj, lambda z: z * 2, z),
    "scatter-add": lambda z: z.at[jnp.array([1, 0])].add(z),
    "dynamic_slice": lambda z: lax.dynamic_slice(z, (0, 1), (2, 2)),
    "sort": lambda z: lax.sort(z, dimension=1),
    "add_any": lambda z: bind("add_any")(z, z),
    "copy": bind("copy"),
    "device_put": jax.device_put,
    "stop_gradient": bind("stop_gradient"),
    "optimization_barrier": lambda z: lax.optimization_barrier((z, z.real)),
    "dynamic_update_slice": lambda z: lax.dynamic_update_slice(z, z[:1, :2], (1, 0)),
    "exp2": lambda z: lax.exp2(z),
    "max": lambda z: lax.max(z, z[::-1]),
    "min": lambda z: lax.min(z, z[::-1]),
    "reduce_max": lambda z: lax.reduce_max(z, (1,)),
    "reduce_min": lambda z: lax.reduce_min(z, (0,)),
    "scatter": lambda z: z.at[jnp.array([1, 0])].set(z),
    "scatter-max": lambda z: z.at[jnp.array([1, 0])].max(z),
    "scatter-min": lambda z: z.at[jnp.array([1, 0])].min(z),
    "scatter-mul": lambda z: z.at[jnp.array([1, 0])].multiply(z),
    "scatter-sub": lambda z: z.at[jnp.array([1, 0])].subtract(z),
    "split": lambda z: lax.split(z, (1, 2), axis=1),
    "stack": lambda z: bind("stack", axis=0)(z, z),
    "unstack": bind("unstack", axis=0),
    "tile": bind("tile", reps=(2, 1)),
    "custom_linear_solve": lambda z: solved(jnp.eye(3) + z[0], z[1]),
    "remat2": jax.checkpoint(lambda z: jnp.sin(z) * 2),
    "bitcast_convert_type": lambda z: lax.bitcast_convert_type(z, jnp.complex64),
    "cumprod": lambda z: lax.cumprod(z, 1),
    "cumlogsumexp": lambda z: lax.cumlogsumexp(z, 1),
    "cummax": lambda z: lax.cummax(z, 1),
    "reduce_window_sum": lambda z: lax.reduce_window(z, 0j, lax.add, (1, 2), (1, 1), "VALID"),
}
found |= {f"{name}.complex": (function, Z) for name, function in OF_MATRICES.items()}
PROGRAMS: Programs = found | {
    "while.complex": (
        lambda z: lax.while_loop(lambda z: z.real.sum() < 9, lambda z: z * z, z),
        np.complex64([[1.5, 0.5j, 1], [1 + 0.25j, 0, 0.5]]),
    ),
    "complex": (lax.complex, X, X),
    "convert_element_type.complex": (lambda x: lax.convert_element_type(x, jnp.complex64), X),
    "conj": (lax.conj, c64(2)),
    "real": (lax.real, c64(2)),
    "imag": (lax.imag, c64(2)),
    "dot_general.complex": (jnp.matmul, Z, c64(3, 2)),
    "cholesky.complex": (linalg.cholesky, positive(2, 2, dtype=np.complex64)),
    "conv_general_dilated.complex": (
        convolution,
        c64(1, 2, 4),
        c64(3, 2, 3),
    ),
    "eig.complex": (linalg.eig, c64(2, 2)),
    "eigh.complex": (linalg.eigh, positive(2, 2, dtype=np.complex64)),
    "hessenberg.complex": (linalg.hessenberg, c64(3, 3)),
    "householder_product.complex": (linalg.householder_product, c64(3, 2), c64(2)),
    "lu.complex": (linalg.lu, c64(2, 2)),
    "qr.complex": (lambda x: linalg.qr(x, full_matrices=False), c64(2, 2)),
    "svd.complex": (lambda x: linalg.svd(x, full_matrices=False), c64(2, 2)),
    "triangular_solve.complex": (
        lambda a, b: linalg.triangular_solve(
            a, b, left_side=True, lower=True, conjugate_a=True, transpose_a=True
        ),
        c64(2, 2),
        c64(2, 1),
    ),
    "tridiagonal.complex": (lambda a: linalg.tridiagonal(a, lower=False), c64(3, 3)),
}
