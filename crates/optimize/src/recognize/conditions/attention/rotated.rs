//! Rotary embeddings of queries and keys by their positions, as tables with one row per position.

use onnx::operators::{Axes, Trait};
use onnx::{Graph, ValueId, attrs};
use tensor::Dim;
use tensor::bounds::{lower_bound, same};

use crate::movement::{Chain, reshaped};
use crate::{Match, Skip};

const ONE: Dim = Dim::Known(1);

/// The kernel rotates vectors of this many features.
const VECTOR: i64 = 16;

/// The largest number of elements of a table.
const LARGEST: i64 = 1 << 26;

/// The maximum number of nodes between positions and a table.
const STEPS: usize = 16;

/// The queries and keys before their rotation, and the tables.
pub(super) struct Rotation {
    pub(super) query: ValueId,
    pub(super) key: ValueId,
    pub(super) cos: ValueId,
    pub(super) sin: ValueId,
    /// `true` if the pairs that are rotated are neighbours.
    pub(super) interleaved: bool,
}

impl Rotation {
    /// Returns the rotation of `query` and `key` by the positions of `count` tokens after
    /// `position` others. Returns `None` if they are not rotated, or in another way than the kernel
    /// does: they stay as they are then.
    pub(super) fn of(
        m: &mut Match<'_>,
        query: ValueId,
        key: ValueId,
        position: &Dim,
        count: &Dim,
        features: i64,
    ) -> Result<Option<Self>, Skip> {
        let chain = Chain::to(m, key);
        let nodes =
            [query, chain.source].map(|value| m.producer(value, &["RotaryEmbedding"]).cloned());
        let [Some(of_query), Some(of_key)] = nodes else {
            leave_out_wide(m, query);
            return Ok(None);
        };
        let alike = |name: &str| of_query.int(name, 0) == of_key.int(name, 0);
        let same_tables = (1..4).all(|index| match (of_query.input(index), of_key.input(index)) {
            (Some(a), Some(b)) => computes_same(m.graph(), a, b, 0),
            (a, b) => a == b,
        });
        if !alike("interleaved") || !alike("rotary_embedding_dim") || !same_tables {
            return Ok(None);
        }
        let operand = |index: usize| of_query.input(index);
        let (Some(cos), Some(sin), Some(x), Some(mut key)) =
            (operand(1), operand(2), operand(0), of_key.input(0))
        else {
            return Ok(None);
        };
        // Rows that are looked up by position must be in order.
        let is_counted = |ids: ValueId| {
            let found = m.facts().unpadded_progression(ids);
            found.is_some_and(|found| found.first == Dim::Known(0) && found.steps == [0, 1])
        };
        if operand(3).is_some_and(|ids| !is_counted(ids) && *count != ONE) {
            return Ok(None);
        }
        let half = m.ty(cos).shape.last().and_then(Dim::as_known).unwrap_or(1);
        let length = lower_bound(&-(position.clone() + count.clone())).map(|bound| -bound);
        let length = length.filter(|length| length.saturating_mul(half) <= LARGEST);
        let Some(length) = length.filter(|_| features % VECTOR == 0 && 2 * half % VECTOR == 0)
        else {
            return Ok(None);
        };
        let positions = Positions { first: position, count, length };
        let tables = [cos, sin].map(|value| positions.table(m, value, 0));
        let [Ok(cos), Ok(sin)] = tables else { return Ok(None) };
        let is_table = |m: &Match<'_>, value: ValueId| {
            m.ty(value).shape == [Dim::Known(length), Dim::Known(half)]
        };
        if !is_table(m, cos) || !is_table(m, sin) {
            return Ok(None);
        }
        for id in chain.nodes {
            let node = m.graph().node(id).clone();
            let inputs = std::iter::once(Some(key)).chain(node.inputs.iter().copied().skip(1));
            key = m.like(&node, inputs.collect())?;
        }
        let interleaved = of_query.int("interleaved", 0) != 0;
        Ok(Some(Self { query: x, key, cos, sin, interleaved }))
    }
}

