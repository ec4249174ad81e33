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
        Some(NormBound { norm: room * self.per_row(&found, value)?.sqrt(), ..found })
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
        let spread =
            if sums_all && found.spread >= NanSpread::Some { NanSpread::All } else { found.spread };
        Some(NormBound { norm: found.norm * size, spread, ..found })
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
        Some(NormBound { norm: found.norm + more, ..found })
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
            return match is_product {
                true => Some(NormBound { norm: found.norm * size, ..found }),
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
        Some(NormBound { norm: found.norm / divisor.abs(), ..found })
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
        Some(NormBound { norm: found.norm * by, ..found })
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
    use provenance::Origins;

    use super::*;
    use crate::Graph;
    use crate::text::parse;

    /// Returns the bound of the result of `nodes`: the name of its source, its rows, its norm and its spread.
    fn bound(ty: &str, nodes: &str) -> Option<(String, Vec<usize>, f64, NanSpread)> {
        let text = format!(
            "g (float[B,3,4] x, float[B,4] v) => ({ty} y) {{
                scale = Constant <value = float[4] {{1, 2, -3, 2}}> ()
                bias = Constant <value = float[4] {{0, -1, 0, 0.5}}> ()
                w = Constant <value = float[4,4] {{2, 0, 0, 0, 0, 1, 0, 0, 0, 0, -2, 0, 0, 0, 0, 0}}> ()
                half = Constant <value = float {{-0.5}}> () zero = Constant <value = float {{0}}> ()
                first = Constant <value_int = 0> () front = Constant <value_ints = [0]> ()
                second = Constant <value_ints = [1]> () third = Constant <value_ints = [2]> ()
                split = Constant <value_ints = [0, 0, 2, 2]> ()
                n = LayerNormalization <axis = -1> (x, scale) r = RMSNormalization <axis = -1> (x, scale)
                u = LayerNormalization <axis = -1> (v, scale) m = Neg (n)
                {nodes}
            }}"
        );
        let graph = parse(&text, &mut Origins::default()).unwrap();
        let found = graph.facts().norm_bound(graph.block(Graph::MAIN).outputs()[0])?;
        let source = graph.node(graph.producer(found.source).unwrap());
        let of = graph.value(source.input(0).unwrap()).name.clone();
        let rows = found.rows.iter().flatten().copied().collect();
        Some((format!("{} {of}", source.op.name), rows, found.norm, found.spread))
    }

    #[test]
    fn normalized_rows_stay_bounded() {
        let (layer, root) = ("LayerNormalization x", "RMSNormalization x");
        let (all, some, unknown) = (NanSpread::All, NanSpread::Some, NanSpread::Unknown);
        let front: &[usize] = &[0, 1];
        for (ty, nodes, source, rows, norm, spread) in [
            ("float[B,3,4]", "y = Identity (n)", layer, front, 6.0, all),
            ("float[B,3,4]", "y = Identity (r)", root, front, 6.0, some),
            (
                "float[B,3,4]",
                "y = LayerNormalization <axis = -1> (x, scale, bias)",
                layer,
                front,
                8.0,
                all,
            ),
            (
                "float[B,3,4]",
                "y = LayerNormalization <axis = -1> (n, bias)",
                layer,
                front,
                2.0,
                all,
            ),
            ("float[B,3,4]", "y = MatMul (n, w)", layer, front, 18.0, all),
            ("float[B,3,4]", "y = MatMul (r, w)", root, front, 18.0, all),
            ("float[B,4]", "y = Gemm (u, w)", "LayerNormalization v", &[0], 18.0, all),
            ("float[B,4]", "y = Gemm (u, w, bias)", "LayerNormalization v", &[0], 20.0, all),
            ("float[B,3,4]", "y = Add (n, bias)", layer, front, 8.0, all),
            ("float[B,3,4]", "y = Sub (bias, n)", layer, front, 8.0, all),
            ("float[B,3,4]", "y = Mul (scale, n)", layer, front, 18.0, all),
            ("float[B,3,4]", "y = Add (n, m)", layer, front, 12.0, all),
            ("float[B,3,4]", "y = Mul (n, m)", layer, front, 36.0, all),
            ("float[B,3,4]", "y = Div (n, half)", layer, front, 12.0, all),
            ("float[B,3,1]", "y = Slice (n, front, second, third)", layer, front, 6.0, all),
            ("float[B,3,1]", "y = Slice (r, front, second, third)", root, front, 6.0, unknown),
            ("float[B,3]", "y = Gather <axis = 2> (n, first)", layer, front, 6.0, all),
            (
                "float[B,3]",
                "t = Transpose <perm = [2, 0, 1]> (n) y = Gather <axis = 0> (t, first)",
                layer,
                front,
                6.0,
                all,
            ),
            ("float[3,4,B]", "y = Transpose <perm = [1, 2, 0]> (n)", layer, &[2, 0], 6.0, all),
            ("float[B,3,2,2]", "y = Reshape (n, split)", layer, front, 6.0, all),
            ("float[B,3,8]", "y = Concat <axis = 2> (n, m)", layer, front, 12.0, all),
            ("float[B,3,8]", "y = Concat <axis = 2> (r, r)", root, front, 12.0, some),
            ("float16[B,3,4]", "y = Cast <to = 10> (n)", layer, front, 6.0, all),
            (
                "float[B,3,2,2]",
                "h = Reshape (n, split) c = Constant <value = float[1,2,1] {0.5, -1}> ()
                s = Constant <value = float[1,2,1] {2, 0}> () y = RotaryEmbedding (h, c, s)",
                layer,
                front,
                18.0,
                all,
            ),
            ("float[B,3,4]", "s = Add (scale, bias) y = Mul (n, s)", layer, front, 24.0, all),
            ("float[B,3,4]", "s = Mul (scale, scale) y = Mul (n, s)", layer, front, 54.0, all),
            // NaN stays in some elements unless all others are summed.
            (
                "float[B,3,2,2]",
                "h = Reshape (r, split) cut = Constant <value = float[2,2] {1, 0, 0, 0}> () y = MatMul (h, cut)",
                root,
                front,
                6.0,
                some,
            ),
            (
                "float[B,3,1,4]",
                "one = Constant <value_ints = [0, 0, 1, 4]> () h = Reshape (r, one) y = MatMul (h, w)",
                root,
                front,
                18.0,
                all,
            ),
            (
                "float[B,3,2]",
                "a, b = Split <axis = 2, num_outputs = 2> (r)
                cut = Constant <value = float[2,2] {1, 0, 0, 0}> () y = MatMul (a, cut)",
                root,
                front,
                6.0,
                unknown,
            ),
        ] {
            let expected = Some((source.to_owned(), rows.to_vec(), norm, spread));
            assert_eq!(bound(ty, nodes), expected, "{nodes}");
        }
    }

    #[test]
    fn other_values_have_no_bound() {
        for (ty, nodes) in [
            ("float[B,3,4]", "y = Neg (x)"),
            ("float[B,3,4]", "y = Add (n, x)"),
            ("float[B,3,4]", "y = Add (n, r)"),
            ("float[B,3,4]", "y = Div (n, zero)"),
            ("float[B,3,4]", "y = Div (n, x)"),
            ("float[B,4]", "y = Gemm <alpha = 2.0> (u, w)"),
            ("float[B,1,4]", "y = Slice (n, front, second, second)"),
            ("float[B,4]", "y = Gather <axis = 1> (n, first)"),
            ("float[B,6,4]", "y = Concat <axis = 1> (n, m)"),
            ("float[B,3,8]", "y = Concat <axis = 2> (n, r)"),
            ("float[B,3,4,4]", "o = Unsqueeze (n, third) y = Add (o, w)"),
            ("float[B,3,1]", "o, y = LayerNormalization <axis = -1> (x, scale)"),
            ("float[B,3,4]", "y = Exp (n)"),
            ("float[B,3,4]", "e = Exp (scale) y = Mul (n, e)"),
            ("float[B,2,6]", "six = Constant <value_ints = [0, 2, 6]> () y = Reshape (n, six)"),
            ("int64[B,3,4]", "y = Cast <to = 7> (n)"),
        ] {
            assert_eq!(bound(ty, nodes), None, "{nodes}");
        }
        let (source, ..) =
            bound("float[B,3,4]", "y = LayerNormalization <axis = -1, epsilon = 0.0> (n, bias)")
                .unwrap();
        assert_ne!(source, "LayerNormalization x");
    }

    #[test]
    fn a_norm_over_rows_of_another_one_is_a_source() {
        let nodes = "y = LayerNormalization <axis = 1> (n, bias)";
        let expected = ("LayerNormalization n".to_owned(), vec![0], 12f64.sqrt(), NanSpread::All);
        assert_eq!(bound("float[B,3,4]", nodes), Some(expected));
    }

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
        assert!(!is_finite(1.0, DType::I32) && !is_finite(2f64.powi(124), DType::F32));
    }
}
