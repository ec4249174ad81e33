//! Special functions, by series, continued fractions and rational approximations.

pub(crate) mod bessel;
pub(crate) mod digamma;
pub(crate) mod erf_inv;
pub(crate) mod erfc;
pub(crate) mod igamma_grad_a;
pub(crate) mod incomplete_gamma;
pub(crate) mod lgamma;
pub(crate) mod polygamma;
pub(crate) mod regularized_incomplete_beta;
pub(crate) mod zeta;
