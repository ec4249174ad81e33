//! The matrices that resample an axis: one column for each new element, with the weights of the old
//! ones.

use onnx::{Attrs, Graph, Node, ValueId, attrs};
use rustc_hash::FxHashMap;
use tensor::DType;

use super::sized::{Sized, sized};

/// How an axis is resampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) kernel: Kernel,
    /// Whether the kernel is as wide as what becomes one element; `None` if that makes no difference.
    pub(super) antialias: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    Linear,
    Cubic,
}

impl Kernel {
    /// The weight of an element at a distance.
    fn weight(self, x: f64) -> f64 {
        match self {
            Kernel::Linear => (1.0 - x).max(0.0),
            Kernel::Cubic if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
            Kernel::Cubic if x < 2.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
            Kernel::Cubic => 0.0,
        }
    }
}

impl Filter {
    /// The filter that does what both do.
    pub(super) fn with(self, other: Self) -> Option<Self> {
        let antialias = match (self.antialias, other.antialias) {
            (Some(a), Some(b)) if a != b => return None,
            (a, b) => a.or(b),
        };
        (self.kernel == other.kernel).then_some(Self { antialias, ..self })
    }

    /// The attributes of `Resize`, and what they are called in the table of measurements.
    pub(super) fn attrs(self) -> (Attrs, &'static str) {
        let mut attrs = match self.kernel {
            Kernel::Linear => attrs! { mode: "linear" },
            Kernel::Cubic => attrs! { mode: "cubic", cubic_coeff_a: -0.5f32 },
        };
        let antialias = self.antialias == Some(true);
        if antialias {
            attrs.extend(attrs! { antialias: 1 });
        }
        // JAX divides by the sum of the weights that are inside.
        if antialias || self.kernel == Kernel::Cubic {
            attrs.extend(attrs! { exclude_outside: 1 });
        }
        let variant = match (self.kernel, antialias) {
            (Kernel::Linear, false) => "linear",
            (Kernel::Linear, true) => "linear, antialias",
            (Kernel::Cubic, false) => "cubic",
            (Kernel::Cubic, true) => "cubic, antialias",
        };
        (attrs, variant)
    }

    /// Whether elements are passed over: a wide kernel would see them.
    pub(super) fn skips_by_cubes(self) -> bool {
        self.kernel == Kernel::Cubic && self.antialias == Some(false)
    }

    /// The column of element `new` of `to`, built from `from`.
    fn column(self, from: usize, to: usize, new: usize) -> Vec<f64> {
        #[expect(clippy::cast_precision_loss, reason = "sizes of images are small")]
        let (from_size, to_size, new) = (from as f64, to as f64, new as f64);
        let step = from_size / to_size;
        let at = (new + 0.5) * step - 0.5;
        let width = if self.antialias == Some(true) { step.max(1.0) } else { 1.0 };
        #[expect(clippy::cast_precision_loss, reason = "sizes of images are small")]
        let weights = (0..from).map(|old| self.kernel.weight((at - old as f64).abs() / width));
        let weights: Vec<f64> = weights.collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total).collect()
    }
}

/// Positions are rounded, so weights differ by more than an element's rounding.
const TOLERANCE: f64 = 1e-4;

/// How far a weight may be from what it was before it was stored in a type.
fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1.0 / 2048.0,
        DType::BF16 => 1.0 / 256.0,
        _ => 0.0,
    }
}

/// The matrix may not have more elements.
const LIMIT: usize = 1 << 22;

