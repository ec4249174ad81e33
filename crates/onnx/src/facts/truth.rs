//! Truth: boolean values whose elements are all the same.

use tensor::{DType, Dim};

use super::{Comparison, Facts, Interval};
use crate::{Node, ValueId};

impl Facts<'_> {
    /// Returns the truth value of all elements of the boolean `value`, if it is the same in every run.
    pub fn truth(&self, value: ValueId) -> Option<bool> {
        // A value has no elements where one of its sizes is zero.
        self.truth_within(value, &self.positive_there(self.shape(value)))
    }

    fn truth_within(&self, value: ValueId, positive: &Vec<Dim>) -> Option<bool> {
        if let Some(tensor) = self.stored(value) {
            return tensor.splat().map(|number| number != 0.0);
        }
        let node = self.node(value)?;
        self.answer(
            |answers| &mut answers.truths,
            &(value, positive.clone()),
            || self.computed_truth(node, value, positive),
        )?
    }

    fn computed_truth(&self, node: &Node, value: ValueId, positive: &Vec<Dim>) -> Option<bool> {
        let (a, b) = (node.input(0)?, node.input(1));
        let dtype = |value| self.graph.ty(value).dtype;
        let one = |value| self.truth_within(value, positive);
        // An operand that is `decisive` decides the result.
        let either = |decisive: bool| match (one(a), one(b?)) {
            (Some(x), _) | (_, Some(x)) if x == decisive => Some(decisive),
            (Some(_), Some(_)) => Some(!decisive),
            _ => None,
        };
        if let Some(Comparison { low, high, strict }) = Comparison::of(node) {
            return decided(self.compared(low, high, strict, positive));
        }
        match node.op.name {
            "Not" => one(a).map(|holds| !holds),
            "And" => either(false),
            "Or" => either(true),
            "Cast" if dtype(a) == DType::Bool || dtype(value) == DType::Bool => one(a),
            _ if node.operator().selects() || node.operator().is_extremum() => one(a),
            "Equal" if dtype(a) == DType::Bool => Some(one(a)? == one(b?)?),
            "IsNaN" => (!self.float_interval_within(a, positive).has_nan).then_some(false),
            "Equal" if a == b? && !dtype(a).is_float() => Some(true),
            "Equal" => {
                let compared = |low, high| self.compared(low, high, false, positive);
                let ((below, above), (other_below, other_above)) =
                    (compared(a, b?), compared(b?, a));
                decided((below && other_below, above || other_above))
            }
            _ => None,
        }
    }

    /// Returns whether `low < high`, or `low <= high` unless `strict`, always holds, and whether it never
    /// does. A comparison with NaN does not hold.
    fn compared(
        &self,
        low: ValueId,
        high: ValueId,
        strict: bool,
        positive: &Vec<Dim>,
    ) -> (bool, bool) {
        if self.graph.ty(low).dtype.is_float() {
            let [x, y] = [low, high].map(|value| self.float_interval_within(value, positive));
            let has_nan = x.has_nan || y.has_nan;
            return if strict {
                (x.high < y.low && !has_nan, y.high <= x.low)
            } else {
                (x.high <= y.low && !has_nan, y.high < x.low)
            };
        }
        let [x, y] = [low, high].map(|value| self.interval(value));
        let at_most =
            |x: &Interval, y: &Interval| y.low.as_ref().is_some_and(|low| x.is_at_most(low));
        let below = |x: &Interval, y: &Interval| {
            y.low.as_ref().is_some_and(|low| x.is_at_most(&(low.clone() - Dim::Known(1))))
        };
        if strict { (below(&x, &y), at_most(&y, &x)) } else { (at_most(&x, &y), below(&y, &x)) }
    }
}

/// Returns the result of a comparison that always holds or never does.
fn decided((holds, fails): (bool, bool)) -> Option<bool> {
    if holds { Some(true) } else { fails.then_some(false) }
}

#[cfg(test)]
mod tests {
    use provenance::Origins;

    use crate::Graph;
    use crate::facts::interval::tests::{BOUNDS, of_bounded, pairs};
    use crate::text::parse;

    type Compare = fn(i64, i64) -> bool;

