//! What is known of floats without running the model: between which numbers they lie, and whether one of them may be
//! NaN or a negative zero. Rounding keeps the order of numbers, so what a type makes of a bound is a bound again.

use onnx::{Graph, Node, Producer, ValueId};
use tensor::bounds::lower_bound;
use tensor::division::exact_div;
use tensor::{Atom, DType, Dim, DimOp, Tensor};

use crate::ranges::Range;

/// How deep a value's operands are followed.
const DEPTH: u32 = 16;

/// How many nodes are looked at for one value.
const NODES: u32 = 32;

/// Constants with more elements are not looked at.
const ELEMENTS: usize = 4096;

/// JAX counts sizes in 32 bits. This is the largest of them that float32 has.
const LARGEST_SIZE: f64 = 2_147_483_520.0;

/// Where all elements of a value lie that are not NaN.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Floats {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether an element may be NaN.
    pub(crate) nan: bool,
    /// Whether an element may be `-0.0`.
    pub(crate) minus_zero: bool,
    /// A size that no element exceeds, but for what rounding adds to it.
    most: Option<Dim>,
}

impl Floats {
    const UNKNOWN: Self = Self {
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
        nan: true,
        minus_zero: true,
        most: None,
    };

    /// What is known of the elements of `value` wherever none of the sizes `nonempty` is zero.
    pub(crate) fn of(graph: &Graph, value: ValueId, nonempty: &[Dim]) -> Self {
        Search { graph, nonempty, left: NODES }.floats(value, DEPTH)
    }

    /// Whether all elements are `number`, with its sign.
    pub(crate) fn are(&self, number: f64) -> bool {
        let is_signed = number != 0.0 || self.minus_zero == number.is_sign_negative();
        !self.nan && self.low == number && self.high == number && is_signed
    }

    /// Whether no element is negative, nor `-0.0`.
    pub(crate) fn are_positive_or_zero(&self) -> bool {
        self.low >= 0.0 && !self.minus_zero
    }

    /// Whether a cast to integers makes what lies between these of all elements.
    #[expect(clippy::cast_precision_loss, reason = "bounds of types are powers of two, less one")]
    pub(crate) fn lie_within(&self, (low, high): (i128, i128)) -> bool {
        !self.nan && self.low > low as f64 - 1.0 && self.high < high as f64
    }

    /// Whether the elements of `self` are chosen as the larger ones, whatever those of `other` are. What is NaN here is
    /// chosen, too.
    pub(crate) fn are_above(&self, other: &Self) -> bool {
        let is_tied = self.low == other.high;
        let is_signed = !is_tied || self.low != 0.0 || !(self.minus_zero || other.minus_zero);
        !other.nan && self.low >= other.high && is_signed
    }

    fn has_zero(&self) -> bool {
        self.low <= 0.0 && self.high >= 0.0
    }

    fn is_infinite(&self) -> bool {
        self.low == f64::NEG_INFINITY || self.high == f64::INFINITY
    }

    /// What is known of elements that are here or there.
    fn or(&self, other: &Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            nan: self.nan || other.nan,
            minus_zero: self.minus_zero || other.minus_zero,
            most: None,
        }
    }

    /// What `dtype` makes of the elements.
    fn rounded(self, dtype: DType) -> Self {
        let low = round(dtype, self.low, f64::NEG_INFINITY);
        let high = round(dtype, self.high, f64::INFINITY);
        Self { low, high, ..self }
    }
}

/// What `dtype` makes of a bound, or something farther in the direction `out`.
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

struct Search<'g> {
    graph: &'g Graph,
    nonempty: &'g [Dim],
    left: u32,
}

