//! Resampling matrices for axes of symbolic size, as `jax.image.resize` computes them from two
//! sizes.
//!
//! The matrix is matched in the form that the clean-up rewrites produce. JAX's guards never trigger
//! when an axis is resized, because no new element is outside the image: the weights of each
//! element add up to more than 0.4 for all sizes.

use onnx::{Graph, Node, ValueId};
use tensor::bounds::at_least;
use tensor::{Dim, Tensor};

use super::matrix::{Filter, Kernel};
use crate::recognize::source_of;

/// A matrix that resamples an axis.
#[derive(Clone, Debug)]
pub(super) struct Sized {
    pub(super) filter: Filter,
    /// The old and the new size of the axis, as floats.
    pub(super) from: ValueId,
    pub(super) to: ValueId,
}

/// The upper bound for the threshold above which JAX divides by the sum of weights.
const LEAST: f64 = 1e-3;

/// Returns the filter that a product with `matrix` applies, and the sizes.
pub(super) fn sized(graph: &Graph, matrix: ValueId) -> Option<Sized> {
    let [rows, columns] = graph.ty(matrix).shape.as_slice() else { return None };
    if rows.as_known().is_some() && columns.as_known().is_some() {
        return None;
    }
    let look = Look { graph, rows, columns };
    let (mut value, mut tests) = (matrix, Vec::new());
    while let Some((test, chosen)) = look.or_zero(value) {
        look.flatten(test, &mut tests);
        value = chosen;
    }
    let [weights, divisor] = look.operands(value, "Div")?;
    let (kernel, x) = look.kernel(weights)?;
    let (distance, wide) = match look.operands(x, "Div") {
        Some([distance, width]) => (distance, Some(width)),
        None => (x, None),
    };
    let place = look.distance(distance)?;
    let (step, from, to) = look.place(place)?;
    if wide.is_some_and(|width| look.with_number(width, "Max") != Some((step, 1.0))) {
        return None;
    }
    let total = look.total(divisor, weights)?;
    let kinds: Option<Vec<Test>> =
        tests.into_iter().map(|test| look.test(test, place, from, total)).collect();
    let kinds = kinds?;
    // Without these tests, the value is only a part of the matrix.
    if !kinds.contains(&Test::Inside) || !kinds.contains(&Test::Positive) {
        return None;
    }
    let grows = at_least(&(columns.clone() - rows.clone()), 0);
    let antialias = (!grows).then_some(wide.is_some());
    Some(Sized { filter: Filter { kernel, antialias }, from, to })
}

/// The tests that JAX applies to each new element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    /// The element is neither before the first old element nor after the last.
    Inside,
    /// The sum of its weights is positive.
    Positive,
}

struct Look<'g> {
    graph: &'g Graph,
    /// The old size of the axis.
    rows: &'g Dim,
    /// The new size of the axis.
    columns: &'g Dim,
}

