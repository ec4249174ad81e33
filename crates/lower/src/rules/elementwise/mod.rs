//! Elementwise functions: arithmetic, comparison, conversion.

pub(crate) mod atan2;
pub(crate) mod cbrt;
pub(crate) mod clamp;
pub(crate) mod convert_element_type;
pub(crate) mod division;
pub(crate) mod exp2;
pub(crate) mod expm1;
pub(crate) mod integer_pow;
pub(crate) mod is_finite;
pub(crate) mod log1p;
pub(crate) mod log2;
pub(crate) mod ne;
pub(crate) mod nextafter;
pub(crate) mod one_minus_square;
pub(crate) mod polynomial;
pub(crate) mod pow;
pub(crate) mod round;
pub(crate) mod rsqrt;
pub(crate) mod select_n;
pub(crate) mod square;
