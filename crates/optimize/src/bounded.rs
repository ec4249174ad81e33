//! What a normalization keeps within bounds: what is computed from it by parameters whose elements are known.
//!
//! A row that was normalized is bounded, unless it holds NaN. Products with parameters, movements and the like keep
//! it so. NaN spreads: a product with a matrix has NaN in all elements of the row.
//!
//! People may give parameters other elements later. Bounds say nothing but how large a number may get, and are
//! only compared with what is larger by orders of magnitude.

use onnx::{Attr, Graph, Node, ValueId, fold};
use tensor::{DType, Dim, Norms, division::product};

/// How many nodes are looked at for one value. Rotary embeddings in elementary operators have some twenty.
const NODES: u32 = 100;

/// A value that follows, row by row, from one that was normalized.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bounded {
    /// What was normalized.
    pub(crate) source: ValueId,
    /// For each axis of the rows of the source, which axis it is here; `None` for those of size one.
    pub(crate) rows: Vec<Option<usize>>,
    /// What the Euclidean norm of all elements that belong to a row does not exceed, unless the row holds NaN.
    pub(crate) norm: f64,
    /// Where NaN is if the row holds it.
    pub(crate) spread: Spread,
}

/// How far the NaN of a row has spread among the elements that belong to it. All others are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Spread {
    /// There may be none.
    Unknown,
    /// There is one at least.
    Some,
    /// There is nothing else.
    All,
}

impl Spread {
    /// What is known if some of the elements are left out.
    fn of_part(self) -> Self {
        if self == Spread::All { self } else { Spread::Unknown }
    }
}

impl Bounded {
    /// What `value` follows from, if it is bounded.
    pub(crate) fn of(graph: &Graph, value: ValueId) -> Option<Self> {
        Search { graph, left: NODES }.bounded(value)
    }

    /// How far from the end the axes of the rows are.
    pub(crate) fn places_from_end(&self, rank: usize) -> Vec<Option<usize>> {
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

/// What the absolute values of `value` do not exceed, if it follows from constants and integers alone.
pub(crate) fn largest(graph: &Graph, value: ValueId) -> Option<f64> {
    Search { graph, left: NODES }.largest(value)
}

struct Search<'g> {
    graph: &'g Graph,
    left: u32,
}

impl<'g> Search<'g> {
    fn producer(&mut self, value: ValueId) -> Option<&'g Node> {
        self.left = self.left.checked_sub(1)?;
        let node = self.graph.node(self.graph.producer(value)?);
        node.op.domain.is_empty().then_some(node)
    }