/// Reports a rotation in a wider type than that of the queries.
fn leave_out_wide(m: &mut Match<'_>, query: ValueId) {
    let query = Chain::to(m, query).source;
    let small = m.ty(query).dtype;
    let Some(wide) = m.producer(query, &["Cast"]).and_then(|node| node.input(0)) else { return };
    let wide = Chain::to(m, wide).source;
    if m.producer(wide, &["RotaryEmbedding"]).is_some()
        && let Some(id) = m.graph().producer(wide)
    {
        let dtype = m.ty(wide).dtype;
        let reason = format!(
            "it rotates in {dtype}, and the operator has cosines and sines in {small}, which has fewer digits"
        );
        m.leave_out(id, reason);
    }
}

/// Returns `true` if two values are computed in the same way. Equal nodes that were emitted since
/// the last clean-up are not merged yet.
fn computes_same(graph: &Graph, a: ValueId, b: ValueId, steps: usize) -> bool {
    if a == b {
        return true;
    }
    if let (Some(a), Some(b)) = (graph.constant(a), graph.constant(b)) {
        return a.ty() == b.ty() && a.bytes().is_some() && a.bytes() == b.bytes();
    }
    let producers = graph.producer(a).zip(graph.producer(b));
    let Some((one, other)) = producers.map(|(a, b)| (graph.node(a), graph.node(b))) else {
        return false;
    };
    let operands = one.inputs.iter().zip(&other.inputs);
    let mut operands = operands.map(|(a, b)| match (a, b) {
        (Some(a), Some(b)) => computes_same(graph, *a, *b, steps + 1),
        (a, b) => a == b,
    });
    steps < STEPS
        && one.op == other.op
        && one.attrs == other.attrs
        && one.outputs.len() == 1
        && one.blocks().next().is_none()
        && !one.operator().has(Trait::Random)
        && one.inputs.len() == other.inputs.len()
        && operands.all(|is_same| is_same)
}

/// The positions of tokens, and the number of positions that tables have rows for.
struct Positions<'a> {
    first: &'a Dim,
    count: &'a Dim,
    length: i64,
}

impl Positions<'_> {
    /// Returns the values of `value` for all positions, as `[length, features]`, or those that are the
    /// same for all of them, as `[1, features]`.
    fn table(&self, m: &mut Match<'_>, value: ValueId, steps: usize) -> Result<ValueId, Skip> {
        const OTHERWISE: Skip = Skip::Because("a table is computed otherwise");
        if steps > STEPS {
            return Err(OTHERWISE);
        }
        if self.are(m, value) {
            let numbers: Vec<i64> = (0..self.length).collect();
            let iota = m.i64s(&numbers);
            let column = reshaped(m, iota, &[Dim::Known(self.length), ONE])?;
            return m.cast(column, m.ty(value).dtype);
        }
        let shape = m.ty(value).shape.clone();
        let last = shape.last().cloned().unwrap_or(ONE);
        if m.graph().tensor(value).is_some() {
            let is_row = shape.iter().rev().skip(1).all(|dim| *dim == ONE);
            return if is_row { reshaped(m, value, &[ONE, last]) } else { Err(OTHERWISE) };
        }
        let node = m.graph().producer(value).ok_or(OTHERWISE)?;
        let node = m.graph().node(node).clone();
        let x = node.input(0).ok_or(OTHERWISE)?;
        match node.op.name {
            name if name == "Cast" || node.operator().axes == Axes::Elementwise => {
                let mut inputs = Vec::new();
                for input in &node.inputs {
                    let input = input.ok_or(OTHERWISE)?;
                    let is_known = |dim: &Dim| dim.as_known().is_some();
                    // Positions must not be along the axis of features.
                    if node.inputs.len() > 1 && !m.ty(input).shape.last().is_none_or(is_known) {
                        return Err(OTHERWISE);
                    }
                    inputs.push(Some(self.table(m, input, steps + 1)?));
                }
                m.like(&node, inputs)
            }
            "Gather" if node.int("axis", 0) == 0 && m.ty(x).rank() == 2 => {
                let ids = node.input(1).ok_or(OTHERWISE)?;
                let rows = m.ty(x).shape[0].as_known().ok_or(OTHERWISE)?;
                if !self.are(m, ids) || rows < self.length || m.graph().tensor(x).is_none() {
                    return Err(OTHERWISE);
                }
                if rows == self.length {
                    return Ok(x);
                }
                let [start, end, axis] = [0, self.length, 0].map(|number| m.i64s(&[number]));
                m.op("Slice", &[x, start, end, axis], attrs! {})
            }
            name if name == "Expand" || node.is_reshape() => {
                let inner = self.table(m, x, steps + 1)?;
                let features = m.ty(inner).shape[1].clone();
                let ends = |dim: Option<&Dim>| dim.is_some_and(|dim| *dim == features);
                let from = m.ty(x).shape.clone();
                let kept = |shape: &[Dim]| {
                    shape.iter().filter(|dim| **dim != ONE).cloned().collect::<Vec<_>>()
                };
                let is_same = name == "Expand" || kept(&from) == kept(&shape);
                let has_features = features == ONE || ends(from.last()) && ends(shape.last());
                if is_same && has_features { Ok(inner) } else { Err(OTHERWISE) }
            }
            _ => Err(OTHERWISE),
        }
    }

    /// Returns `true` if `value` holds the positions, which may be the same for several examples.
    fn are(&self, m: &Match<'_>, value: ValueId) -> bool {
        let Some(found) = m.facts().unpadded_progression(value) else { return false };
        let shape = &m.ty(value).shape;
        let mut steps = found.steps.iter().zip(shape).filter(|(step, _)| **step != 0);
        let is_along = match (steps.next(), steps.next()) {
            (Some((1, size)), None) => size == self.count,
            (None, _) => *self.count == ONE,
            _ => false,
        };
        is_along && same(&found.first, self.first)
    }
}

