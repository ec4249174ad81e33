//! A `Transpose` of an `Expand`, or a `Reshape` of one that only adds or removes unit axes → an
//! `Expand` of the moved operand. Less data is moved, and consumers may broadcast themselves.

use onnx::operators::Operator;
use onnx::{ValueId, attrs};
use tensor::Dim;

use crate::movement::{AxisMap, Movement, emit};
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite::with("expand_after_movement", Operator::is_movement, try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (wide, y) = (m.operand(0)?, m.result()?);
    let node = m.producer(wide, &["Expand"]).ok_or("the operand is not expanded")?;
    let x = node.input(0).ok_or("an operand is missing")?;
    Skip::when(node.block() != m.root().block(), "it is expanded in another block")?;
    Skip::when(!m.is_used_once(wide), "the expanded value has other readers")?;
    let (narrow, expanded) = (m.ty(x).shape.clone(), m.ty(wide).shape.clone());
    Skip::when(narrow.len() > expanded.len(), "the operand has more axes")?;
    let one = Dim::Known(1);
    let missing = expanded.len() - narrow.len();
    let full = [vec![one.clone(); missing], narrow.clone()].concat();
    let (steps, moved) = if let Some(order) = AxisMap::of(m.graph(), m.root()) {
        let moved = order.apply(&full);
        (vec![Movement::Reshape(narrow, full), Movement::Transpose(order)], moved)
    } else {
        let mut axes = full.iter().zip(&expanded).filter(|(_, wide)| **wide != one);
        let mut moved = Vec::new();
        for dim in &m.ty(y).shape {
            moved.push(if *dim == one {
                one.clone()
            } else {
                let (narrow, wide) = axes.next().ok_or("elements change places")?;
                Skip::when(wide != dim, "elements change places")?;
                narrow.clone()
            });
        }
        Skip::when(axes.next().is_some(), "elements change places")?;
        (vec![Movement::Reshape(narrow, moved.clone())], moved)
    };
    let (sizes, shape) = (node.input(1), m.ty(y).shape.clone());
    let sizes = sizes.ok_or("an operand is missing")?;
    let sizes = told(m, sizes, &moved, &shape).ok_or("a symbolic size is expanded to")?;
    let moved = emit(m, x, &steps, &[m.id()])?;
    let mut parts: Vec<ValueId> = Vec::new();
    for run in sizes.chunk_by(|a, b| a.is_ok() && b.is_ok()) {
        let numbers: Result<Vec<i64>, ValueId> = run.iter().copied().collect();
        parts.push(numbers.map_or_else(|part| part, |numbers| m.i64s(&numbers)));
    }
    let target = match parts[..] {
        [] => m.i64s(&[]),
        [whole] => whole,
        _ => m.op("Concat", &parts, attrs! { axis: 0 })?,
    };
    Ok(vec![m.op("Expand", &[moved, target], attrs! {})?])
}

/// Returns the shape operand of an `Expand` between the given shapes: numbers, and values that hold
/// one size each. They are parts of `sizes`, the shape operand of the original one.
fn told(
    m: &Match<'_>,
    sizes: ValueId,
    from: &[Dim],
    to: &[Dim],
) -> Option<Vec<Result<i64, ValueId>>> {
    if let Some(known) = repeats(from, to) {
        return Some(known.into_iter().map(Ok).collect());
    }
    let concat = m.producer(sizes, &["Concat"]);
    let parts = concat.map_or(vec![Some(sizes)], |concat| concat.inputs.clone());
    let part = |dim: &Dim| {
        let holds = |part: &ValueId| {
            m.graph().content(*part).is_some_and(|held| held == std::slice::from_ref(dim))
        };
        parts.iter().flatten().copied().find(holds)
    };
    let missing = to.len().checked_sub(from.len())?;
    let from = std::iter::repeat_n(&Dim::Known(1), missing).chain(from);
    let told = |(from, to): (&Dim, &Dim)| match to.as_known() {
        _ if from == to => Some(Ok(1)),
        Some(known) => Some(Ok(known)),
        None => part(to).map(Err),
    };
    from.zip(to).map(told).collect()
}

/// Returns `true` if `to` is `from` with leading unit axes, or none.
pub(super) fn has_leading_units(from: &[Dim], to: &[Dim]) -> bool {
    to.strip_suffix(from).is_some_and(|added| added.iter().all(|size| *size == Dim::Known(1)))
}

