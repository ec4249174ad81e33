//! `f(Unsqueeze(x))` → `Unsqueeze(f(x))`, if a data movement that absorbs it follows. Unit axes
//! that are inserted before a softmax and removed after it disappear.

use onnx::operators::Axes;
use onnx::{Attr, Node, Use, ValueId, fold};
use smallvec::SmallVec;
use tensor::Dim;

use crate::movement::{AxisMap, Change, Movement, emit, push, reshaped, set_attr, unit_axes};
use crate::passes::layout;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::with(
    "sink_unit_axes",
    |op| op.is_elementwise() || matches!(op.axes, Axes::MatMul | Axes::Reduce | Axes::Softmax),
    try_at,
);

/// The maximum number of operators up to the data movement.
const REACH: usize = 24;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (y, root) = (m.result()?, m.root());
    Skip::when(is_float_guard(m, root), "it may belong to a softmax")?;
    let broadcasts = root.operator().axes == Axes::Elementwise;
    let count = if broadcasts { root.inputs.len() } else { 1 };
    let operands: SmallVec<[ValueId; 4]> =
        root.inputs.iter().take(count).flatten().copied().collect();
    let rank = operands.iter().map(|value| m.ty(*value).rank()).max().unwrap_or(0);
    let is_single = |axis: usize| is_one(m, &operands, rank, axis);
    Skip::when(!(0..rank).any(is_single), "no axis has size one")?;
    if broadcasts && operands.iter().any(|value| is_laid_out(m, *value)) {
        return Err("the layout between convolutions is chosen as a whole".into());
    }
    if root.is("MatMul") {
        let right = m.operand(1)?;
        if m.ty(right).rank() == 2 && m.graph().tensor(right).is_none() {
            return Err("the right operand is a matrix that is not a constant".into());
        }
    }
    // Axes refer to the broadcast operands.
    let pushed = |gone: &[usize]| push(m.graph(), root, &AxisMap::without(gone, rank));
    let goes = |axis: &usize| is_single(*axis) && pushed(&[*axis]).is_some();
    // Guards of a single index are recognised as a whole.
    if matches!(root.op.name, "Max" | "Min") && (0..rank).all(|axis| goes(&axis)) {
        return Err("it is a single element".into());
    }
    Skip::when(!(0..rank).any(|axis| goes(&axis)), "no axis of size one could go")?;
    let spelled_out = operands.iter().find_map(|value| {
        let shift = rank - m.ty(*value).rank();
        let put_in = inserted(m, *value).map_or_else(Vec::new, |(_, axes)| axes.to_vec());
        let moved = moved(m, *value).map(|(_, axes)| axes);
        put_in.into_iter().chain(moved).find_map(|axes| {
            let axes: Vec<usize> = axes.iter().map(|axis| axis + shift).filter(goes).collect();
            (!axes.is_empty()).then_some(axes)
        })
    });
    // Leading axes that only constants have.
    let of_constants = || {
        let computed = operands.iter().filter(|value| m.constant(**value).is_none());
        let widest = computed.map(|value| m.ty(*value).rank()).max()?;
        let axes: Vec<usize> = (0..rank - widest).filter(goes).collect();
        (!axes.is_empty()).then_some(axes)
    };
    let gone = spelled_out.or_else(of_constants).ok_or("no operand has inserted axes")?;
    let pushed = pushed(&gone).ok_or("the axes are needed")?;
    let root = root.clone();
    if let Change::Operand(_, axes) = &pushed.change
        && pushed.results.is_some()
        && let Some((source, all)) = inserted(m, operands[0])
        && all.contains(&gone)
    {
        // The inserted axis is at the position of the reduced one, if that were kept.
        let mut shape = m.ty(source).shape.clone();
        for axis in axes.to_i64s().unwrap_or_default() {
            let axis = fold::axis(axis, shape.len())?;
            shape[axis] = Dim::Known(1);
        }
        if shape == m.ty(y).shape {
            let mut node = root.clone();
            set_attr(&mut node.attrs, "keepdims", Attr::Int(1));
            return Ok(vec![pushed.emit(m, &node, |_, _| Ok(source))?]);
        }
    }
    if !is_taken_in(m, y, &mut { REACH }) {
        return Err("no movement follows".into());
    }
    let result = pushed.emit(m, &root, |m, value| without(m, value, rank, &gone))?;
    let map = pushed.results.unwrap_or_else(|| AxisMap::without(&gone, rank));
    let to = map.shape_before(&m.ty(result).shape);
    Skip::when(to != m.ty(y).shape, "the result's shape is not the one expected")?;
    Ok(vec![reshaped(m, result, &to)?])
}