/// The filter that multiplying by `matrix` is, on one side or on the other; `None` if it is something
/// else, or a parameter.
pub(super) fn filter(graph: &Graph, matrix: ValueId, is_left: bool) -> Option<Filter> {
    let Some(shape) = graph.ty(matrix).static_shape() else {
        return sized_of(graph, matrix, is_left).map(|found| found.filter);
    };
    let sizes: Vec<usize> = shape.iter().map_while(|n| usize::try_from(*n).ok()).collect();
    let [rows, columns] = *sizes.as_slice() else { return None };
    let (from, to) = if is_left { (columns, rows) } else { (rows, columns) };
    let is_last = |node: &Node| matches!(node.op.name, "Where" | "Cast" | "Transpose");
    let computed = graph.producer(matrix).is_some_and(|id| is_last(graph.node(id)));
    if from == to || from * to > LIMIT || from * to == 0 {
        return None;
    }
    if !computed && graph.constant(matrix).is_none() {
        return None;
    }
    let found = Evaluation::default().numbers(graph, matrix, 0)?;
    let entry = |row: usize, column: usize| {
        found.values[if is_left { column * from + row } else { row * to + column }]
    };
    let tolerance = TOLERANCE + rounding(graph.ty(matrix).dtype);
    let is = |filter: &Filter| {
        (0..to).all(|column| {
            let wanted = filter.column(from, to, column);
            wanted.iter().enumerate().all(|(row, w)| (entry(row, column) - w).abs() <= tolerance)
        })
    };
    let kernels = [Kernel::Linear, Kernel::Cubic].into_iter();
    let filters = kernels.flat_map(|kernel| {
        let choices: &[_] = if to > from { &[None] } else { &[Some(true), Some(false)] };
        choices.iter().map(move |antialias| Filter { kernel, antialias: *antialias })
    });
    filters.into_iter().find(is)
}

/// What a product with `matrix` does to an axis, if not all sizes are known.
pub(super) fn sized_of(graph: &Graph, mut matrix: ValueId, is_left: bool) -> Option<Sized> {
    let mut is_turned = false;
    while let Some(node) = graph.producer(matrix).map(|id| graph.node(id)) {
        match node.op.name {
            "Cast" => {}
            "Transpose" => is_turned = !is_turned,
            _ => break,
        }
        matrix = node.input(0)?;
    }
    sized(graph, matrix).filter(|_| is_turned == is_left)
}

/// Numbers in rows and columns.
#[derive(Clone, Debug)]
struct Numbers {
    shape: Vec<usize>,
    values: Vec<f64>,
}

impl Numbers {
    /// The number at a place of a larger shape.
    fn at(&self, shape: &[usize], mut place: usize) -> f64 {
        let (mut index, mut stride) = (0, 1);
        let missing = shape.len() - self.shape.len();
        for axis in (0..shape.len()).rev() {
            let (along, rest) = (place % shape[axis], place / shape[axis]);
            place = rest;
            if let Some(own) = axis.checked_sub(missing) {
                index += if self.shape[own] == 1 { 0 } else { along * stride };
                stride *= self.shape[own];
            }
        }
        self.values[index]
    }
}

/// How long a computation is followed.
const DEPTH: usize = 64;

/// The numbers that values hold in every run: not bit for bit, but well enough to know what they are.
#[derive(Default)]
struct Evaluation(FxHashMap<ValueId, Option<Numbers>>);

impl Evaluation {
    fn numbers(&mut self, graph: &Graph, value: ValueId, depth: usize) -> Option<Numbers> {
        if let Some(known) = self.0.get(&value) {
            return known.clone();
        }
        let found = if depth > DEPTH { None } else { self.evaluate(graph, value, depth) };
        self.0.insert(value, found.clone());
        found
    }

