//! Intervals of integers.

use tensor::bounds::at_least;
use tensor::{DType, Dim};

use super::{Facts, FloatInterval};
use crate::{Node, Producer, ValueId, fold};

/// A bound on sizes and on results of arithmetic on a few sizes.
const LARGEST: u64 = 1 << 62;

/// An interval that contains all elements of an integer value; `None` for a bound that is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// The lower bound.
    pub low: Option<Dim>,
    /// The upper bound.
    pub high: Option<Dim>,
}

impl Interval {
    fn new(low: Dim, high: Dim) -> Self {
        Self { low: Some(low), high: Some(high) }
    }

    /// Returns `true` if all elements are proved to be `least` or more.
    pub fn is_at_least(&self, least: &Dim) -> bool {
        self.low.as_ref().is_some_and(|low| is_below(least, low))
    }

    /// Returns `true` if all elements are proved to be `most` or less.
    pub fn is_at_most(&self, most: &Dim) -> bool {
        self.high.as_ref().is_some_and(|high| is_below(high, most))
    }

    /// Returns the only number in the interval, if there is just one.
    pub fn single(self) -> Option<Dim> {
        self.low.filter(|low| Some(low) == self.high.as_ref())
    }

    /// Returns an interval that contains both.
    fn or(self, other: Self) -> Self {
        let pick = |a: Option<Dim>, b: Option<Dim>, first_if: fn(&Dim, &Dim) -> bool| {
            let (a, b) = (a?, b?);
            if first_if(&a, &b) { Some(a) } else { first_if(&b, &a).then_some(b) }
        };
        Self {
            low: pick(self.low, other.low, is_below),
            high: pick(self.high, other.high, |a, b| is_below(b, a)),
        }
    }

    /// Returns an interval that contains the intersection of both.
    fn and(self, other: Self) -> Self {
        let pick = |a: Option<Dim>, b: Option<Dim>, first_if: fn(&Dim, &Dim) -> bool| match (a, b) {
            (Some(a), Some(b)) => Some(if first_if(&a, &b) { a } else { b }),
            (a, b) => a.or(b),
        };
        Self {
            low: pick(self.low, other.low, |a, b| is_below(b, a)),
            high: pick(self.high, other.high, is_below),
        }
    }

    /// Returns the interval if no element of it wraps around in `dtype`, or else that of the type.
    fn within(self, dtype: DType) -> Self {
        if self.fits(dtype) { self } else { Self::of_type(dtype) }
    }

    /// Returns `true` if no element of it wraps around in `dtype`. JAX counts sizes in 32 bits itself.
    pub fn fits(&self, dtype: DType) -> bool {
        let Some((low, high)) = dtype.int_range() else { return false };
        let holds = |bound: &Dim| match bound {
            Dim::Known(n) => (low..=high).contains(&i128::from(*n)),
            Dim::Symbolic(_) => matches!(dtype, DType::I32 | DType::I64),
        };
        [&self.low, &self.high].into_iter().all(|bound| bound.as_ref().is_some_and(holds))
    }

    fn of_type(dtype: DType) -> Self {
        let bound = |n: i128| i64::try_from(n).ok().map(Dim::Known);
        match dtype.int_range() {
            Some((low, high)) => Self { low: bound(low), high: bound(high) },
            None if dtype == DType::Bool => Self::new(Dim::Known(0), Dim::Known(1)),
            None => Self::default(),
        }
    }
}

/// Returns `true` if `a <= b` is proved.
fn is_below(a: &Dim, b: &Dim) -> bool {
    match (a, b) {
        (Dim::Known(a), Dim::Known(b)) => a <= b,
        // Neither sizes of arrays nor results of arithmetic on a few sizes are near the limits of 64 bits.
        (Dim::Known(a), _) if a.unsigned_abs() > LARGEST => *a < 0,
        (_, Dim::Known(b)) if b.unsigned_abs() > LARGEST => *b > 0,
        _ => at_least(&(b.clone() - a.clone()), 0),
    }
}

