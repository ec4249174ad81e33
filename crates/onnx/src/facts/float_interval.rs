//! Intervals of floats, and whether an element may be NaN or a negative zero.
//!
//! Rounding is monotonic, so a bound that is rounded to a type is a bound again.

use tensor::bounds::lower_bound;
use tensor::division::exact_div;
use tensor::{Atom, DType, Dim, DimOp, Tensor};

use super::{Facts, Interval};
use crate::{Node, ValueId};

/// The largest number of elements of a constant that are read one by one.
const ELEMENTS: usize = 4096;

/// The largest size that float32 has, since JAX counts sizes in 32 bits.
const LARGEST_SIZE: f64 = 2_147_483_520.0;

/// An interval that contains all elements of a value that are not NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct FloatInterval {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// `true` if an element may be NaN.
    pub has_nan: bool,
    /// `true` if an element may be `-0.0`.
    pub has_negative_zero: bool,
    /// A size that no element exceeds, but for rounding.
    most: Option<Dim>,
}

impl FloatInterval {
    const UNKNOWN: Self = Self {
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
        has_nan: true,
        has_negative_zero: true,
        most: None,
    };

    /// Returns `true` if all elements are `number`, with its sign.
    pub fn is(&self, number: f64) -> bool {
        let is_signed = number != 0.0 || self.has_negative_zero == number.is_sign_negative();
        !self.has_nan && self.low == number && self.high == number && is_signed
    }

    /// Returns `true` if no element is negative, nor `-0.0`.
    pub fn is_non_negative(&self) -> bool {
        self.low >= 0.0 && !self.has_negative_zero
    }

    /// Returns `true` if a cast to integers brings all elements between these two.
    #[expect(clippy::cast_precision_loss, reason = "bounds of types are powers of two, less one")]
    pub fn is_within(&self, (low, high): (i128, i128)) -> bool {
        !self.has_nan && self.low > low as f64 - 1.0 && self.high < high as f64
    }

    /// Returns `true` if `Max` chooses every element of `self` over the elements of `other`, including NaN.
    pub fn is_above(&self, other: &Self) -> bool {
        let is_tied = self.low == other.high;
        let is_signed =
            !is_tied || self.low != 0.0 || !(self.has_negative_zero || other.has_negative_zero);
        !other.has_nan && self.low >= other.high && is_signed
    }

    fn has_zero(&self) -> bool {
        self.low <= 0.0 && self.high >= 0.0
    }

    fn is_infinite(&self) -> bool {
        self.low == f64::NEG_INFINITY || self.high == f64::INFINITY
    }

    /// Returns an interval that contains both.
    fn or(&self, other: &Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            has_nan: self.has_nan || other.has_nan,
            has_negative_zero: self.has_negative_zero || other.has_negative_zero,
            most: None,
        }
    }

    /// Returns the interval of the negated elements.
    fn negated(&self) -> Self {
        let (low, high, has_negative_zero) = (-self.high, -self.low, self.has_zero());
        Self { low, high, has_nan: self.has_nan, has_negative_zero, most: None }
    }

    /// Rounds the bounds to `dtype`.
    fn rounded(self, dtype: DType) -> Self {
        let low = round(dtype, self.low, f64::NEG_INFINITY);
        let high = round(dtype, self.high, f64::INFINITY);
        Self { low, high, ..self }
    }
}

/// Rounds a bound to `dtype`, or returns a bound that is farther in the direction `out`.
fn round(dtype: DType, bound: f64, out: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "it is what is asked for")]
    let rounded = match dtype {
        DType::F64 => bound,
        DType::F32 => f64::from(bound as f32),
        // Both have all of these.
        DType::F16 | DType::BF16 if bound.fract() == 0.0 && bound.abs() <= 128.0 => bound,
        _ => return out,
    };
    rounded
}