impl<'g> Look<'g> {
    fn node(&self, value: ValueId, op: &str) -> Option<&'g Node> {
        let node = self.graph.node(self.graph.producer(value)?);
        (node.op.domain.is_empty() && node.op.name == op).then_some(node)
    }

    fn operand(&self, value: ValueId, op: &str) -> Option<ValueId> {
        self.node(value, op)?.input(0)
    }

    fn operands(&self, value: ValueId, op: &str) -> Option<[ValueId; 2]> {
        let node = self.node(value, op)?;
        Some([node.input(0)?, node.input(1)?])
    }

    fn number(&self, value: ValueId) -> Option<f64> {
        self.graph.constant(value)?.splat()
    }

    /// Returns `x` if `value` is `x + number`.
    fn shifted(&self, value: ValueId, number: f64) -> Option<ValueId> {
        if let Some([x, by]) = self.operands(value, "Sub") {
            return (self.number(by) == Some(-number)).then_some(x);
        }
        let (x, by) = self.with_number(value, "Add")?;
        (by == number).then_some(x)
    }

    /// Returns the operands of the commutative operator `op`, one of which is a number.
    fn with_number(&self, value: ValueId, op: &str) -> Option<(ValueId, f64)> {
        let [a, b] = self.operands(value, op)?;
        self.number(b).map(|number| (a, number)).or_else(|| Some((b, self.number(a)?)))
    }

    /// Returns the condition and the first branch of a choice between a value and zero.
    fn or_zero(&self, value: ValueId) -> Option<(ValueId, ValueId)> {
        let node = self.node(value, "Where")?;
        let zero = self.number(node.input(2)?)?;
        (zero == 0.0).then_some((node.input(0)?, node.input(1)?))
    }

    /// Collects the conjuncts of `test`.
    fn flatten(&self, test: ValueId, all: &mut Vec<ValueId>) {
        let test = self.unmoved(test);
        match self.operands(test, "And") {
            Some(both) => both.into_iter().for_each(|one| self.flatten(one, all)),
            None => all.push(test),
        }
    }

    fn unmoved(&self, value: ValueId) -> ValueId {
        source_of(self.graph, value, Node::is_reshape)
    }

    /// Returns the sum of `weights` for each new element. The sum may be guarded against zero.
    fn total(&self, divisor: ValueId, weights: ValueId) -> Option<ValueId> {
        let total = match self.node(divisor, "Where") {
            Some(node) => {
                let total = node.input(1)?;
                let equal = self.operand(node.input(0)?, "Not")?;
                let [a, b] = self.operands(equal, "Equal")?;
                let asks = a == total && self.number(b) == Some(0.0);
                (asks && self.number(node.input(2)?) == Some(1.0)).then_some(total)?
            }
            None => divisor,
        };
        let sum = self.node(total, "ReduceSum")?;
        let is_first = self.graph.constant(sum.input(1)?)?.to_i64s()? == [0];
        let keeps = sum.int("keepdims", 1) == 1;
        (is_first && keeps && sum.input(0) == Some(weights)).then_some(total)
    }

    fn test(&self, test: ValueId, place: ValueId, from: ValueId, total: ValueId) -> Option<Test> {
        let of_place = |value| self.unmoved(value) == self.unmoved(place);
        if let Some([a, least]) = self.operands(test, "GreaterOrEqual") {
            return (of_place(a) && self.number(least) == Some(-0.5)).then_some(Test::Inside);
        }
        if let Some([a, most]) = self.operands(test, "LessOrEqual") {
            let is_last = self.shifted(most, -0.5) == Some(from)
                || self.number(most).zip(self.number(from)).is_some_and(|(a, b)| a == b - 0.5);
            return (of_place(a) && is_last).then_some(Test::Inside);
        }
        let [a, least] = self.operands(test, "Greater")?;
        let a = self.operand(a, "Abs").unwrap_or(a);
        let is_small = self.number(least).is_some_and(|least| (0.0..LEAST).contains(&least));
        (self.unmoved(a) == total && is_small).then_some(Test::Positive)
    }

    /// Returns the kernel that computes `weights`, and the distances that it is applied to.
    fn kernel(&self, weights: ValueId) -> Option<(Kernel, ValueId)> {
        let cut = self.operand(weights, "Relu").or_else(|| {
            let (cut, least) = self.with_number(weights, "Max")?;
            (least == 0.0).then_some(cut)
        });
        if let Some(cut) = cut {
            let [one, x] = self.operands(cut, "Sub")?;
            let x = self.operand(x, "Abs").filter(|x| self.node(*x, "Div").is_some()).unwrap_or(x);
            return (self.number(one) == Some(1.0)).then_some((Kernel::Linear, x));
        }
        let (x, far, near) = self.choice(weights, 2.0)?;
        let (same, outer, inner) = self.choice(near, 1.0)?;
        let is = |value, wanted: &[f64]| self.polynomial(value, x).is_some_and(|p| p == wanted);
        let fits = same == x
            && self.number(far) == Some(0.0)
            && is(outer, &[2.0, -4.0, 2.5, -0.5])
            && is(inner, &[1.0, 0.0, -2.5, 1.5]);
        fits.then_some((Kernel::Cubic, x))
    }

    /// Returns `x`, the value chosen where `x >= number`, and the value chosen elsewhere.
    fn choice(&self, value: ValueId, number: f64) -> Option<(ValueId, ValueId, ValueId)> {
        let node = self.node(value, "Where")?;
        let [x, least] = self.operands(node.input(0)?, "GreaterOrEqual")?;
        let choice = (x, node.input(1)?, node.input(2)?);
        (self.number(least) == Some(number)).then_some(choice)
    }

    /// Returns the coefficients of `value` as a polynomial in `x`, starting with the constant.
    fn polynomial(&self, value: ValueId, x: ValueId) -> Option<Vec<f64>> {
        if value == x {
            return Some(vec![0.0, 1.0]);
        }
        if let Some(number) = self.number(value) {
            return Some(vec![number]);
        }
        let node = self.graph.node(self.graph.producer(value)?);
        let [a, b] = self.operands(value, node.op.name)?.map(|operand| self.polynomial(operand, x));
        let (a, b) = (a?, b?);
        let at = |of: &[f64], power: usize| of.get(power).copied().unwrap_or(0.0);
        let powers = 0..a.len().max(b.len());
        Some(match node.op.name {
            "Add" => powers.map(|power| at(&a, power) + at(&b, power)).collect(),
            "Sub" => powers.map(|power| at(&a, power) - at(&b, power)).collect(),
            "Mul" => {
                let term = |power: usize| (0..=power).map(|i| at(&a, i) * at(&b, power - i)).sum();
                (0..a.len() + b.len() - 1).map(term).collect()
            }
            _ => return None,
        })
    }

    /// Returns the positions of new elements, if `value` is their distance from all old elements.
    fn distance(&self, value: ValueId) -> Option<ValueId> {
        let [place, old] = self.operands(self.operand(value, "Abs")?, "Sub")?;
        let is_column = self.graph.ty(old).shape == [self.rows.clone(), Dim::Known(1)];
        (is_column && self.counts(self.unmoved(old), self.rows, 0.0)).then_some(place)
    }

    /// Returns the spacing of new elements, and the old and new sizes from which it is computed.
    fn place(&self, value: ValueId) -> Option<(ValueId, ValueId, ValueId)> {
        let [a, b] = self.operands(self.shifted(self.unmoved(value), -0.5)?, "Mul")?;
        let is_center = |value| {
            self.counts(value, self.columns, 0.5)
                || self.shifted(value, 0.5).is_some_and(|v| self.counts(v, self.columns, 0.0))
        };
        let step = if is_center(a) { b } else { is_center(b).then_some(a)? };
        let scale = match self.operands(step, "Div") {
            Some([one, scale]) => (self.number(one) == Some(1.0)).then_some(scale)?,
            None => self.operand(step, "Reciprocal")?,
        };
        let [to, from] = self.operands(scale, "Div")?;
        let fits = self.is_size(to, self.columns) && self.is_size(from, self.rows);
        fits.then_some((step, from, to))
    }

    /// Returns `true` if `value` is the size `dim` as a float.
    fn is_size(&self, value: ValueId, dim: &Dim) -> bool {
        if let (Some(number), Some(size)) = (self.number(value), dim.as_known()) {
            return number == float(size);
        }
        self.graph.facts().size(value).as_ref() == Some(dim)
    }

    /// Returns `true` if `value` is an iota from `first` along an axis of size `dim`.
    fn counts(&self, value: ValueId, dim: &Dim, first: f64) -> bool {
        if let Some(numbers) = self.graph.constant(value).and_then(Tensor::to_f64s) {
            let is_next = |(i, number): (i64, &f64)| *number == float(i) + first;
            return dim.as_known() == i64::try_from(numbers.len()).ok()
                && (0..).zip(&numbers).all(is_next);
        }
        first == 0.0 && self.graph.facts().is_iota(value, dim)
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes of images are small")]
pub(super) fn float(size: i64) -> f64 {
    size as f64
}

#[cfg(test)]
mod tests {
    use onnx::Graph;
    use provenance::Origins;

    use super::*;

    /// The weights of `W` new elements, computed from `H` old ones.
    const WEIGHTS: &str = "g (float[H,3] a, float[W,3] b) => (float[H,W] m) {
        none = Constant <value_ints = [0]> () one_axis = Constant <value_ints = [1]> ()
        first = Constant <value = int64 {0}> () next = Constant <value = int64 {1}> ()
        zero = Constant <value_float = 0.0> () half = Constant <value_float = 0.5> ()
        minus = Constant <value_float = -0.5> () one = Constant <value_float = 1.0> ()
        two = Constant <value_float = 2.0> () tiny = Constant <value_float = 0.0001> ()
        hs = Shape <start = 0, end = 1> (a) h = Squeeze (hs, none) from = Cast <to = 1> (h)
        ws = Shape <start = 0, end = 1> (b) w = Squeeze (ws, none) to = Cast <to = 1> (w)
        scale = Div (to, from) step = Reciprocal (scale)
        i = Range (first, w, next) new = Cast <to = 1> (i) center = Add (new, half)
        scaled = Mul (center, step) place = Sub (scaled, half)
        j = Range (first, h, next) old = Cast <to = 1> (j) column = Unsqueeze (old, one_axis)
        apart = Sub (place, column) distance = Abs (apart)
        below = Sub (one, distance) weights = Relu (below)
        total = ReduceSum <keepdims = 1> (weights, none) normal = Div (weights, total)
        low = GreaterOrEqual (place, minus) end = Sub (from, half) high = LessOrEqual (place, end)
        size = Abs (total) counts = Greater (size, tiny) inside = And (low, high)
        some = Where (counts, normal, zero) m = Where (inside, some, zero) }";

    fn changed(changes: &[(&str, &str)]) -> String {
        changes.iter().fold(WEIGHTS.to_owned(), |text, (old, new)| {
            assert!(text.contains(old), "{old}");
            text.replace(old, new)
        })
    }

    fn found(changes: &[(&str, &str)]) -> Option<Filter> {
        let graph = crate::testing::graph(&changed(changes), &mut Origins::default());
        sized(&graph, graph.block(Graph::MAIN).outputs()[0]).map(|found| found.filter)
    }

    const CUBIC: (&str, &str) = (
        "below = Sub (one, distance) weights = Relu (below)",
        "k1 = Constant <value_float = 1.5> () k2 = Constant <value_float = 2.5> ()
        k3 = Constant <value_float = 4.0> () p1 = Mul (distance, k1) p2 = Sub (p1, k2)
        p3 = Mul (p2, distance) p4 = Mul (p3, distance) near = Add (p4, one)
        q1 = Mul (distance, minus) q2 = Add (q1, k2) q3 = Mul (q2, distance) q4 = Sub (q3, k3)
        q5 = Mul (q4, distance) far = Add (q5, two) is_far = GreaterOrEqual (distance, one)
        is_out = GreaterOrEqual (distance, two) between = Where (is_far, far, near)
        weights = Where (is_out, zero, between)",
    );

    #[test]
    fn weights_are_read_in_any_spelling() {
        let linear =
            |antialias| Some(Filter { kernel: Kernel::Linear, antialias: Some(antialias) });
        for changes in [
            ("weights = Relu (below)", "weights = Relu (below)"),
            ("step = Reciprocal (scale)", "step = Div (one, scale)"),
            ("center = Add (new, half)", "center = Add (half, new)"),
            ("Mul (center, step)", "Mul (step, center)"),
            ("place = Sub (scaled, half)", "place = Add (minus, scaled)"),
            ("place = Sub (scaled, half)", "place = Add (scaled, minus)"),
            ("weights = Relu (below)", "weights = Max (zero, below)"),
            ("weights = Relu (below)", "weights = Max (below, zero)"),
            ("end = Sub (from, half)", "end = Add (from, minus)"),
            ("counts = Greater (size, tiny)", "counts = Greater (total, tiny)"),
            (
                "some = Where (counts, normal, zero) m = Where (inside, some, zero)",
                "all = And (counts, inside) m = Where (all, normal, zero)",
            ),
            (
                "normal = Div (weights, total)",
                "is_zero = Equal (total, zero) is_some = Not (is_zero)
             divisor = Where (is_some, total, one) normal = Div (weights, divisor)",
            ),
        ] {
            assert_eq!(found(&[changes]), linear(false), "{changes:?}");
        }
        let wide = |width: &str| {
            let wide = format!(
                "width = {width} relative = Div (distance, width) below = Sub (one, relative)"
            );
            found(&[("below = Sub (one, distance)", &wide)])
        };
        assert_eq!(
            [wide("Max (step, one)"), wide("Max (one, step)")],
            [linear(true), linear(true)]
        );
        assert_eq!(
            [wide("Max (step, two)"), wide("Max (scale, one)"), wide("Min (step, one)")],
            [None; 3]
        );
        assert_eq!(found(&[CUBIC]), Some(Filter { kernel: Kernel::Cubic, antialias: Some(false) }));
    }

    #[test]
    fn other_weights_are_not_of_a_resampled_axis() {
        for change in [
            // The positions of new elements.
            ("scale = Div (to, from)", "scale = Div (from, to)"),
            ("step = Reciprocal (scale)", "step = Div (two, scale)"),
            ("step = Reciprocal (scale)", "step = Sqrt (scale)"),
            ("center = Add (new, half)", "center = Add (new, one)"),
            ("center = Add (new, half)", "center = Mul (new, half)"),
            ("place = Sub (scaled, half)", "place = Sub (scaled, minus)"),
            ("place = Sub (scaled, half)", "place = Add (scaled, half)"),
            ("place = Sub (scaled, half)", "place = Identity (scaled)"),
            // The distances from old elements.
            ("distance = Abs (apart)", "distance = Neg (apart)"),
            ("old = Cast <to = 1> (j)", "more = Cast <to = 1> (j) old = Add (more, one)"),
            // The kernel.
            ("below = Sub (one, distance)", "below = Sub (two, distance)"),
            ("weights = Relu (below)", "weights = Max (below, one)"),
            ("weights = Relu (below)", "weights = Sigmoid (below)"),
            // The sum of weights.
            ("keepdims = 1> (weights, none)", "keepdims = 1> (below, none)"),
            (
                "normal = Div (weights, total)",
                "is_zero = Equal (total, one) is_some = Not (is_zero)
             divisor = Where (is_some, total, one) normal = Div (weights, divisor)",
            ),
            (
                "normal = Div (weights, total)",
                "is_zero = Equal (total, zero) is_some = Not (is_zero)
             divisor = Where (is_some, total, two) normal = Div (weights, divisor)",
            ),
            (
                "normal = Div (weights, total)",
                "is_zero = Equal (distance, zero) is_some = Not (is_zero)
             divisor = Where (is_some, total, one) normal = Div (weights, divisor)",
            ),
            // The tests of each element.
            ("low = GreaterOrEqual (place, minus)", "low = GreaterOrEqual (place, half)"),
            ("low = GreaterOrEqual (place, minus)", "low = GreaterOrEqual (scaled, minus)"),
            ("end = Sub (from, half)", "end = Sub (from, one)"),
            ("end = Sub (from, half)", "end = Sub (to, half)"),
            ("high = LessOrEqual (place, end)", "high = LessOrEqual (scaled, end)"),
            ("counts = Greater (size, tiny)", "counts = Greater (size, half)"),
            ("counts = Greater (size, tiny)", "counts = Greater (size, minus)"),
            ("counts = Greater (size, tiny)", "counts = Greater (distance, tiny)"),
            // Parts of the weights, or other numbers elsewhere.
            ("m = Where (inside, some, zero)", "m = Identity (some)"),
            ("some = Where (counts, normal, zero)", "some = Identity (normal)"),
            ("m = Where (inside, some, zero)", "m = Where (inside, some, one)"),
        ] {
            assert_eq!(found(&[change]), None, "{change:?}");
        }
        for change in [
            ("k1 = Constant <value_float = 1.5>", "k1 = Constant <value_float = 1.25>"),
            ("k3 = Constant <value_float = 4.0>", "k3 = Constant <value_float = 3.0>"),
            ("Where (is_out, zero, between)", "Where (is_out, one, between)"),
            ("GreaterOrEqual (distance, one)", "GreaterOrEqual (distance, half)"),
            ("GreaterOrEqual (distance, one)", "GreaterOrEqual (apart, one)"),
            ("GreaterOrEqual (distance, two)", "GreaterOrEqual (distance, one)"),
        ] {
            assert_eq!(found(&[CUBIC, change]), None, "{change:?}");
        }
    }

    #[test]
    fn one_of_the_sizes_may_be_known() {
        let known = |numbers: &str, center: &str, end: &str| {
            found(&[
                ("float[H,3]", "float[4,3]"),
                ("float[H,W]", "float[4,W]"),
                (
                    "hs = Shape <start = 0, end = 1> (a) h = Squeeze (hs, none) from = Cast <to = 1> (h)",
                    "from = Constant <value_float = 4.0> ()",
                ),
                (
                    "j = Range (first, h, next) old = Cast <to = 1> (j) column = Unsqueeze (old, one_axis)",
                    &format!("column = Constant <value = float[4,1] {{{numbers}}}> ()"),
                ),
                ("end = Sub (from, half)", &format!("end = Constant <value_float = {end}> ()")),
                ("center = Add (new, half)", center),
            ])
        };
        let center = "center = Add (new, half)";
        assert!(known("0, 1, 2, 3", center, "3.5").is_some());
        assert_eq!(known("0, 1, 2, 4", center, "3.5"), None);
        assert_eq!(known("1, 2, 3, 4", center, "3.5"), None);
        assert_eq!(known("0, 1, 2, 3", center, "4.5"), None);
        assert_eq!(
            found(&[("from = Cast <to = 1> (h)", "from = Constant <value_float = 4.0> ()")]),
            None
        );
    }
}
