//! `Cast` with the semantics of JAX. Integers wrap around, and floats are rounded to the nearest.
//! Floats that do not fit into an integer type are refused.

use tensor::{DType, DTypeKind, Tensor};

use super::numbers::Numbers;
use super::{NOT_COMPUTED, Operation, Reason, UNKNOWN};

pub(crate) fn cast(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let to = operation.dtype;
    if let Ok(cast) = source.cast(to) {
        return operation.result(cast.bytes().ok_or(UNKNOWN)?.into_owned());
    }
    let result = match (Numbers::new(source)?, to.kind()) {
        (Numbers::Ints(values), DTypeKind::Bool) => {
            Numbers::Ints(values.into_iter().map(|v| i128::from(v != 0)).collect())
        }
        (Numbers::Floats(values), DTypeKind::Bool) => {
            Numbers::Ints(values.into_iter().map(|v| i128::from(v != 0.0)).collect())
        }
        (Numbers::Ints(values), DTypeKind::Signed | DTypeKind::Unsigned) => {
            Numbers::Ints(values.into_iter().map(|v| wrapped(v, to)).collect())
        }
        (Numbers::Floats(values), DTypeKind::Signed | DTypeKind::Unsigned) => {
            Numbers::Ints(values.into_iter().map(truncated).collect::<Result<_, _>>()?)
        }
        (Numbers::Ints(values), DTypeKind::Float) => {
            #[expect(clippy::cast_precision_loss, reason = "a cast rounds")]
            let value = |v: i128| match to {
                // Round once, directly to `f32` rather than through `f64`.
                DType::F32 => f64::from(v as f32),
                _ => v as f64,
            };
            let values: Vec<f64> = values.into_iter().map(value).collect();
            Numbers::Floats(narrow(values, to)?)
        }
        (Numbers::Floats(_), DTypeKind::Float) | (_, DTypeKind::Complex) => {
            return Err(NOT_COMPUTED);
        }
    };
    result.into_tensor(operation)
}

/// Returns the low bits of an integer, interpreted in the type `to`.
pub(super) fn wrapped(value: i128, to: DType) -> i128 {
    let unused = 128 - to.bits();
    let high = value << unused;
    if to.kind() == DTypeKind::Signed {
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

/// Fails if a cast of integers to a 16-bit float may depend on the runtime. Runtimes may convert
/// through `f32`, so every integer must be exact in `f32`. For bfloat16, some round and some
/// truncate, so every integer must be exact in bfloat16.
fn narrow(values: Vec<f64>, to: DType) -> Result<Vec<f64>, Reason> {
    #[expect(clippy::cast_possible_truncation, reason = "the loss is measured")]
    let survives = |v: &f64| match to {
        DType::F16 => f64::from(*v as f32) == *v,
        DType::BF16 => (*v as f32).to_bits() & 0xffff == 0 && f64::from(*v as f32) == *v,
        _ => true,
    };
    if values.iter().all(survives) { Ok(values) } else { Err("a float is rounded twice") }
}
