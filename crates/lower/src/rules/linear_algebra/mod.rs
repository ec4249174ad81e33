//! Products, factorisations and solvers, as loops over columns where ONNX has no operator.

pub(crate) mod cholesky;
pub(crate) mod cholesky_update;
pub(crate) mod custom_linear_solve;
pub(crate) mod dot_general;
pub(crate) mod eig;
pub(crate) mod eigh;
pub(crate) mod geqrf;
pub(crate) mod hessenberg;
pub(crate) mod householder_product;
pub(crate) mod jacobi;
pub(crate) mod lu;
pub(crate) mod lu_pivots_to_permutation;
pub(crate) mod matrix;
pub(crate) mod ormqr;
pub(crate) mod qr;
mod real_schur;
pub(crate) mod reflectors;
pub(crate) mod schur;
pub(crate) mod svd;
pub(crate) mod symmetric_product;
pub(crate) mod triangular_solve;
pub(crate) mod tridiagonal;
pub(crate) mod tridiagonal_solve;
