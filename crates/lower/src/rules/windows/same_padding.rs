//! JAX's padding `SAME`, ONNX's `SAME_UPPER`, for symbolic sizes.

use tensor::bounds::{ceil_div, non_negative, same};
use tensor::{DType, Dim, DimOp};

/// An axis that a window moves along.
pub(crate) struct Padded<'a> {
    pub(crate) size: &'a Dim,
    pub(crate) window: &'a Dim,
    pub(crate) stride: i64,
    pub(crate) low: &'a Dim,
    pub(crate) high: &'a Dim,
}

impl Padded<'_> {
    /// Returns `true` if the number of window positions is the size divided by the stride, rounded
    /// up, and the larger half of the padding comes last.
    fn is_same_upper(&self) -> bool {
        // A quotient that is rounded up has two spellings, which are not always provably equal.
        let down = Dim::op(DimOp::FloorDiv, &-self.size.clone(), &Dim::Known(self.stride));
        [ceil_div(self.size.clone(), self.stride), -down].into_iter().any(|places| {
            let reach = (places - Dim::Known(1)) * Dim::Known(self.stride) + self.window.clone();
            let total = non_negative(&(reach - self.size.clone()));
            let before = Dim::op(DimOp::FloorDiv, &total, &Dim::Known(2));
            same(self.low, &before) && same(self.high, &(total - before))
        })
    }

    fn is_known(&self) -> bool {
        self.low.as_known().is_some() && self.high.as_known().is_some()
    }
}

/// Returns `true` if the padding depends on symbolic sizes in the one way that operators on `dtype`
/// compute themselves. Operators on other types are later replaced by slices, which need numbers.
pub(crate) fn is_padded_by_operator(dtype: DType, axes: &[Padded<'_>]) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
        && !axes.iter().all(Padded::is_known)
        && axes.iter().all(Padded::is_same_upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the padding for `SAME` with JAX's own formula.
    fn padding(size: &Dim, window: i64, stride: i64) -> (Dim, Dim) {
        let two = Dim::Known(2);
        let negative =
            Dim::op(DimOp::FloorDiv, &(Dim::Known(0) - size.clone()), &Dim::Known(stride));
        let places = Dim::Known(0) - negative;
        let total =
            (places - Dim::Known(1)) * Dim::Known(stride) + Dim::Known(window) - size.clone();
        let total = non_negative(&total);
        let low = Dim::op(DimOp::FloorDiv, &total, &two);
        (low.clone(), total - low)
    }

    #[test]
    fn padding_of_jax_is_recognised() {
        let size = Dim::var("h");
        for (window, stride) in [(3, 2), (7, 2), (2, 2), (1, 2), (5, 3), (3, 1)] {
            let (low, high) = padding(&size, window, stride);
            let window = Dim::Known(window);
            let axis = Padded { size: &size, window: &window, stride, low: &low, high: &high };
            assert!(axis.is_same_upper(), "{window} {stride}");
            let more = high.clone() + Dim::Known(1);
            assert!(!Padded { high: &more, ..axis }.is_same_upper());
        }
    }
}
