//! `Gather(x, clip(i < 0 ? i + n : i, 0, n - 1))` → `Gather(x, clip(i, -n, n - 1))`. ONNX itself
//! interprets negative indices as counting from the end, including elements of index vectors and
//! positions to write to. The test whether an index was in range is rewritten likewise.

use onnx::operators::Trait;
use onnx::{NodeId, Use, ValueId, attrs};
use tensor::{DType, Dim, Tensor};

use super::drop_counting_from_the_end::indexed_sizes;
use super::expand_after_movement::has_leading_units;
use crate::rewrite::either_order;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite::with("gather_from_the_end", |op| op.has(Trait::Indexes) || op.name == "Equal", try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let root = m.root().clone();
    if root.is("Equal") {
        let (a, b) = (m.operand(0)?, m.operand(1)?);
        let clipped = Clipped::read(m, b)?;
        let wrapped = Wrapped::read(m, clipped.x, &clipped.size)?;
        Skip::when(!is_same(m, a, clipped.x), "the compared value is not the clipped one")?;
        Skip::when(!is_looked_up_only(m, b), "the clipped index is needed elsewhere")?;
        let inside = wrapped.clipped(m, &clipped.size)?;
        let same = m.like(&root, vec![Some(wrapped.index), Some(inside)])?;
        let graph = m.graph();
        let moved = wrapped.moved.iter().copied().filter(|id| graph.node(*id).is_movement());
        let moved: Vec<NodeId> = moved.collect();
        return Ok(vec![replay(m, same, &moved)?]);
    }
    let sizes = indexed_sizes(m)?;
    let value = from_either_end(m, m.operand(1)?, &sizes)?;
    Ok(vec![m.like_with(&root, 1, value)?])
}

/// Returns clipped indices that count from either end. The components of index vectors refer to
/// axes of the given `sizes`.
fn from_either_end(m: &mut Match<'_>, indices: ValueId, sizes: &[Dim]) -> Result<ValueId, Skip> {
    if let [size] = sizes {
        let (value, after) = moved_from(m, indices);
        let clipped = Clipped::read(m, value)?;
        let wrapped = Wrapped::read(m, clipped.x, &clipped.size)?;
        Skip::when(*size != clipped.size, "the index is clipped to something else")?;
        let inside = wrapped.clipped(m, &clipped.size)?;
        let inside = replay(m, inside, &wrapped.moved)?;
        return replay(m, inside, &after);
    }
    const OTHER: Skip = Skip::Because("the vectors are computed in another way");
    let id = m.graph().producer(indices).ok_or(OTHER)?;
    let node = m.graph().node(id).clone();
    let mut inputs = node.inputs.clone();
    if node.block() != m.root().block() {
        return Err(OTHER);
    }
    if node.is("Cast") && keeps(m, id) {
        let inside = from_either_end(m, node.input(0).ok_or(OTHER)?, sizes)?;
        return m.like_with(&node, 0, inside);
    }
    if !is_of_vectors(m, id) || inputs.len() != sizes.len() {
        return Err(OTHER);
    }
    let mut changed = false;
    for (input, size) in inputs.iter_mut().zip(sizes) {
        let part = input.ok_or(OTHER)?;
        if let Ok(new) = from_either_end(m, part, std::slice::from_ref(size)) {
            *input = Some(new);
            changed = true;
        }
    }
    if changed { m.like(&node, inputs) } else { Err("no element is clipped".into()) }
}

/// Returns `true` if a node concatenates single elements into vectors.
fn is_of_vectors(m: &Match<'_>, id: NodeId) -> bool {
    m.facts().parts_of_vectors(m.graph().node(id).outputs[0]).is_some()
}

/// Returns `true` if `b` is `a`, possibly with leading unit axes.
fn is_same(m: &Match<'_>, a: ValueId, b: ValueId) -> bool {
    a == b
        || has_leading_units(&m.ty(a).shape, &m.ty(b).shape)
            && m.producer(b, &["Reshape", "Unsqueeze"]).is_some_and(|n| n.input(0) == Some(a))
}

