//! The windows of convolutions and pooling, one strided slice per position in the kernel.

use onnx::{Attrs, Builder, Node, Result, ValueId};
use tensor::Dim;

use super::{Lack, operand};

/// The spatial attributes of a convolution or a pooling operator.
pub(super) struct Windows {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// The padding at the starts, then at the ends.
    pads: Vec<i64>,
}

impl Windows {
    /// Reads the attributes of `node`, whose kernel has the given sizes.
    pub(super) fn new(node: &Node, kernel: Vec<i64>) -> std::result::Result<Self, Lack> {
        let rank = kernel.len();
        let none = match node.string("auto_pad", "NOTSET") {
            "NOTSET" => false,
            "VALID" => true,
            _ => return Err(Lack::Because("its padding is not explicit")),
        };
        if node.int("ceil_mode", 0) != 0 {
            return Err(Lack::Because("its last windows reach beyond the padding"));
        }
        Ok(Self {
            strides: list(node, "strides", 1, rank),
            dilations: list(node, "dilations", 1, rank),
            pads: if none { vec![0; 2 * rank] } else { list(node, "pads", 0, 2 * rank) },
            kernel,
        })
    }

    /// Returns `true` if a window can reach into the padding.
    pub(super) fn is_padded(&self) -> bool {
        self.pads.iter().any(|pad| *pad != 0)
    }

    /// Pads `x` with zeros. Its first two axes are not spatial.
    #[track_caller]
    pub(super) fn pad(&self, b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
        if !self.is_padded() {
            return Ok(x);
        }
        let (starts, ends) = self.pads.split_at(self.kernel.len());
        let pads = [&[0, 0], starts, &[0, 0], ends].concat();
        let pads = b.i64s(&pads);
        b.op("Pad", &[x, pads], Attrs::new())
    }

    /// Returns one slice of the padded `x` per position in the kernel. The last axis varies
    /// fastest.
    #[track_caller]
    pub(super) fn slices(&self, b: &mut Builder<'_>, x: ValueId) -> Result<Vec<ValueId>> {
        let axes: Vec<i64> = (2..2 + self.kernel.len() as i64).collect();
        let [axes, steps] = [&axes, &self.strides].map(|list| b.i64s(list));
        let mut slices = Vec::new();
        for number in 0..self.len() {
            let (starts, ends) = self.range(number as i64);
            let [starts, ends] = [starts, ends].map(|list| b.i64s(&list));
            slices.push(b.op("Slice", &[x, starts, ends, axes, steps], Attrs::new())?);
        }
        Ok(slices)
    }

    /// Returns the starts and ends of the slice for a position in the kernel. Ends count from the
    /// end of the axis, whose size need not be known.
    fn range(&self, number: i64) -> (Vec<i64>, Vec<i64>) {
        let mut rest = number;
        let mut starts = vec![0; self.kernel.len()];
        let mut ends = starts.clone();
        for axis in (0..self.kernel.len()).rev() {
            let (size, dilation) = (self.kernel[axis], self.dilations[axis]);
            let at = rest % size;
            rest /= size;
            starts[axis] = at * dilation;
            let left = (size - 1 - at) * dilation;
            ends[axis] = if left == 0 { i64::MAX } else { -left };
        }
        (starts, ends)
    }

    /// Returns the number of positions in a kernel.
    pub(super) fn len(&self) -> usize {
        self.kernel.iter().map(|n| usize::try_from(*n).unwrap_or(0)).product()
    }
}

/// Returns an attribute with `len` integers, which are all `default` if it is missing.
pub(super) fn list(node: &Node, name: &str, default: i64, len: usize) -> Vec<i64> {
    node.ints(name).map_or_else(|| vec![default; len], <[i64]>::to_vec)
}

/// Returns the first two sizes of a kernel. Fails unless they are known.
pub(super) fn channels(b: &Builder<'_>, w: ValueId) -> std::result::Result<[i64; 2], Lack> {
    match *b.shape(w) {
        [Dim::Known(first), Dim::Known(second), ..] => Ok([first, second]),
        _ => Err(Lack::Because("its channels are not known")),
    }
}

/// Returns the spatial sizes of the operand at `index`. Fails unless they are known.
pub(super) fn spatial(
    b: &Builder<'_>,
    node: &Node,
    index: usize,
) -> std::result::Result<Vec<i64>, Lack> {
    let sizes = b.shape(operand(node, index)?).iter().skip(2).map(Dim::as_known);
    sizes.collect::<Option<_>>().ok_or(Lack::Because("the size of its kernel is not known"))
}
