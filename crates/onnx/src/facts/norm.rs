//! Norms: bounds on values that follow from a normalized value by parameters whose elements are known.
//!
//! A normalized row is bounded, unless it holds NaN. Products with parameters and data movement keep it bounded. NaN
//! spreads: a product with a matrix has NaN in all elements of the row.
//!
//! People may give parameters other elements later. So bounds are only compared with numbers that are larger by orders of
//! magnitude.

use tensor::division::product;
use tensor::{DType, Dim, Norms};

use super::Facts;
use crate::{Node, ValueId, fold};

/// A bound on a value that follows, row by row, from a normalized one.
#[derive(Clone, Debug, PartialEq)]
pub struct NormBound {
    /// The normalized value.
    pub source: ValueId,
    /// The axis of the value for each axis of the rows of the source; `None` for those of size one.
    pub rows: Vec<Option<usize>>,
    /// An upper bound on the Euclidean norm of all elements that belong to a row, unless the row holds NaN.
    pub norm: f64,
    /// The extent of NaN if the row holds it.
    pub spread: NanSpread,
}

/// The extent of NaN among the elements that belong to a row with NaN. All others are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NanSpread {
    /// There may be none.
    Unknown,
    /// There is one at least.
    Some,
    /// There is nothing else.
    All,
}

impl NanSpread {
    /// Returns the spread within a part of the elements.
    fn of_part(self) -> Self {
        if self == NanSpread::All { self } else { NanSpread::Unknown }
    }
}

impl NormBound {
    /// Returns the distance of each axis of the rows from the end.
    pub fn rows_from_end(&self, rank: usize) -> Vec<Option<usize>> {
        self.rows.iter().map(|axis| axis.map(|axis| rank - axis)).collect()
    }

    fn has_axis(&self, axis: usize) -> bool {
        self.rows.contains(&Some(axis))
    }

    fn is_row_of(&self, other: &Self) -> bool {
        self.source == other.source && self.rows == other.rows
    }

    fn with_norm(self, norm: f64) -> Self {
        Self { norm, ..self }
    }
}

