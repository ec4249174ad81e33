//! Tensors made from numbers, and the numbers in tensors.

use half::{bf16, f16};

use crate::reduced::floats::half_of;
use crate::{DType, DTypeKind, Tensor};

impl Tensor {
    /// Creates a vector of 64-bit integers, the type of shapes and axes in ONNX.
    pub fn i64s(values: &[i64]) -> Self {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Self::owned(DType::I64, &[values.len()], bytes)
    }

    /// Creates a boolean tensor.
    pub fn bools(shape: &[usize], values: &[bool]) -> Self {
        debug_assert_eq!(shape.iter().product::<usize>(), values.len());
        Self::owned(DType::Bool, shape, values.iter().map(|&v| u8::from(v)).collect())
    }

    /// Creates the scalar of `dtype` nearest to `value`. Returns `None` for types without a scalar
    /// encoding here (packed sub-byte types and 8-bit floats) and for integers that do not fit.
    pub fn scalar(dtype: DType, value: f64) -> Option<Self> {
        if dtype.is_integer() {
            #[expect(clippy::cast_possible_truncation, reason = "checked by the comparison")]
            let int = value as i128;
            #[expect(clippy::cast_precision_loss, reason = "only exact values pass")]
            return if int as f64 == value { Self::int_scalar(dtype, int) } else { None };
        }
        #[expect(clippy::cast_possible_truncation, reason = "rounding to the type is the point")]
        let bytes = match dtype {
            DType::Bool => vec![u8::from(value != 0.0)],
            DType::F16 => half_of(value).to_le_bytes().to_vec(),
            DType::BF16 => bf16::from_f64(value).to_le_bytes().to_vec(),
            DType::F32 => (value as f32).to_le_bytes().to_vec(),
            DType::F64 => value.to_le_bytes().to_vec(),
            _ => return None,
        };
        Some(Self::owned(dtype, &[], bytes))
    }

    /// Creates an integer scalar. Returns `None` if `value` does not fit `dtype`.
    pub fn int_scalar(dtype: DType, value: i128) -> Option<Self> {
        let width = match dtype.kind() {
            DTypeKind::Signed | DTypeKind::Unsigned if dtype.bits() >= 8 => dtype.bits(),
            _ => return None,
        };
        let (low, high) = dtype.int_range()?;
        if value < low || value > high {
            return None;
        }
        let bytes = value.to_le_bytes()[..width as usize / 8].to_vec();
        Some(Self::owned(dtype, &[], bytes))
    }

    /// Creates a complex scalar of double precision.
    pub fn complex_scalar(re: f64, im: f64) -> Self {
        let bytes = [re, im].into_iter().flat_map(f64::to_le_bytes).collect();
        Self::owned(DType::C128, &[], bytes)
    }

    /// Returns the elements as integers, for integer and boolean types of at least one byte.
    pub fn to_ints(&self) -> Option<Vec<i128>> {
        let width = match self.dtype().kind() {
            DTypeKind::Bool | DTypeKind::Signed | DTypeKind::Unsigned
                if self.dtype().bits() >= 8 =>
            {
                self.dtype().bits() as usize / 8
            }
            _ => return None,
        };
        let signed = self.dtype().kind() == DTypeKind::Signed;
        let decode = |chunk: &[u8]| {
            let negative = signed && chunk.last().is_some_and(|b| b & 0x80 != 0);
            let mut wide = [if negative { 0xff } else { 0 }; 16];
            wide[..width].copy_from_slice(chunk);
            i128::from_le_bytes(wide)
        };
        Some(self.bytes()?.chunks_exact(width).map(decode).collect())
    }

    /// Returns the elements as `i64`, for integer types whose values all fit.
    pub fn to_i64s(&self) -> Option<Vec<i64>> {
        self.to_ints()?.into_iter().map(|v| i64::try_from(v).ok()).collect()
    }

    /// Returns the elements widened to `f64`, for real floating-point types of at least 16 bits.
    pub fn to_f64s(&self) -> Option<Vec<f64>> {
        let bytes = self.bytes()?;
        fn each<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes.as_chunks::<N>().0.iter().map(|c| f(*c)).collect()
        }
        let bytes = &*bytes;
        Some(match self.dtype() {
            DType::F16 => each(bytes, |c| f16::from_le_bytes(c).to_f64()),
            DType::BF16 => each(bytes, |c| bf16::from_le_bytes(c).to_f64()),
            DType::F32 => each(bytes, |c| f64::from(f32::from_le_bytes(c))),
            DType::F64 => each(bytes, f64::from_le_bytes),
            _ => return None,
        })
    }

    /// Returns the common value, if all elements are equal.
    pub fn splat(&self) -> Option<f64> {
        let width = (self.dtype().bits() as usize).div_ceil(8);
        let bytes = self.bytes()?;
        let first = bytes.get(..width)?;
        if self.dtype().bits() < 8 || !bytes.chunks_exact(width).all(|c| c == first) {
            return None;
        }
        let one = Self::owned(self.dtype(), &[], first.to_vec());
        #[expect(clippy::cast_precision_loss, reason = "callers compare with small numbers")]
        let int = |v: &i128| *v as f64;
        one.to_f64s()
            .and_then(|v| v.first().copied())
            .or_else(|| one.to_ints().and_then(|v| v.first().map(int)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_round_trip() {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            assert_eq!(Tensor::scalar(dtype, -1.5).unwrap().to_f64s().unwrap(), [-1.5]);
        }
        let above_the_middle = Tensor::scalar(DType::F16, 2049.0 + 1.0 / 1024.0).unwrap();
        assert_eq!(above_the_middle.to_f64s().unwrap(), [2050.0]);
        assert_eq!(Tensor::scalar(DType::I8, -3.0).unwrap().to_ints().unwrap(), [-3]);
        assert_eq!(Tensor::scalar(DType::I8, 300.0), None);
        assert_eq!(Tensor::scalar(DType::I8, 0.5), None);
        let max = i128::from(u64::MAX);
        assert_eq!(Tensor::int_scalar(DType::U64, max).unwrap().to_ints().unwrap(), [max]);
    }

    #[test]
    fn splats_are_detected() {
        assert_eq!(Tensor::i64s(&[4, 4]).splat(), Some(4.0));
        assert_eq!(Tensor::i64s(&[4, 5]).splat(), None);
        assert_eq!(Tensor::i64s(&[]).splat(), None);
    }

    #[test]
    fn packed_integers_have_no_scalars() {
        for dtype in [DType::I2, DType::I4, DType::U2, DType::U4] {
            assert_eq!(Tensor::int_scalar(dtype, 1), None, "{dtype}");
            assert_eq!(Tensor::owned(dtype, &[2], vec![0x11]).to_ints(), None, "{dtype}");
        }
    }
}
