//! Elements as wide numbers, so that arithmetic on them rounds as in the element type.

use tensor::{DType, DTypeKind, Tensor};

use super::elementwise::broadcast;
use super::{NOT_COMPUTED, Operation, Reason};

/// The elements of a tensor.
#[derive(Clone, Debug)]
pub(super) enum Numbers {
    /// Integers and booleans.
    Ints(Vec<i128>),
    /// Floats. For `+ - * /`, rounding the `f64` result to `f32` gives the result of `f32`
    /// arithmetic, because 53 bits are more than twice 24. Some runtimes compute 16-bit floats in 32
    /// bits, which gives the same result for the same reason.
    Floats(Vec<f64>),
}

/// The largest number of elements that is evaluated. Larger tensors are left to the runtime.
const LIMIT: usize = 1 << 22;

impl Numbers {
    pub(super) fn new(tensor: &Tensor) -> Result<Self, Reason> {
        if tensor.len() > LIMIT {
            return Err("an operand is large");
        }
        let ints = tensor.to_ints().map(Numbers::Ints);
        let numbers = ints.or_else(|| tensor.to_f64s().map(Numbers::Floats));
        numbers.ok_or("the elements are not plain numbers")
    }

    /// Returns the elements of a tensor without NaN.
    pub(super) fn ordered(tensor: &Tensor) -> Result<Self, Reason> {
        match Self::new(tensor)? {
            Numbers::Floats(values) if values.iter().any(|v| v.is_nan()) => {
                Err("an operand is not a number")
            }
            numbers => Ok(numbers),
        }
    }

    /// Returns the elements of the operand at `index`, broadcast to the shape of the result.
    pub(super) fn broadcast(operation: &Operation<'_>, index: usize) -> Result<Self, Reason> {
        Self::new(&broadcast(operation, index)?)
    }

    /// Returns the floats. Fails for integers.
    pub(super) fn floats(self) -> Result<Vec<f64>, Reason> {
        match self {
            Numbers::Floats(values) => Ok(values),
            Numbers::Ints(_) => Err(NOT_COMPUTED),
        }
    }

    /// Returns the result, which consists of these elements. Fails if an integer is out of range or
    /// a float is NaN. Floats are rounded to the nearest.
    pub(super) fn into_tensor(self, operation: &Operation<'_>) -> Result<Tensor, Reason> {
        operation.result(match self {
            Numbers::Ints(values) => ints(operation.dtype, &values)?,
            Numbers::Floats(values) => floats(operation.dtype, &values)?,
        })
    }
}

fn ints(dtype: DType, values: &[i128]) -> Result<Vec<u8>, Reason> {
    let width = dtype.bits() as usize / 8;
    let (low, high) = match (dtype.kind(), dtype.int_range()) {
        (DTypeKind::Bool, _) => (0, 1),
        (_, Some(range)) if width > 0 => range,
        _ => return Err("the elements are not plain numbers"),
    };
    let mut bytes = Vec::with_capacity(values.len() * width);
    for value in values {
        if *value < low || *value > high {
            return Err("a result is out of range");
        }
        bytes.extend_from_slice(&value.to_le_bytes()[..width]);
    }
    Ok(bytes)
}

/// Rounds to the nearest number of a float type.
pub(super) fn rounded(value: f64, dtype: DType) -> Option<f64> {
    Tensor::scalar(dtype, value)?.to_f64s()?.first().copied()
}

fn floats(dtype: DType, values: &[f64]) -> Result<Vec<u8>, Reason> {
    if values.iter().any(|v| v.is_nan()) {
        return Err("a result is not a number");
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounds to the type on purpose")]
    let f32s = values.iter().flat_map(|v| (*v as f32).to_le_bytes());
    match dtype {
        DType::F32 => Ok(f32s.collect()),
        DType::F64 => Ok(values.iter().flat_map(|v| v.to_le_bytes()).collect()),
        DType::F16 | DType::BF16 => {
            let scalars = values.iter().filter_map(|v| Tensor::scalar(dtype, *v));
            Ok(scalars.flat_map(|t| t.bytes().unwrap_or_default().into_owned()).collect())
        }
        _ => Err("the elements are not plain numbers"),
    }
}
