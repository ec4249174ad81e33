//! Discrete Fourier transforms.

pub(crate) mod dft;
pub(crate) mod fft;