impl Facts<'_> {
    /// Returns the bound of `value`, if it follows from a normalized value.
    pub fn norm_bound(&self, value: ValueId) -> Option<NormBound> {
        let node = self.node(value)?;
        let find = || self.find_norm_bound(node, value);
        self.answer(|answers| &mut answers.norms, &value, find)?
    }

    fn find_norm_bound(&self, node: &Node, value: ValueId) -> Option<NormBound> {
        let is_first = node.outputs.first() == Some(&value);
        let found = match node.op.name {
            "LayerNormalization" | "RMSNormalization" if is_first => self.normalized(node, value),
            "MatMul" => self.product(node),
            "Gemm" => self.gemm(node),
            "Add" | "Mul" | "Sub" => self.combined(node, value),
            "Div" => self.divided(node, value),
            "Identity" | "Neg" => self.norm_bound(node.input(0)?),
            "Cast" if self.graph.ty(value).dtype.is_float() => self.norm_bound(node.input(0)?),
            "Slice" | "Split" => self.part(node, value),
            "Gather" => self.picked(node),
            "Concat" => self.joined(node, value),
            "RotaryEmbedding" => self.rotated(node),
            _ if node.is_movement() => self.moved(node, value),
            _ => None,
        }?;
        is_finite(found.norm, self.graph.ty(value).dtype).then_some(found)
    }

    /// Bounds a normalized value. It is a source of its own, unless it belongs to the rows of another one.
    fn normalized(&self, node: &Node, value: ValueId) -> Option<NormBound> {
        let shape = self.shape(value);
        let first = fold::axis(node.int("axis", -1), shape.len()).ok()?;
        let mut room = self.magnitude(node.input(1)?)?;
        if let Some(bias) = node.input(2) {
            room += self.magnitude(bias)?;
        }
        let own = NormBound {
            source: value,
            rows: (0..first).map(|axis| (shape[axis] != Dim::Known(1)).then_some(axis)).collect(),
            norm: 0.0,
            // Infinity beside numbers leaves zeros if only the root mean square is divided by.
            spread: if node.is("LayerNormalization") { NanSpread::All } else { NanSpread::Some },
        };
        // Without epsilon, equal elements would be NaN in a row that holds none.
        let is_safe = node.float("epsilon", 1e-5) >= 1e-12;
        let outer = is_safe.then(|| self.norm_bound(node.input(0)?)).flatten();
        let outer = outer.filter(|outer| outer.rows.iter().flatten().all(|axis| *axis < first));
        let found = outer.unwrap_or(own);
        let norm = room * self.per_row(&found, value)?.sqrt();
        Some(found.with_norm(norm))
    }

    /// Returns the number of elements of `value` that belong to a row.
    fn per_row(&self, rows: &NormBound, value: ValueId) -> Option<f64> {
        let mut count = 1.0;
        for (axis, size) in self.shape(value).iter().enumerate() {
            if !rows.has_axis(axis) {
                count *= as_float(size.as_known()?);
            }
        }
        Some(count)
    }

    /// Bounds a product with a matrix of parameters.
    fn product(&self, node: &Node) -> Option<NormBound> {
        let (x, matrix) = (node.input(0)?, node.input(1)?);
        let shape = self.shape(x);
        let last = shape.len().checked_sub(1)?;
        if self.shape(matrix).len() != 2 {
            return None;
        }
        let size = self.norms(matrix)?.euclidean;
        let found = self.norm_bound(x).filter(|found| !found.has_axis(last))?;
        let is_summed = |axis: usize| axis == last || shape[axis] == Dim::Known(1);
        let sums_all = (0..last).all(|axis| is_summed(axis) || found.has_axis(axis));
        let norm = found.norm * size;
        let spread =
            if sums_all && found.spread >= NanSpread::Some { NanSpread::All } else { found.spread };
        Some(NormBound { norm, spread, ..found })
    }

    fn gemm(&self, node: &Node) -> Option<NormBound> {
        let is_plain = |name| node.attr(name).is_none();
        if node.int("transA", 0) != 0 || !is_plain("alpha") || !is_plain("beta") {
            return None;
        }
        let found = self.product(node)?;
        match node.input(2) {
            None => Some(found),
            Some(bias) => self.shifted(found, bias, *node.outputs.first()?),
        }
    }

    /// Bounds a bounded value plus a constant.
    fn shifted(&self, found: NormBound, by: ValueId, result: ValueId) -> Option<NormBound> {
        let more = self.magnitude(by)? * self.per_row(&found, result)?.sqrt();
        let norm = found.norm + more;
        Some(found.with_norm(norm))
    }

    /// Bounds a sum, a difference or a product of two bounded values, or of one and a constant.
    fn combined(&self, node: &Node, result: ValueId) -> Option<NormBound> {
        let (a, b) = (node.input(0)?, node.input(1)?);
        let is_product = node.is("Mul");
        for (x, other) in [(a, b), (b, a)] {
            let Some(size) = self.magnitude(other) else { continue };
            if self.shape(x) != self.shape(result) {
                return None;
            }
            let found = self.norm_bound(x)?;
            let norm = found.norm * size;
            return match is_product {
                true => Some(found.with_norm(norm)),
                false => self.shifted(found, other, result),
            };
        }
        if self.shape(a) != self.shape(b) {
            return None;
        }
        let found = self.norm_bound(a)?;
        let other = self.norm_bound(b).filter(|other| found.is_row_of(other))?;
        let norm = if is_product { found.norm * other.norm } else { found.norm + other.norm };
        Some(NormBound { norm, spread: found.spread.max(other.spread), ..found })
    }

    /// Bounds a bounded value that is divided by one number.
    fn divided(&self, node: &Node, result: ValueId) -> Option<NormBound> {
        let (x, divisor) = (node.input(0)?, node.input(1)?);
        let divisor = self.graph.constant(divisor)?.splat().filter(|divisor| *divisor != 0.0)?;
        if self.shape(x) != self.shape(result) {
            return None;
        }
        let found = self.norm_bound(x)?;
        let norm = found.norm / divisor.abs();
        Some(found.with_norm(norm))
    }

    /// Bounds a part of each row.
    fn part(&self, node: &Node, result: ValueId) -> Option<NormBound> {
        let x = node.input(0)?;
        let rank = self.shape(result).len();
        let axes: Vec<i64> = match node.op.name {
            "Split" => vec![node.int("axis", 0)],
            _ => self.graph.constant(node.input(3)?)?.to_i64s()?,
        };
        let found = self.norm_bound(x)?;
        let is_beside =
            |axis: &i64| fold::axis(*axis, rank).is_ok_and(|axis| !found.has_axis(axis));
        let is_part = axes.iter().all(is_beside);
        is_part.then(|| NormBound { spread: found.spread.of_part(), ..found })
    }

    /// Bounds one index along an axis, which is removed.
    fn picked(&self, node: &Node) -> Option<NormBound> {
        let (x, place) = (node.input(0)?, node.input(1)?);
        let axis = fold::axis(node.int("axis", 0), self.shape(x).len()).ok()?;
        if !self.shape(place).is_empty() {
            return None;
        }
        let found = self.norm_bound(x).filter(|found| !found.has_axis(axis))?;
        let rows =
            found.rows.iter().map(|row| row.map(|row| if row > axis { row - 1 } else { row }));
        let (rows, spread) = (rows.collect(), found.spread.of_part());
        Some(NormBound { rows, spread, ..found })
    }

    fn joined(&self, node: &Node, result: ValueId) -> Option<NormBound> {
        let axis = fold::axis(node.int("axis", 0), self.shape(result).len()).ok()?;
        let mut parts = node.inputs.iter();
        let mut found = self.norm_bound((*parts.next()?)?).filter(|found| !found.has_axis(axis))?;
        for part in parts {
            let part = self.norm_bound((*part)?).filter(|part| found.is_row_of(part))?;
            found.norm += part.norm;
            // NaN in some elements of one part is NaN in some of all.
            let (least, most) = (found.spread.min(part.spread), found.spread.max(part.spread));
            found.spread = least.max(most.min(NanSpread::Some));
        }
        Some(found)
    }

    fn rotated(&self, node: &Node) -> Option<NormBound> {
        let by = self.magnitude(node.input(1)?)? + self.magnitude(node.input(2)?)?;
        let found = self.norm_bound(node.input(0)?)?;
        let norm = found.norm * by;
        Some(found.with_norm(norm))
    }

    fn moved(&self, node: &Node, result: ValueId) -> Option<NormBound> {
        let x = node.input(0)?;
        let (from, to) = (self.shape(x), self.shape(result));
        let perm = match node.op.name {
            "Transpose" => Some(fold::permutation(node, from.len()).ok()?),
            _ => None,
        };
        let found = self.norm_bound(x)?;
        let mut rows = Vec::new();
        for row in &found.rows {
            rows.push(match (row, &perm) {
                (None, _) => None,
                (Some(axis), Some(perm)) => Some(perm.iter().position(|from| from == axis)?),
                (Some(axis), None) => Some(same_axis(from, *axis, to)?),
            });
        }
        Some(NormBound { rows, ..found })
    }

    fn norms(&self, value: ValueId) -> Option<Norms> {
        if let Some(tensor) = self.graph.tensor(value) {
            return tensor.norms().filter(|norms| norms.euclidean.is_finite());
        }
        let node = self.node(value)?;
        let keeps = node.is_movement() || ["Cast", "Identity", "Neg"].contains(&node.op.name);
        let found = keeps.then(|| self.norms(node.input(0)?)).flatten()?;
        is_finite(found.largest, self.graph.ty(value).dtype).then_some(found)
    }

    /// Returns an upper bound on the absolute values of `value`, if it follows from constants and integers alone.
    pub fn magnitude(&self, value: ValueId) -> Option<f64> {
        let dtype = self.graph.ty(value).dtype;
        if let Some((low, high)) = dtype.int_range() {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a bound of this size need not be exact"
            )]
            return Some(low.unsigned_abs().max(high.unsigned_abs()) as f64);
        }
        let find = || self.find_magnitude(value, dtype);
        self.answer(|answers| &mut answers.magnitudes, &value, find)?
    }

    fn find_magnitude(&self, value: ValueId, dtype: DType) -> Option<f64> {
        if let Some(norms) = self.norms(value) {
            return Some(norms.largest);
        }
        let node = self.node(value)?;
        let operand = |index: usize| self.magnitude(node.input(index)?);
        let found = match node.op.name {
            "Add" | "Sub" => operand(0)? + operand(1)?,
            "Mul" => operand(0)? * operand(1)?,
            "Cos" | "Sin" => {
                operand(0)?;
                1.0
            }
            "Concat" => (1..node.inputs.len())
                .try_fold(operand(0)?, |most, index| Some(most.max(operand(index)?)))?,
            "Cast" | "Neg" => operand(0)?,
            _ if node.operator().selects() => operand(0)?,
            _ => return None,
        };
        is_finite(found, dtype).then_some(found)
    }
}

