//! What is known of integers without running the model: where they lie, and which comparisons, of
//! floats too, always come out one way.

use onnx::{Graph, Node, Producer, ValueId, fold};
use tensor::bounds::at_least;
use tensor::{DType, Dim};

use crate::floats::Floats;

/// How deep a value's operands are followed.
const DEPTH: u32 = 12;

/// Sizes and what is computed from them are smaller.
const LARGEST: u64 = 1 << 62;

/// Where all elements of a value lie; `None` for a bound that nothing is known of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) low: Option<Dim>,
    pub(crate) high: Option<Dim>,
}

impl Range {
    /// Where the elements of `value` lie.
    pub(crate) fn of(graph: &Graph, value: ValueId) -> Self {
        range(graph, value, DEPTH)
    }

    fn new(low: Dim, high: Dim) -> Self {
        Self { low: Some(low), high: Some(high) }
    }

    /// Whether all elements are proved to be `least` or more.
    pub(crate) fn is_at_least(&self, least: &Dim) -> bool {
        self.low.as_ref().is_some_and(|low| is_below(least, low))
    }

    /// Whether all elements are proved to be `most` or less.
    pub(crate) fn is_at_most(&self, most: &Dim) -> bool {
        self.high.as_ref().is_some_and(|high| is_below(high, most))
    }

    /// What lies here or there.
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

    /// What is known when both are known.
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

    /// The range, if no element of it wraps around in `dtype`.
    fn within(self, dtype: DType) -> Self {
        if self.fits(dtype) { self } else { Self::of_type(dtype) }
    }