#[cfg(test)]
mod tests {
    use onnx::Graph;
    use provenance::Origins;

    use super::{STEPS, computes_same};

    /// Returns `true` if the two results of a graph are computed in the same way.
    fn are_same(nodes: &str) -> bool {
        let text = format!(
            "g (float[2,2] x, float[2,2] z) => (float[M,N] a, float[M,N] b) {{
                low = Constant <value = float {{0}}> () high = Constant <value = float {{1}}> ()
                other = Constant <value = float {{0}}> () same = Constant <value = int32 {{0}}> ()
                {nodes}
            }}"
        );
        let graph = crate::testing::graph(&text, &mut Origins::default());
        let results = graph.block(Graph::MAIN).outputs();
        computes_same(&graph, results[0], results[1], 0)
    }

    #[test]
    fn nodes_are_compared_with_their_operands() {
        assert!(are_same("c = Exp (x) a = Neg (c) d = Exp (x) b = Neg (d)"));
        assert!(are_same("a = Clip (x, , high) b = Clip (x, , high)"));
        assert!(are_same("a = Clip (x, low) b = Clip (x, other)"));
        for nodes in [
            "a = Exp (x) b = Neg (x)",
            "a = Exp (x) b = Exp (z)",
            "a = Softmax <axis = 0> (x) b = Softmax <axis = 1> (x)",
            "a = Clip (x, low, high) b = Clip (x, low)",
            "a = Clip (x, low) b = Clip (x, high)",
            "c = Cast <to = 1> (low) a = Add (x, c) d = Cast <to = 1> (same) b = Add (x, d)",
            "a, c = Split <num_outputs = 2> (x) d, b = Split <num_outputs = 2> (x)",
        ] {
            assert!(!are_same(nodes), "{nodes}");
        }
    }

    #[test]
    fn few_steps_are_compared() {
        let chain = |from: &str, count: usize| {
            let nodes = (0..count).map(|i| format!("{from}{} = Neg ({from}{i}) ", i + 1));
            format!("{from}0 = Exp (x) {}", nodes.collect::<String>())
        };
        let both = |count: usize| {
            let (first, second) = (chain("p", count), chain("q", count));
            are_same(&format!("{first} {second} a = Abs (p{count}) b = Abs (q{count})"))
        };
        assert!(both(STEPS - 2));
        assert!(!both(STEPS - 1));
    }
}