    fn shape(&self, value: ValueId) -> &'g [Dim] {
        &self.graph.ty(value).shape
    }

    fn bounded(&mut self, value: ValueId) -> Option<Bounded> {
        let node = self.producer(value)?;
        let is_first = node.outputs.first() == Some(&value);
        let found = match node.op.name {
            "LayerNormalization" | "RMSNormalization" if is_first => self.normalized(node, value),
            "MatMul" => self.product(node),
            "Gemm" => self.gemm(node),
            "Add" | "Mul" | "Sub" => self.combined(node, value),
            "Div" => self.divided(node, value),
            "Identity" | "Neg" => self.bounded(node.input(0)?),
            "Cast" if self.graph.ty(value).dtype.is_float() => self.bounded(node.input(0)?),
            "Slice" | "Split" => self.part(node, value),
            "Gather" => self.picked(node),
            "Concat" => self.joined(node, value),
            "RotaryEmbedding" => self.rotated(node),
            _ if node.is_movement() => self.moved(node, value),
            _ => None,
        }?;
        is_finite(found.norm, self.graph.ty(value).dtype).then_some(found)
    }

    /// A normalized value is a source of its own, unless it belongs to the rows of another one.
    fn normalized(&mut self, node: &Node, value: ValueId) -> Option<Bounded> {
        let shape = self.shape(value);
        let first = fold::axis(node.int("axis", -1), shape.len()).ok()?;
        let mut room = self.largest(node.input(1)?)?;
        if let Some(bias) = node.input(2) {
            room += self.largest(bias)?;
        }
        let own = Bounded {
            source: value,
            rows: (0..first).map(|axis| (shape[axis] != Dim::Known(1)).then_some(axis)).collect(),
            norm: 0.0,
            // What is infinite beside numbers leaves zeros if only the root mean square is divided by.
            spread: if node.is("LayerNormalization") { Spread::All } else { Spread::Some },
        };
        // Without what is added to the variance, equal elements would be NaN in a row that holds none.
        let is_safe = match node.attr("epsilon") {
            Some(Attr::Float(epsilon)) => *epsilon >= 1e-12,
            _ => true,
        };
        let outer = is_safe.then(|| self.bounded(node.input(0)?)).flatten();
        let outer = outer.filter(|outer| outer.rows.iter().flatten().all(|axis| *axis < first));
        let found = outer.unwrap_or(own);
        let norm = room * self.per_row(&found, value)?.sqrt();
        Some(found.with_norm(norm))
    }

    /// How many elements of `value` belong to a row.
    fn per_row(&self, rows: &Bounded, value: ValueId) -> Option<f64> {
        let mut count = 1.0;
        for (axis, size) in self.shape(value).iter().enumerate() {
            if !rows.has_axis(axis) {
                count *= as_float(size.as_known()?);
            }
        }
        Some(count)
    }

    /// A product with a matrix of parameters.
    fn product(&mut self, node: &Node) -> Option<Bounded> {
        let (x, matrix) = (node.input(0)?, node.input(1)?);
        let shape = self.shape(x);
        let last = shape.len().checked_sub(1)?;
        if self.shape(matrix).len() != 2 {
            return None;
        }
        let size = self.norms(matrix)?.euclidean;
        let found = self.bounded(x).filter(|found| !found.has_axis(last))?;
        let is_summed = |axis: usize| axis == last || shape[axis] == Dim::Known(1);
        let sums_all = (0..last).all(|axis| is_summed(axis) || found.has_axis(axis));
        let norm = found.norm * size;
        let spread =
            if sums_all && found.spread >= Spread::Some { Spread::All } else { found.spread };
        Some(Bounded { norm, spread, ..found })
    }

    fn gemm(&mut self, node: &Node) -> Option<Bounded> {
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

    /// A bounded value with a constant added to it.
    fn shifted(&mut self, found: Bounded, by: ValueId, result: ValueId) -> Option<Bounded> {
        let more = self.largest(by)? * self.per_row(&found, result)?.sqrt();
        let norm = found.norm + more;
        Some(found.with_norm(norm))
    }

    /// A sum, a difference or a product of two bounded values, or of one and a constant.
    fn combined(&mut self, node: &Node, result: ValueId) -> Option<Bounded> {
        let (a, b) = (node.input(0)?, node.input(1)?);
        let is_product = node.is("Mul");
        for (x, other) in [(a, b), (b, a)] {
            let Some(size) = self.largest(other) else { continue };
            if self.shape(x) != self.shape(result) {
                return None;
            }
            let found = self.bounded(x)?;
            let norm = found.norm * size;
            return match is_product {
                true => Some(found.with_norm(norm)),
                false => self.shifted(found, other, result),
            };
        }
        if self.shape(a) != self.shape(b) {
            return None;
        }
        let found = self.bounded(a)?;
        let other = self.bounded(b).filter(|other| found.is_row_of(other))?;
        let norm = if is_product { found.norm * other.norm } else { found.norm + other.norm };
        Some(Bounded { norm, spread: found.spread.max(other.spread), ..found })
    }

    /// A bounded value, divided by one number.
    fn divided(&mut self, node: &Node, result: ValueId) -> Option<Bounded> {
        let (x, divisor) = (node.input(0)?, node.input(1)?);
        let divisor = self.graph.constant(divisor)?.splat().filter(|divisor| *divisor != 0.0)?;
        if self.shape(x) != self.shape(result) {
            return None;
        }
        let found = self.bounded(x)?;
        let norm = found.norm / divisor.abs();
        Some(found.with_norm(norm))
    }

    /// Some elements of each row.
    fn part(&mut self, node: &Node, result: ValueId) -> Option<Bounded> {
        let x = node.input(0)?;
        let rank = self.shape(result).len();
        let axes: Vec<i64> = match node.op.name {
            "Split" => vec![node.int("axis", 0)],
            _ => self.graph.constant(node.input(3)?)?.to_i64s()?,
        };
        let found = self.bounded(x)?;
        let is_beside =
            |axis: &i64| fold::axis(*axis, rank).is_ok_and(|axis| !found.has_axis(axis));
        let is_part = axes.iter().all(is_beside);
        is_part.then(|| Bounded { spread: found.spread.of_part(), ..found })
    }

    /// One place of an axis, which is gone then.
    fn picked(&mut self, node: &Node) -> Option<Bounded> {
        let (x, place) = (node.input(0)?, node.input(1)?);
        let axis = fold::axis(node.int("axis", 0), self.shape(x).len()).ok()?;
        if !self.shape(place).is_empty() {
            return None;
        }
        let found = self.bounded(x).filter(|found| !found.has_axis(axis))?;
        let rows =
            found.rows.iter().map(|row| row.map(|row| if row > axis { row - 1 } else { row }));
        let (rows, spread) = (rows.collect(), found.spread.of_part());
        Some(Bounded { rows, spread, ..found })
    }

    fn joined(&mut self, node: &Node, result: ValueId) -> Option<Bounded> {
        let axis = fold::axis(node.int("axis", 0), self.shape(result).len()).ok()?;
        let mut parts = node.inputs.iter();
        let mut found = self.bounded((*parts.next()?)?).filter(|found| !found.has_axis(axis))?;
        for part in parts {
            let part = self.bounded((*part)?).filter(|part| found.is_row_of(part))?;
            found.norm += part.norm;
            // NaN in some elements of one part is NaN in some of all.
            let (least, most) = (found.spread.min(part.spread), found.spread.max(part.spread));
            found.spread = least.max(most.min(Spread::Some));
        }
        Some(found)
    }

    fn rotated(&mut self, node: &Node) -> Option<Bounded> {
        let by = self.largest(node.input(1)?)? + self.largest(node.input(2)?)?;
        let found = self.bounded(node.input(0)?)?;
        let norm = found.norm * by;
        Some(found.with_norm(norm))
    }

    fn moved(&mut self, node: &Node, result: ValueId) -> Option<Bounded> {
        let x = node.input(0)?;
        let (from, to) = (self.shape(x), self.shape(result));
        let perm = match node.op.name {
            "Transpose" => Some(fold::permutation(node, from.len()).ok()?),
            _ => None,
        };
        let found = self.bounded(x)?;
        let mut rows = Vec::new();
        for row in &found.rows {
            rows.push(match (row, &perm) {
                (None, _) => None,
                (Some(axis), Some(perm)) => Some(perm.iter().position(|from| from == axis)?),
                (Some(axis), None) => Some(same_axis(from, *axis, to)?),
            });
        }
        Some(Bounded { rows, ..found })
    }

    fn norms(&mut self, value: ValueId) -> Option<Norms> {
        if let Some(tensor) = self.graph.tensor(value) {
            return tensor.norms().filter(|norms| norms.euclidean.is_finite());
        }
        let node = self.producer(value)?;
        let keeps = node.is_movement() || ["Cast", "Identity", "Neg"].contains(&node.op.name);
        let found = keeps.then(|| self.norms(node.input(0)?)).flatten()?;
        is_finite(found.largest, self.graph.ty(value).dtype).then_some(found)
    }

    fn largest(&mut self, value: ValueId) -> Option<f64> {
        let dtype = self.graph.ty(value).dtype;
        if let Some((low, high)) = dtype.int_range() {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a bound of this size need not be exact"
            )]
            return Some(low.unsigned_abs().max(high.unsigned_abs()) as f64);
        }
        if let Some(norms) = self.norms(value) {
            return Some(norms.largest);
        }
        let node = self.producer(value)?;
        let mut operand = |index: usize| self.largest(node.input(index)?);
        let found = match node.op.name {
            "Add" | "Sub" => operand(0)? + operand(1)?,
            "Mul" => operand(0)? * operand(1)?,
            "Cos" | "Sin" => {
                operand(0)?;
                1.0
            }
            "Cast" | "Concat" | "Expand" | "Gather" | "Neg" | "Slice" => {
                let mut most = 0.0f64;
                let count = if node.is("Concat") { node.inputs.len() } else { 1 };
                for index in 0..count {
                    most = most.max(operand(index)?);
                }
                most
            }
            _ if node.is_movement() => operand(0)?,
            _ => return None,
        };
        is_finite(found, dtype).then_some(found)
    }
}

/// Which axis `axis` is after a `Reshape`: one of the same size, with as much before it.
fn same_axis(from: &[Dim], axis: usize, to: &[Dim]) -> Option<usize> {
    let before = product(&from[..axis]);
    (0..to.len()).find(|other| to[*other] == from[axis] && product(&to[..*other]) == before)
}

/// Whether numbers up to `largest` stay finite in `dtype`, with room for rounding.
pub(crate) fn is_finite(largest: f64, dtype: DType) -> bool {
    let Some((exponent, _)) = dtype.float_fields() else { return false };
    let most = f64::from((1u32 << (exponent - 1)) - 4);
    largest < most.exp2()
}

#[expect(clippy::cast_precision_loss, reason = "sizes are compared by orders of magnitude")]
fn as_float(size: i64) -> f64 {
    size as f64
}
