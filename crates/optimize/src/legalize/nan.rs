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
        run(&format!(
            "g (float[2,3] x) => (float[2,3] y) {{ a = Constant <value_ints = [1]> () {body} }}"
        ))
    }

    fn run(text: &str) -> String {
        let mut origins = Origins::default();
        let mut graph = graph(text, &mut origins);
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
            // Exponentials that are divided by other numbers than their sum.
            "m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d) z = Abs (x) y = Div (e, z)",
            "m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d) z = ReduceMean (x, a) y = Div (e, z)",
            "m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d) z = Abs (x) s = ReduceSum (z, a) y = Div (e, s)",
            // A function of the sum that may lose NaN.
            "m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d) s = ReduceSum (e, a) t = Sign (s) y = Div (e, t)",
            // The maximum of other numbers.
            "o = Sin (x) m = ReduceMax (x, a) d = Sub (o, m) e = Exp (d) s = ReduceSum (e, a) y = Div (e, s)",
            // Elements that are masked before they are summed.
            "z = Constant <value_float: float = 0> () c = Constant <value = bool[3] {1, 0, 1}> ()
             m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d) f = Where (c, e, z)
             s = ReduceSum (f, a) y = Add (x, s)",
        ] {
            assert!(legalized(body).contains("IsNaN"), "{body}");
        }
    }

    #[test]
    fn casts_and_unit_axes_do_not_matter() {
        for body in [
            "c = Identity (x) m = ReduceMax (c, a) d = Sub (x, m) e = Exp (d) s = ReduceSum (e, a) y = Div (e, s)",
            "m = ReduceMax (x, a) c = Cast <to = 1> (x) d = Sub (c, m) e = Exp (d) s = ReduceSum (e, a) y = Div (e, s)",
            "m = ReduceMax (x, a) r = Squeeze (m, a) u = Unsqueeze (r, a) d = Sub (x, u) e = Exp (d)
             s = ReduceSum (e, a) y = Div (e, s)",
            "m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d) s = ReduceSum (e, a) t = Abs (s) i = Identity (t) y = Div (e, i)",
        ] {
            assert!(!legalized(body).contains("IsNaN"), "{body}");
        }
    }

    /// Returns the operators for the rows of a square matrix, whose numbers could be aligned with its columns.
    fn of_square(body: &str) -> String {
        run(&format!(
            "g (float[3,3] x) => (float[3,3] y) {{ a = Constant <value_ints = [1]> () {body} }}"
        ))
    }

    #[test]
    fn maxima_of_other_rows_propagate_nan() {
        let aligned =
            "m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d) s = ReduceSum (e, a) y = Div (e, s)";
        assert!(!of_square(aligned).contains("IsNaN"));
        for body in [
            "m = ReduceMax <keepdims = 0> (x, a) d = Sub (x, m) e = Exp (d) s = ReduceSum (e, a) y = Div (e, s)",
            "m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d) s = ReduceSum <keepdims = 0> (e, a) y = Div (e, s)",
            "m = ReduceMax (x, a) d = Sub (x, m) e = Exp (d) s = ReduceSum <keepdims = 0> (e, a) l = Log (s) y = Add (l, m)",
        ] {
            assert!(of_square(body).contains("IsNaN"), "{body}");
        }
    }

    #[test]
    fn maxima_with_many_indirect_readers_propagate_nan() {
        let mut body = "f = IsInf (x) m = ReduceMax (x, a) t0 = Expand (m, b)".to_owned();
        for i in 0..40 {
            body += &format!(" t{} = Where (f, t{i}, t{i})", i + 1);
        }
        body += " d = Sub (x, t40) e = Exp (d) s = ReduceSum (e, a) y = Div (e, s)";
        assert!(
            legalized(&format!("b = Constant <value_ints = [2, 3]> () {body}")).contains("IsNaN")
        );
    }

    #[test]
    fn maxima_beside_a_sum_that_has_nan_are_finished() {
        let tests = |body: &str| {
            let body = format!("b = Constant <value_ints = [0]> () {body} y = Add (x, n)");
            of_square(&body).matches("IsNaN").count()
        };
        let guarded = "z = Abs (x) s = ReduceSum (z, a) m = ReduceMax (x, a) t = IsNaN (s) n = Where (t, s, m)";
        assert_eq!(tests(guarded), 1);
        for (old, new) in [
            // The sum of other rows, of other sizes, or of numbers whose infinities cancel.
            ("ReduceSum (z, a)", "ReduceSum (z, b)"),
            ("ReduceSum (z, a)", "ReduceSum <keepdims = 0> (z, a)"),
            ("ReduceSum (z, a)", "ReduceSum (x, a)"),
            ("z = Abs (x)", "o = Sin (x) z = Abs (o)"),
            // Another choice, or another test.
            ("Where (t, s, m)", "Where (t, m, s)"),
            ("Where (t, s, m)", "Where (t, x, m)"),
            ("IsNaN (s)", "IsNaN (x)"),
            ("n = Where (t, s, m)", "l = Where (t, s, m) n = Add (l, m)"),
        ] {
            assert_eq!(tests(&guarded.replace(old, new)), 2, "{new}");
        }
        let sizes = "z = Abs (x) s = ReduceSum (z, a) m = ReduceMax (z, a) n = Min (m, s)";
        assert_eq!(of_square(&format!("{sizes} y = Add (x, n)")).matches("Min").count(), 1);
        let swapped = sizes.replace("Min (m, s)", "Min (s, m)");
        assert_eq!(of_square(&format!("{swapped} y = Add (x, n)")).matches("Min").count(), 2);
    }
}