/// Returns the source of `value`, and the data movement from there.
fn moved_from(m: &Match<'_>, mut value: ValueId) -> (ValueId, Vec<NodeId>) {
    let mut nodes = Vec::new();
    while let Some(id) = m.graph().producer(value)
        && let node = m.graph().node(id)
        && keeps(m, id)
        && node.block() == m.root().block()
        && let Some(from) = node.input(0)
    {
        nodes.push(id);
        value = from;
    }
    nodes.reverse();
    (value, nodes)
}

fn replay(m: &mut Match<'_>, mut value: ValueId, nodes: &[NodeId]) -> Result<ValueId, Skip> {
    for id in nodes {
        let node = m.graph().node(*id).clone();
        value = m.like_with(&node, 0, value)?;
    }
    Ok(value)
}

/// Returns `true` if a node preserves the integers of its operand.
fn keeps(m: &Match<'_>, id: NodeId) -> bool {
    let node = m.graph().node(id);
    let widens = || {
        let from = node.input(0).map(|from| m.ty(from).dtype);
        (from, m.ty(node.outputs[0]).dtype) == (Some(DType::I32), DType::I64)
    };
    node.is_movement() || (node.is("Cast") && widens())
}

/// Returns `true` if all consumers of an index are lookups or tests of its range.
fn is_looked_up_only(m: &Match<'_>, index: ValueId) -> bool {
    m.graph().value(index).uses().all(|place| {
        let Use::Operand(id, at) = place else { return false };
        let node = m.graph().node(id);
        match node.op.name {
            "Equal" => true,
            _ if node.operator().has(Trait::Indexes) => at == 1,
            "Concat" => is_of_vectors(m, id) && is_looked_up_only(m, node.outputs[0]),
            _ => keeps(m, id) && at == 0 && is_looked_up_only(m, node.outputs[0]),
        }
    })
}

/// `Clip(x, 0, size - 1)`, or `Max` and `Min`.
struct Clipped {
    x: ValueId,
    size: Dim,
}

impl Clipped {
    fn read(m: &Match<'_>, value: ValueId) -> Result<Self, Skip> {
        let node = m.producer(value, &["Clip", "Min"]).ok_or("the index is not clipped")?;
        let bounds = match (node.op.name, &*node.inputs) {
            ("Clip", &[Some(x), Some(low), Some(high)]) => Some((x, low, high)),
            ("Min", &[Some(above), Some(high)]) => m
                .producer(above, &["Max"])
                .and_then(|max| Some((max.input(0)?, max.input(1)?, high)))
                .filter(|(x, ..)| m.ty(*x) == m.ty(value)),
            _ => None,
        };
        let (x, low, high) = bounds.ok_or("a bound is left out")?;
        match (m.facts().interval(low).single(), m.facts().interval(high).single()) {
            (Some(Dim::Known(0)), Some(last)) => Ok(Self { x, size: last + Dim::Known(1) }),
            _ => Err("the bounds are different".into()),
        }
    }
}

/// Returns the index and the value of the size, if `value` is `Where(index < 0, index + size,
/// index)`.
pub(super) fn counted_from_end(
    m: &Match<'_>,
    value: ValueId,
    size: &Dim,
) -> Option<(ValueId, ValueId)> {
    let [Some(condition), Some(sum), Some(index)] = *m.producer(value, &["Where"])?.inputs else {
        return None;
    };
    let (less, add) = (m.producer(condition, &["Less"])?, m.producer(sum, &["Add"])?);
    let is = |value, dim: &Dim| m.facts().interval(value).single().as_ref() == Some(dim);
    let (_, added) = either_order(add, |value, _| value == index)?;
    let tests = less.input(0) == Some(index) && is(less.input(1)?, &Dim::Known(0));
    // A constant may broadcast; the index determines the shape.
    (tests && is(added, size) && m.ty(index) == m.ty(value)).then_some((index, added))
}