impl Facts<'_> {
    /// Returns an interval that contains the elements of `value` wherever none of the sizes `nonempty` is zero.
    pub fn float_interval(&self, value: ValueId, nonempty: &[Dim]) -> FloatInterval {
        self.float_interval_within(value, &self.positive_there(nonempty))
    }

    /// Returns the sizes among `nonempty` that may be zero elsewhere. There are hardly ever any.
    pub(super) fn positive_there(&self, nonempty: &[Dim]) -> Vec<Dim> {
        let may_be_zero = |size: &&Dim| {
            size.as_known().is_none() && lower_bound(size).is_none_or(|least| least < 1)
        };
        nonempty.iter().filter(may_be_zero).cloned().collect()
    }

    pub(super) fn float_interval_within(
        &self,
        value: ValueId,
        positive: &Vec<Dim>,
    ) -> FloatInterval {
        let dtype = self.graph.ty(value).dtype;
        // Smaller types turn overflow into NaN.
        let is_known = matches!(dtype, DType::BF16 | DType::F16 | DType::F32 | DType::F64);
        let (stored, node) = (self.stored(value), self.node(value));
        if !is_known || stored.is_none() && node.is_none_or(|node| node.outputs[0] != value) {
            return FloatInterval::UNKNOWN;
        }
        let find = || match stored {
            Some(tensor) => constant(tensor),
            None => Some(self.computed_float_interval(node?, positive)?.rounded(dtype)),
        };
        let found = self.answer(
            |answers| &mut answers.float_intervals,
            &(value, positive.clone()),
            || find().unwrap_or(FloatInterval::UNKNOWN),
        );
        found.unwrap_or(FloatInterval::UNKNOWN)
    }

    fn computed_float_interval(&self, node: &Node, positive: &Vec<Dim>) -> Option<FloatInterval> {
        let operand = |index: usize| Some(self.float_interval_within(node.input(index)?, positive));
        Some(match node.op.name {
            "Cast" if !self.graph.ty(node.input(0)?).dtype.is_float() => {
                self.cast_integers(node.input(0)?, positive)
            }
            "Cast" => {
                let x = operand(0)?;
                // Underflow gives zero.
                FloatInterval { has_negative_zero: x.has_negative_zero || x.low < 0.0, ..x }
            }
            _ if node.operator().selects() => operand(0)?,
            "Where" => {
                let (chosen, mut other) = (operand(1)?, operand(2)?);
                let test = self.node(node.input(0)?).filter(|test| test.is("IsNaN"));
                other.has_nan &= test.and_then(|test| test.input(0)) != node.input(2);
                chosen.or(&other)
            }
            "Abs" => {
                let x = operand(0)?;
                let (a, b) = (x.low.abs(), x.high.abs());
                let low = if x.has_zero() { 0.0 } else { a.min(b) };
                let most = x.most.clone().filter(|_| x.low >= 0.0);
                FloatInterval { low, high: a.max(b), has_negative_zero: false, most, ..x }
            }
            "Neg" => operand(0)?.negated(),
            "Relu" => {
                let x = operand(0)?;
                FloatInterval { low: x.low.max(0.0), high: x.high.max(0.0), ..x }
            }
            "Floor" => {
                let x = operand(0)?;
                FloatInterval { low: x.low.floor(), high: x.high.floor(), ..x }
            }
            "Max" | "Min" if node.inputs.len() == 2 => {
                let (a, b) = (operand(0)?, operand(1)?);
                if node.is("Max") { larger(&a, &b) } else { smaller(&a, &b) }
            }
            "Clip" => {
                let mut x = operand(0)?;
                if node.input(1).is_some() {
                    x = larger(&x, &operand(1)?);
                }
                if node.input(2).is_some() {
                    x = smaller(&x, &operand(2)?);
                }
                x
            }
            // The sum of no elements is zero.
            "ReduceSum" => {
                let x = operand(0).filter(|x| x.low >= 0.0)?;
                FloatInterval { low: 0.0, high: f64::INFINITY, most: None, ..x }
            }
            "Add" => sum(&operand(0)?, &operand(1)?),
            "Sub" => difference(&operand(0)?, &operand(1)?),
            "Mul" => product(&operand(0)?, &operand(1)?),
            "Div" => {
                let size = self.size(node.input(1)?);
                quotient(&operand(0)?, &operand(1)?, size.as_ref())
            }
            _ => return None,
        })
    }

    /// Returns the interval of integers that are cast to floats.
    fn cast_integers(&self, integers: ValueId, positive: &[Dim]) -> FloatInterval {
        let Interval { low, high } = self.interval(integers);
        let is_positive = |bound: &&Dim| positive.contains(bound);
        let least = low.as_ref().filter(is_positive).map_or(i64::MIN, |_| 1);
        #[expect(clippy::cast_precision_loss, reason = "it is what the runtime does")]
        let float = |bound: i64| bound as f64;
        let (lowest, highest) = (float(i64::MIN), 2.0 * float(i64::MAX));
        let below = low.as_ref().and_then(lower_bound).map_or(lowest, |low| float(low.max(least)));
        let above = high.as_ref().and_then(longest).unwrap_or(highest);
        let most = high.filter(|high| high.as_known().is_none());
        FloatInterval { low: below, high: above, has_nan: false, has_negative_zero: false, most }
    }
}

