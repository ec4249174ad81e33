//! Conversion of array elements to and from text, bit for bit.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tensor::{DType, Tensor, Type};

use tokens::{Read, fail};

/// Returns the number of bytes of one unit: an element, the real or imaginary part of a complex
/// number, or one byte of packed elements.
fn width(dtype: DType) -> usize {
    (dtype.component().bits() as usize).div_ceil(8)
}

/// Encodes a number as the bytes of a `dtype`. Returns a message if the text is not such a number.
pub(super) fn encode(dtype: DType, text: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("`{text}` is not a number of type {dtype}");
    let width = width(dtype);
    if let Some(bits) = text.strip_prefix("0x") {
        let value = u64::from_str_radix(bits, 16).map_err(|_| wrong())?.to_le_bytes();
        let fits = value[width..].iter().all(|byte| *byte == 0);
        return if fits { Ok(value[..width].to_vec()) } else { Err(wrong()) };
    }
    match dtype.component() {
        DType::F32 => Ok(text.parse::<f32>().map_err(|_| wrong())?.to_le_bytes().to_vec()),
        DType::Bool => match text {
            "True" => Ok(vec![1]),
            "False" => Ok(vec![0]),
            _ => Err(format!("a bool is True or False, not `{text}`")),
        },
        dtype if dtype.is_listed_as_bits() => {
            Err(format!("elements of type {dtype} are written as 0x…"))
        }
        dtype => {
            let scalar = if dtype.is_float() {
                let value = text.parse::<f64>().map_err(|_| wrong())?;
                Tensor::scalar(dtype, value).ok_or_else(wrong)?
            } else {
                let value = text.parse::<i128>().map_err(|_| wrong())?;
                let scalar = Tensor::int_scalar(dtype, value);
                scalar.ok_or_else(|| format!("{value} is out of range for {dtype}"))?
            };
            scalar.bytes().map(Cow::into_owned).ok_or_else(wrong)
        }
    }
}

/// Formats one element or one part of it, so that it can be read back.
fn decode(dtype: DType, bytes: &[u8]) -> String {
    let one = Tensor::new(dtype.component(), &[], Arc::new(bytes.to_vec())).ok();
    let text = match dtype.component() {
        DType::Bool => match bytes {
            [0] => "False".to_owned(),
            _ => "True".to_owned(),
        },
        DType::F32 => {
            let bytes = bytes.first_chunk::<4>().copied().unwrap_or_default();
            float(f32::from_le_bytes(bytes))
        }
        dtype if dtype.is_listed_as_bits() => String::new(),
        dtype if dtype.is_float() => {
            let value = one.and_then(|one| one.to_f64s()).unwrap_or_default();
            value.first().map(float).unwrap_or_default()
        }
        _ => {
            let value = one.and_then(|one| one.to_ints()).unwrap_or_default();
            value.first().map(ToString::to_string).unwrap_or_default()
        }
    };
    // Decimal text loses some bits, such as those of a NaN. In that case, the bits are written
    // instead.
    if encode(dtype, &text).is_ok_and(|again| again == bytes) {
        return text;
    }
    bytes.iter().rev().fold("0x".to_owned(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Formats a float with a decimal point or an exponent, as short as possible without losing bits.
pub(super) fn float(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").replace("NaN", "nan")
}

/// Formats all elements, such as `{1.0, 2.0}`.
pub(super) fn elements(tensor: &Tensor) -> String {
    let bytes = tensor.bytes().unwrap_or_default();
    let parts = bytes.chunks(width(tensor.dtype()));
    let texts: Vec<String> = parts.map(|bytes| decode(tensor.dtype(), bytes)).collect();
    format!("{{{}}}", texts.join(", "))
}

/// Formats the only element of a real scalar.
pub(super) fn scalar(tensor: &Tensor) -> Option<String> {
    let dtype = tensor.dtype();
    let one = tensor.shape().is_empty() && !dtype.is_complex() && dtype.bits() >= 8;
    Some(decode(dtype, &tensor.bytes().filter(|_| one)?))
}

/// Encodes all bytes, if they are known.
pub(super) fn base64(tensor: &Tensor) -> Option<String> {
    Some(BASE64.encode(tensor.bytes()?))
}

/// Creates an array of type `ty` from its bytes.
pub(super) fn from_bytes(at: usize, ty: &Type, bytes: Vec<u8>) -> Read<Tensor> {
    let tensor = Tensor::new(ty.dtype, &shape(at, ty)?, Arc::new(bytes));
    tensor.or_else(|error| fail(at, error.to_string()))
}

/// Creates an array of type `ty` from the base64 encoding of its bytes.
pub(super) fn from_base64(at: usize, ty: &Type, text: &str) -> Read<Tensor> {
    match BASE64.decode(text) {
        Ok(bytes) => from_bytes(at, ty, bytes),
        Err(error) => fail(at, format!("this is not base64: {error}")),
    }
}

/// Creates a placeholder for an array whose values are unknown, the `number`th of them. Its size is
/// subtracted from `left`, the number of bytes that placeholders may still use.
pub(super) fn stand_in(at: usize, ty: &Type, number: usize, left: &mut usize) -> Read<Tensor> {
    let shape = shape(at, ty)?;
    let count = shape.iter().try_fold(1usize, |count, size| count.checked_mul(*size));
    let bits = count.and_then(|count| count.checked_mul(ty.dtype.bits() as usize));
    let Some(length) = bits.map(|bits| bits.div_ceil(8)).filter(|length| length <= left) else {
        return fail(at, format!("an array of type {ty} exceeds the memory limit for arrays"));
    };
    *left -= length;
    let mut bytes = vec![0; length];
    #[expect(clippy::cast_precision_loss, reason = "any two numbers will do")]
    let value = 1.0 / (number + 2) as f64;
    let first = Tensor::scalar(ty.dtype.component(), value).filter(|_| !ty.dtype.is_integer());
    if let (Some(first), Some(target)) =
        (first.filter(|first| first.dtype() != DType::Bool), bytes.get_mut(..width(ty.dtype)))
    {
        target.copy_from_slice(&first.bytes().unwrap_or_default());
    }
    from_bytes(at, ty, bytes)
}

/// Returns the sizes of a type without symbolic dimensions.
pub(super) fn shape(at: usize, ty: &Type) -> Read<Vec<usize>> {
    let sizes = ty.shape.iter().map(|dim| dim.as_known().and_then(|size| size.try_into().ok()));
    match sizes.collect() {
        Some(shape) => Ok(shape),
        None => fail(at, format!("an array has a fixed shape, not {ty}")),
    }
}