/// Returns `true` if all operands, broadcast to `rank` axes, have size one along `axis`.
fn is_one(m: &Match<'_>, operands: &[ValueId], rank: usize, axis: usize) -> bool {
    operands.iter().all(|value| {
        let shape = &m.ty(*value).shape;
        (axis + shape.len()).checked_sub(rank).is_none_or(|axis| shape[axis] == Dim::Known(1))
    })
}

/// Returns the source of `value` before unit axes were inserted, and the positions of these axes.
/// If they are ambiguous, the two lists are the first and the last possible positions.
fn inserted(m: &Match<'_>, value: ValueId) -> Option<(ValueId, [Vec<usize>; 2])> {
    let node = m.producer(value, &["Reshape", "Unsqueeze"])?;
    if node.block() != m.root().block() {
        return None;
    }
    let source = node.input(0)?;
    let (from, to) = (&m.ty(source).shape, &m.ty(value).shape);
    let put_in = |from: &[Dim], to: &[Dim]| {
        let (op, axes) = unit_axes(from, to)?;
        let axes = axes.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>().ok()?;
        (op == "Unsqueeze").then_some(axes)
    };
    let reversed = |dims: &[Dim]| dims.iter().rev().cloned().collect::<Vec<_>>();
    let from_end = put_in(&reversed(from), &reversed(to))?;
    let first = from_end.iter().rev().map(|axis| to.len() - 1 - axis).collect();
    Some((source, [first, put_in(from, to)?]))
}

/// Returns the source of `value` if its unit axes were at other positions, and their current
/// positions.
fn moved(m: &Match<'_>, value: ValueId) -> Option<(ValueId, Vec<usize>)> {
    let node = m.producer(value, &["Reshape"])?;
    let source = node.input(0)?;
    if m.producer(source, &["Reshape", "Unsqueeze"]).is_some() {
        return None; // The two are composed first, which may leave fewer axes to move.
    }
    let (from, to) = (&m.ty(source).shape, &m.ty(value).shape);
    let is_one = |dim: &&Dim| **dim == Dim::Known(1);
    let elements =
        |dims: &[Dim]| dims.iter().filter(|dim| !is_one(dim)).cloned().collect::<Vec<_>>();
    let moved = node.block() == m.root().block()
        && from != to
        && from.len() == to.len()
        && elements(from) == elements(to);
    let axes = (0..to.len()).filter(|axis| is_one(&&to[*axis])).collect();
    moved.then_some((source, axes))
}

/// Returns `true` if `value` is the reshaped result of an operator with a fixed layout.
fn is_laid_out(m: &Match<'_>, value: ValueId) -> bool {
    moved(m, value).is_some_and(|(source, _)| m.producer(source, layout::ANCHORS).is_some())
}

/// Returns `value` without unit axes, if that requires no additional data movement.
fn without(
    m: &mut Match<'_>,
    value: ValueId,
    rank: usize,
    gone: &[usize],
) -> Result<ValueId, Skip> {
    let shape = m.ty(value).shape.clone();
    let shift = rank - shape.len();
    // A single element broadcasts to the remaining axes.
    if shape.len() + gone.len() <= rank && shape.iter().all(|dim| *dim == Dim::Known(1)) {
        return Ok(value);
    }
    let gone: Vec<usize> = gone.iter().filter_map(|axis| axis.checked_sub(shift)).collect();
    if gone.is_empty() {
        return Ok(value);
    }
    let kept = |(axis, dim): (usize, Dim)| (!gone.contains(&axis)).then_some(dim);
    let to: Vec<Dim> = shape.iter().cloned().enumerate().filter_map(kept).collect();
    if m.constant(value).is_some() {
        return reshaped(m, value, &to);
    }
    const FOR_GOOD: Skip = Skip::Because("another operand needs the axes");
    let old = m.graph().producer(value).into_iter().collect::<Vec<_>>();
    if let Some((source, _)) = moved(m, value) {
        let from = m.ty(source).shape.clone();
        return emit(m, source, &[Movement::Reshape(from, to)], &old);
    }
    let (source, _) = inserted(m, value).ok_or(FOR_GOOD)?;
    let from = m.ty(source).shape.clone();
    if from == to {
        return Ok(source);
    }
    if !matches!(unit_axes(&from, &to), Some(("Unsqueeze", _))) {
        return Err(FOR_GOOD);
    }
    emit(m, source, &[Movement::Reshape(from, to)], &old)
}

/// Returns `true` if `node` is a maximum or minimum of floats. Axes are not moved behind it, because
/// one that guards a softmax is dropped later.
fn is_float_guard(m: &Match<'_>, node: &Node) -> bool {
    matches!(node.op.name, "Max" | "Min") && node.input(0).is_some_and(|x| m.ty(x).dtype.is_float())
}

