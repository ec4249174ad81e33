"""Eigenvalues and singular values. Vectors are unique up to phases only, so products of them are
compared."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax import export, lax

from harness.checking import check_model, check_sizes, run
from jax2onnx import UnsupportedError, to_onnx

SHAPES = [(1, 1), (2, 2), (2, 3, 5, 5), (12, 12), (0, 0), (0, 3, 3)]


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def symmetric(*shape, seed=0, dtype=np.float32):
    half = normal(*shape, seed=seed, dtype=dtype)
    return half + np.swapaxes(half, -1, -2)


def eigh(a, **options):
    v, w = lax.linalg.eigh(a, symmetrize_input=False, **options)
    return w, (v * w[..., None, :]) @ v.mT, v.mT @ v


def svd(a, **options):
    u, s, vt = lax.linalg.svd(a, **options)
    k = s.shape[-1]
    return s, (u[..., :k] * s[..., None, :]) @ vt[..., :k, :], u.mT @ u, vt @ vt.mT


@pytest.mark.parametrize("shape", SHAPES)
def test_eigh(shape):
    check_model(eigh, [symmetric(*shape)])


def test_eigh_in_double_precision(double):
    check_model(eigh, [symmetric(25, 25, dtype=np.float64)], **double)


@pytest.mark.parametrize("lower", [False, True])
def test_eigh_reads_one_triangle_only(lower):
    check_model(
        lambda a: lax.linalg.eigh(a, lower=lower, symmetrize_input=False)[1], [normal(5, 5)]
    )


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((4, 4)),
        3 * np.eye(5),
        np.diag([3.0, 1.0, 2.0, 2.0]),
        np.ones((6, 6)),
        np.array([[1.0, 1e-4], [1e-4, 1.0]]),
    ],
)
def test_eigh_of_repeated_eigenvalues(matrix):
    check_model(eigh, [matrix.astype(np.float32)])


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_numbers_without_squares(size):
    big = np.float32(size)
    check_model(lambda a: lax.linalg.eigh(a)[1] / big, [symmetric(4, 4) * big])
    check_model(lambda a: jnp.linalg.svd(a, compute_uv=False) / big, [normal(4, 3) * big])


def test_one_bad_matrix_does_not_spoil_the_others():
    many = symmetric(3, 4, 4)
    many[1, 2, 2] = np.nan
    check_model(lambda a: lax.linalg.eigh(a)[1], [many])
    check_model(lambda a: jnp.linalg.svd(a, compute_uv=False), [many])


@pytest.mark.parametrize("shape", SHAPES)
def test_svd(shape):
    check_model(svd, [normal(*shape)])


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(7, 4), (2, 3, 5), (1, 5), (3, 0)])
def test_svd_of_matrices_that_are_not_square(shape, full):
    check_model(lambda a: svd(a, full_matrices=full), [normal(*shape)])


@pytest.mark.parametrize("shape", [(1, 1), (2, 7, 4), (4, 7), (0, 3)])
def test_singular_values_only(shape):
    check_model(lambda a: lax.linalg.svd(a, compute_uv=False), [normal(*shape)])


def symbolic(shape, *constraints):
    sizes = export.symbolic_shape(shape, constraints=constraints)
    return [jax.ShapeDtypeStruct(sizes, np.float32)]


@pytest.mark.slow
def test_eigenvalues_of_symbolic_sizes():
    runs = [[symmetric(n, n)] for n in (1, 2, 3, 6)]
    check_sizes(eigh, symbolic("T, T"), *runs)
    check_sizes(eigh, symbolic("B, T, T"), [symmetric(2, 4, 4)], [symmetric(3, 5, 5)])
    check_sizes(jax.grad(lambda a: lax.linalg.eigh(a)[1][0]), symbolic("T, T"), *runs)


def schur(a):
    form, basis = lax.linalg.schur(a)
    return jnp.sort(jnp.diag(form)), basis @ form @ basis.T, basis.T @ basis


def test_schur_forms_of_symbolic_sizes():
    check_sizes(schur, symbolic("T, T"), *([symmetric(n, n)] for n in (1, 2, 3, 6)))


@pytest.mark.parametrize(
    ("shape", "constraint", "sizes"),
    [
        ("T, T", "T >= 1", [(1, 1), (2, 2), (5, 5)]),
        ("T, 3", "T >= 3", [(3, 3), (7, 3)]),
        ("T, 3", "T <= 3", [(1, 3), (3, 3)]),
        ("B, S, T", "S >= T", [(2, 4, 2), (1, 3, 3)]),
    ],
)
@pytest.mark.parametrize("full", [True, False])
def test_svd_of_symbolic_sizes(shape, constraint, sizes, full):
    runs = [[normal(*size)] for size in sizes]
    check_sizes(lambda a: svd(a, full_matrices=full), symbolic(shape, constraint), *runs)


def test_singular_values_of_a_matrix_that_is_tall_or_wide():
    runs = [[normal(*size)] for size in [(1, 4), (4, 1), (3, 3), (5, 2)]]
    check_sizes(lambda a: jnp.linalg.svd(a, compute_uv=False), symbolic("S, T"), *runs)
    with pytest.raises(UnsupportedError, match=r"constraints=\[\"S >= T\"\]"):
        to_onnx(svd, symbolic("S, T"))


def test_svd_in_double_precision(double):
    check_model(svd, [normal(25, 20, dtype=np.float64)], **double)


@pytest.mark.parametrize("shape", [(6, 6), (6, 9), (9, 6)])
def test_svd_of_low_rank(shape):
    rows, columns = shape
    check_model(svd, [normal(rows, 2) @ normal(2, columns, seed=1)])
    check_model(svd, [np.zeros(shape, np.float32)])


@pytest.mark.parametrize(
    "fn",
    [
        jnp.linalg.eigvalsh,
        jnp.linalg.pinv,
        jnp.linalg.matrix_rank,
        jnp.linalg.cond,
        lambda a: jnp.linalg.lstsq(a, a[:, :2]),
        jsl.polar,
        *(lambda a, o=o: jnp.linalg.norm(a, ord=o) for o in ["fro", "nuc", 2, -2, 1, np.inf]),
        jax.grad(lambda a: jnp.linalg.eigh(a)[0][1]),
        jax.grad(lambda a: jnp.linalg.svd(a, compute_uv=False).sum()),
    ],
)
def test_functions_of_matrices(fn):
    check_model(fn, [symmetric(4, 4) + 5 * np.eye(4, dtype=np.float32)])


def eig(fn, a):
    """Returns the eigenvalues and the eigenvectors of an exported `fn`."""
    found = run(to_onnx(fn, [a]), [a])
    return [pair[..., 0] + 1j * pair[..., 1] for pair in found]


def assert_eigenvalues(found, expected):
    def key(w):
        return (np.round(w.real, 3), np.round(w.imag, 3))

    def order(w):
        return np.array(sorted(np.ravel(w), key=key))

    np.testing.assert_allclose(order(found), order(np.asarray(expected)), atol=1e-4)


@pytest.mark.parametrize(
    "matrix",
    [
        normal(1, 1),
        normal(6, 6),
        np.zeros((3, 3)),
        np.roll(np.eye(8), 1, 0),
        np.array([[0.0, -1.0], [1.0, 0.0]]),
        np.triu(normal(5, 5)),
        np.kron(np.eye(2), [[0.0, -2.0], [2.0, 0.0]]),
    ],
)
def test_eig(matrix):
    a = matrix.astype(np.float32)
    values, left, right = eig(lax.linalg.eig, a)
    assert_eigenvalues(values, lax.linalg.eig(a)[0])
    np.testing.assert_allclose(a @ right, right * values, atol=1e-5)
    np.testing.assert_allclose(a.T @ left, left * values.conj(), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(right, axis=0), 1, atol=1e-5)


def test_eig_of_many():
    a = normal(2, 3, 4, 4)
    (values,) = eig(jnp.linalg.eigvals, a)
    for found, matrix in zip(values.reshape(6, 4), a.reshape(6, 4, 4), strict=True):
        assert_eigenvalues(found, np.linalg.eigvals(matrix))


def test_eig_of_a_defective_matrix():
    a = 2 * np.eye(9, dtype=np.float32) + np.eye(9, k=1, dtype=np.float32)
    values, vectors = eig(jnp.linalg.eig, a)
    np.testing.assert_allclose(values, 2)
    np.testing.assert_allclose(a @ vectors, vectors * values, atol=1e-5)


def test_real_eigenvalues_are_real():
    (values,) = eig(jnp.linalg.eigvals, np.triu(normal(6, 6)))
    assert (values.imag == 0).all()


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 4, 4)])
def test_complex_numbers(shape):
    def parts(fn):
        def real(re, im):
            found = jax.tree.leaves(fn(lax.complex(re, im)))
            return [(x.real, x.imag) if jnp.iscomplexobj(x) else x for x in found]

        return real

    args = [normal(*shape), normal(*shape, seed=1)]
    check_model(parts(lax.linalg.lu), args)
    check_model(parts(lax.linalg.qr), args)
    check_model(parts(lambda a: jnp.linalg.svd(a, compute_uv=False)), args)
    check_model(parts(lambda a: lax.linalg.eigh(a, symmetrize_input=False)[1]), args)
    for conjugate in [False, True]:
        options = {"left_side": True, "transpose_a": conjugate, "conjugate_a": conjugate}

        def solve(a, o=options):
            return lax.linalg.triangular_solve(a, a, **o)

        check_model(parts(solve), args)


PAIR = np.array([[0.0, 1.0], [-1.0, 0.0]])
ORTHOGONAL = np.linalg.qr(normal(4, 4))[0]


@pytest.mark.parametrize(
    "matrix",
    [
        normal(1, 1),
        normal(2, 2),
        normal(4, 4),
        normal(9, 9),
        normal(6, 6) + normal(6, 6).T,
        normal(6, 6) - normal(6, 6).T,
        np.zeros((3, 3)),
        np.eye(4),
        np.ones((4, 4)),
        np.triu(normal(5, 5)),
        np.tril(normal(5, 5)),
        np.roll(np.eye(5), 1, axis=0),
        np.eye(5, k=1),
        PAIR,
        np.kron(PAIR, np.eye(2)),
        np.kron(np.eye(3), PAIR),
        np.kron(ORTHOGONAL, np.eye(2)),
        np.diag(np.arange(1.0, 7.0)),
        1e20 * normal(4, 4),
        1e-20 * normal(4, 4),
        normal(2, 3, 4, 4),
    ],
)
def test_real_schur(matrix):
    a = matrix.astype(np.float32)
    form, basis = run(to_onnx(lax.linalg.schur, [a]), [a])
    size = np.abs(a).max(initial=1e-30)
    identity = np.swapaxes(basis, -1, -2) @ basis
    np.testing.assert_allclose(identity, np.broadcast_to(np.eye(a.shape[-1]), a.shape), atol=1e-5)
    again = basis @ (form / size) @ np.swapaxes(basis, -1, -2)
    np.testing.assert_allclose(again, a / size, atol=1e-5)
    for one in form.reshape(-1, *a.shape[-2:]):
        assert (np.tril(one, -2) == 0).all()
        below = np.diagonal(one, -1)
        assert not (below[1:] * below[:-1]).any(), "blocks do not overlap"
        for i in np.flatnonzero(below):
            block = one[i : i + 2, i : i + 2]
            np.testing.assert_allclose(block[0, 0] / size, block[1, 1] / size, atol=1e-6)
            assert np.sign(block[0, 1]) * np.sign(block[1, 0]) <= 0, (
                "real eigenvalues have no block"
            )


def test_real_schur_of_matrices_that_are_not_finite():
    a = np.stack([np.full((3, 3), np.nan, np.float32), normal(3, 3)])
    form, basis = run(to_onnx(lax.linalg.schur, [a]), [a])
    assert np.isnan(form[0]).all()
    np.testing.assert_allclose(basis[1] @ form[1] @ basis[1].T, a[1], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("fn", [jnp.exp, jnp.sin])
def test_functions_by_the_schur_form(fn):
    check_model(lambda a: jsl.funm(a, fn), [normal(4, 4)])