/// Returns the interval of a constant.
fn constant(tensor: &Tensor) -> Option<FloatInterval> {
    let numbers = match tensor.len() {
        0 => return None,
        1..=ELEMENTS => tensor.to_f64s()?,
        _ => vec![tensor.splat()?],
    };
    let (first, last) = (f64::INFINITY, f64::NEG_INFINITY);
    Some(FloatInterval {
        low: numbers.iter().copied().fold(first, f64::min),
        high: numbers.iter().copied().fold(last, f64::max),
        has_nan: numbers.iter().any(|number| number.is_nan()),
        has_negative_zero: numbers.iter().any(|number| *number == 0.0 && number.is_sign_negative()),
        most: None,
    })
}

/// Returns an upper bound on a sum of sizes, or of parts of them.
fn longest(dim: &Dim) -> Option<f64> {
    if let Some(known) = dim.as_known() {
        #[expect(clippy::cast_precision_loss, reason = "it is what the runtime does")]
        return Some(known as f64);
    }
    let term = |(factor, atoms): &(i64, Vec<(Atom, u32)>)| {
        let length = match atoms.as_slice() {
            [] => 1.0,
            [(Atom::Var(_), 1)] => LARGEST_SIZE,
            [(Atom::Op(DimOp::FloorDiv, whole, by), 1)]
                if *factor > 0 && lower_bound(by).is_some_and(|by| by >= 1) =>
            {
                longest(whole)?.max(0.0)
            }
            _ => return None,
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "factors are small, or the bound is not used"
        )]
        Some((*factor).max(0) as f64 * length)
    };
    dim.terms().iter().map(term).sum()
}

fn larger(a: &FloatInterval, b: &FloatInterval) -> FloatInterval {
    let (low, high) = (a.low.max(b.low), a.high.max(b.high));
    FloatInterval { low, high, ..a.or(b) }
}

fn smaller(a: &FloatInterval, b: &FloatInterval) -> FloatInterval {
    let (low, high) = (a.low.min(b.low), a.high.min(b.high));
    let most = a.most.clone().or(b.most.clone());
    FloatInterval { low, high, most, ..a.or(b) }
}

fn sum(a: &FloatInterval, b: &FloatInterval) -> FloatInterval {
    let meet = a.high == f64::INFINITY && b.low == f64::NEG_INFINITY
        || a.low == f64::NEG_INFINITY && b.high == f64::INFINITY;
    let most = match (&a.most, &b.most) {
        (Some(size), None) => shifted(size, b.high),
        (None, Some(size)) => shifted(size, a.high),
        _ => None,
    };
    FloatInterval {
        low: or(a.low + b.low, f64::NEG_INFINITY),
        high: or(a.high + b.high, f64::INFINITY),
        has_nan: a.has_nan || b.has_nan || meet,
        // Only two negative zeros add up to one.
        has_negative_zero: a.has_negative_zero && b.has_negative_zero,
        most,
    }
}

/// Returns a size that is at least `size + number`.
fn shifted(size: &Dim, number: f64) -> Option<Dim> {
    let up = number.ceil();
    #[expect(clippy::cast_possible_truncation, reason = "it is small")]
    (up.abs() <= 128.0).then(|| size.clone() + Dim::Known(up as i64))
}

fn difference(a: &FloatInterval, b: &FloatInterval) -> FloatInterval {
    let has_negative_zero = a.has_negative_zero && b.has_zero();
    FloatInterval { has_negative_zero, ..sum(a, &b.negated()) }
}