/// Returns `true` if all consumers of `value` lead to data movement.
fn is_taken_in(m: &Match<'_>, value: ValueId, left: &mut usize) -> bool {
    let graph = m.graph();
    graph.value(value).uses().all(|place| {
        let Use::Operand(reader, _) = place else { return false };
        let node = graph.node(reader);
        if node.block() != m.root().block() || *left == 0 {
            return false;
        }
        *left -= 1;
        if node.is_movement() {
            return true;
        }
        let [result] = *node.outputs else { return false };
        let is_broadcast = !m.ty(result).shape.contains(&Dim::Known(1));
        let is_sinkable = REWRITE.roots.has(node) && !is_float_guard(m, node);
        is_sinkable && !is_broadcast && is_taken_in(m, result, left)
    })
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn a_product_with_a_matrix_needs_one_axis_in_front() {
        rewrites_to(
            &REWRITE,
            "g (float[2,4,1,1] x) => (float[2,3,1,1] y) <float[4,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}> {
                a = Constant <value_ints = [2, 1, 1, 4]> ()
                r = Reshape (x, a)
                p = MatMul (r, w)
                z = Relu (p)
                b = Constant <value_ints = [2, 3, 1, 1]> ()
                y = Reshape (z, b)
            }",
            "g (float[2,4,1,1] x) => (float[2,3,1,1] y) <float[4,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}> {
                v0 = Constant <value_ints = [2, 4]> ()
                v1 = Reshape (x, v0)
                v2 = MatMul (v1, w)
                v3 = Relu (v2)
                v4 = Constant <value_ints = [2, 1, 1, 3]> ()
                z = Reshape (v3, v4)
                b = Constant <value_ints = [2, 3, 1, 1]> ()
                y = Reshape (z, b)
            }",
        );
    }

    #[test]
    fn a_product_with_a_batch_of_matrices_needs_their_axes() {
        rewrites_to(
            &REWRITE,
            "g (float[1,2,4,8] x, float[1,2,8,3] k) => (float[1,24] y) {
                a = Constant <value_ints = [1, 1, 2, 4, 8]> ()
                r = Reshape (x, a)
                p = MatMul (r, k)
                b = Constant <value_ints = [1, 24]> ()
                y = Reshape (p, b)
            }",
            "g (float[1,2,4,8] x, float[1,2,8,3] k) => (float[1,24] y) {
                v0 = MatMul (x, k)
                v1 = Constant <value_ints = [1, 1, 2, 4, 3]> ()
                p = Reshape (v0, v1)
                b = Constant <value_ints = [1, 24]> ()
                y = Reshape (p, b)
            }",
        );
    }

    #[test]
    fn one_element_needs_no_other_shape() {
        rewrites_to(
            &REWRITE,
            "g (int64[N] i, int64[1] last) => (int64[N] y) {
                to = Constant <value_ints = [0, 1]> () end = Constant <value_ints = [1]> ()
                r = Reshape (i, to) m = Min (r, last) y = Squeeze (m, end) }",
            "g (int64[N] i, int64[1] last) => (int64[N] y) {
                v0 = Min (i, last) to = Constant <value_ints = [0, 1]> ()
                m = Reshape (v0, to) end = Constant <value_ints = [1]> () y = Squeeze (m, end) }",
        );
    }

    #[test]
    fn a_mask_may_have_a_higher_rank_than_the_masked_value() {
        rewrites_to(
            &REWRITE,
            "g (float[B,2,2] x, float c) => (float[B,2,2] y) {
                mask = Constant <value = bool[1,1,2,2] {1, 0, 1, 1}> ()
                front = Constant <value_ints = [0]> ()
                s = Where (mask, x, c)
                p = Softmax <axis = -1> (s)
                y = Squeeze (p, front)
            }",
            "g (float[B,2,2] x, float c) => (float[B,2,2] y) {
                v0 = Constant <value = bool[1,1,2,2] {1, 0, 1, 1}> ()
                v1 = Constant <value_ints = [1, 2, 2]> ()
                v2 = Reshape (v0, v1)
                v3 = Where (v2, x, c)
                v4 = Softmax <axis = 2> (v3)
                v5 = Constant <value_ints = [1, -1, 2, 2]> ()
                p = Reshape (v4, v5)
                front = Constant <value_ints = [0]> ()
                y = Squeeze (p, front)
            }",
        );
    }

    #[test]
    fn a_softmax_works_without_an_axis_of_size_one() {
        rewrites_to(
            &REWRITE,
            "g (float[B,T,T] x, float c) => (float[B,T,T] y) {
                front = Constant <value_ints = [0]> ()
                last = Constant <value_ints = [-1]> ()
                u = Unsqueeze (x, front)
                s = Mul (u, c)
                m = ReduceMax <keepdims = 1> (s, last)
                d = Sub (s, m)
                e = Exp (d)
                n = ReduceSum <keepdims = 1> (e, last)
                p = Div (e, n)
                y = Squeeze (p, front)
            }",
            "g (float[B,T,T] x, float c) => (float[B,T,T] y) {
                v0 = Mul (x, c)
                last = Constant <value_ints = [2]> ()
                v2 = ReduceMax <keepdims = 1> (v0, last)
                v3 = Sub (v0, v2)
                v4 = Exp (v3)
                v5 = ReduceSum <keepdims = 1> (v4, last)
                v6 = Div (v4, v5)
                front = Constant <value_ints = [0]> ()
                p = Unsqueeze (v6, front)
                again = Constant <value_ints = [0]> ()
                y = Squeeze (p, again)
            }",
        );
        rewrites_to(
            &REWRITE,
            "g (float[2,3,4] x) => (float[2,3,4] y) {
                a = Constant <value_ints = [2, 3, 1, 4]> ()
                r = Reshape (x, a)
                s = Softmax <axis = 3> (r)
                b = Constant <value_ints = [2, 3, 4]> ()
                y = Reshape (s, b)
            }",
            "g (float[2,3,4] x) => (float[2,3,4] y) {
                v0 = Softmax <axis = 2> (x)
                a = Constant <value_ints = [2, 3, 1, 4]> ()
                s = Reshape (v0, a)
                b = Constant <value_ints = [2, 3, 4]> ()
                y = Reshape (s, b)
            }",
        );
    }

    #[test]
    fn an_inserted_axis_becomes_the_kept_axis() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3,4] x) => (float[2,3,1] y) {
                a = Constant <value_ints = [2, 3, 1, 4]> ()
                r = Reshape (x, a)
                last = Constant <value_ints = [-1]> ()
                y = ReduceMax <keepdims = 0> (r, last)
            }",
            "g (float[2,3,4] x) => (float[2,3,1] y) {
                last = Constant <value_ints = [2]> ()
                y = ReduceMax <keepdims = 1> (x, last)
            }",
        );
    }

    #[test]
    fn results_of_convolutions_keep_their_axes() {
        let text = |op: &str| {
            format!(
                "g (float[2,4,1,1] x, float[1,1,1,4] b) => (float[2,4,1,1] y) {{
                    c = {op} (x)
                    last = Constant <value_ints = [2, 1, 1, 4]> ()
                    r = Reshape (c, last)
                    s = Add (r, b)
                    t = Sigmoid (s)
                    p = Mul (s, t)
                    first = Constant <value_ints = [2, 4, 1, 1]> ()
                    y = Reshape (p, first)
                }}"
            )
        };
        stays(&REWRITE, &text("AveragePool <kernel_shape = [1, 1]>"));
    }

    #[test]
    fn axes_that_other_operands_need_are_unchanged() {
        for text in [
            "g (float[3] x, float[3,4] z) => (float[3,4] y) {
                a = Constant <value_ints = [1]> ()
                u = Unsqueeze (x, a)
                e = Exp (u)
                y = Mul (e, z)
            }",
            "g (float[3] x, float[3,1] z) => (float[1,3] y) {
                a = Constant <value_ints = [1]> ()
                u = Unsqueeze (x, a)
                e = Mul (u, z)
                y = Transpose (e)
            }",
            "g (float[3] x) => (float[3,1] y) {
                a = Constant <value_ints = [1]> ()
                u = Unsqueeze (x, a)
                y = Exp (u)
            }",
        ] {
            stays(&REWRITE, text);
        }
    }

    /// The layout pass decides about nodes between convolutions as a whole.
    #[test]
    fn values_in_the_layout_of_a_convolution_keep_their_axes() {
        let text = |op: &str| {
            format!(
                "g (float[1,2,1,4] x) => (float[2,4] y) <float[2,2,1,1] w = {{1, 2, 3, 4}}> {{
                    a = {op} s = Constant <value_ints = [1, 1, 2, 4]> () b = Reshape (a, s)
                    c = Exp (b) t = Constant <value_ints = [2, 4]> () y = Reshape (c, t) }}"
            )
        };
        stays(&REWRITE, &text("Conv (x, w)"));
        let after = crate::testing::rewritten(&REWRITE, &text("Neg (x)"));
        assert!(!after.contains("Exp (b)"), "{after}");
    }
}
