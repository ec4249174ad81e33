//! `Gather(x, clip(i < 0 ? i + n : i, 0, n - 1))` → `Gather(x, clip(i, -n, n - 1))`: ONNX counts
//! negative indices from the end by itself. Likewise for the test whether an index was inside.

use onnx::{NodeId, ValueId, fold};
use tensor::{DType, Dim, Tensor};

use crate::movement::is_movement;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "gather_from_the_end", roots: &["Equal", "Gather", "GatherElements"], try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let root = m.root().clone();
    if root.is("Equal") {
        let (a, b) = (m.operand(0)?, m.operand(1)?);
        let clipped = Clipped::read(m, b)?;
        let wrapped = Wrapped::read(m, clipped.x, clipped.size)?;
        if a != clipped.x {
            return Err("what is compared is not what is clipped".into());
        }
        let given = replay(m, wrapped.index, &wrapped.moved)?;
        let inside = clip(m, given, clipped.size)?;
        return Ok(vec![m.like(&root, vec![Some(given), Some(inside)])?]);
    }
    let (data, indices) = (m.operand(0)?, m.operand(1)?);
    let (value, after) = moved_from(m, indices);
    let clipped = Clipped::read(m, value)?;
    let wrapped = Wrapped::read(m, clipped.x, clipped.size)?;
    let shape = &m.ty(data).shape;
    let axis = fold::axis(root.int("axis", 0), shape.len())?;
    if shape[axis] != Dim::Known(clipped.size) {
        return Err("the index is clipped to something else".into());
    }
    let given = replay(m, wrapped.index, &wrapped.moved)?;
    let inside = clip(m, given, clipped.size)?;
    let at = replay(m, inside, &after)?;
    Ok(vec![m.like(&root, vec![Some(data), Some(at)])?])
}

/// `value`'s source, and the movements from there.
fn moved_from(m: &Match<'_>, mut value: ValueId) -> (ValueId, Vec<NodeId>) {
    let mut nodes = Vec::new();
    while let Some(id) = m.graph().producer(value)
        && let node = m.graph().node(id)
        && is_movement(node)
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
        let mut inputs = node.inputs.clone();
        inputs[0] = Some(value);
        value = m.like(&node, inputs)?;
    }
    Ok(value)
}

fn clip(m: &mut Match<'_>, value: ValueId, size: i64) -> Result<ValueId, Skip> {
    let dtype: DType = m.ty(value).dtype;
    let bound = |n: i64| Tensor::int_scalar(dtype, i128::from(n));
    let (low, high) = bound(-size).zip(bound(size - 1)).ok_or("the bounds do not fit")?;
    let (low, high) = (m.tensor(low), m.tensor(high));
    m.op("Clip", &[value, low, high], onnx::attrs! {})
}

/// `Clip(x, 0, size - 1)`.
struct Clipped {
    x: ValueId,
    size: i64,
}

impl Clipped {
    fn read(m: &Match<'_>, value: ValueId) -> Result<Self, Skip> {
        let node = m.producer(value, &["Clip"]).ok_or("the index is not clipped")?;
        let [Some(x), Some(low), Some(high)] = *node.inputs else {
            return Err("a bound is left out".into());
        };
        let one = |value| m.ints(value).and_then(|ints| ints.first().copied());
        match (one(low), one(high)) {
            (Some(0), Some(last)) => Ok(Self { x, size: last + 1 }),
            _ => Err("the bounds are different".into()),
        }
    }
}

/// `Where(index < 0, index + size, index)`, moved.
struct Wrapped {
    index: ValueId,
    moved: Vec<NodeId>,
}

impl Wrapped {
    fn read(m: &Match<'_>, value: ValueId, size: i64) -> Result<Self, Skip> {
        const OTHER: Skip = Skip::Because("the index is not counted from the end");
        let (value, moved) = moved_from(m, value);
        let choice = m.producer(value, &["Where"]).ok_or(OTHER)?;
        let [Some(condition), Some(sum), Some(index)] = *choice.inputs else { return Err(OTHER) };
        let (less, add) = (m.producer(condition, &["Less"]), m.producer(sum, &["Add"]));
        let (Some(less), Some(add)) = (less, add) else { return Err(OTHER) };
        let is = |value: Option<ValueId>, n: i64| {
            value.and_then(|value| m.constant(value)).and_then(Tensor::splat) == Some(n as f64)
        };
        let tests = less.input(0) == Some(index) && is(less.input(1), 0);
        let adds = add.input(0) == Some(index) && is(add.input(1), size)
            || add.input(1) == Some(index) && is(add.input(0), size);
        // A constant may broadcast; the index decides the shape.
        if tests && adds && m.ty(index) == m.ty(value) {
            Ok(Self { index, moved })
        } else {
            Err(OTHER)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

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
                v1 = Unsqueeze (i, a)
                low = Constant <value = int32 {-9}> ()
                eight = Constant <value = int32 {8}> ()
                v4 = Clip (v1, low, eight)
                v5 = Squeeze (v4, a)
                y = Gather (x, v5)
                v6 = Unsqueeze (i, a)
                v7 = Clip (v6, low, eight)
                z = Equal (v6, v7)
            }",
        );
    }

    #[test]
    fn another_size_stays() {
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
}