/// Returns `x` in the shape of `like`, if broadcasting to it only adds unit axes.
pub(super) fn with_unit_axes(
    m: &mut Match<'_>,
    x: ValueId,
    like: ValueId,
) -> Result<Option<ValueId>, Skip> {
    let (from, to) = (m.ty(x).shape.clone(), m.ty(like).shape.clone());
    if !has_leading_units(&from, &to) {
        return Ok(None);
    }
    emit(m, x, &[Movement::Reshape(from, to)], &[m.id()]).map(Some)
}

/// Returns the shape operand of an `Expand` between the given shapes, if it is known: all sizes of
/// the new shape, or one for axes that do not change.
pub(super) fn repeats(from: &[Dim], to: &[Dim]) -> Option<Vec<i64>> {
    if let Some(sizes) = Dim::all_known(to) {
        return Some(sizes);
    }
    let missing = to.len().checked_sub(from.len())?;
    let from = std::iter::repeat_n(&Dim::Known(1), missing).chain(from);
    let told = |(from, to): (&Dim, &Dim)| if from == to { Some(1) } else { to.as_known() };
    from.zip(to).map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn operands_are_moved_before_the_expand() {
        rewrites_to(
            &REWRITE,
            "g (bool[1,5] x) => (bool[5,2,3] y) {
                a = Constant <value_ints = [2, 3, 5]> ()
                e = Expand (x, a)
                y = Transpose <perm = [2, 0, 1]> (e)
            }",
            "g (bool[1,5] x) => (bool[5,2,3] y) {
                v0 = Constant <value_ints = [1, 1, 5]> ()
                v1 = Reshape (x, v0)
                v2 = Transpose <perm = [2, 0, 1]> (v1)
                v3 = Constant <value_ints = [5, 2, 3]> ()
                y = Expand (v2, v3)
            }",
        );
        rewrites_to(
            &REWRITE,
            "g (bool[1,1,5] x) => (bool[2,1,5] y) {
                a = Constant <value_ints = [1, 2, 5]> ()
                e = Expand (x, a)
                b = Constant <value_ints = [2, 1, 5]> ()
                y = Reshape (e, b)
            }",
            "g (bool[1,1,5] x) => (bool[2,1,5] y) {
                b = Constant <value_ints = [2, 1, 5]> ()
                y = Expand (x, b)
            }",
        );
    }

    #[test]
    fn unchanged_symbolic_sizes_are_omitted() {
        rewrites_to(
            &REWRITE,
            "g (bool[B,1,T] x) => (bool[T,3,B] y) {
                a = Constant <value_ints = [1, 3, 1]> ()
                e = Expand (x, a)
                y = Transpose <perm = [2, 1, 0]> (e)
            }",
            "g (bool[B,1,T] x) => (bool[T,3,B] y) {
                v0 = Transpose <perm = [2, 1, 0]> (x)
                v1 = Constant <value_ints = [1, 3, 1]> ()
                y = Expand (v0, v1)
            }",
        );
    }

    #[test]
    fn symbolic_sizes_are_permuted() {
        rewrites_to(
            &REWRITE,
            "g (bool[B,1,1,T] x) => (bool[B,T,3,1,T] y) {
                t = Shape <start = 3> (x)
                a = Constant <value_ints = [1]> ()
                b = Constant <value_ints = [3]> ()
                s = Concat <axis = 0> (a, b, t, a)
                e = Expand (x, s)
                y1 = Transpose <perm = [0, 2, 1, 3]> (e)
                c = Constant <value_ints = [3]> ()
                y = Unsqueeze (y1, c)
            }",
            "g (bool[B,1,1,T] x) => (bool[B,T,3,1,T] y) {
                t = Shape <start = 3> (x)
                v0 = Transpose <perm = [0, 2, 1, 3]> (x)
                v1 = Constant <value_ints = [0, 1, 1, 1, -1]> ()
                v2 = Reshape (v0, v1)
                v3 = Constant <value_ints = [1]> ()
                v4 = Constant <value_ints = [3, 1, 1]> ()
                v5 = Concat <axis = 0> (v3, t, v4)
                y = Expand (v2, v5)
            }",
        );
    }

    #[test]
    fn merged_axes_are_unchanged() {
        stays(
            &REWRITE,
            "g (bool[1,5] x) => (bool[10] y) {
                a = Constant <value_ints = [2, 5]> ()
                e = Expand (x, a)
                b = Constant <value_ints = [10]> ()
                y = Reshape (e, b)
            }",
        );
    }

    #[test]
    fn expanded_values_with_other_readers_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[2,1] x) => (float[3,2] y, float[2,3] e) {
                s = Constant <value_ints = [2, 3]> ()
                e = Expand (x, s)
                y = Transpose <perm = [1, 0]> (e)
            }",
        );
    }
}