    fn evaluate(&mut self, graph: &Graph, value: ValueId, depth: usize) -> Option<Numbers> {
        if let Some(tensor) = graph.constant(value) {
            #[expect(clippy::cast_precision_loss, reason = "positions are small")]
            let ints = || Some(tensor.to_ints()?.into_iter().map(|v| v as f64).collect());
            let values = tensor.to_f64s().or_else(ints)?;
            return Some(Numbers { shape: tensor.shape().to_vec(), values });
        }
        let node = graph.node(graph.producer(value)?);
        let shape = graph.ty(value).static_shape()?;
        let shape: Option<Vec<usize>> = shape.iter().map(|n| usize::try_from(*n).ok()).collect();
        let (shape, name) = (shape?, node.op.name);
        if !node.op.domain.is_empty() || shape.iter().product::<usize>() > LIMIT {
            return None;
        }
        let mut operand = |index| self.numbers(graph, node.input(index)?, depth + 1);
        let places = 0..shape.iter().product::<usize>();
        let values = match name {
            "Add" | "Sub" | "Mul" | "Div" | "Max" | "Min" | "Greater" | "GreaterOrEqual"
            | "Less" | "LessOrEqual" | "Equal" | "And" | "Or" => {
                let (a, b) = (operand(0)?, operand(1)?);
                let each = |place| binary(name, a.at(&shape, place), b.at(&shape, place));
                places.map(each).collect()
            }
            "Abs" | "Neg" | "Relu" | "Floor" | "Not" => {
                operand(0)?.values.into_iter().map(|v| unary(name, v)).collect()
            }
            "Where" => {
                let (test, a, b) = (operand(0)?, operand(1)?, operand(2)?);
                let holds = |place| test.at(&shape, place) != 0.0;
                let each = |place| if holds(place) { &a } else { &b }.at(&shape, place);
                places.map(each).collect()
            }
            "Cast" if graph.ty(value).dtype.is_float() => operand(0)?.values,
            "Cast" if graph.ty(value).dtype == DType::Bool => return None,
            "Cast" => operand(0)?.values.into_iter().map(f64::trunc).collect(),
            "Reshape" | "Squeeze" | "Unsqueeze" | "Identity" => operand(0)?.values,
            "Transpose" => {
                let a = operand(0)?;
                let [rows, columns] = *a.shape.as_slice() else { return None };
                let each = |place| a.values[(place % rows) * columns + place / rows];
                places.filter(|_| node.ints("perm").is_none_or(|p| p == [1, 0])).map(each).collect()
            }
            "Expand" => {
                let a = operand(0)?;
                places.map(|place| a.at(&shape, place)).collect()
            }
            "ReduceSum" => {
                let (a, axes) = (operand(0)?, operand(1)?);
                let ([rows, columns], [0.0]) = (a.shape.as_slice(), axes.values.as_slice()) else {
                    return None;
                };
                let sum = |column| (0..*rows).map(|row| a.values[row * columns + column]).sum();
                (0..*columns).map(sum).collect()
            }
            _ => return None,
        };
        let values: Vec<f64> = values;
        (values.len() == shape.iter().product::<usize>()).then_some(Numbers { shape, values })
    }
}

fn unary(op: &str, v: f64) -> f64 {
    match op {
        "Abs" => v.abs(),
        "Neg" => -v,
        "Relu" => v.max(0.0),
        "Floor" => v.floor(),
        _ => 1.0 - v,
    }
}

fn binary(op: &str, a: f64, b: f64) -> f64 {
    let truth = |holds: bool| f64::from(u8::from(holds));
    match op {
        "Add" => a + b,
        "Sub" => a - b,
        "Mul" => a * b,
        "Div" => a / b,
        "Max" => a.max(b),
        "Min" => a.min(b),
        "Greater" => truth(a > b),
        "GreaterOrEqual" => truth(a >= b),
        "Less" => truth(a < b),
        "LessOrEqual" => truth(a <= b),
        "Equal" => truth(a == b),
        "And" => a * b,
        _ => a.max(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_to_one_and_are_local() {
        for kernel in [Kernel::Linear, Kernel::Cubic] {
            let filter = Filter { kernel, antialias: None };
            for new in 0..20 {
                let column = filter.column(10, 20, new);
                assert!((column.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                assert!(column.iter().filter(|w| **w != 0.0).count() <= 4);
            }
        }
    }

    /// So that nobody divides by zero, with and without a filter.
    #[test]
    fn weights_of_each_element_add_up_to_something() {
        for (from, to) in (1..40).flat_map(|from| (1..40).map(move |to| (from, to))) {
            let step = f64::from(from) / f64::from(to);
            for (new, width) in (0..to).flat_map(|new| [(new, 1.0), (new, step.max(1.0))]) {
                let at = (f64::from(new) + 0.5) * step - 0.5;
                assert!(at > -0.5 && at < f64::from(from) - 0.5);
                for kernel in [Kernel::Linear, Kernel::Cubic] {
                    let weight = |old: i32| kernel.weight((at - f64::from(old)).abs() / width);
                    let total: f64 = (0..from).map(weight).sum();
                    assert!(total > 0.4, "{kernel:?}, {from} to {to}: {total}");
                }
            }
        }
    }

    #[test]
    fn filters_of_two_axes_agree_or_do_not() {
        let linear = |antialias| Filter { kernel: Kernel::Linear, antialias };
        assert_eq!(linear(None).with(linear(Some(true))), Some(linear(Some(true))));
        assert_eq!(linear(Some(false)).with(linear(Some(true))), None);
        let cubic = Filter { kernel: Kernel::Cubic, antialias: None };
        assert_eq!(linear(None).with(cubic), None);
    }
}
