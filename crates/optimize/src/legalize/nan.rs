//! The nodes whose kernels lose NaN without doing harm.
//!
//! Kernels of `MaxPool` may ignore NaN, return the smallest finite number for minus infinity, and
//! find no index among minus infinities. This module does not handle that.

use onnx::{Assumption, Graph, Node, Use, ValueId};

use super::made_by;
use super::shifted_exponentials::is_shift;

/// Returns `true` if it may matter that `node` loses a NaN in its operand.
pub(super) fn matters(graph: &Graph, node: &Node) -> bool {
    if graph.assumptions.contains(Assumption::NoNan) {
        return false;
    }
    let Some(x) = node.input(0) else { return true };
    if matches!(node.op.name, "ScatterElements" | "ScatterND") {
        return is_possible(graph, x) || node.input(2).is_none_or(|y| is_possible(graph, y));
    }
    is_possible(graph, x)
        && !(node.is("ReduceMax") && is_shift(graph, node))
        && !is_watched(graph, node, x)
}

/// Returns `true` if all readers of the result prefer a sum that is NaN if an element of `x` is.
fn is_watched(graph: &Graph, node: &Node, x: ValueId) -> bool {
    let knows = |sum: ValueId| {
        let sum = made_by(graph, sum, "ReduceSum");
        let sizes = sum.and_then(|sum| sum.input(0));
        let of_sizes = sizes.and_then(|sizes| made_by(graph, sizes, "Abs"));
        sum.is_some_and(|sum| sum.inputs[1..] == node.inputs[1..] && sum.attrs == node.attrs)
            && of_sizes.is_some_and(|abs| sizes == Some(x) || abs.input(0) == Some(x))
    };
    let value = graph.value(node.outputs[0]);
    value.is_used()
        && value.uses().all(|place| {
            let Use::Operand(choice, index) = place else { return false };
            let choice = graph.node(choice);
            if choice.is("Min") && node.is("ReduceMax") && index == 0 {
                return choice.input(1).is_some_and(knows);
            }
            if index != 2 {
                return false;
            }
            let test = choice.input(0).and_then(|test| made_by(graph, test, "IsNaN"));
            let sum = test.and_then(|test| test.input(0));
            choice.is("Where") && sum == choice.input(1) && sum.is_some_and(knows)
        })
}

/// Returns `true` if an element of `x` may be NaN.
pub(super) fn is_possible(graph: &Graph, x: ValueId) -> bool {
    graph.facts().float_interval(x, &graph.ty(x).shape).has_nan
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::legalize;
    use crate::legalize::testing::show;
    use crate::testing::graph;
    use provenance::Origins;

    fn legalized(body: &str) -> String {
        let text = format!(
            "g (float[2,3] x) => (float[2,3] y) {{ a = Constant <value_ints = [1]> () {body} }}"
        );
        let mut origins = Origins::default();
        let mut graph = graph(&text, &mut origins);
        legalize(&mut graph, &mut origins, 23, Target::default()).unwrap();
        show(&graph)
    }

    #[test]
    fn a_softmax_needs_no_care() {
        let softmax = "m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d)
            s = ReduceSum (e, a) y = Div (e, s)";
        let nodes = "ReduceMax:f32 Sub:f32 Exp:f32 ReduceSum:f32 Div:f32";
        assert_eq!(legalized(softmax), nodes);
        let logarithm = "m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d)
            s = ReduceSum (e, a) l = Log (s) y = Sub (d, l)";
        assert!(!legalized(logarithm).contains("IsNaN"));
    }

    #[test]
    fn a_logarithm_of_a_sum_needs_no_care() {
        let body = |last| {
            format!(
                "z = Constant <value_float: float = 0> () m = ReduceMax (x, a) i = IsInf (m)
                 n = Where (i, z, m) d = Sub (x, n) e = Exp (d) s = ReduceSum (e, a) l = Log (s)
                 {last} y = Add (x, t)"
            )
        };
        assert!(!legalized(&body("t = Add (l, n)")).contains("IsNaN"));
        assert!(legalized(&body("t = Mul (l, n)")).contains("IsNaN"));
    }

    #[test]
    fn maxima_whose_nan_is_visible_propagate_it() {
        for body in [
            "m = ReduceMax (x, a) y = Sub (x, m)",
            "m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d) y = Mul (e, m)",
            "m = ReduceMin (x, a) d = Sub (x, m) y = Exp (d)",
            "m = ReduceMax (x, a) d = Sub (x, m) y = Exp (d)",
            // The maximum behind operators that preserve its order.
            "m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d) s = ReduceSum (e, a) q = Div (e, s)
             c = Identity (m) y = Mul (q, c)",
            "m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d) s = ReduceSum (e, a) q = Div (e, s)
             t = Constant <value_ints = [2]> () r = Squeeze (m, a) c = Expand (r, t) u = Unsqueeze (c, a)
             y = Mul (q, u)",
            // Sums of other elements than those of the maximum.
            "b = Constant <value_ints = [0]> () m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d)
             s = ReduceSum (e, b) y = Div (e, s)",
            "b = Constant <value_ints = [0]> () m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d)
             s = ReduceSum (e, b) y = Add (x, s)",
            // Elements that are masked before they are summed.
            "z = Constant <value_float: float = 0> () c = Constant <value = bool[3] {1, 0, 1}> ()
             m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d) f = Where (c, e, z)
             s = ReduceSum (f, a) y = Add (x, s)",
        ] {
            assert!(legalized(body).contains("IsNaN"), "{body}");
        }
    }
}
