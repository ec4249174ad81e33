//! Drops nodes that return their first operand unchanged.

use onnx::operators::{Axes, Operator};
use onnx::{Node, ValueId};

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::with("drop_no_op", may_be_no_op, try_at);

fn may_be_no_op(op: &Operator) -> bool {
    let moves = matches!(op.name, "Expand" | "Pad" | "Slice" | "Tile");
    let copies = matches!(op.name, "Cast" | "CastLike" | "Identity");
    op.is_movement() || is_variadic(op) || moves || copies
}

/// Returns `true` if the operator combines any number of operands.
fn is_variadic(op: &Operator) -> bool {
    matches!(op.axes, Axes::Concat | Axes::Elementwise) && *op.operands().end() == usize::MAX
}

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (x, y, node) = (m.operand(0)?, m.result()?, m.root());
    let same = m.ty(x) == m.ty(y);
    let constant = |index: usize| m.ints(node.input(index)?);
    let (is_no_op, reason) = match node.op.name {
        "Identity" => (!m.is_bound_to_outputs(y, x), "the block must return a value of its own"),
        _ if is_variadic(node.operator()) => (node.inputs.len() == 1, "there are several operands"),
        "Transpose" => (is_in_order(node), "axes change places"),
        "Pad" => {
            let pads = constant(1).is_some_and(|pads| pads.iter().all(|n| *n == 0));
            (pads && same, "something may be added")
        }
        // A slice with steps of one that is as long as its operand is the whole operand.
        "Slice" => {
            let forward = node.input(4).is_none()
                || constant(4).is_some_and(|steps| steps.iter().all(|n| *n == 1));
            (forward && same, "something may be left out")
        }
        // The others change the element type or the shape, but never the order of elements.
        _ => (same, "the type changes"),
    };
    if is_no_op { Ok(vec![x]) } else { Err(reason.into()) }
}

fn is_in_order(node: &Node) -> bool {
    // Without `perm`, all axes are reversed.
    node.ints("perm").is_some_and(|perm| (0..).zip(perm).all(|(i, p)| i == *p))
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn nodes_that_preserve_the_type_are_dropped() {
        rewrites_to(
            &REWRITE,
            "g (float[B,3] x) => (float[B,3] y) {
                s = Constant <value_ints = [-1, 3]> ()
                r = Reshape (x, s)
                c = Cast <to = 1> (r)
                o = Constant <value_ints = [1, 1]> ()
                e = Expand (c, o)
                i = Identity (e)
                t = Transpose <perm = [0, 1]> (i)
                k = Concat <axis = 0> (t)
                m = Max (k)
                y = Exp (m)
            }",
            "g (float[B,3] x) => (float[B,3] y) {
                y = Exp (x)
            }",
        );
    }

    #[test]
    fn a_slice_of_the_whole_value_is_dropped() {
        rewrites_to(
            &REWRITE,
            "g (float[4,5] x) => (float[4,5] y) {
                zero = Constant <value_ints = [0]> ()
                end = Constant <value_ints = [9223372036854775807]> ()
                axis = Constant <value_ints = [1]> ()
                s = Slice (x, zero, end, axis)
                none = Constant <value_ints = [0, 0, 0, 0]> ()
                p = Pad (s, none)
                y = Exp (p)
            }",
            "g (float[4,5] x) => (float[4,5] y) {
                y = Exp (x)
            }",
        );
    }

    #[test]
    fn a_backward_slice_is_unchanged() {
        stays(
            &REWRITE,
            "g (float[4] x) => (float[4] y) {
                start = Constant <value_ints = [-1]> ()
                end = Constant <value_ints = [-9223372036854775807]> ()
                axis = Constant <value_ints = [0]> ()
                step = Constant <value_ints = [-1]> ()
                y = Slice (x, start, end, axis, step)
            }",
        );
    }

    #[test]
    fn pads_that_cancel_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[4] x) => (float[4] y) {
                pads = Constant <value_ints = [1, -1]> ()
                y = Pad (x, pads)
            }",
        );
    }

    #[test]
    fn a_square_transpose_is_unchanged() {
        stays(&REWRITE, "g (float[4,4] x) => (float[4,4] y) { y = Transpose <perm = [1, 0]> (x) }");
    }

    #[test]
    fn graph_outputs_stay_distinct() {
        stays(&REWRITE, "g (float[4] x) => (float[4] y) { y = Identity (x) }");
        stays(
            &REWRITE,
            "g (float[4] x) => (float[4] a, float[4] b) { a = Exp (x) b = Identity (a) }",
        );
        rewrites_to(
            &REWRITE,
            "g (float[4] x) => (float[4] y, float[4] z) { y = Identity (x) z = Exp (y) }",
            "g (float[4] x) => (float[4] y, float[4] z) { y = Identity (x) z = Exp (x) }",
        );
        rewrites_to(
            &REWRITE,
            "g (float[4] x) => (float[4] y) { s = Cast <to = 1> (x) t = Exp (s) y = Identity (t) }",
            "g (float[4] x) => (float[4] y) { y = Exp (x) }",
        );
    }

    #[test]
    fn a_branch_returns_a_value_that_it_computes() {
        rewrites_to(
            &REWRITE,
            "g (bool c, float[4] x) => (float[4] y) {
                t = Exp (x)
                y = If (c) <
                    then_branch = then_branch () => (float[4] a) { a = Cast <to = 1> (t) },
                    else_branch = else_branch () => (float[4] b) { d = Identity (t) b = Neg (d) }
                >
            }",
            "g (bool c, float[4] x) => (float[4] y) {
                t = Exp (x)
                y = If (c) <
                    then_branch = then_branch () => (float[4] a) { a = Identity (t) },
                    else_branch = else_branch () => (float[4] b) { b = Neg (t) }
                >
            }",
        );
    }
}
