//! Converts the elements of tensors to and from text.

use std::fmt::Write as _;
use std::sync::Arc;

use tensor::{DType, DTypeKind, Tensor};
use tokens::{Read, fail};

use super::lexer::Token;

/// A number as written in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number<'a> {
    pub(super) at: usize,
    pub(super) text: &'a str,
    /// `true` if it is written as a float: with a point, with an exponent, or as `inf` or `nan`.
    pub(super) float: bool,
}

impl<'a> Number<'a> {
    pub(super) fn new(at: usize, token: &Token<'a>) -> Option<Self> {
        match token {
            Token::Int(text) => Some(Self { at, text, float: false }),
            Token::Float(text) => Some(Self { at, text, float: true }),
            _ => None,
        }
    }

    pub(super) fn int(&self) -> Read<i64> {
        self.parse("64-bit integer")
    }

    /// Parses the number as `f32`, rounding once.
    pub(super) fn f32(&self) -> Read<f32> {
        self.parse("number")
    }

    fn parse<T: std::str::FromStr>(&self, what: &str) -> Read<T> {
        self.text.parse().or_else(|_| fail(self.at, format!("`{}` is not a {what}", self.text)))
    }

    /// Appends the number as an element of `dtype`.
    fn encode(&self, dtype: DType, bytes: &mut Vec<u8>) -> Read<()> {
        match dtype {
            DType::F32 | DType::C64 => bytes.extend(self.f32()?.to_le_bytes()),
            DType::F64 | DType::C128 => bytes.extend(self.parse::<f64>("number")?.to_le_bytes()),
            DType::F16 | DType::BF16 if self.float => {
                let scalar = Tensor::scalar(dtype, self.parse("number")?);
                bytes.extend_from_slice(
                    &scalar.as_ref().and_then(Tensor::bytes).unwrap_or_default(),
                );
            }
            DType::F16 | DType::BF16 => {
                bytes.extend(self.parse::<u16>("16-bit pattern")?.to_le_bytes());
            }
            DType::Bool => match self.text {
                "0" | "1" => bytes.push(u8::from(self.text == "1")),
                _ => return fail(self.at, "a bool must be 0 or 1"),
            },
            _ if dtype.is_listed_as_bits() => bytes.push(self.parse("byte")?),
            _ => {
                let value: i128 = self.parse("integer")?;
                let Some(scalar) = Tensor::int_scalar(dtype, value) else {
                    return fail(self.at, format!("{value} is out of range for {dtype}"));
                };
                bytes.extend_from_slice(&scalar.bytes().unwrap_or_default());
            }
        }
        Ok(())
    }
}

/// Returns the tensor with the elements `numbers`.
pub(super) fn tensor(
    at: usize,
    dtype: DType,
    shape: &[usize],
    numbers: &[Number<'_>],
) -> Read<Tensor> {
    let mut bytes = Vec::with_capacity(numbers.len() * 8);
    for number in numbers {
        number.encode(dtype, &mut bytes)?;
    }
    Tensor::new(dtype, shape, Arc::new(bytes)).or_else(|error| fail(at, error.to_string()))
}

/// Appends the elements of `tensor`, separated by commas.
pub fn write_elements(tensor: &Tensor, out: &mut String) {
    let mut separator = "";
    let mut put = |text: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = out.write_fmt(format_args!("{separator}{text}"));
        separator = ", ";
    };
    let bytes = tensor.bytes().unwrap_or_default();
    match tensor.dtype() {
        dtype if dtype.is_listed_as_bits() => bytes.iter().for_each(|b| put(format_args!("{b}"))),
        DType::F32 | DType::C64 => {
            let floats = bytes.as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c));
            floats.for_each(|v| put(format_args!("{}", float(v))));
        }
        DType::F64 | DType::C128 => {
            let floats = bytes.as_chunks::<8>().0.iter().map(|c| f64::from_le_bytes(*c));
            floats.for_each(|v| put(format_args!("{}", float(v))));
        }
        dtype if dtype.kind() == DTypeKind::Float => {
            let floats = tensor.to_f64s().unwrap_or_default();
            floats.into_iter().for_each(|v| put(format_args!("{}", float(v))));
        }
        _ => {
            let ints = tensor.to_ints().unwrap_or_default();
            ints.into_iter().for_each(|v| put(format_args!("{v}")));
        }
    }
}

/// Returns the shortest text of a float, with a point or an exponent, that parses to the same
/// float.
pub fn float(value: impl std::fmt::Debug) -> String {
    // Rust writes `NaN`, but ONNX's own printer uses lower case.
    format!("{value:?}").to_lowercase()
}