fn product(a: &FloatInterval, b: &FloatInterval) -> FloatInterval {
    let corners = [(a.low, b.low), (a.low, b.high), (a.high, b.low), (a.high, b.high)];
    // The product of zero and a number that may be infinite is zero or NaN.
    let corners = corners.map(|(x, y)| or(x * y, 0.0));
    let is_positive = a.is_non_negative() && b.is_non_negative();
    let most = a.most.clone().zip(b.most.clone()).filter(|_| is_positive);
    FloatInterval {
        low: corners.into_iter().fold(f64::INFINITY, f64::min),
        high: corners.into_iter().fold(f64::NEG_INFINITY, f64::max),
        has_nan: a.has_nan
            || b.has_nan
            || a.has_zero() && b.is_infinite()
            || a.is_infinite() && b.has_zero(),
        has_negative_zero: !is_positive,
        most: most.map(|(a, b)| a * b),
    }
}

/// Returns the interval of a quotient of numbers that are not negative; `size` is the divisor.
fn quotient(a: &FloatInterval, b: &FloatInterval, size: Option<&Dim>) -> FloatInterval {
    if !a.is_non_negative() || !b.is_non_negative() {
        return FloatInterval::UNKNOWN;
    }
    let most = a.most.as_ref().zip(size).and_then(|(most, size)| exact_div(most, size));
    let most = most.filter(|_| b.low >= 1.0);
    let high = or(a.high / b.low, f64::INFINITY);
    let longest = most.as_ref().and_then(longest).unwrap_or(f64::INFINITY);
    FloatInterval {
        low: or(a.low / b.high, 0.0),
        high: high.min(longest),
        has_nan: a.has_nan
            || b.has_nan
            || a.has_zero() && b.has_zero()
            || a.is_infinite() && b.is_infinite(),
        has_negative_zero: false,
        most,
    }
}

/// Returns the bound, or `other` if it is NaN.
fn or(bound: f64, other: f64) -> f64 {
    if bound.is_nan() { other } else { bound }
}

#[cfg(test)]
mod tests {
    use provenance::Origins;

    use super::*;
    use crate::Graph;
    use crate::text::parse;

    fn found(text: &str, nonempty: &[Dim]) -> FloatInterval {
        let graph = parse(text, &mut Origins::default()).unwrap();
        graph.facts().float_interval(graph.block(Graph::MAIN).outputs()[0], nonempty)
    }

    const INF: f32 = f32::INFINITY;
    /// Sets of numbers that include zero if they lie on both sides of it come first.
    const SETS: [&[f32]; 11] = [
        &[0.0],
        &[-0.0],
        &[-0.0, 0.0, 1.5],
        &[0.0, 3.0],
        &[0.1, 0.7],
        &[-2.0, -0.3],
        &[1e30, INF],
        &[-INF, 0.0],
        &[f32::NAN, 1.0],
        &[-1.0, 1e-30, 4.0],
        &[-INF, 0.5],
    ];
    const WITH_ZERO: usize = 9;

    fn holds(found: &FloatInterval, result: f32) -> bool {
        if result.is_nan() {
            return found.has_nan;
        }
        let is_signed = result != 0.0 || result.is_sign_positive() || found.has_negative_zero;
        is_signed && found.low <= f64::from(result) && f64::from(result) <= found.high
    }