/// `Where(index < 0, index + size, index)`, followed by data movement.
struct Wrapped {
    index: ValueId,
    moved: Vec<NodeId>,
    /// A value with one element, the size.
    size: ValueId,
}

impl Wrapped {
    fn read(m: &Match<'_>, value: ValueId, size: &Dim) -> Result<Self, Skip> {
        const OTHER: Skip = Skip::Because("the index is not counted from the end");
        let (value, moved) = moved_from(m, value);
        let (index, size) = counted_from_end(m, value, size).ok_or(OTHER)?;
        Ok(Self { index, moved, size })
    }

    /// Clips the index to the range that ONNX accepts from either end.
    fn clipped(&self, m: &mut Match<'_>, size: &Dim) -> Result<ValueId, Skip> {
        let dtype = m.ty(self.index).dtype;
        let number =
            |n: i64| Tensor::int_scalar(dtype, i128::from(n)).ok_or("the bounds do not fit");
        if let Some(size) = size.as_known() {
            let (low, high) = (number(-size)?, number(size - 1)?);
            let (low, high) = (m.tensor(low), m.tensor(high));
            return m.op("Clip", &[self.index, low, high], attrs! {});
        }
        if m.ty(self.size).rank() != 0 || !matches!(dtype, DType::I32 | DType::I64) {
            return Err("the size is not a number of that type".into());
        }
        let minus_one = m.tensor(number(-1)?);
        let low = m.op("Neg", &[self.size], attrs! {})?;
        let high = m.op("Add", &[self.size, minus_one], attrs! {})?;
        let above = m.op("Max", &[self.index, low], attrs! {})?;
        m.op("Min", &[above, high], attrs! {})
    }
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, rewritten, stays};

    #[test]
    fn onnx_counts_from_the_end() {
        rewrites_to(
            &REWRITE,
            "g (float[9,4] x, int32[B] i) => (float[B,4] y, bool[B,1] z) {
                zero = Constant <value = int32 {0}> ()
                nine = Constant <value = int32 {9}> ()
                n = Less (i, zero)
                s = Add (i, nine)
                w = Where (n, s, i)
                a = Constant <value_ints = [1]> ()
                u = Unsqueeze (w, a)
                eight = Constant <value = int32 {8}> ()
                c = Clip (u, zero, eight)
                q = Squeeze (c, a)
                y = Gather (x, q)
                z = Equal (u, c)
            }",
            "g (float[9,4] x, int32[B] i) => (float[B,4] y, bool[B,1] z) {
                a = Constant <value_ints = [1]> ()
                low = Constant <value = int32 {-9}> ()
                eight = Constant <value = int32 {8}> ()
                v2 = Clip (i, low, eight)
                v4 = Unsqueeze (v2, a)
                v5 = Squeeze (v4, a)
                y = Gather (x, v5)
                v6 = Clip (i, low, eight)
                v7 = Equal (i, v6)
                z = Unsqueeze (v7, a)
            }",
        );
    }

    #[test]
    fn positions_to_write_count_from_the_end() {
        rewrites_to(
            &REWRITE,
            "g (float[9,4] x, int32 i, float[4] u) => (float[9,4] y) {
                zero = Constant <value = int32 {0}> ()
                nine = Constant <value = int32 {9}> ()
                eight = Constant <value = int32 {8}> ()
                none = Constant <value = float {0}> ()
                a = Constant <value_ints = [0]> ()
                n = Less (i, zero)
                s = Add (i, nine)
                w = Where (n, s, i)
                v = Unsqueeze (w, a)
                c = Clip (v, zero, eight)
                z = Equal (w, c)
                k = Cast <to = 7> (c)
                t = Where (z, u, none)
                y = ScatterND <reduction = \"add\"> (x, k, t)
            }",
            "g (float[9,4] x, int32 i, float[4] u) => (float[9,4] y) {
                none = Constant <value = float {0}> ()
                a = Constant <value_ints = [0]> ()
                low = Constant <value = int32 {-9}> ()
                eight = Constant <value = int32 {8}> ()
                v2 = Clip (i, low, eight)
                v3 = Equal (i, v2)
                z = Unsqueeze (v3, a)
                t = Where (z, u, none)
                v6 = Clip (i, low, eight)
                v7 = Unsqueeze (v6, a)
                v8 = Cast <to = 7> (v7)
                y = ScatterND <reduction = \"add\"> (x, v8, t)
            }",
        );
    }

    #[test]
    fn elements_of_index_vectors_count_from_the_end() {
        rewrites_to(
            &REWRITE,
            "g (float[9,4] x, int64[B,1] i, int64[B,1] j) => (float[B] y) {
                zero = Constant <value_int = 0> ()
                nine = Constant <value_int = 9> ()
                eight = Constant <value_int = 8> ()
                three = Constant <value_int = 3> ()
                n = Less (i, zero)
                s = Add (i, nine)
                w = Where (n, s, i)
                c = Clip (w, zero, eight)
                d = Clip (j, zero, three)
                k = Concat <axis = -1> (c, d)
                y = GatherND (x, k)
            }",
            "g (float[9,4] x, int64[B,1] i, int64[B,1] j) => (float[B] y) {
                zero = Constant <value_int = 0> ()
                low = Constant <value_int = -9> ()
                eight = Constant <value_int = 8> ()
                three = Constant <value_int = 3> ()
                d = Clip (j, zero, three)
                v4 = Clip (i, low, eight)
                v5 = Concat <axis = -1> (v4, d)
                y = GatherND (x, v5)
            }",
        );
    }

    #[test]
    fn symbolic_sizes_are_supported() {
        rewrites_to(
            &REWRITE,
            "g (float[L,4] x, int32[B] i) => (float[B,4] y) {
                zero = Constant <value = int32 {0}> ()
                zeros = Constant <value_int = 0> ()
                front = Constant <value_ints = [0]> ()
                back = Constant <value_ints = [-1]> ()
                l = Shape <start = 0, end = 1> (x)
                s = Squeeze (l, front)
                size = Cast <to = 6> (s)
                n = Less (i, zero)
                sum = Add (i, size)
                w = Where (n, sum, i)
                a = Constant <value_ints = [1]> ()
                u = Unsqueeze (w, a)
                c = Cast <to = 7> (u)
                last = Add (l, back)
                p = Max (c, zeros)
                q = Min (p, last)
                r = Squeeze (q, a)
                y = Gather (x, r)
            }",
            "g (float[L,4] x, int32[B] i) => (float[B,4] y) {
                front = Constant <value_ints = [0]> ()
                a = Constant <value_ints = [1]> ()
                minus = Constant <value = int32 {-1}> ()
                l = Shape <start = 0, end = 1> (x)
                s = Squeeze (l, front)
                size = Cast <to = 6> (s)
                v1 = Neg (size)
                v3 = Add (size, minus)
                v4 = Max (i, v1)
                v5 = Min (v4, v3)
                v7 = Unsqueeze (v5, a)
                v8 = Cast <to = 7> (v7)
                v9 = Squeeze (v8, a)
                y = Gather (x, v9)
            }",
        );
    }

    #[test]
    fn other_consumers_need_the_clipped_index() {
        stays(
            &REWRITE,
            "g (float[9] x, int32[B] i) => (bool[B] y, int32[B] z) {
                zero = Constant <value = int32 {0}> ()
                nine = Constant <value = int32 {9}> ()
                eight = Constant <value = int32 {8}> ()
                n = Less (i, zero)
                s = Add (i, nine)
                w = Where (n, s, i)
                c = Clip (w, zero, eight)
                y = Equal (w, c)
                z = Neg (c)
            }",
        );
    }

    #[test]
    fn another_size_is_unchanged() {
        stays(
            &REWRITE,
            "g (float[9] x, int32[B] i) => (float[B] y) {
                zero = Constant <value = int32 {0}> ()
                seven = Constant <value = int32 {7}> ()
                n = Less (i, zero)
                s = Add (i, seven)
                w = Where (n, s, i)
                six = Constant <value = int32 {6}> ()
                c = Clip (w, zero, six)
                y = Gather (x, c)
            }",
        );
    }

    /// A lookup of nine rows at indices that are counted from the end if they are negative.
    const LOOKUP: &str = "g (float[9,4] x, int32[B] i, int32[B] j) => (float[B,4] y) {
        zero = Constant <value = int32 {0}> ()
        nine = Constant <value = int32 {9}> ()
        eight = Constant <value = int32 {8}> ()
        n = Less (i, zero)
        s = Add (i, nine)
        w = Where (n, s, i)
        c = Clip (w, zero, eight)
        y = Gather (x, c)
    }";

    #[test]
    fn the_size_is_added_in_either_order() {
        for sum in ["Add (i, nine)", "Add (nine, i)"] {
            let text = rewritten(&REWRITE, &LOOKUP.replace("Add (i, nine)", sum));
            assert!(!text.contains("Where"), "{text}");
        }
    }

    #[test]
    fn other_choices_are_not_counted_from_the_end() {
        for (from, to) in [
            ("Less (i, zero)", "Less (j, zero)"),
            ("Less (i, zero)", "Less (i, eight)"),
            ("Add (i, nine)", "Add (j, nine)"),
            ("Add (i, nine)", "Add (i, eight)"),
            ("Where (n, s, i)", "Where (n, s, j)"),
            ("Clip (w, zero, eight)", "Clip (w, eight, eight)"),
            ("Clip (w, zero, eight)", "Clip (w, zero, nine)"),
        ] {
            stays(&REWRITE, &LOOKUP.replace(from, to));
        }
        // The constants determine the shape.
        let scalar = LOOKUP.replace("int32[B] i", "int32 i").replace("[B,4] y", "[1,4] y");
        stays(&REWRITE, &scalar.replace("int32 {9}", "int32[1] {9}"));
    }

    #[test]
    fn a_cast_to_fewer_bits_is_not_passed() {
        let narrow = "k = Cast <to = 6> (c) y = Gather (x, k)";
        stays(&REWRITE, &LOOKUP.replace("int32", "int64").replace("y = Gather (x, c)", narrow));
        let wide = "k = Cast <to = 7> (c) y = Gather (x, k)";
        let text = rewritten(&REWRITE, &LOOKUP.replace("y = Gather (x, c)", wide));
        assert!(!text.contains("Where"), "{text}");
    }

    #[test]
    fn a_test_of_another_index_is_unchanged() {
        let test = |body: &str| {
            LOOKUP
                .replace("=> (float[B,4] y)", "=> (bool[1,B] y)")
                .replace("c = Clip (w, zero, eight)", "")
                .replace("y = Gather (x, c)", body)
        };
        let axis = "a = Constant <value_ints = [0]> ()";
        for (body, applies) in [
            (
                format!("{axis} u = Unsqueeze (w, a) d = Clip (u, zero, eight) y = Equal (w, d)"),
                true,
            ),
            (
                format!("{axis} u = Unsqueeze (w, a) d = Clip (u, zero, eight) y = Equal (j, d)"),
                false,
            ),
            (
                format!(
                    "{axis} u = Unsqueeze (w, a) d = Clip (u, zero, eight) v = Neg (u) y = Equal (v, d)"
                ),
                false,
            ),
        ] {
            let text = rewritten(&REWRITE, &test(&body));
            assert_eq!(!text.contains("Where"), applies, "{text}");
        }
    }

    /// The parts are rows of indices, not elements of vectors.
    #[test]
    fn stacked_vectors_are_not_elements_of_one() {
        stays(
            &REWRITE,
            "g (float[9,9] x, int64[1,2] i, int64[1,2] j) => (float[2] y) {
                zero = Constant <value_int = 0> ()
                nine = Constant <value_int = 9> ()
                eight = Constant <value_int = 8> ()
                n = Less (i, zero)
                s = Add (i, nine)
                w = Where (n, s, i)
                c = Clip (w, zero, eight)
                k = Concat <axis = 0> (c, j)
                y = GatherND (x, k)
            }",
        );
    }
}