    #[test]
    fn comparisons_are_decided_where_all_numbers_agree() {
        let operators: [(&str, Compare); 6] = [
            ("Less (x, y)", |a, b| a < b),
            ("LessOrEqual (x, y)", |a, b| a <= b),
            ("Greater (x, y)", |a, b| a > b),
            ("GreaterOrEqual (x, y)", |a, b| a >= b),
            ("Equal (x, y)", |a, b| a == b),
            ("Less (y, x)", |a, b| b < a),
        ];
        for (op, holds) in operators {
            for (x, y) in BOUNDS.into_iter().flat_map(|x| BOUNDS.map(|y| (x, y))) {
                let graph = of_bounded(op, "bool", x, y);
                let all = pairs(x, y).all(|(a, b)| holds(a, b));
                let none = !pairs(x, y).any(|(a, b)| holds(a, b));
                let expected = (all || none).then_some(all);
                let found = graph.facts().truth(graph.block(Graph::MAIN).outputs()[0]);
                assert_eq!(found, expected, "{op} {x:?} {y:?}");
            }
        }
    }

    #[test]
    fn truths_are_combined() {
        for (text, expected) in [
            ("z = And (yes, c)", None),
            ("z = And (no, c)", Some(false)),
            ("z = And (c, no)", Some(false)),
            ("z = And (yes, yes)", Some(true)),
            ("z = Or (no, c)", None),
            ("z = Or (c, yes)", Some(true)),
            ("z = Or (no, no)", Some(false)),
            ("z = Not (yes)", Some(false)),
            ("z = Not (c)", None),
            ("z = Equal (yes, no)", Some(false)),
            ("z = Equal (no, no)", Some(true)),
            ("z = Xor (yes, no)", None),
            ("i = Cast <to = 7> (yes) z = Cast <to = 9> (i)", Some(true)),
            ("z = Cast <to = 9> (half)", Some(true)),
            ("i = Cast <to = 7> (half) z = Cast <to = 9> (i)", None),
        ] {
            let text = format!(
                "g (bool[2] c) => (bool[2] z) {{
                    yes = Constant <value = bool[2] {{1, 1}}> ()
                    no = Constant <value = bool[2] {{0, 0}}> ()
                    half = Constant <value = float[2] {{0.5, 0.5}}> () {text} }}"
            );
            let graph = parse(&text, &mut Origins::default()).unwrap();
            let found = graph.facts().truth(graph.block(Graph::MAIN).outputs()[0]);
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn comparisons_with_nan_are_not_decided() {
        for (x, y, expected) in
            [("0, 1", "2, 3", Some(true)), ("nan, 1", "2, 3", None), ("0, 1", "2, nan", None)]
        {
            for op in ["Less", "LessOrEqual"] {
                let text = format!(
                    "g () => (bool[2] z) {{
                        x = Constant <value = float[2] {{{x}}}> ()
                        y = Constant <value = float[2] {{{y}}}> () z = {op} (x, y) }}"
                );
                let graph = parse(&text, &mut Origins::default()).unwrap();
                let found = graph.facts().truth(graph.block(Graph::MAIN).outputs()[0]);
                assert_eq!(found, expected, "{text}");
            }
        }
    }

    #[test]
    fn sizes_are_compared_as_floats() {
        for (op, number, expected) in [
            ("Greater", "0.0", Some(true)),
            ("Greater", "1.0", None),
            ("GreaterOrEqual", "1.0", Some(true)),
            ("Less", "1.0", Some(false)),
            ("LessOrEqual", "-2.0", Some(false)),
            ("Equal", "0.0", Some(false)),
            ("Equal", "2.0", None),
            ("Greater", "0.5", Some(true)),
            ("Greater", "-1000.0", Some(true)),
            ("Less", "60000.0", None),
            ("Less", "nan", Some(false)),
        ] {
            let text = format!(
                "g (float[B] x) => (bool[1] z) {{
                    n = Shape (x) f = Cast <to = 10> (n)
                    c = Constant <value = float16 {{{number}}}> () z = {op} (f, c) }}"
            );
            let graph = parse(&text, &mut Origins::default()).unwrap();
            let found = graph.facts().truth(graph.block(Graph::MAIN).outputs()[0]);
            assert_eq!(found, expected, "{text}");
        }
    }
}