impl Search<'_> {
    fn floats(&mut self, value: ValueId, depth: u32) -> Floats {
        let graph = self.graph;
        let dtype = graph.ty(value).dtype;
        // Smaller types make NaN of what is too large.
        let is_known = matches!(dtype, DType::BF16 | DType::F16 | DType::F32 | DType::F64);
        if !is_known || depth == 0 || self.left == 0 {
            return Floats::UNKNOWN;
        }
        self.left -= 1;
        let found = match graph.value(value).producer() {
            // A person may give a parameter other elements.
            Producer::Constant(tensor) if graph.value(value).name.is_empty() => constant(tensor),
            Producer::Node(id, 0) if graph.node(*id).op.domain.is_empty() => {
                self.computed(graph.node(*id), depth - 1).map(|found| found.rounded(dtype))
            }
            _ => None,
        };
        found.unwrap_or(Floats::UNKNOWN)
    }

    fn computed(&mut self, node: &Node, depth: u32) -> Option<Floats> {
        let graph = self.graph;
        let mut operand = |index: usize| Some(self.floats(node.input(index)?, depth));
        Some(match node.op.name {
            "Cast" if !graph.ty(node.input(0)?).dtype.is_float() => self.counted(node.input(0)?),
            "Cast" => {
                let x = operand(0)?;
                // What is too small becomes zero.
                Floats { minus_zero: x.minus_zero || x.low < 0.0, ..x }
            }
            "Expand" | "Gather" | "Identity" | "Slice" | "Tile" => operand(0)?,
            _ if node.is_movement() => operand(0)?,
            "Where" => operand(1)?.or(&operand(2)?),
            "Abs" => {
                let x = operand(0)?;
                let (a, b) = (x.low.abs(), x.high.abs());
                let low = if x.has_zero() { 0.0 } else { a.min(b) };
                let most = x.most.clone().filter(|_| x.low >= 0.0);
                Floats { low, high: a.max(b), nan: x.nan, minus_zero: false, most }
            }
            "Neg" => {
                let x = operand(0)?;
                let minus_zero = x.has_zero();
                Floats { low: -x.high, high: -x.low, nan: x.nan, minus_zero, most: None }
            }
            "Relu" => {
                let x = operand(0)?;
                Floats { low: x.low.max(0.0), high: x.high.max(0.0), ..x }
            }
            "Floor" => {
                let x = operand(0)?;
                Floats { low: x.low.floor(), high: x.high.floor(), ..x }
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
            // Without elements it is zero.
            "ReduceSum" => {
                let x = operand(0).filter(|x| x.low >= 0.0)?;
                Floats { low: 0.0, high: f64::INFINITY, most: None, ..x }
            }
            "Add" => sum(&operand(0)?, &operand(1)?),
            "Sub" => difference(&operand(0)?, &operand(1)?),
            "Mul" => product(&operand(0)?, &operand(1)?),
            "Div" => {
                let (a, b) = (operand(0)?, operand(1)?);
                let size = graph.float_size(node.input(1)?);
                quotient(&a, &b, size.as_ref())
            }
            _ => return None,
        })
    }

    /// Integers as floats.
    fn counted(&self, integers: ValueId) -> Floats {
        let Range { low, high } = Range::of(self.graph, integers);
        let is_size = |bound: &&Dim| self.nonempty.contains(bound);
        let least = low.as_ref().filter(is_size).map_or(i64::MIN, |_| 1);
        #[expect(clippy::cast_precision_loss, reason = "it is what the runtime does")]
        let float = |bound: i64| bound as f64;
        let (lowest, highest) = (float(i64::MIN), 2.0 * float(i64::MAX));
        let below = low.as_ref().and_then(lower_bound).map_or(lowest, |low| float(low.max(least)));
        let above = high.as_ref().and_then(longest).unwrap_or(highest);
        let most = high.filter(|high| high.as_known().is_none());
        Floats { low: below, high: above, nan: false, minus_zero: false, most }
    }
}

fn constant(tensor: &Tensor) -> Option<Floats> {
    let count = tensor.shape().iter().try_fold(1, |count: usize, size| count.checked_mul(*size))?;
    if count == 0 || count > ELEMENTS {
        return None;
    }
    let numbers = tensor.to_f64s()?;
    let (first, last) = (f64::INFINITY, f64::NEG_INFINITY);
    Some(Floats {
        low: numbers.iter().copied().fold(first, f64::min),
        high: numbers.iter().copied().fold(last, f64::max),
        nan: numbers.iter().any(|number| number.is_nan()),
        minus_zero: numbers.iter().any(|number| *number == 0.0 && number.is_sign_negative()),
        most: None,
    })
}

/// What a sum of lengths of axes, or of parts of them, does not exceed.
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

fn larger(a: &Floats, b: &Floats) -> Floats {
    let (low, high) = (a.low.max(b.low), a.high.max(b.high));
    Floats { low, high, ..a.or(b) }
}

fn smaller(a: &Floats, b: &Floats) -> Floats {
    let (low, high) = (a.low.min(b.low), a.high.min(b.high));
    let most = a.most.clone().or(b.most.clone());
    Floats { low, high, most, ..a.or(b) }
}

fn sum(a: &Floats, b: &Floats) -> Floats {
    let meet = a.high == f64::INFINITY && b.low == f64::NEG_INFINITY
        || a.low == f64::NEG_INFINITY && b.high == f64::INFINITY;
    let most = match (&a.most, &b.most) {
        (Some(size), None) => shifted(size, b.high),
        (None, Some(size)) => shifted(size, a.high),
        _ => None,
    };
    Floats {
        low: or(a.low + b.low, f64::NEG_INFINITY),
        high: or(a.high + b.high, f64::INFINITY),
        nan: a.nan || b.nan || meet,
        // Only two negative zeros add up to one.
        minus_zero: a.minus_zero && b.minus_zero,
        most,
    }
}

/// A size that is at least `size + number`.
fn shifted(size: &Dim, number: f64) -> Option<Dim> {
    let up = number.ceil();
    #[expect(clippy::cast_possible_truncation, reason = "it is small")]
    (up.abs() <= 128.0).then(|| size.clone() + Dim::Known(up as i64))
}

