//! Checks if a small float can represent a constant without changing its meaning.

use std::ops::RangeInclusive;

use tensor::{DType, Tensor};

/// Returns `true` if every finite number of a constant stays finite, and no non-zero number becomes
/// zero or subnormal. Infinities are preserved. Contents that have not been read yet belong to
/// parameters, which are checked when they are written.
pub(super) fn fits(tensor: &Tensor, dtype: DType) -> bool {
    are_within(tensor, limits(dtype))
}

/// Returns `true` if every finite number of a constant stays finite.
pub(super) fn is_finite(tensor: &Tensor, dtype: DType) -> bool {
    are_within(tensor, 0.0..=*limits(dtype).end())
}

/// Returns `true` if the magnitudes of all finite numbers except zeros are in `range`, or are not known.
fn are_within(tensor: &Tensor, range: RangeInclusive<f32>) -> bool {
    if tensor.dtype() != DType::F32 || !tensor.is_in_memory() {
        return true;
    }
    tensor.bytes().is_none_or(|bytes| {
        bytes.as_chunks::<4>().0.iter().all(|number| {
            let size = f32::from_le_bytes(*number).abs();
            !size.is_finite() || size == 0.0 || range.contains(&size)
        })
    })
}

/// Returns the smallest and the largest normal number.
fn limits(dtype: DType) -> RangeInclusive<f32> {
    match dtype {
        DType::F16 => 6.103_515_6e-5..=65504.0,
        DType::BF16 => f32::MIN_POSITIVE..=3.389_531_4e38,
        _ => 0.0..=f32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(number: f64, dtype: DType) -> bool {
        fits(&Tensor::scalar(DType::F32, number).unwrap(), dtype)
    }

    #[test]
    fn masks_that_would_become_infinite_do_not_fit() {
        for number in [-1e30, f64::from(f32::MIN), 65520.0, 1e-6] {
            assert!(!fit(number, DType::F16), "{number}");
        }
        for number in [f64::NEG_INFINITY, f64::NAN, 0.0, -0.0, 65504.0, -1e4, 1e-4] {
            assert!(fit(number, DType::F16), "{number}");
        }
    }

    #[test]
    fn numbers_below_the_smallest_one_stay_finite() {
        let stays = |number| is_finite(&Tensor::scalar(DType::F32, number).unwrap(), DType::F16);
        assert!([1e-30, 65504.0, -65504.0, f64::INFINITY].into_iter().all(stays));
        assert!(!stays(65520.0) && !stays(-1e30));
        assert!(is_finite(&Tensor::scalar(DType::F64, 1e300).unwrap(), DType::F16));
    }

    #[test]
    fn only_the_largest_floats_do_not_fit_bfloat16() {
        assert!(!fit(f64::from(f32::MIN), DType::BF16));
        assert!(fit(-1e30, DType::BF16));
        assert!(fit(1e-30, DType::BF16));
    }
}