    /// Whether no element of it wraps around in `dtype`. JAX counts sizes in 32 bits itself.
    pub(crate) fn fits(&self, dtype: DType) -> bool {
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

/// Whether `a <= b` is proved.
fn is_below(a: &Dim, b: &Dim) -> bool {
    match (a, b) {
        (Dim::Known(a), Dim::Known(b)) => a <= b,
        // No size of an array, nor what is computed from a few, is near the ends of all integers.
        (Dim::Known(a), _) if a.unsigned_abs() > LARGEST => *a < 0,
        (_, Dim::Known(b)) if b.unsigned_abs() > LARGEST => *b > 0,
        _ => at_least(&(b.clone() - a.clone()), 0),
    }
}

fn range(graph: &Graph, value: ValueId, depth: u32) -> Range {
    let dtype = graph.ty(value).dtype;
    let of_type = Range::of_type(dtype);
    if !dtype.is_integer() || depth == 0 {
        return of_type;
    }
    if let Some(content) = graph.value(value).content.as_deref()
        && let Some(known) = all(content)
    {
        return known;
    }
    match graph.value(value).producer() {
        // A person may give a parameter other elements.
        Producer::Constant(tensor) if graph.value(value).name.is_empty() => {
            let numbers = tensor.to_i64s().unwrap_or_default();
            match (numbers.iter().min(), numbers.iter().max()) {
                (Some(low), Some(high)) => Range::new(Dim::Known(*low), Dim::Known(*high)),
                _ => of_type,
            }
        }
        Producer::Node(id, index) => {
            let node = graph.node(*id);
            if !node.op.domain.is_empty() {
                return of_type;
            }
            let found = computed(graph, node, *index, dtype, depth).unwrap_or_default();
            let Range { low, high } = found.clone().and(of_type);
            // Every size fits into its type, so the limits of the type say nothing about it.
            let size = |bound: Option<Dim>| bound.filter(|bound| bound.as_known().is_none());
            Range { low: size(found.low).or(low), high: size(found.high).or(high) }
        }
        _ => of_type,
    }
}

/// The range of a list of sizes.
fn all(content: &[Dim]) -> Option<Range> {
    let (first, rest) = content.split_first()?;
    let one = |dim: &Dim| Range::new(dim.clone(), dim.clone());
    let range = rest.iter().fold(one(first), |range, dim| range.or(one(dim)));
    (range.low.is_some() || range.high.is_some()).then_some(range)
}

fn computed(graph: &Graph, node: &Node, index: usize, dtype: DType, depth: u32) -> Option<Range> {
    let operand = |i: usize| Some(range(graph, node.input(i)?, depth - 1));
    let size = |i: usize, axis: i64| {
        let shape = &graph.ty(node.input(i)?).shape;
        Some(shape[fold::axis(axis, shape.len()).ok()?].clone())
    };
    let places = |size: Dim| Range::new(Dim::Known(0), size - Dim::Known(1));
    let both = |op: fn(Dim, Dim) -> Dim, a: Range, b: Range| Range {
        low: a.low.zip(b.low).and_then(|(a, b)| checked(op, a, b)),
        high: a.high.zip(b.high).and_then(|(a, b)| checked(op, a, b)),
    };
    Some(match node.op.name {
        "ArgMax" | "ArgMin" => places(size(0, node.int("axis", 0))?),
        "TopK" if index == 1 => places(size(0, node.int("axis", -1))?),
        "Cast" => {
            let from = graph.ty(node.input(0)?);
            if from.dtype.is_float() {
                return truncated(&Floats::of(graph, node.input(0)?, &from.shape), dtype);
            }
            operand(0)?.within(dtype)
        }
        "Expand" | "Gather" | "GatherElements" | "GatherND" | "Identity" | "Slice" | "Split"
        | "Tile" => operand(0)?,
        _ if node.is_movement() => operand(0)?,
        "Concat" => {
            (1..node.inputs.len()).try_fold(operand(0)?, |range, i| Some(range.or(operand(i)?)))?
        }
        "Where" => operand(1)?.or(operand(2)?),
        "Clip" => {
            let mut range = operand(0)?;
            if node.input(1).is_some() {
                range = range.and(Range { low: operand(1)?.low, high: None });
            }
            if node.input(2).is_some() {
                range = range.and(Range { low: None, high: operand(2)?.high });
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
                Range { low: sharper.low, high: either.high }
            } else {
                Range { low: either.low, high: sharper.high }
            }
        }
        "Mod" => {
            let by = operand(1)?;
            let most = by.high.clone()? - Dim::Known(1);
            if !by.is_at_least(&Dim::Known(1)) {
                return None;
            }
            let low = match node.int("fmod", 0) == 0 || operand(0)?.is_at_least(&Dim::Known(0)) {
                true => Dim::Known(0),
                false => -most.clone(),
            };
            Range::new(low, most)
        }
        "Div" => {
            let (a, by) = (operand(0)?, operand(1)?);
            if !a.is_at_least(&Dim::Known(0)) || !by.is_at_least(&Dim::Known(1)) {
                return None;
            }
            Range { low: Some(Dim::Known(0)), high: a.high }
        }
        "Add" => both(|a, b| a + b, operand(0)?, operand(1)?).within(dtype),
        "Sub" => {
            let (a, b) = (operand(0)?, operand(1)?);
            both(|a, b| a - b, a, Range { low: b.high, high: b.low }).within(dtype)
        }
        "Neg" => {
            let Range { low, high } = operand(0)?;
            let negative = |bound: Option<Dim>| bound.map(|bound| -bound);
            Range { low: negative(high), high: negative(low) }.within(dtype)
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
            Range { low: start.low, high: Some(limit.high? - Dim::Known(1)) }
        }
        "ReduceSum" => {
            let (terms, range) = (sum_terms(graph, node)?, operand(0)?);
            let is_count = terms.as_known().is_some() || range.is_at_most(&Dim::Known(1));
            if !is_count || !range.is_at_least(&Dim::Known(0)) {
                return None;
            }
            let high = checked(|a, b| a * b, range.high?, terms)?;
            Range::new(Dim::Known(0), high).within(dtype)
        }
        "Shape" | "Size" | "NonZero" => Range { low: Some(Dim::Known(0)), high: None },
        _ => return None,
    })
}

/// Floats as integers, if all of them have one.
#[expect(clippy::cast_possible_truncation, reason = "the numbers lie within 32 bits")]
fn truncated(floats: &Floats, dtype: DType) -> Option<Range> {
    const LARGEST: f64 = 2_147_483_647.0;
    let (low, high) = (floats.low.trunc(), floats.high.trunc());
    let is_small = !floats.nan && low >= -LARGEST && high <= LARGEST;
    let range = is_small.then(|| Range::new(Dim::Known(low as i64), Dim::Known(high as i64)))?;
    range.fits(dtype).then_some(range)
}

/// How many elements each result of a reduction is made of, if its axes are known.
pub(crate) fn sum_terms(graph: &Graph, node: &Node) -> Option<Dim> {
    let shape = &graph.ty(node.input(0)?).shape;
    let axes = match node.input(1) {
        Some(axes) => graph.content(axes)?,
        None if node.int("noop_with_empty_axes", 0) != 0 => Vec::new(),
        None => (0..shape.len()).map(Dim::from).collect(),
    };
    axes.iter().try_fold(Dim::Known(1), |product, axis| {
        let axis = fold::axis(axis.as_known()?, shape.len()).ok()?;
        Some(product * shape[axis].clone())
    })
}

/// `op` of bounds, unless the numbers are too large for it.
fn checked(op: fn(Dim, Dim) -> Dim, a: Dim, b: Dim) -> Option<Dim> {
    const LARGEST: i64 = 1 << 31;
    let is_moderate = |dim: &Dim| dim.as_known().is_none_or(|n| (-LARGEST..=LARGEST).contains(&n));
    (is_moderate(&a) && is_moderate(&b)).then(|| op(a, b))
}

/// Whether all elements of a boolean value are known to be the same, and which.
pub(crate) fn truth(graph: &Graph, value: ValueId) -> Option<bool> {
    // Where a size is zero there is no element.
    decided(graph, value, &graph.ty(value).shape, DEPTH)
}

fn decided(graph: &Graph, value: ValueId, nonempty: &[Dim], depth: u32) -> Option<bool> {
    if graph.value(value).name.is_empty()
        && let Some(tensor) = graph.constant(value)
    {
        return tensor.splat().map(|number| number != 0.0);
    }
    let node = graph.node(graph.producer(value)?);
    if !node.op.domain.is_empty() || depth == 0 {
        return None;
    }
    let (a, b) = (node.input(0)?, node.input(1));
    let one = |value| decided(graph, value, nonempty, depth - 1);
    match node.op.name {
        "Not" => return one(a).map(|holds| !holds),
        "And" => {
            return match (one(a), one(b?)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
        }
        "Or" => {
            return match (one(a), one(b?)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
        }
        "Expand" | "Identity" | "ReduceMax" | "ReduceMin" => return one(a),
        "Cast" if graph.ty(a).dtype == DType::Bool || graph.ty(value).dtype == DType::Bool => {
            return one(a);
        }
        _ if node.is_movement() => return one(a),
        "Equal" if graph.ty(a).dtype == DType::Bool => {
            return Some(one(a)? == one(b?)?);
        }
        "IsNaN" => return (!Floats::of(graph, a, nonempty).nan).then_some(false),
        "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" => {}
        _ => return None,
    }
    let b = b?;
    if graph.ty(a).dtype.is_float() {
        let [x, y] = [a, b].map(|value| Floats::of(graph, value, nonempty));
        return compared(node.op.name, &x, &y);
    }
    let (x, y) = (range(graph, a, depth - 1), range(graph, b, depth - 1));
    // Whether every element of the first lies at most at, or strictly below, those of the second.
    let at_most = |x: &Range, y: &Range| y.low.as_ref().is_some_and(|low| x.is_at_most(low));
    let below = |x: &Range, y: &Range| {
        y.low.as_ref().is_some_and(|low| x.is_at_most(&(low.clone() - Dim::Known(1))))
    };
    let (holds, fails) = match node.op.name {
        "Less" => (below(&x, &y), at_most(&y, &x)),
        "LessOrEqual" => (at_most(&x, &y), below(&y, &x)),
        "Greater" => (below(&y, &x), at_most(&x, &y)),
        "GreaterOrEqual" => (at_most(&y, &x), below(&x, &y)),
        _ => (a == b || (at_most(&x, &y) && at_most(&y, &x)), below(&x, &y) || below(&y, &x)),
    };
    match (holds, fails) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

/// Whether a comparison of floats always comes out one way. One with NaN does not hold.
fn compared(op: &str, x: &Floats, y: &Floats) -> Option<bool> {
    let (holds, fails) = match op {
        "Less" => (x.high < y.low, y.high <= x.low),
        "LessOrEqual" => (x.high <= y.low, y.high < x.low),
        "Greater" => (x.low > y.high, y.low >= x.high),
        "GreaterOrEqual" => (x.low >= y.high, y.low > x.high),
        _ => (x.low == y.high && x.high == y.low, x.high < y.low || y.high < x.low),
    };
    match (holds && !x.nan && !y.nan, fails) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use provenance::Origins;

    use super::*;
    use crate::testing::graph;

    const BOUNDS: [(i64, i64); 6] = [(-2, -1), (-1, 1), (0, 0), (0, 3), (1, 2), (3, 5)];

    /// The graph of `op` on two inputs with these bounds.
    fn of_bounded(op: &str, result: &str, x: (i64, i64), y: (i64, i64)) -> Graph {
        let ((a, b), (c, d)) = (x, y);
        let text = format!(
            "g (int64[B] p, int64[B] q) => ({result}[B] z) {{
                a = Constant <value_int = {a}> () b = Constant <value_int = {b}> ()
                c = Constant <value_int = {c}> () d = Constant <value_int = {d}> ()
                x = Clip (p, a, b) y = Clip (q, c, d) z = {op} }}"
        );
        graph(&text, &mut Origins::default())
    }

    fn pairs(x: (i64, i64), y: (i64, i64)) -> impl Iterator<Item = (i64, i64)> {
        (x.0..=x.1).flat_map(move |a| (y.0..=y.1).map(move |b| (a, b)))
    }

    type Compare = fn(i64, i64) -> bool;
    type Compute = fn(i64, i64) -> i64;

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
                let found = truth(&graph, graph.block(Graph::MAIN).outputs()[0]);
                assert_eq!(found, expected, "{op} {x:?} {y:?}");
            }
        }
    }

