//! `Transpose(ReduceMax(x))` → `ReduceMax(Transpose(x))`, if another consumer reads the same
//! transpose of `x`. This occurs for the maximum of a softmax whose scores are transposed in
//! between.

use onnx::operators::Operator;
use onnx::{Attr, Use, ValueId, fold};

use crate::movement::{Atoms, Chain, set_attr};
use crate::rewrite::operands;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite::with("reduce_after_movement", Operator::is_movement, try_at);

/// The reductions whose result does not depend on the order of elements.
const REDUCTIONS: &[&str] = &["ReduceMax", "ReduceMin"];

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let y = m.result()?;
    let after = Chain::to(m, y);
    let node = m.producer(after.source, REDUCTIONS).ok_or("the operand is not a maximum")?.clone();
    Skip::when(!m.is_used_once(after.source), "the reduction has other readers")?;
    Skip::when(node.block() != m.root().block(), "the reduction is made elsewhere")?;
    let [x, axes] = operands(&node)?;
    let rank = m.ty(x).rank();
    let axes = m.ints(axes).ok_or("the axes are not known")?;
    let axes = axes.into_iter().map(|axis| fold::axis(axis, rank));
    let axes = axes.collect::<Result<Vec<_>, _>>()?;
    let kept = node.int("keepdims", 1) == 1;

    let mut atoms = Atoms::default();
    let source = atoms.add(&m.ty(x).shape)?;
    let reduced: Vec<usize> =
        axes.iter().flat_map(|axis| atoms.layout(source)[*axis].clone()).collect();
    let result = atoms.layout(source).iter().enumerate().filter_map(|(axis, atoms)| {
        let is_reduced = axes.contains(&axis);
        (kept || !is_reduced).then(|| if is_reduced { Vec::new() } else { atoms.clone() })
    });
    let result = atoms.view(result.collect());
    atoms.follow(result, m.graph(), &after.nodes)?;
    for place in m.graph().value(x).uses().collect::<Vec<_>>() {
        let Use::Operand(reader, 0) = place else { continue };
        let transpose = m.graph().node(reader).clone();
        if !transpose.is("Transpose") || transpose.block() != m.root().block() {
            continue;
        }
        let moved = atoms.view(atoms.layout(source).clone());
        atoms.follow(moved, m.graph(), &[reader])?;
        let is_gone = |axis: &[usize]| !axis.is_empty() && axis.iter().all(|a| reduced.contains(a));
        let moved = atoms.layout(moved);
        let now: Vec<i64> = (0..).zip(moved).filter(|(_, a)| is_gone(a)).map(|(i, _)| i).collect();
        // Unit axes have no atoms to track, and an empty list would mean all axes.
        if now.len() != axes.len() {
            continue;
        }
        let ones = moved.iter().map(|axis| if is_gone(axis) { &[][..] } else { axis });
        let fewer = moved.iter().filter(|axis| !is_gone(axis));
        let keepdims = if ones.eq(atoms.layout(result)) {
            1
        } else if fewer.eq(atoms.layout(result)) {
            0
        } else {
            continue;
        };
        let mut node = node;
        set_attr(&mut node.attrs, "keepdims", Attr::Int(keepdims));
        let first = m.like(&transpose, vec![Some(x)])?;
        let axes = m.i64s(&now);
        return Ok(vec![m.like(&node, vec![Some(first), Some(axes)])?]);
    }
    Err("nothing else moves the operand in the same way".into())
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn a_maximum_is_computed_from_transposed_scores() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3,4,5] x) => (float[4,2,3,1] m, float[4,2,3,5] y) {
                a = Constant <value_ints = [-1]> ()
                r = ReduceMax <keepdims = 0> (x, a)
                t = Transpose <perm = [2, 0, 1]> (r)
                m = Unsqueeze (t, a)
                y = Transpose <perm = [2, 0, 1, 3]> (x)
            }",
            "g (float[2,3,4,5] x) => (float[4,2,3,1] m, float[4,2,3,5] y) {
                v0 = Transpose <perm = [2, 0, 1, 3]> (x)
                a = Constant <value_ints = [3]> ()
                t = ReduceMax <keepdims = 0> (v0, a)
                b = Constant <value_ints = [-1]> ()
                m = Unsqueeze (t, b)
                y = Transpose <perm = [2, 0, 1, 3]> (x)
            }",
        );
    }

    #[test]
    fn another_permutation_is_unchanged() {
        stays(
            &REWRITE,
            "g (float[2,3,4] x) => (float[3,2] m, float[4,2,3] y) {
                a = Constant <value_ints = [-1]> ()
                r = ReduceMax <keepdims = 0> (x, a)
                m = Transpose <perm = [1, 0]> (r)
                y = Transpose <perm = [2, 0, 1]> (x)
            }",
        );
    }

    #[test]
    fn a_maximum_may_keep_its_axes() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3,4] x) => (float[3,2,1] m, float[3,2,4] y) {
                a = Constant <value_ints = [-1]> ()
                r = ReduceMax <keepdims = 1> (x, a)
                m = Transpose <perm = [1, 0, 2]> (r)
                y = Transpose <perm = [1, 0, 2]> (x)
            }",
            "g (float[2,3,4] x) => (float[3,2,1] m, float[3,2,4] y) {
                v0 = Transpose <perm = [1, 0, 2]> (x)
                a = Constant <value_ints = [2]> ()
                m = ReduceMax <keepdims = 1> (v0, a)
                y = Transpose <perm = [1, 0, 2]> (x)
            }",
        );
    }

    #[test]
    fn a_maximum_with_other_readers_is_unchanged() {
        stays(
            &REWRITE,
            "g (float[2,3,4] x) => (float[3,2] m, float[3,2,4] y, float[2,3] r) {
                a = Constant <value_ints = [-1]> ()
                r = ReduceMax <keepdims = 0> (x, a)
                m = Transpose <perm = [1, 0]> (r)
                y = Transpose <perm = [1, 0, 2]> (x)
            }",
        );
    }
}
