//! A reduction whose axes are restored with size one → the same reduction with `keepdims`.

use onnx::operators::Operator;
use onnx::{Attr, Node, ValueId};
use tensor::Dim;

use crate::movement::set_attr;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite::of("keep_reduced_axes", &["Reshape", "Unsqueeze"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (reduced, y) = (m.operand(0)?, m.result()?);
    let node =
        m.producer_with(reduced, Operator::is_reduction).ok_or("the operand is not a reduction")?;
    Skip::when(node.int("keepdims", 1) != 0, "the axes are already kept")?;
    Skip::when(!m.is_used_once(reduced), "the reduction has other readers")?;
    if kept_shape(m, node).ok_or("the axes are not known")? != m.ty(y).shape {
        return Err("the axes are not put back".into());
    }
    let mut node = node.clone();
    set_attr(&mut node.attrs, "keepdims", Attr::Int(1));
    Ok(vec![m.like(&node, node.inputs.clone())?])
}

/// Returns the shape of a reduction that keeps the reduced axes.
pub(super) fn kept_shape(m: &Match<'_>, reduction: &Node) -> Option<Vec<Dim>> {
    let mut kept = m.ty(reduction.input(0)?).shape.clone();
    for axis in m.facts().reduced_axes(reduction)? {
        kept[axis] = Dim::Known(1);
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn restored_axes_are_kept() {
        for (op, before, after, operands) in [
            ("ReduceSum", "keepdims = 0", "keepdims = 1", "x, a"),
            ("ArgMax", "axis = 2, keepdims = 0", "axis = 2, keepdims = 1", "x"),
        ] {
            let ty = if op == "ArgMax" { "int64" } else { "float" };
            rewrites_to(
                &REWRITE,
                &format!(
                    "g (float[B,3,4] x) => ({ty}[B,3,1] y) {{
                        a = Constant <value_ints = [-1]> ()
                        r = {op} <{before}> ({operands})
                        s = Constant <value_ints = [-1, 3, 1]> ()
                        y = Reshape (r, s)
                    }}"
                ),
                &format!(
                    "g (float[B,3,4] x) => ({ty}[B,3,1] y) {{
                        a = Constant <value_ints = [-1]> ()
                        y = {op} <{after}> ({operands})
                    }}"
                ),
            );
        }
    }

    #[test]
    fn other_reshapes_are_unchanged() {
        for text in [
            "g (float[2,3] x) => (float[1,2] y) {
                a = Constant <value_ints = [1]> ()
                r = ReduceSum <keepdims = 0> (x, a)
                s = Constant <value_ints = [0]> ()
                y = Unsqueeze (r, s)
            }",
            "g (float[2,3] x) => (float[2,1] y, float[2] z) {
                a = Constant <value_ints = [1]> ()
                r = ReduceSum <keepdims = 0> (x, a)
                y = Unsqueeze (r, a)
                z = Neg (r)
            }",
        ] {
            stays(&REWRITE, text);
        }
    }
}