    #[test]
    fn ranges_hold_all_results() {
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
                let range = Range::of(&graph, graph.block(Graph::MAIN).outputs()[0]);
                let results = || pairs(x, y).map(|(a, b)| apply(a, b));
                let known = |bound: Option<Dim>| bound.and_then(|bound| bound.as_known());
                if let Some(low) = known(range.low) {
                    assert!(results().all(|result| low <= result), "{op} {x:?} {y:?} {low}");
                }
                if let Some(high) = known(range.high) {
                    assert!(results().all(|result| result <= high), "{op} {x:?} {y:?} {high}");
                }
            }
        }
    }

    #[test]
    fn sums_of_few_small_numbers_are_small() {
        let dim = |text| Some(Dim::parse(text).unwrap());
        let of_type = Range::of_type(DType::I32);
        for (sizes, least, most, expected) in [
            ("4,3", 0, 1, Range { low: dim("0"), high: dim("3") }),
            ("4,3", 2, 5, Range { low: dim("0"), high: dim("15") }),
            ("B,T", 0, 1, Range { low: dim("0"), high: dim("T") }),
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
            let graph = graph(&text, &mut Origins::default());
            let found = Range::of(&graph, graph.block(Graph::MAIN).outputs()[0]);
            assert_eq!(found, expected, "{sizes} {least} {most}");
        }
    }

    #[test]
    fn sizes_are_compared_by_what_is_known_of_them() {
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
        ] {
            let text = format!(
                "g (bool[2] c) => (bool[2] z) {{
                    yes = Constant <value = bool[2] {{1, 1}}> ()
                    no = Constant <value = bool[2] {{0, 0}}> () {text} }}"
            );
            let graph = graph(&text, &mut Origins::default());
            let found = truth(&graph, graph.block(Graph::MAIN).outputs()[0]);
            assert_eq!(found, expected, "{text}");
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
            let graph = graph(&text, &mut Origins::default());
            let found = truth(&graph, graph.block(Graph::MAIN).outputs()[0]);
            assert_eq!(found, expected, "{text}");
        }
    }
}
