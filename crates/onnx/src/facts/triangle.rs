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
    let bytes = mask.bytes().filter(|bytes| !bytes.is_empty())?;
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

#[cfg(test)]
mod tests {
    use provenance::Origins;

    use super::*;
    use crate::Graph;
    use crate::text::parse;

    fn matrix(rows: usize, columns: usize, holds: impl Fn(i64, i64) -> bool) -> Tensor {
        let at = |i: usize| holds((i / columns) as i64, (i % columns) as i64);
        let truths: Vec<bool> = (0..rows * columns).map(at).collect();
        Tensor::bools(&[rows, columns], &truths)
    }

    #[test]
    fn stored_triangles_hold_on_one_side_of_a_diagonal() {
        for (rows, columns) in [(3, 3), (2, 4), (4, 2)] {
            for k in -4..=4 {
                let upper = matrix(rows, columns, |i, j| j - i >= k);
                let lower = matrix(rows, columns, |i, j| j - i < k);
                // There is no diagonal if everything or nothing holds.
                let bytes = upper.bytes().unwrap();
                let is_cut = bytes.chunks(columns).any(|row| row.contains(&0) && row.contains(&1));
                let expected = is_cut.then_some(Triangle { upper: true, k });
                assert_eq!(stored(&upper), expected, "{rows} {columns} {k}");
                assert_eq!(
                    stored(&lower),
                    expected.map(Triangle::complement),
                    "{rows} {columns} {k}"
                );
                let complement = expected.map(|found| found.complement().complement());
                assert_eq!(complement, expected);
            }
        }
        for other in [Tensor::bools(&[3, 0], &[]), Tensor::bools(&[0, 3], &[])] {
            assert_eq!(stored(&other), None);
        }
        assert_eq!(stored(&matrix(3, 3, |i, j| i == j)), None);
    }

    fn triangle(shape: &str, node: &str) -> Option<Triangle> {
        let text = format!(
            "g (float[4,5] x) => (bool[{shape}] y) {{
                zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
                four = Constant <value_int = 4> () five = Constant <value_int = 5> ()
                axis = Constant <value_ints = [1]> () front = Constant <value_ints = [0]> ()
                batch = Constant <value_ints = [2, 4, 1]> ()
                r = Range (zero, four, one) row = Unsqueeze (r, axis) column = Range (zero, five, one)
                next = Add (row, one) before = Sub (row, one) shifted = Add (column, one)
                l = Less (row, column) {node} }}"
        );
        let graph = parse(&text, &mut Origins::default()).unwrap();
        let mask = graph.block(Graph::MAIN).outputs()[0];
        graph.facts().triangle(mask, &graph.ty(mask).shape)
    }

    #[test]
    fn comparisons_of_rows_and_columns_are_triangles() {
        type Compare = fn(i64, i64) -> bool;
        let operators: [(&str, Compare); 4] = [
            ("Less", |a, b| a < b),
            ("LessOrEqual", |a, b| a <= b),
            ("Greater", |a, b| a > b),
            ("GreaterOrEqual", |a, b| a >= b),
        ];
        for (op, compare) in operators {
            for (operand, by) in [("row", 0), ("next", 1), ("before", -1)] {
                let expected = stored(&matrix(4, 5, |i, j| compare(i + by, j)));
                let found = triangle("4,5", &format!("y = {op} ({operand}, column)"));
                assert_eq!(found, expected, "{op} {operand}");
                let expected = stored(&matrix(4, 5, |i, j| compare(j, i + by)));
                let found = triangle("4,5", &format!("y = {op} (column, {operand})"));
                assert_eq!(found, expected, "{op} column {operand}");
            }
        }
        assert_eq!(triangle("4,5", "y = Not (l)"), Some(Triangle { upper: false, k: 0 }));
        let shifted = [("row, shifted", true, 0), ("shifted, row", false, -2)];
        for (operands, upper, k) in shifted {
            let found = triangle("4,5", &format!("y = Less ({operands})"));
            assert_eq!(found, Some(Triangle { upper, k }), "{operands}");
        }
        // The matrices of a batch have the same triangle only if the mask has one matrix.
        let leading = "lead = Unsqueeze (row, front) y = Less (lead, column)";
        assert_eq!(triangle("1,4,5", leading), Some(Triangle { upper: true, k: 1 }));
        let batch = "e = Expand (row, batch) y = Less (e, column)";
        assert_eq!(triangle("2,4,5", batch), None);
    }
}
