"""Cholesky, LU and QR, the systems they solve, and functions built on them."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import onnx
import pytest
from jax import export, lax

from harness.checking import check_model, check_sizes
from jax2onnx import to_onnx

SHAPES = [(1, 1), (4, 4), (5, 3), (3, 5), (2, 3, 6, 4), (0, 3), (3, 0), (0, 3, 3)]


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def size_without_masks(model):
    """Returns the size of a model in bytes without masks, which are constants up to a limit."""
    masks = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.BOOL]
    return model.ByteSize() - sum(len(mask.raw_data) for mask in masks)


def positive(*shape, seed=0, dtype=np.float32):
    """Returns symmetric matrices with eigenvalues of at least one."""
    factor = normal(*shape, seed=seed, dtype=dtype)
    return factor @ np.swapaxes(factor, -1, -2) + np.eye(shape[-1], dtype=dtype)


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 3, 4, 4), (0, 0), (2, 0, 0), (0, 3, 3)])
def test_cholesky(shape):
    check_model(jnp.linalg.cholesky, [positive(*shape)])


def test_cholesky_of_matrices_that_are_not_positive_definite():
    good, bad = positive(4, 4), positive(4, 4)
    bad[3, 3] = -1
    check_model(jnp.linalg.cholesky, [np.stack([good, bad, -good, good * np.nan, good * 0])])


def test_cholesky_reads_one_triangle_only():
    lower = np.tril(positive(4, 4))
    check_model(lambda x: jnp.linalg.cholesky(x, symmetrize_input=False), [lower])


def test_models_do_not_grow_with_the_matrix():
    matrices = (positive(n, n) + n * np.eye(n, dtype=np.float32) for n in [100, 200])
    small, large = (check_model(jnp.linalg.cholesky, [matrix]) for matrix in matrices)
    assert len(small.graph.node) == len(large.graph.node)
    assert size_without_masks(large) < 20_000


@pytest.mark.parametrize("shape", SHAPES)
def test_lu(shape):
    check_model(lax.linalg.lu, [normal(*shape)])


def test_lu_in_double_precision(double):
    check_model(lax.linalg.lu, [normal(30, 30, dtype=np.float64)], **double)


def test_lu_of_zeros_has_zero_pivots():
    check_model(lax.linalg.lu, [np.zeros((3, 4), np.float32)])


def test_pivots_to_permutation():
    pivots = np.array([[2, 3, 5, 3], [0, 1, 2, 5]], np.int32)
    check_model(lambda p: lax.linalg.lu_pivots_to_permutation(p, 6), [pivots])


@pytest.mark.parametrize("shape", SHAPES)
def test_qr(shape):
    check_model(lax.linalg.qr, [normal(*shape)])


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 0)])
def test_reduced_qr(shape):
    check_model(lambda x: lax.linalg.qr(x, full_matrices=False), [normal(*shape)])


def test_qr_keeps_triangular_matrices():
    check_model(lax.linalg.qr, [np.triu(normal(4, 4))])
    check_model(lax.linalg.qr, [np.zeros((4, 3), np.float32)])


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_qr_of_numbers_without_squares(size):
    def scaled(x):
        q, r = lax.linalg.qr(x)
        return q, r / size

    check_model(scaled, [normal(5, 3) * np.float32(size)])


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4), (0, 3)])
def test_qr_with_pivoting(shape):
    check_model(lambda x: lax.linalg.qr(x, pivoting=True), [normal(*shape)])


@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 5)])
def test_reflectors(shape):
    check_model(lambda x: jnp.linalg.qr(x, mode="raw"), [normal(*shape)])


def test_product_of_reflectors():
    check_model(lax.linalg.householder_product, [normal(2, 5, 4), normal(2, 3, seed=1)])


@pytest.mark.skipif(not hasattr(lax.linalg, "ormqr"), reason="newer than this JAX")
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_reflectors_applied(left, transpose):
    def applied(a, taus, c):
        return lax.linalg.ormqr(a, taus, c, left=left, transpose=transpose)

    other = normal(2, 5, 3) if left else normal(2, 3, 5)
    check_model(applied, [normal(2, 5, 4), normal(2, 4) / 4, other])


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_triangular_solve(left, lower, transpose, unit):
    def solve(a, b):
        options = {"left_side": left, "lower": lower, "unit_diagonal": unit}
        return lax.linalg.triangular_solve(a, b, transpose_a=transpose, **options)

    # The contents of the other triangle must not matter.
    matrix = normal(2, 5, 5) + 4 * np.eye(5, dtype=np.float32)
    other = np.triu(np.ones((5, 5), bool), 1)
    matrix[..., other if lower else other.T] = np.nan
    check_model(solve, [matrix, normal(2, 5, 3) if left else normal(2, 3, 5)])


def test_triangular_solve_in_half_precision():
    matrix = np.tril(normal(4, 4) + 4 * np.eye(4)).astype(np.float16)

    def solve(a, b):
        return lax.linalg.triangular_solve(a, b, left_side=True, lower=True)

    check_model(solve, [matrix, normal(4, 2).astype(np.float16)])


@pytest.mark.parametrize("size", [(1,), (2,), (2, 3, 7), (40,)])
def test_tridiagonal_solve(size):
    diagonals = [normal(*size, seed=i) for i in range(3)]
    check_model(lax.linalg.tridiagonal_solve, [*diagonals, normal(*size, 2, seed=3)])


def test_tridiagonal_solve_of_singular_systems_and_with_any_ends():
    zeros = np.zeros(3, np.float32)
    check_model(lax.linalg.tridiagonal_solve, [zeros, zeros, zeros, normal(3, 2)])
    ends = [[np.nan, 2, 3], [0, 1, 1], [2, 3, np.inf]]
    check_model(lax.linalg.tridiagonal_solve, [*np.array(ends, np.float32), normal(3, 2)])


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("size", [(1,), (2,), (5,), (2, 4)])
def test_tridiagonal_solve_that_perturbs(size, dtype):
    def solve(*operands):
        return lax.linalg.tridiagonal_solve(*operands, perturb_singular=True)

    diagonals = [normal(*size, seed=i).astype(dtype) for i in range(3)]
    sides = normal(*size, 2, seed=3).astype(dtype)
    check_model(solve, [*diagonals, sides])
    # Singular matrices: zeros, equal rows, and a row and a column of zeros.
    zeros, ones = np.zeros(size, dtype), np.ones(size, dtype)
    check_model(solve, [zeros, zeros, zeros, sides])
    check_model(solve, [zeros, np.arange(size[-1], dtype=dtype) * ones, zeros, sides])
    if size[-1] == 2:
        check_model(solve, [ones, ones, ones, sides])


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_eigenvectors_of_tridiagonal_matrices(dtype):
    """Vectors are unique only up to their phases, so the reconstructed matrix is compared."""

    def rebuilt(diagonal, beside):
        values, vectors = jax.scipy.linalg.eigh_tridiagonal(diagonal, beside)
        return values, (vectors * values) @ vectors.conj().T

    check_model(rebuilt, [normal(6).astype(dtype), normal(5, seed=1).astype(dtype)])
    # A triple eigenvalue.
    check_model(rebuilt, [np.array([1, 2, 2, 2, 3, 4], dtype), np.zeros(5, dtype)])


def test_cholesky_update():
    factor = np.triu(normal(5, 5)) + 3 * np.eye(5, dtype=np.float32)
    check_model(lax.linalg.cholesky_update, [factor, normal(5)])
    check_model(lax.linalg.cholesky_update, [factor, np.zeros(5, np.float32)])


def test_symmetric_product():
    def product(a, c):
        return lax.linalg.symmetric_product(a, c, alpha=2.0, beta=0.5)

    check_model(product, [normal(2, 4, 3), positive(2, 4, 4)])


@pytest.mark.parametrize(
    "fn",
    [
        jnp.linalg.inv,
        jnp.linalg.det,
        jnp.linalg.slogdet,
        jsl.lu,
        jsl.lu_factor,
        lambda a: jnp.linalg.solve(a, a[..., 0]),
        lambda a: jnp.linalg.solve(a, a[..., :2]),
        lambda a: jsl.solve(a, a[..., 0]),
        lambda a: jsl.solve(a, a[..., 0], assume_a="pos"),
        lambda a: jsl.cho_solve(jsl.cho_factor(a), a[..., 0]),
        lambda a: jsl.lu_solve(jsl.lu_factor(a), a[..., 0], trans=1),
        lambda a: jsl.solve_triangular(a, a[..., 0], lower=True),
        lambda a: jax.vmap(jnp.linalg.solve, in_axes=(None, 0))(a, a),
        jax.grad(lambda a: jnp.linalg.slogdet(a)[1]),
        jax.grad(lambda a: jnp.linalg.cholesky(a).sum()),
        jax.grad(lambda a: jnp.linalg.inv(a).sum()),
        jax.grad(lambda a: jnp.linalg.qr(a)[1].sum()),
        jax.grad(lambda a: jax.scipy.stats.multivariate_normal.logpdf(a[0], a[1], a)),
    ],
)
def test_functions_of_matrices(fn):
    check_model(fn, [positive(5, 5)])


@pytest.mark.parametrize("fn", [jnp.linalg.inv, jnp.linalg.det, jnp.linalg.slogdet])
def test_functions_of_many_matrices(fn):
    check_model(fn, [positive(2, 3, 4, 4)])


def test_symbolic_sizes():
    (batch,) = export.symbolic_shape("b")
    many = [[positive(2, 4, 4)], [positive(5, 4, 4)]]
    spec = jax.ShapeDtypeStruct((batch, 4, 4), np.float32)
    check_sizes(jnp.linalg.cholesky, [spec], *many)
    check_sizes(lax.linalg.lu, [spec], *many)
    check_sizes(lax.linalg.qr, [spec], *many)
    side = jax.ShapeDtypeStruct((batch, batch), np.float32)
    check_sizes(jnp.linalg.cholesky, [side], [positive(3, 3)], [positive(6, 6)])


def linear_solve(solve):
    def fn(a, b):
        return lax.custom_linear_solve(lambda x: a @ x, b, solve, solve)

    return fn


def test_custom_linear_solve():
    def solve(matvec, b):
        return jnp.linalg.solve(jax.jacobian(matvec)(b), b)

    check_model(linear_solve(solve), [positive(4, 4), normal(4)])
    both = jax.vmap(linear_solve(solve))
    check_model(both, [positive(3, 4, 4), normal(3, 4)])
    gradient = jax.grad(lambda a, b: linear_solve(solve)(a, b).sum(), argnums=(0, 1))
    check_model(gradient, [positive(4, 4), normal(4)])


def test_custom_root():
    def root(x):
        def newton(f, y):
            return lax.fori_loop(0, 20, lambda _, y: y - f(y) / jax.grad(f)(y), y)

        def linear(g, y):
            return y / g(jnp.ones_like(y))

        return lax.custom_root(lambda y: y**3 - x, jnp.ones_like(x), newton, linear)

    check_model(root, [np.float32(5)])
    check_model(jax.grad(root), [np.float32(5)])


@pytest.mark.parametrize("factorize", [jnp.linalg.cholesky, jnp.linalg.eigh, jnp.linalg.svd])
def test_large_matrices_make_no_large_models(factorize):
    # Unrolled, they would take megabytes and minutes. The positions that a sweep visits are a
    # table.
    assert size_without_masks(to_onnx(factorize, [(200, 200)])) < 200_000


def test_large_cholesky():
    x = np.random.default_rng(0).normal(size=(200, 200)).astype(np.float32)
    check_model(jnp.linalg.cholesky, [x @ x.T + 200 * np.eye(200, dtype=np.float32)])


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("rows", [[-3.0], [3.0], [0.0], [-3.0, 4.0], [3.0, -4.0], [0.5, 2.0]])
def test_the_sign_of_a_single_column_is_on_the_left(rows, full):
    x = np.array(rows, np.float32)[:, None]
    check_model(lambda x: jnp.linalg.svd(x, full_matrices=full), [x])
