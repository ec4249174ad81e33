//! The matrices that resample an axis: one column per new element, with the weights of the old
//! elements.

use onnx::{Attrs, Graph, Node, ValueId, attrs};
use tensor::DType;

use super::sized::{Sized, sized};

/// The filter that resamples an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) kernel: Kernel,
    /// `true` if the kernel is widened to cover all elements that are merged into one. `None` if
    /// that makes no difference.
    pub(super) antialias: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    Linear,
    Cubic,
}

impl Kernel {
    /// Returns the weight of an element at distance `x`.
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
    /// Returns the filter that is compatible with both.
    pub(super) fn with(self, other: Self) -> Option<Self> {
        let antialias = match (self.antialias, other.antialias) {
            (Some(a), Some(b)) if a != b => return None,
            (a, b) => a.or(b),
        };
        (self.kernel == other.kernel).then_some(Self { antialias, ..self })
    }

    /// Returns the attributes of `Resize`, and the variant in the table of measurements.
    pub(super) fn attrs(self) -> (Attrs, &'static str) {
        let mut attrs = match self.kernel {
            Kernel::Linear => attrs! { mode: "linear" },
            Kernel::Cubic => attrs! { mode: "cubic", cubic_coeff_a: -0.5f32 },
        };
        let antialias = self.antialias == Some(true);
        if antialias {
            attrs.extend(attrs! { antialias: 1 });
        }
        // JAX divides by the sum of the weights inside the image.
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

    /// Returns `true` for cubic downsampling without antialiasing.
    pub(super) fn skips_by_cubes(self) -> bool {
        self.kernel == Kernel::Cubic && self.antialias == Some(false)
    }

    /// Returns the weights for element `new` of `to`, computed from `from` elements.
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

/// The tolerance for weights. They differ by more than one rounding because positions are rounded
/// as well.
const TOLERANCE: f64 = 1e-4;

/// Returns the maximum rounding error of a weight stored in `dtype`.
fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1.0 / 2048.0,
        DType::BF16 => 1.0 / 256.0,
        _ => 0.0,
    }
}

/// The maximum number of elements of the matrix.
const LIMIT: usize = 1 << 22;

/// Returns the filter that multiplication by `matrix` applies, on the left or on the right. Returns
/// `None` for other matrices and for parameters.
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
    let weights = graph.facts().approximate(matrix, LIMIT)?.to_f64s()?;
    let entry = |row: usize, column: usize| {
        weights[if is_left { column * from + row } else { row * to + column }]
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

/// Returns the resampling that a product with `matrix` applies to an axis, if not all sizes are
/// known.
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

    #[test]
    fn matrices_that_resample_are_filters() {
        let found = |from: usize, to: usize| {
            let filter = Filter { kernel: Kernel::Linear, antialias: None };
            let columns: Vec<_> = (0..to).map(|new| filter.column(from, to, new)).collect();
            let rows = (0..from).flat_map(|row| columns.iter().map(move |column| column[row]));
            let numbers: Vec<_> = rows.map(|number| number.to_string()).collect();
            let text = format!(
                "g (float[1,{from}] x) => (float[1,{to}] y) {{
                    w = Constant <value = float[{from},{to}] {{{}}}> () y = MatMul (x, w) }}",
                numbers.join(", ")
            );
            let graph = crate::testing::graph(&text, &mut provenance::Origins::default());
            let product = graph.producer(graph.block(Graph::MAIN).outputs()[0]).unwrap();
            super::filter(&graph, graph.node(product).input(1).unwrap(), false)
        };
        assert!(found(3, 6).is_some_and(|filter| matches!(filter.kernel, Kernel::Linear)));
        for (from, to) in [(3, 3), (3, 0)] {
            assert!(found(from, to).is_none(), "{from} to {to}");
        }
    }

    /// Checks that no sum of weights is zero, with and without a filter.
    #[test]
    fn sums_of_weights_are_not_zero() {
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
    fn filters_of_two_axes_combine_only_if_compatible() {
        let linear = |antialias| Filter { kernel: Kernel::Linear, antialias };
        assert_eq!(linear(None).with(linear(Some(true))), Some(linear(Some(true))));
        assert_eq!(linear(Some(false)).with(linear(Some(true))), None);
        let cubic = Filter { kernel: Kernel::Cubic, antialias: None };
        assert_eq!(linear(None).with(cubic), None);
    }

    #[test]
    fn rounding_errors_are_tolerated() {
        let is_filter = |dtype: &str, error: f64| {
            let filter = Filter { kernel: Kernel::Linear, antialias: None };
            let columns: Vec<_> = (0..8).map(|new| filter.column(4, 8, new)).collect();
            let rows = (0..4).flat_map(|row| columns.iter().map(move |column| column[row]));
            let numbers: Vec<_> = rows.map(|number| format!("{:?}", number + error)).collect();
            let text = format!(
                "g ({dtype}[1,4] x) => ({dtype}[1,8] y) {{
                    w = Constant <value = {dtype}[4,8] {{{}}}> () y = MatMul (x, w) }}",
                numbers.join(", ")
            );
            let graph = crate::testing::graph(&text, &mut provenance::Origins::default());
            let product = graph.producer(graph.block(Graph::MAIN).outputs()[0]).unwrap();
            super::filter(&graph, graph.node(product).input(1).unwrap(), false).is_some()
        };
        for (dtype, small, large) in
            [("float", 5e-5, 2e-4), ("float16", 4e-4, 1e-3), ("bfloat16", 3e-3, 8e-3)]
        {
            assert_eq!(
                [small, large].map(|error| is_filter(dtype, error)),
                [true, false],
                "{dtype}"
            );
        }
    }
}
