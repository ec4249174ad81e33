//! Operators that the CPU provider's measurements do not apply to.
//!
//! These rows were not measured. Flash attention keeps scores in float32 and does not store them. One
//! recurrent layer is one kernel, and its steps are many.

use tensor::DType::{BF16, F16, F32};

use crate::targets::measured::{Row, row};

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    row("Attention", "", F16, 1.00, 1.00, [1.00, 1.00], true),
    row("Attention", "", BF16, 1.00, 1.00, [1.00, 1.00], true),
    row("Attention", "", F32, 1.00, 1.00, [1.00, 1.00], true),
    row("RNN", "", F32, 1.00, 1.00, [1.00, 1.00], true),
];