/// Returns the axis that `axis` is after a `Reshape`: one of the same size, with as many elements before it.
fn same_axis(from: &[Dim], axis: usize, to: &[Dim]) -> Option<usize> {
    let before = product(&from[..axis]);
    (0..to.len()).find(|other| to[*other] == from[axis] && product(&to[..*other]) == before)
}

/// Returns `true` if numbers up to `largest` stay finite in `dtype`, with room for rounding.
pub fn is_finite(largest: f64, dtype: DType) -> bool {
    let Some((exponent, _)) = dtype.float_fields() else { return false };
    let most = f64::from((1u32 << (exponent - 1)) - 4);
    largest < most.exp2()
}

#[expect(clippy::cast_precision_loss, reason = "sizes are compared by orders of magnitude")]
fn as_float(size: i64) -> f64 {
    size as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_near_the_largest_one_may_overflow() {
        for (dtype, stays, overflows) in [
            (DType::F16, 4000.0, 65504.0),
            (DType::BF16, 2e37, 3e38),
            (DType::F32, 2e37, 3e38),
            (DType::F64, 1e306, 1e308),
        ] {
            assert!(is_finite(stays, dtype) && !is_finite(overflows, dtype), "{dtype}");
        }
        assert!(!is_finite(1.0, DType::I32));
    }
}
