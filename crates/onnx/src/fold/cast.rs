//! `Cast`, as JAX means it: values that the target type can hold, or floats that are rounded to the nearest.

use std::sync::Arc;

use tensor::{DType, Kind, Tensor};

use super::numbers::Numbers;
use super::{Operation, Reason, UNKNOWN};

pub(crate) fn cast(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let to = operation.dtype;
    if let Ok(cast) = source.cast(to) {
        let bytes = cast.bytes().ok_or(UNKNOWN)?.into_owned();
        let tensor = Tensor::new(to, operation.shape, Arc::new(bytes));
        return tensor.map_err(|_| "the result has another size than was inferred");
    }
    let result = match (Numbers::new(source)?, to.kind()) {
        (Numbers::Ints(values), Kind::Bool) => {
            Numbers::Ints(values.into_iter().map(|v| i128::from(v != 0)).collect())
        }
        (Numbers::Floats(values), Kind::Bool) => {
            Numbers::Ints(values.into_iter().map(|v| i128::from(v != 0.0)).collect())
        }
        (Numbers::Ints(values), Kind::Signed | Kind::Unsigned) => {
            Numbers::Ints(values.into_iter().map(|v| wrapped(v, to)).collect())
        }
        (Numbers::Floats(values), Kind::Signed | Kind::Unsigned) => {
            Numbers::Ints(values.into_iter().map(truncated).collect::<Result<_, _>>()?)
        }
        (Numbers::Ints(values), Kind::Float) => {
            #[expect(clippy::cast_precision_loss, reason = "rounding is what a cast does")]
            let value = |v: i128| match to {
                // Rounded once: what `f64` rounds, `f32` must not round again.
                DType::F32 => f64::from(v as f32),
                _ => v as f64,
            };
            let values: Vec<f64> = values.into_iter().map(value).collect();
            Numbers::Floats(narrow(values, to)?)
        }
        (Numbers::Floats(_), Kind::Float) | (_, Kind::Complex) => {
            return Err("the type is not computed with");
        }
    };
    result.into_tensor(to, operation.shape)
}

/// The low bits of an integer, as the type reads them.
pub(super) fn wrapped(value: i128, to: DType) -> i128 {
    let unused = 128 - to.bits();
    let high = value << unused;
    if to.kind() == Kind::Signed {
        high >> unused
    } else {
        (high.cast_unsigned() >> unused).cast_signed()
    }
}

fn truncated(value: f64) -> Result<i128, Reason> {
    if value.is_nan() || value.abs() > 1e30 {
        return Err("a float is out of range");
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    let int = value as i128;
    Ok(int)
}

/// Integers to become 16-bit floats must survive `f32`: runtimes may go through it. To bfloat16, some
/// round and some truncate.
fn narrow(values: Vec<f64>, to: DType) -> Result<Vec<f64>, Reason> {
    #[expect(clippy::cast_possible_truncation, reason = "to see what is lost")]
    let survives = |v: &f64| match to {
        DType::F16 => f64::from(*v as f32) == *v,
        DType::BF16 => (*v as f32).to_bits() & 0xffff == 0 && f64::from(*v as f32) == *v,
        _ => true,
    };
    if values.iter().all(survives) { Ok(values) } else { Err("a float is rounded twice") }
}