    #[test]
    fn clip_may_have_one_bound() {
        let text = |node: &str| {
            format!(
                "g (float[2] x) => (float[2] y) {{
                    a = Constant <value = float {{0.5}}> ()
                    y = {node}
                }}"
            )
        };
        assert!((found(&text("Clip (x, a)"), &[]).low - 0.5).abs() < 1e-9);
        assert!((found(&text("Clip (x, , a)"), &[]).high - 0.5).abs() < 1e-9);
    }

    #[test]
    fn underflow_has_the_sign_of_the_number() {
        let small = |low: &str, high: &str| {
            let text = format!(
                "g (bool[2] c) => (float16[2] y) {{
                    low = Constant <value = float {{{low}}}> () high = Constant <value = float {{{high}}}> ()
                    x = Where (c, low, high) y = Cast <to = 10> (x) }}"
            );
            found(&text, &[]).has_negative_zero
        };
        assert!(small("-2.0", "-1e-30"));
        assert!(!small("1e-30", "2.0") && !small("0.0", "2.0"));
    }

    type Compute = fn(f32, f32) -> f32;

    /// Picks an operand as `Max` and `Min` do, which propagate NaN.
    fn pick(a: f32, b: f32, first: bool) -> f32 {
        if a.is_nan() || b.is_nan() { f32::NAN } else { [b, a][usize::from(first)] }
    }

    #[test]
    fn intervals_are_those_of_the_results() {
        let operators: [(&str, Compute); 10] = [
            ("Add (x, y)", |a, b| a + b),
            ("Sub (x, y)", |a, b| a - b),
            ("Mul (x, y)", |a, b| a * b),
            ("Div (x, y)", |a, b| a / b),
            ("Max (x, y)", |a, b| pick(a, b, a > b)),
            ("Min (x, y)", |a, b| pick(a, b, a < b)),
            ("Neg (x)", |a, _| -a),
            ("Abs (x)", |a, _| a.abs()),
            ("Floor (x)", |a, _| a.floor()),
            ("Relu (x)", |a, _| if a < 0.0 { 0.0 } else { a }),
        ];
        let list = |set: &[f32]| {
            let texts: Vec<_> = set.iter().map(|number| format!("{number:?}")).collect();
            texts.join(", ").replace("NaN", "nan")
        };
        for (op, apply) in operators {
            for (i, j) in (0..SETS.len()).flat_map(|i| (0..SETS.len()).map(move |j| (i, j))) {
                let (xs, ys) = (SETS[i], SETS[j]);
                let (rows, columns) = (xs.len(), ys.len());
                let shape = if op.contains('y') {
                    format!("{rows},{columns}")
                } else {
                    format!("{rows},1")
                };
                let text = format!(
                    "g () => (float[{shape}] z) {{
                        x = Constant <value = float[{rows},1] {{{}}}> ()
                        y = Constant <value = float[1,{columns}] {{{}}}> () z = {op} }}",
                    list(xs),
                    list(ys)
                );
                let found = found(&text, &[]);
                let pairs = xs.iter().flat_map(|x| ys.iter().map(move |y| (*x, *y)));
                let results: Vec<f32> = pairs.map(|(x, y)| apply(x, y)).collect();
                for result in &results {
                    assert!(holds(&found, *result), "{op} {xs:?} {ys:?}: {result} {found:?}");
                }
                let numbers = || results.iter().filter(|x| !x.is_nan()).map(|x| f64::from(*x));
                // Other quotients are not bounded.
                let is_positive = xs.iter().chain(ys).all(|x| x.is_sign_positive());
                let is_divided = op.starts_with("Div");
                if i.max(j) >= WITH_ZERO || is_divided && !is_positive {
                    continue;
                }
                let has_nan = results.iter().any(|x| x.is_nan());
                assert_eq!(found.has_nan, has_nan, "{op} {xs:?} {ys:?}");
                if numbers().next().is_some() && !(is_divided && has_nan) {
                    let low = numbers().fold(f64::INFINITY, f64::min);
                    let high = numbers().fold(f64::NEG_INFINITY, f64::max);
                    assert_eq!((found.low, found.high), (low, high), "{op} {xs:?} {ys:?}");
                }
            }
        }
    }

    #[test]
    fn negative_zeros_are_rare() {
        let has_negative_zero = |op: &str, x: &str, y: &str| {
            let text = format!(
                "g () => (float[2] z) {{
                    x = Constant <value = float[2] {{{x}}}> ()
                    y = Constant <value = float[2] {{{y}}}> () z = {op} (x, y) }}"
            );
            found(&text, &[]).has_negative_zero
        };
        assert!(has_negative_zero("Add", "-0.0, 1", "-0.0, 1"));
        assert!(!has_negative_zero("Add", "-0.0, 1", "0, 1"));
        assert!(!has_negative_zero("Add", "0, 1", "-0.0, 1"));
        assert!(has_negative_zero("Sub", "-0.0, 1", "0, 1"));
        assert!(!has_negative_zero("Sub", "-0.0, 1", "1, 2"));
        assert!(!has_negative_zero("Sub", "1, 2", "0, 1"));
        assert!(!has_negative_zero("Mul", "0, 1", "1, 2"));
    }

    fn interval(low: f64, high: f64) -> FloatInterval {
        FloatInterval { low, high, has_nan: false, has_negative_zero: false, most: None }
    }

    fn with_nan(low: f64, high: f64) -> FloatInterval {
        FloatInterval { has_nan: true, ..interval(low, high) }
    }

    fn with_negative_zero(low: f64, high: f64) -> FloatInterval {
        FloatInterval { has_negative_zero: true, ..interval(low, high) }
    }

    #[test]
    fn a_single_number_has_a_sign_and_is_not_nan() {
        assert!(interval(1.0, 1.0).is(1.0));
        assert!(!interval(0.5, 1.0).is(1.0) && !interval(1.0, 2.0).is(1.0));
        assert!(!with_nan(1.0, 1.0).is(1.0));
        assert!(interval(0.0, 0.0).is(0.0) && !interval(0.0, 0.0).is(-0.0));
        assert!(with_negative_zero(0.0, 0.0).is(-0.0) && !with_negative_zero(0.0, 0.0).is(0.0));
    }

    #[test]
    fn casts_truncate_to_the_bounds_of_a_type() {
        let byte = (-128, 127);
        assert!(interval(-128.5, 126.5).is_within(byte));
        assert!(!interval(-129.0, 0.0).is_within(byte) && !interval(0.0, 127.0).is_within(byte));
        assert!(!with_nan(0.0, 1.0).is_within(byte));
    }

    #[test]
    fn a_larger_number_is_chosen_unless_the_signs_of_zeros_differ() {
        for (one, other, expected) in [
            (interval(2.0, 3.0), interval(0.0, 1.0), true),
            (interval(1.0, 3.0), interval(0.0, 1.0), true),
            (with_negative_zero(1.0, 3.0), interval(0.0, 1.0), true),
            (interval(0.5, 3.0), interval(0.0, 1.0), false),
            (interval(0.0, 3.0), interval(-1.0, 0.0), true),
            (interval(0.0, 3.0), with_negative_zero(-1.0, 0.0), false),
            (with_negative_zero(0.0, 3.0), interval(-1.0, 0.0), false),
            (interval(0.0, 3.0), with_negative_zero(-2.0, -1.0), true),
            (interval(2.0, 3.0), with_nan(0.0, 1.0), false),
            (with_nan(2.0, 3.0), interval(0.0, 1.0), true),
        ] {
            assert_eq!(one.is_above(&other), expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn bounds_are_rounded_outwards_in_small_types() {
        for dtype in [DType::F16, DType::BF16] {
            let rounded = [1.0, -128.0, 0.5, 200.0].map(|bound| round(dtype, bound, INF.into()));
            assert_eq!(rounded, [1.0, -128.0, f64::INFINITY, f64::INFINITY]);
        }
        assert_eq!(round(DType::F32, 0.1, f64::INFINITY), f64::from(0.1f32));
        assert_eq!(round(DType::F64, 0.1, f64::INFINITY), 0.1);
        // Floats of 8 bits turn overflow into NaN.
        let eight = "g () => (float8e4m3fn y) {
            x = Constant <value = float {1}> () y = Cast <to = 17> (x) }";
        assert_eq!(found(eight, &[]), FloatInterval::UNKNOWN);
    }

    #[test]
    fn sizes_and_parts_of_them_have_bounds() {
        for (size, expected) in [
            ("5", Some(5.0)),
            ("b", Some(LARGEST_SIZE)),
            ("2*b + 3", Some(2.0 * LARGEST_SIZE + 3.0)),
            ("-t + b", Some(LARGEST_SIZE)),
            ("floordiv(b, t)", Some(LARGEST_SIZE)),
            ("3*floordiv(b, 2)", Some(3.0 * LARGEST_SIZE)),
            ("-floordiv(b, 2)", None),
            ("floordiv(b, t - 1)", None),
            ("b*t", None),
            ("mod(b, 2)", None),
        ] {
            assert_eq!(longest(&Dim::parse(size).unwrap()), expected, "{size}");
        }
    }

    #[test]
    fn only_sizes_that_may_be_zero_have_to_be_positive() {
        let dims = ["0", "3", "b", "b - 1"].map(|text| Dim::parse(text).unwrap());
        let found = Graph::new("g").facts().positive_there(&dims);
        assert_eq!(found, [dims[3].clone()]);
    }

    #[test]
    fn counters_do_not_exceed_their_size() {
        let most = |node: &str| {
            let text = format!(
                "g (float[K] x) => (float[K] y) {{
                    zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
                    front = Constant <value_ints = [0]> ()
                    k = Shape (x) n = Squeeze (k, front) r = Range (zero, n, one) f = Cast <to = 1> (r)
                    near = Constant <value_float = 128.0> () far = Constant <value_float = 129.0> ()
                    y = {node} }}"
            );
            found(&text, &[]).most.map(|most| most.to_string())
        };
        assert_eq!(most("Identity (f)").as_deref(), Some("K - 1"));
        assert_eq!(most("Abs (f)").as_deref(), Some("K - 1"));
        assert_eq!(most("Neg (f)"), None);
        assert_eq!(most("Add (f, near)").as_deref(), Some("K + 127"));
        assert_eq!(most("Add (far, f)"), None);
    }

    #[test]
    fn sums_and_extremes_of_many_numbers() {
        let found = |node: &str| {
            found(
                &format!(
                    "g () => (float y) {{
                        x = Constant <value = float[2] {{0, 3}}> () y = {node} }}"
                ),
                &[],
            )
        };
        assert_eq!(found("ReduceSum <keepdims = 0> (x)"), interval(0.0, f64::INFINITY));
        let three = "g () => (float[2] y) {
            a = Constant <value = float {1}> () b = Constant <value = float {2}> ()
            c = Constant <value = float[2] {0, 9}> () y = Max (a, b, c) }";
        assert!(self::found(three, &[]).high >= 9.0);
    }

    #[test]
    fn unsigned_integers_may_be_larger_than_signed_ones() {
        let text = "g (uint64[2] x) => (float[2] y) { y = Cast <to = 1> (x) }";
        assert!(found(text, &[]).high >= 2f64.powi(64));
    }

    const PLACES: &str = "g (float[B,H] x, float[K] y) => (float[\"N\"] z) {
        front = Constant <value_ints = [0]> () zero = Constant <value_int = 0> ()
        one = Constant <value_int = 1> () half = Constant <value_float = 0.5> ()
        h = Shape <start = 1, end = 2> (x) hs = Squeeze (h, front) hf = Cast <to = 1> (hs)
        k = Shape (y) t = Constant <value_ints = [T]> () n = Div (k, t)
        ns = Squeeze (n, front) nf = Cast <to = 1> (ns)
        r = Range (zero, ns, one) f = Cast <to = 1> (r) c = Add (f, half)
        m = Mul (c, hf) z = Div (m, nf) }";

    #[test]
    fn positions_within_an_axis_do_not_exceed_its_size() {
        let text = PLACES.replace("[T]", "[1]").replace("\"N\"", "K");
        let found = found(&text, &[]);
        let FloatInterval { low, high, has_nan, has_negative_zero, most } = found;
        assert!(
            low > 0.0 && high <= LARGEST_SIZE && !has_nan && !has_negative_zero,
            "{low} {high} {has_nan}"
        );
        assert_eq!(most, Dim::parse("H").ok());
    }

    #[test]
    fn sizes_that_may_be_zero_are_positive_where_there_are_elements() {
        let text = PLACES.replace("[T]", "[2]").replace("\"N\"", "\"floordiv(K, 2)\"");
        assert!(found(&text, &[]).high == f64::INFINITY);
        let half = Dim::parse("floordiv(K, 2)").unwrap();
        let inside = found(&text, &[half]);
        assert!(inside.high <= LARGEST_SIZE && !inside.has_nan, "{inside:?}");
    }

    #[test]
    fn a_choice_by_is_nan_removes_nan() {
        let text = |test: &str, other: &str| {
            format!(
                "g (float[B] x, float[B] y) => (float[B] z) {{
                    c = Constant <value = float {{{other}}}> () n = IsNaN ({test}) z = Where (n, c, x) }}"
            )
        };
        assert!(!found(&text("x", "0"), &[]).has_nan);
        assert!(found(&text("y", "0"), &[]).has_nan);
        assert!(found(&text("x", "nan"), &[]).has_nan);
    }
}