impl Facts<'_> {
    /// Returns an interval that contains all elements of `value`; that of its type if nothing else is known.
    pub fn interval(&self, value: ValueId) -> Interval {
        let dtype = self.graph.ty(value).dtype;
        let of_type = Interval::of_type(dtype);
        if !dtype.is_integer() {
            return of_type;
        }
        let found = self.answer(
            |answers| &mut answers.intervals,
            &value,
            || self.find_interval(value, dtype, of_type.clone()),
        );
        found.unwrap_or(of_type)
    }

    fn find_interval(&self, value: ValueId, dtype: DType, of_type: Interval) -> Interval {
        if let Some(content) = self.graph.value(value).content.as_deref()
            && let Some(known) = all(content)
        {
            return known;
        }
        if let Some(tensor) = self.stored(value) {
            let numbers = tensor.to_i64s().unwrap_or_default();
            return match (numbers.iter().min(), numbers.iter().max()) {
                (Some(low), Some(high)) => Interval::new(Dim::Known(*low), Dim::Known(*high)),
                _ => of_type,
            };
        }
        if self.graph.mask_of_padding() == Some(value) {
            return Interval::new(Dim::Known(0), Dim::Known(1));
        }
        let Producer::Node(_, index) = *self.graph.value(value).producer() else { return of_type };
        let Some(node) = self.node(value) else { return of_type };
        let found = self.computed_interval(node, index, dtype).unwrap_or_default();
        let Interval { low, high } = found.clone().and(of_type);
        // Every size fits into its type, so the limits of the type say nothing about it.
        let size = |bound: Option<Dim>| bound.filter(|bound| bound.as_known().is_none());
        Interval { low: size(found.low).or(low), high: size(found.high).or(high) }
    }

    fn computed_interval(&self, node: &Node, index: usize, dtype: DType) -> Option<Interval> {
        let operand = |i: usize| Some(self.interval(node.input(i)?));
        let size = |i: usize, axis: i64| {
            let shape = self.shape(node.input(i)?);
            Some(shape[fold::axis(axis, shape.len()).ok()?].clone())
        };
        let indices = |size: Dim| Interval::new(Dim::Known(0), size - Dim::Known(1));
        let both = |op: fn(Dim, Dim) -> Dim, a: Interval, b: Interval| Interval {
            low: a.low.zip(b.low).and_then(|(a, b)| checked(op, a, b)),
            high: a.high.zip(b.high).and_then(|(a, b)| checked(op, a, b)),
        };
        Some(match node.op.name {
            "ArgMax" | "ArgMin" => indices(size(0, node.int("axis", 0))?),
            "TopK" if index == 1 => indices(size(0, node.int("axis", -1))?),
            "Cast" => {
                let from = self.graph.ty(node.input(0)?);
                if from.dtype.is_float() {
                    let floats = self.float_interval(node.input(0)?, &from.shape);
                    return truncated(&floats, dtype);
                }
                operand(0)?.within(dtype)
            }
            _ if node.operator().selects() => operand(0)?,
            "Concat" => (1..node.inputs.len())
                .try_fold(operand(0)?, |range, i| Some(range.or(operand(i)?)))?,
            "Where" => operand(1)?.or(operand(2)?),
            "Clip" => {
                let mut range = operand(0)?;
                if node.input(1).is_some() {
                    range = range.and(Interval { low: operand(1)?.low, high: None });
                }
                if node.input(2).is_some() {
                    range = range.and(Interval { low: None, high: operand(2)?.high });
                }
                range
            }
            "Max" | "Min" => {
                let (a, b) = (operand(0)?, operand(1)?);
                if node.inputs.len() != 2 {
                    return None;
                }
                let either = a.clone().or(b.clone());
                let sharper = a.and(b);
                if node.is("Max") {
                    Interval { low: sharper.low, high: either.high }
                } else {
                    Interval { low: either.low, high: sharper.high }
                }
            }
            "Mod" => {
                let by = operand(1)?;
                let most = by.high.clone()? - Dim::Known(1);
                if !by.is_at_least(&Dim::Known(1)) {
                    return None;
                }
                let low = match node.int("fmod", 0) == 0 || operand(0)?.is_at_least(&Dim::Known(0))
                {
                    true => Dim::Known(0),
                    false => -most.clone(),
                };
                Interval::new(low, most)
            }
            "Div" => {
                let (a, by) = (operand(0)?, operand(1)?);
                if !a.is_at_least(&Dim::Known(0)) || !by.is_at_least(&Dim::Known(1)) {
                    return None;
                }
                Interval { low: Some(Dim::Known(0)), high: a.high }
            }
            "Add" => both(|a, b| a + b, operand(0)?, operand(1)?).within(dtype),
            "Sub" => {
                let (a, b) = (operand(0)?, operand(1)?);
                both(|a, b| a - b, a, Interval { low: b.high, high: b.low }).within(dtype)
            }
            "Neg" => {
                let Interval { low, high } = operand(0)?;
                let negative = |bound: Option<Dim>| {
                    bound.filter(|bound| *bound != Dim::Known(i64::MIN)).map(|bound| -bound)
                };
                Interval { low: negative(high), high: negative(low) }.within(dtype)
            }
            "Mul" => {
                let (a, b) = (operand(0)?, operand(1)?);
                if !a.is_at_least(&Dim::Known(0)) || !b.is_at_least(&Dim::Known(0)) {
                    return None;
                }
                both(|a, b| a * b, a, b).within(dtype)
            }
            "Range" => {
                let (start, limit, step) = (operand(0)?, operand(1)?, operand(2)?);
                if step.low != Some(Dim::Known(1)) || step.high != step.low {
                    return None;
                }
                Interval { low: start.low, high: Some(limit.high? - Dim::Known(1)) }
            }
            "ReduceSum" => {
                let (terms, range) = (self.terms_of_sums(node)?, operand(0)?);
                let is_count = terms.as_known().is_some() || range.is_at_most(&Dim::Known(1));
                if !is_count || !range.is_at_least(&Dim::Known(0)) {
                    return None;
                }
                let high = checked(|a, b| a * b, range.high?, terms)?;
                Interval::new(Dim::Known(0), high).within(dtype)
            }
            "Shape" | "Size" | "NonZero" => Interval { low: Some(Dim::Known(0)), high: None },
            _ => return None,
        })
    }
}

