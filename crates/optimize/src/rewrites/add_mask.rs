//! `Softmax(Where(mask, x, c))` → `Softmax(x + Where(mask, 0, c))` if the user promises that no NaN and no infinity is
//! hidden. onnxruntime's `Where` computes on one thread, its `Add` on all.
//!
//! What is masked has to swallow the numbers that it is added to, so that a row that is hidden
//! altogether keeps its equal elements.

use onnx::{Assumption, Attrs, ValueId};
use tensor::DType;

use super::masked::{Masked, added, check_softmax};
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite { name: "add_mask", roots: &["Where"], try_at };

/// Numbers below swallow whatever is smaller than 10²⁸, and nobody computes larger scores.
const SWALLOWS: f64 = -1e36;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    if !m.graph().assumptions.contains(Assumption::NoNan) {
        return Err("NaN may be hidden".into());
    }
    let masked = Masked::at(m)?;
    let Masked { x, fill, .. } = masked;
    let has_range = matches!(m.ty(x).dtype, DType::F32 | DType::F64 | DType::BF16);
    if fill != f64::NEG_INFINITY && !(has_range && fill <= SWALLOWS) {
        return Err("what is masked would not swallow what it is added to".into());
    }
    check_softmax(m)?;
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
