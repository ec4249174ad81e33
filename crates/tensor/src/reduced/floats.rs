//! Conversion between floats of all widths, as bytes.

use half::{bf16, f16};

use crate::DType;

/// Returns `true` for the float types that can be converted here.
pub(super) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
}

/// Appends the elements in `bytes` as another float type: rounded to nearest, ties to even, and
/// infinite if they are too large.
pub(super) fn convert(from: DType, to: DType, bytes: &[u8], out: &mut Vec<u8>) {
    fn each<const N: usize, const M: usize>(
        bytes: &[u8],
        out: &mut Vec<u8>,
        of: impl Fn([u8; N]) -> [u8; M],
    ) {
        let (elements, _) = bytes.as_chunks::<N>();
        out.reserve(elements.len() * M);
        elements.iter().for_each(|element| out.extend_from_slice(&of(*element)));
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounding is what a cast does")]
    match (from, to) {
        _ if from == to => out.extend_from_slice(bytes),
        (DType::F64, DType::F16) => {
            each(bytes, out, |c| half_of(f64::from_le_bytes(c)).to_le_bytes());
        }
        // XLA converts by way of 32 bits.
        (DType::F64, DType::BF16) => {
            each(bytes, out, |c| bf16::from_f32(f64::from_le_bytes(c) as f32).to_le_bytes());
        }
        (DType::F64, _) => each(bytes, out, |c| (f64::from_le_bytes(c) as f32).to_le_bytes()),
        (DType::F32, DType::F16) => {
            each(bytes, out, |c| f16::from_f32(f32::from_le_bytes(c)).to_le_bytes());
        }
        (DType::F32, DType::BF16) => {
            each(bytes, out, |c| bf16::from_f32(f32::from_le_bytes(c)).to_le_bytes());
        }
        _ => {
            let mut floats = Vec::new();
            decode(from, bytes, &mut floats);
            for value in floats {
                match to {
                    DType::F64 => out.extend_from_slice(&f64::from(value).to_le_bytes()),
                    _ => {
                        encode(to, value, out);
                    }
                }
            }
        }
    }
}

/// Rounds a number to 16 bits in one step. Processors round to 32 bits first, which may turn a
/// number that is nearly halfway into a tie. Setting the last bit if anything was cut off prevents
/// that.
pub(crate) fn half_of(value: f64) -> f16 {
    #[expect(clippy::cast_possible_truncation, reason = "the last bit records what is cut off")]
    let near = value as f32;
    if !near.is_finite() || f64::from(near) == value {
        return f16::from_f32(near);
    }
    let is_beyond = f64::from(near).abs() > value.abs();
    f16::from_f32(f32::from_bits((near.to_bits() - u32::from(is_beyond)) | 1))
}

/// Appends a number as `dtype`, and returns the rounded value.
pub(super) fn encode(dtype: DType, value: f32, out: &mut Vec<u8>) -> f32 {
    match dtype {
        DType::F16 => {
            let half = f16::from_f32(value);
            out.extend_from_slice(&half.to_le_bytes());
            half.to_f32()
        }
        DType::BF16 => {
            let half = bf16::from_f32(value);
            out.extend_from_slice(&half.to_le_bytes());
            half.to_f32()
        }
        _ => {
            out.extend_from_slice(&value.to_le_bytes());
            value
        }
    }
}

/// Replaces `floats` with the elements in `bytes`.
pub(super) fn decode(dtype: DType, bytes: &[u8], floats: &mut Vec<f32>) {
    fn each<const N: usize>(bytes: &[u8], floats: &mut Vec<f32>, of: impl Fn([u8; N]) -> f32) {
        floats.extend(bytes.as_chunks().0.iter().map(|element| of(*element)));
    }
    let bits = |c| f32::from_bits(u32::from(u16::from_le_bytes(c)) << 16);
    floats.clear();
    #[expect(clippy::cast_possible_truncation, reason = "they are rounded further anyway")]
    match dtype {
        DType::F16 => each(bytes, floats, |c| f16::from_le_bytes(c).to_f32()),
        DType::BF16 => each(bytes, floats, bits),
        DType::F64 => each(bytes, floats, |c| f64::from_le_bytes(c) as f32),
        _ => each(bytes, floats, f32::from_le_bytes),
    }
}