fn difference(a: &Floats, b: &Floats) -> Floats {
    let minus_zero = a.minus_zero && b.has_zero();
    let negative = Floats { low: -b.high, high: -b.low, nan: b.nan, minus_zero: false, most: None };
    Floats { minus_zero, ..sum(a, &negative) }
}

fn product(a: &Floats, b: &Floats) -> Floats {
    let corners = [(a.low, b.low), (a.low, b.high), (a.high, b.low), (a.high, b.high)];
    // Zero times what may be infinite is zero or NaN.
    let corners = corners.map(|(x, y)| or(x * y, 0.0));
    let is_positive = a.are_positive_or_zero() && b.are_positive_or_zero();
    let most = a.most.clone().zip(b.most.clone()).filter(|_| is_positive);
    Floats {
        low: corners.into_iter().fold(f64::INFINITY, f64::min),
        high: corners.into_iter().fold(f64::NEG_INFINITY, f64::max),
        nan: a.nan || b.nan || a.has_zero() && b.is_infinite() || a.is_infinite() && b.has_zero(),
        minus_zero: !is_positive,
        most: most.map(|(a, b)| a * b),
    }
}

/// A quotient of what is not negative, where `size` is what the divisor is.
fn quotient(a: &Floats, b: &Floats, size: Option<&Dim>) -> Floats {
    if !a.are_positive_or_zero() || !b.are_positive_or_zero() {
        return Floats::UNKNOWN;
    }
    let most = a.most.as_ref().zip(size).and_then(|(most, size)| exact_div(most, size));
    let most = most.filter(|_| b.low >= 1.0);
    let high = or(a.high / b.low, f64::INFINITY);
    let longest = most.as_ref().and_then(longest).unwrap_or(f64::INFINITY);
    Floats {
        low: or(a.low / b.high, 0.0),
        high: high.min(longest),
        nan: a.nan || b.nan || a.has_zero() && b.has_zero() || a.is_infinite() && b.is_infinite(),
        minus_zero: false,
        most,
    }
}

/// The bound, or `other` if it is none.
fn or(bound: f64, other: f64) -> f64 {
    if bound.is_nan() { other } else { bound }
}

#[cfg(test)]
mod tests {
    use provenance::Origins;

    use super::*;
    use crate::testing::graph;

    fn found(text: &str, nonempty: &[Dim]) -> Floats {
        let graph = graph(text, &mut Origins::default());
        Floats::of(&graph, graph.block(Graph::MAIN).outputs()[0], nonempty)
    }

    const INF: f32 = f32::INFINITY;
    const SETS: [&[f32]; 10] = [
        &[0.0],
        &[-0.0],
        &[-0.0, 0.0, 1.5],
        &[0.0, 3.0],
        &[0.1, 0.7],
        &[-2.0, -0.3],
        &[-1.0, 1e-30, 4.0],
        &[1e30, INF],
        &[-INF, 0.5],
        &[f32::NAN, 1.0],
    ];

    fn holds(found: &Floats, result: f32) -> bool {
        if result.is_nan() {
            return found.nan;
        }
        let is_signed = result != 0.0 || result.is_sign_positive() || found.minus_zero;
        is_signed && found.low <= f64::from(result) && f64::from(result) <= found.high
    }

    type Compute = fn(f32, f32) -> f32;

    /// What keeps NaN, as in ONNX.
    fn pick(a: f32, b: f32, first: bool) -> f32 {
        if a.is_nan() || b.is_nan() { f32::NAN } else { [b, a][usize::from(first)] }
    }

    #[test]
    fn all_results_lie_where_they_are_said_to() {
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
            for (xs, ys) in SETS.into_iter().flat_map(|xs| SETS.map(|ys| (xs, ys))) {
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
                for (x, y) in xs.iter().flat_map(|x| ys.iter().map(move |y| (*x, *y))) {
                    let result = apply(x, y);
                    assert!(holds(&found, result), "{op} {x} {y}: {result} {found:?}");
                }
            }
        }
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
    fn places_within_an_axis_are_no_larger_than_it() {
        let text = PLACES.replace("[T]", "[1]").replace("\"N\"", "K");
        let found = found(&text, &[]);
        let Floats { low, high, nan, minus_zero, most } = found;
        assert!(low > 0.0 && high <= LARGEST_SIZE && !nan && !minus_zero, "{low} {high} {nan}");
        assert_eq!(most, Dim::parse("H").ok());
    }

    #[test]
    fn what_may_be_empty_counts_only_where_it_is_not() {
        let text = PLACES.replace("[T]", "[2]").replace("\"N\"", "\"floordiv(K, 2)\"");
        assert!(found(&text, &[]).high == f64::INFINITY);
        let half = Dim::parse("floordiv(K, 2)").unwrap();
        let inside = found(&text, &[half]);
        assert!(inside.high <= LARGEST_SIZE && !inside.nan, "{inside:?}");
    }
}
