//! `Softmax(Where(mask, x, c))` → `Softmax(x + Where(mask, 0, c))` if the user promises that no NaN and no infinity is
//! hidden. onnxruntime's `Where` computes on one thread, its `Add` on all.
//!
//! A row that is hidden altogether has equal elements in JAX. So what is added either swallows every number, or
//! every row shows something, beside which the rest of it comes to nothing.

use onnx::{Assumption, Attrs, ValueId};
use tensor::DType;

use super::masked::{Masked, added, shows_some_of_each_row, softmax};
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite { name: "add_mask", roots: &["Where"], try_at };

/// Numbers below swallow whatever is smaller than 10²⁸, and nobody computes larger scores.
const SWALLOWS: f64 = -1e36;

/// Numbers below have the exponential zero beside any score, if scores are promised to be smaller than a
/// quarter of them.
const VANISHES: f64 = -1e4;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    if !m.graph().assumptions.contains(Assumption::NoNan) {
        return Err("NaN may be hidden".into());
    }
    let masked = Masked::at(m)?;
    let Masked { x, fill, .. } = masked;
    let softmax = softmax(m)?;
    let has_range = matches!(m.ty(x).dtype, DType::F32 | DType::F64 | DType::BF16);
    let swallows = fill == f64::NEG_INFINITY || (has_range && fill <= SWALLOWS);
    let last = m.ty(x).shape.len() as i64 - 1;
    let is_last = matches!(softmax.int("axis", -1), axis if axis == -1 || axis == last);
    let vanishes = softmax.is("Softmax") && is_last && fill <= VANISHES;
    if !(swallows || (vanishes && shows_some_of_each_row(m, &masked))) {
        return Err("what is masked would not swallow what it is added to".into());
    }
    let added = added(m, &masked)?;
    Ok(vec![m.op("Add", &[x, added], Attrs::new())?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::stays;

    #[test]
    fn nan_may_be_hidden_unless_promised_otherwise() {
        stays(
            &REWRITE,
            "g (float[4,2,2] x) => (float[4,2,2] y) {
                mask = Constant <value = bool[2,2] {1, 0, 1, 1}> ()
                low = Constant <value_float = -1e38> ()
                s = Where (mask, x, low)
                y = Softmax <axis = -1> (s)
            }",
        );
    }
}