/// Returns the interval of a list of sizes.
fn all(content: &[Dim]) -> Option<Interval> {
    let (first, rest) = content.split_first()?;
    let one = |dim: &Dim| Interval::new(dim.clone(), dim.clone());
    let range = rest.iter().fold(one(first), |range, dim| range.or(one(dim)));
    (range.low.is_some() || range.high.is_some()).then_some(range)
}

/// Returns the interval of floats that are cast to `dtype`, if all of them have an integer there.
#[expect(clippy::cast_possible_truncation, reason = "the numbers lie within 32 bits")]
fn truncated(floats: &FloatInterval, dtype: DType) -> Option<Interval> {
    const LARGEST: f64 = 2_147_483_647.0;
    let (low, high) = (floats.low.trunc(), floats.high.trunc());
    let is_small = !floats.has_nan && low >= -LARGEST && high <= LARGEST;
    let range = is_small.then(|| Interval::new(Dim::Known(low as i64), Dim::Known(high as i64)))?;
    range.fits(dtype).then_some(range)
}

/// Applies `op` to bounds, unless a number is too large for it.
fn checked(op: fn(Dim, Dim) -> Dim, a: Dim, b: Dim) -> Option<Dim> {
    const LARGEST: i64 = 1 << 31;
    let is_moderate = |dim: &Dim| dim.as_known().is_none_or(|n| (-LARGEST..=LARGEST).contains(&n));
    (is_moderate(&a) && is_moderate(&b)).then(|| op(a, b))
}

#[cfg(test)]
pub(super) mod tests {
    use provenance::Origins;

    use super::*;
    use crate::Graph;
    use crate::text::parse;

    pub(crate) const BOUNDS: [(i64, i64); 6] = [(-2, -1), (-1, 1), (0, 0), (0, 3), (1, 2), (3, 5)];

