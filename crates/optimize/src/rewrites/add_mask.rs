//! `Softmax(Where(mask, x, c))` → `Softmax(x + Where(mask, 0, c))` if no NaN and no infinity is hidden: the user
//! promises it, or what is hidden is bounded. onnxruntime's `Where` computes on one thread, its `Add` on all.
//!
//! A row that is hidden altogether has equal elements in JAX. So what is added either swallows every number, or
//! every row shows something, beside which the rest of it comes to nothing.

use onnx::{Assumption, Attrs, ValueId};
use tensor::DType;

use super::masked::{Masked, added, shows_some_of_each_row, softmax};
use super::masked_scores::Scores;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite { name: "add_mask", roots: &["Where"], try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let masked = Masked::at(m)?;
    let Masked { x, fill, .. } = masked;
    let softmax = softmax(m)?;
    let dtype = m.ty(x).dtype;
    let largest = if m.graph().assumptions.contains(Assumption::NoNan) {
        promised(fill, dtype)
    } else {
        let is_settled = !m.forms().narrows;
        let scores = is_settled.then(|| Scores::of(m.graph(), x, softmax)).flatten();
        let scores = scores.ok_or("NaN may be hidden")?;
        if scores.needs_shown && !shows_some_of_each_row(m, &masked) {
            return Err("NaN may be hidden in a row that shows nothing".into());
        }
        scores.largest
    };
    let last = m.ty(x).shape.len() as i64 - 1;
    let is_last = matches!(softmax.int("axis", -1), axis if axis == -1 || axis == last);
    let vanishes = softmax.is("Softmax") && is_last && fill + 2.0 * largest < -vanishing(dtype);
    if !(swallows(fill, largest, dtype) || (vanishes && shows_some_of_each_row(m, &masked))) {
        return Err("what is masked would not swallow what it is added to".into());
    }
    let added = added(m, &masked)?;
    Ok(vec![m.op("Add", &[x, added], Attrs::new())?])
}

/// How large scores are that nobody computes: up to a quarter of what stands for those that are hidden, or up to
/// what the type of the scores can tell from it.
fn promised(fill: f64, dtype: DType) -> f64 {
    let has_range = matches!(dtype, DType::F32 | DType::F64 | DType::BF16);
    match fill {
        ..=-1e36 if has_range => 1e28,
        ..=-1e4 => fill.abs() / 4.0,
        _ => f64::INFINITY,
    }
}

/// Whether a number stays what it is if anything up to `largest` is added to it.
fn swallows(number: f64, largest: f64, dtype: DType) -> bool {
    let Some((_, mantissa)) = dtype.float_fields() else { return false };
    number == f64::NEG_INFINITY || largest < number.abs() * (-f64::from(mantissa) - 2.0).exp2()
}

/// The exponential of what is smaller by this is zero.
fn vanishing(dtype: DType) -> f64 {
    if dtype == DType::F64 { 800.0 } else { 200.0 }
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
