//! Facts about values that hold in every run of the model, found without running it.
//!
//! Each file is one domain: constants, intervals of integers and of floats, truth, affine forms, triangles, norms,
//! scores and sizes. Rewrites and rules ask [`Graph::facts`] and do not follow producers themselves.
//!
//! # Invalidation
//!
//! An edit replaces a value by an equal one, so no answer ever becomes false. An edit may only make a sharper answer
//! possible. Therefore an answer is kept for one revision of the graph, and whatever changes an operand, an attribute,
//! a type or a name starts the next revision. Added and removed nodes do not: no kept answer depends on them, because ids
//! are not used twice. Answers of earlier revisions count as missing and are overwritten. An edit costs one addition,
//! and a question at most `STEPS` values, however large the graph is.
//!
//! # Limit
//!
//! A question looks at `STEPS` values at most, in all domains together. An answer that was found after this limit
//! was reached is sound, but may be less sharp. It is kept only for the value that was asked for.

mod affine;
mod comparison;
mod constant;
mod float_interval;
mod interval;
mod norm;
mod scores;
mod size;
mod triangle;
mod truth;

use std::cell::Cell;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;
use tensor::{Dim, Tensor};

pub use self::affine::{Affine, Base, Progression};
pub use self::comparison::Comparison;
pub use self::float_interval::FloatInterval;
pub use self::interval::Interval;
pub use self::norm::{NanSpread, NormBound, is_finite};
pub use self::scores::{Factor, ScoreBound};
pub use self::triangle::Triangle;
use crate::{Graph, Node, ValueId};

/// The number of values that one question may look at.
const STEPS: u32 = 128;

/// A question about values of a graph.
#[derive(Debug)]
pub struct Facts<'g> {
    graph: &'g Graph,
    /// The number of nested questions that are being answered.
    depth: Cell<u32>,
    /// The number of values that may still be looked at.
    left: Cell<u32>,
    /// `true` if the limit was reached during the innermost question.
    was_cut: Cell<bool>,
}

impl Graph {
    /// Starts a question about values.
    pub fn facts(&self) -> Facts<'_> {
        let (depth, left, was_cut) = (Cell::new(0), Cell::new(STEPS), Cell::new(false));
        Facts { graph: self, depth, left, was_cut }
    }
}

impl<'g> Facts<'g> {
    /// Returns the answer for `key` in `table`, computed on demand; `None` if the limit is reached.
    fn answer<K: Clone + Eq + Hash, T: Clone>(
        &self,
        table: fn(&mut Answers) -> &mut Table<K, T>,
        key: &K,
        compute: impl FnOnce() -> T,
    ) -> Option<T> {
        let Memo { revision, answers } = &self.graph.facts;
        let answers = || answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, known)) = table(&mut answers()).get(key)
            && at == revision
        {
            return Some(known.clone());
        }
        let depth = self.depth.get();
        if depth == 0 {
            self.left.set(STEPS);
        }
        let Some(left) = self.left.get().checked_sub(1) else {
            self.was_cut.set(true);
            return None;
        };
        self.left.set(left);
        let outer_was_cut = self.was_cut.replace(false);
        self.depth.set(depth + 1);
        let found = compute();
        self.depth.set(depth);
        if depth == 0 || !self.was_cut.get() {
            table(&mut answers()).insert(key.clone(), (*revision, found.clone()));
        }
        self.was_cut.set(self.was_cut.get() || outer_was_cut);
        Some(found)
    }

    /// Returns the node of ONNX's own operators that computes `value`.
    fn node(&self, value: ValueId) -> Option<&'g Node> {
        let node = self.graph.node(self.graph.producer(value)?);
        node.op.domain.is_empty().then_some(node)
    }

    /// Returns the tensor of a constant. Parameters have none, because users may replace their elements.
    fn stored(&self, value: ValueId) -> Option<&'g Tensor> {
        self.graph.constant(value)
    }

    fn shape(&self, value: ValueId) -> &'g [Dim] {
        &self.graph.ty(value).shape
    }
}

/// An answer for each key, with the revision that it was found in.
type Table<K, T> = FxHashMap<K, (u64, T)>;

/// The answers that are known of a graph.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    revision: u64,
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    constants: Table<ValueId, Option<Tensor>>,
    intervals: Table<ValueId, Interval>,
    /// Keyed by the sizes that are positive at the node that asks, although they may be zero elsewhere.
    float_intervals: Table<(ValueId, Vec<Dim>), FloatInterval>,
    truths: Table<(ValueId, Vec<Dim>), Option<bool>>,
    affine_forms: Table<affine::Key, Option<Affine>>,
    norms: Table<ValueId, Option<NormBound>>,
    magnitudes: Table<ValueId, Option<f64>>,
    scores: Table<ValueId, Option<ScoreBound>>,
}

impl Memo {
    /// Starts a new revision.
    pub(crate) fn invalidate(&mut self) {
        self.revision += 1;
    }
}

/// A copy of a graph has answers of its own.
impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use provenance::Origins;

    use super::*;
    use crate::text::parse;

    /// Returns a graph of numbers between 0 and 5 that are negated `count` times, and all values in between.
    fn negated(count: usize) -> (Graph, Vec<ValueId>) {
        let mut text = String::from(
            "g (int64[B] x) => (int64[B] y) {
                low = Constant <value_int = 0> () high = Constant <value_int = 5> ()
                n0 = Clip (x, low, high) ",
        );
        for i in 0..count {
            text += &format!("n{} = Neg (n{i}) ", i + 1);
        }
        text += &format!("y = Identity (n{count}) }}");
        let graph = parse(&text, &mut Origins::default()).unwrap();
        let values = graph.nodes_of(Graph::MAIN).map(|id| graph.node(id).outputs[0]).collect();
        (graph, values)
    }

    fn bounds(graph: &Graph, value: ValueId) -> (i64, i64) {
        let Interval { low, high } = graph.facts().interval(value);
        let known = |bound: Option<Dim>| bound.and_then(|bound| bound.as_known()).unwrap();
        (known(low), known(high))
    }

    #[test]
    fn an_edit_makes_sharper_answers_possible() {
        let (mut graph, values) = negated(2);
        assert_eq!(bounds(&graph, values[3]), (0, 5));
        let clip = graph.producer(values[0]).unwrap();
        let three = graph.intern_constant(Tensor::scalar(tensor::DType::I64, 3.0).unwrap());
        graph.set_input(clip, 2, Some(three));
        assert_eq!(bounds(&graph, values[3]), (0, 3));
        assert_eq!(bounds(&graph.clone(), values[1]), (-3, 0));
    }

    #[test]
    fn answers_beyond_the_limit_are_not_kept() {
        let steps = STEPS as usize;
        let (graph, values) = negated(2 * steps);
        let far = *values.last().unwrap();
        assert_eq!(bounds(&graph, far), (i64::MIN, i64::MAX));
        // The first question looked at these values, too.
        let (near, middle) = (values[steps / 2], values[steps]);
        assert_eq!(bounds(&graph, near), (0, 5));
        assert_eq!(bounds(&graph, middle), (0, 5));
        assert_eq!(bounds(&graph, values[steps + steps / 2]), (0, 5));
    }
}