    /// Returns the graph of `op` on two inputs with these bounds.
    pub(crate) fn of_bounded(op: &str, result: &str, x: (i64, i64), y: (i64, i64)) -> Graph {
        let ((a, b), (c, d)) = (x, y);
        let text = format!(
            "g (int64[B] p, int64[B] q) => ({result}[B] z) {{
                a = Constant <value_int = {a}> () b = Constant <value_int = {b}> ()
                c = Constant <value_int = {c}> () d = Constant <value_int = {d}> ()
                x = Clip (p, a, b) y = Clip (q, c, d) z = {op} }}"
        );
        parse(&text, &mut Origins::default()).unwrap()
    }

    pub(crate) fn pairs(x: (i64, i64), y: (i64, i64)) -> impl Iterator<Item = (i64, i64)> {
        (x.0..=x.1).flat_map(move |a| (y.0..=y.1).map(move |b| (a, b)))
    }

    type Compute = fn(i64, i64) -> i64;

    #[test]
    fn intervals_contain_all_results() {
        let operators: [(&str, Compute); 5] = [
            ("Add (x, y)", |a, b| a + b),
            ("Sub (x, y)", |a, b| a - b),
            ("Max (x, y)", i64::max),
            ("Min (x, y)", i64::min),
            ("Neg (x)", |a, _| -a),
        ];
        for (op, apply) in operators {
            for (x, y) in BOUNDS.into_iter().flat_map(|x| BOUNDS.map(|y| (x, y))) {
                let graph = of_bounded(op, "int64", x, y);
                let interval = graph.facts().interval(graph.block(Graph::MAIN).outputs()[0]);
                let results = || pairs(x, y).map(|(a, b)| apply(a, b));
                let known = |bound: Option<Dim>| bound.and_then(|bound| bound.as_known());
                if let Some(low) = known(interval.low) {
                    assert!(results().all(|result| low <= result), "{op} {x:?} {y:?} {low}");
                }
                if let Some(high) = known(interval.high) {
                    assert!(results().all(|result| result <= high), "{op} {x:?} {y:?} {high}");
                }
            }
        }
    }

    /// Returns the bounds of `op` on integers with these bounds, if they are sharper than those of the type.
    fn bounds(op: &str, x: (i64, i64), y: (i64, i64)) -> Option<(i64, i64)> {
        let graph = of_bounded(op, "int64", x, y);
        let Interval { low, high } = graph.facts().interval(graph.block(Graph::MAIN).outputs()[0]);
        let bounds = low.and_then(|low| low.as_known()).zip(high.and_then(|high| high.as_known()));
        bounds.filter(|bounds| *bounds != (i64::MIN, i64::MAX))
    }

    #[test]
    fn products_and_quotients_of_non_negative_numbers_are_bounded() {
        for (x, y) in BOUNDS.into_iter().flat_map(|x| BOUNDS.map(|y| (x, y))) {
            let expected = (x.0 >= 0 && y.0 >= 0).then(|| (x.0 * y.0, x.1 * y.1));
            assert_eq!(bounds("Mul (x, y)", x, y), expected, "{x:?} * {y:?}");
            let expected = (x.0 >= 0 && y.0 >= 1).then_some((0, x.1));
            assert_eq!(bounds("Div (x, y)", x, y), expected, "{x:?} / {y:?}");
            let expected = (y.0 >= 1).then(|| (0, y.1 - 1));
            assert_eq!(bounds("Mod (x, y)", x, y), expected, "{x:?} mod {y:?}");
            let low = if x.0 >= 0 { 0 } else { 1 - y.1 };
            let expected = (y.0 >= 1).then(|| (low, y.1 - 1));
            assert_eq!(bounds("Mod <fmod = 1> (x, y)", x, y), expected, "{x:?} rem {y:?}");
        }
        assert_eq!(bounds("Add (x, y)", (0, 1 << 40), (1, 2)), None);
        assert_eq!(bounds("Add (y, x)", (0, 1 << 40), (1, 2)), None);
    }

    #[test]
    fn only_ranges_that_count_up_are_bounded_by_their_limit() {
        let range = |operands: &str| {
            let text = format!(
                "g () => (int64[5] y) {{
                    a = Constant <value_int = 0> () b = Constant <value_int = 5> ()
                    up = Constant <value_int = 1> () down = Constant <value_int = -1> ()
                    y = Range ({operands}) }}"
            );
            let graph = parse(&text, &mut Origins::default()).unwrap();
            let y = graph.block(Graph::MAIN).outputs()[0];
            // The elements themselves are known, too.
            let node = graph.node(graph.producer(y).unwrap());
            graph.facts().computed_interval(node, 0, DType::I64)
        };
        assert_eq!(range("a, b, up"), Some(Interval::new(Dim::Known(0), Dim::Known(4))));
        assert_eq!(range("b, a, down"), None);
    }

    #[test]
    fn floats_are_truncated_to_small_integers() {
        let of = |numbers: &str| {
            let text = format!(
                "g () => (int64[2] y) {{
                    x = Constant <value = double[2] {{{numbers}}}> () y = Cast <to = 7> (x) }}"
            );
            let graph = parse(&text, &mut Origins::default()).unwrap();
            let found = graph.facts().interval(graph.block(Graph::MAIN).outputs()[0]);
            let known = |bound: Option<Dim>| bound.unwrap().as_known().unwrap();
            Some((known(found.low), known(found.high)))
                .filter(|found| *found != (i64::MIN, i64::MAX))
        };
        assert_eq!(of("-2.7, 3.9"), Some((-2, 3)));
        assert_eq!(of("-2147483647, 2147483647"), Some((-2147483647, 2147483647)));
        assert_eq!(of("nan, 1"), None);
        assert_eq!(of("-3e9, 1"), None);
        assert_eq!(of("0, 3e9"), None);
    }

    #[test]
    fn values_of_top_k_are_no_indices() {
        let text = "g (int64[5] x) => (int64[2] v, int64[2] i) {
            k = Constant <value_ints = [2]> () v, i = TopK (x, k) }";
        let graph = parse(text, &mut Origins::default()).unwrap();
        let [values, indices] = *graph.block(Graph::MAIN).outputs() else { panic!() };
        assert_eq!(graph.facts().interval(values), Interval::of_type(DType::I64));
        assert_eq!(graph.facts().interval(indices), Interval::new(Dim::Known(0), Dim::Known(4)));
        assert_eq!(Interval::of_type(DType::F32), Interval::default());
    }

    #[test]
    fn sums_of_few_small_numbers_are_small() {
        let dim = |text| Some(Dim::parse(text).unwrap());
        let of_type = Interval::of_type(DType::I32);
        for (sizes, least, most, expected) in [
            ("4,3", 0, 1, Interval { low: dim("0"), high: dim("3") }),
            ("4,3", 2, 5, Interval { low: dim("0"), high: dim("15") }),
            ("B,T", 0, 1, Interval { low: dim("0"), high: dim("T") }),
            ("B,T", 0, 2, of_type.clone()),
            ("4,3", -1, 1, of_type.clone()),
            ("4,3", 0, 1 << 30, of_type),
        ] {
            let text = format!(
                "g (int32[{sizes}] x) => (int32[N] y) {{
                    a = Constant <value = int32 {{{least}}}> () b = Constant <value = int32 {{{most}}}> ()
                    c = Clip (x, a, b) axes = Constant <value_ints = [1]> ()
                    y = ReduceSum <keepdims = 0> (c, axes) }}"
            )
            .replace("[N]", if sizes == "4,3" { "[4]" } else { "[B]" });
            let graph = parse(&text, &mut Origins::default()).unwrap();
            let found = graph.facts().interval(graph.block(Graph::MAIN).outputs()[0]);
            assert_eq!(found, expected, "{sizes} {least} {most}");
        }
    }

    #[test]
    fn sizes_are_compared_by_their_bounds() {
        let dim = |text| Dim::parse(text).unwrap();
        for (a, b, expected) in [
            ("2", "3", true),
            ("3", "2", false),
            ("b", "b + 1", true),
            ("b + 1", "b", false),
            ("b", "t", false),
            ("0", "b", true),
            ("b", "9223372036854775807", true),
            ("9223372036854775807", "b", false),
            ("-9223372036854775807", "b", true),
            ("b", "-9223372036854775807", false),
        ] {
            assert_eq!(is_below(&dim(a), &dim(b)), expected, "{a} <= {b}");
        }
        let lowest = Dim::Known(i64::MIN);
        assert!(is_below(&lowest, &dim("b")) && !is_below(&dim("b"), &lowest));
    }
}
