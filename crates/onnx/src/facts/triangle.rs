//! Triangles: boolean matrices that hold on one side of a diagonal, as a causal mask does.

use tensor::{Dim, Tensor};

use super::{Comparison, Facts, Progression};
use crate::ValueId;

/// A mask along the last two axes that holds on one side of a diagonal, and on the diagonal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangle {
    /// `true` if the mask holds on the right of the diagonal, `false` if on the left.
    pub upper: bool,
    /// The distance of the diagonal from the main one, to the right.
    pub k: i64,
}

impl Triangle {
    /// Returns the triangle of the negated mask.
    #[must_use]
    pub fn complement(self) -> Self {
        match self.upper {
            true => Self { upper: false, k: self.k - 1 },
            false => Self { upper: true, k: self.k + 1 },
        }
    }

    fn has(self, row: usize, column: usize) -> bool {
        let distance = column as i64 - row as i64;
        if self.upper { distance >= self.k } else { distance <= self.k }
    }
}

impl Facts<'_> {
    /// Returns the triangle that `mask` is for every matrix of the shape `[…, rows, columns]`.
    pub fn triangle(&self, mask: ValueId, matrices: &[Dim]) -> Option<Triangle> {
        let shape = self.shape(mask);
        let (lead, matrix) = shape.split_at_checked(shape.len().checked_sub(2)?)?;
        let is_one = |dim: &Dim| *dim == Dim::Known(1);
        if !matrices.ends_with(matrix) || !lead.iter().all(is_one) {
            return None;
        }
        if let Some(tensor) = self.stored(mask) {
            return stored(tensor);
        }
        let node = self.node(mask)?;
        if node.is("Not") {
            return self.triangle(node.input(0)?, matrices).map(Triangle::complement);
        }
        let counted = |value| {
            let numbers = self.progression(value)?.with_rank(shape.len())?;
            let Progression { first, steps } = numbers;
            let mut moving = (0..).zip(steps.iter().rev()).filter(|(_, step)| **step != 0);
            let (Some((axis, 1)), None) = (moving.next(), moving.next()) else { return None };
            Some((axis, first))
        };
        let Comparison { low, high, strict } = Comparison::of(node)?.try_map(counted)?;
        // `column + k` is compared with `row`, or the other way round.
        let (lower, k) = match (low, high) {
            ((0, columns), (1, rows)) => (true, rows - columns),
            ((1, rows), (0, columns)) => (false, rows - columns),
            _ => return None,
        };
        let k = k.as_known()?;
        let by = i64::from(strict);
        Some(Triangle { upper: !lower, k: if lower { k - by } else { k + by } })
    }
}

/// Returns the triangle that a constant is, if it is neither empty nor everything.
fn stored(mask: &Tensor) -> Option<Triangle> {
    let columns = *mask.shape().last()?;
    let bytes = mask.bytes().filter(|bytes| columns > 0 && !bytes.is_empty())?;
    let rows = || bytes.chunks(columns).enumerate();
    // The first row that has both values determines the diagonal.
    let (row, both) = rows().find(|(_, row)| row.contains(&0) && row.contains(&1))?;
    let upper = both[0] == 0;
    let change = both.iter().position(|truth| (*truth != 0) == upper)?;
    let first = if upper { change } else { change - 1 };
    let triangle = Triangle { upper, k: first as i64 - row as i64 };
    let agrees = |(i, row): (usize, &[u8])| {
        row.iter().enumerate().all(|(j, truth)| (*truth != 0) == triangle.has(i, j))
    };
    rows().all(agrees).then_some(triangle)
}
