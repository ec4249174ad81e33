//! The weight matrix that `jax.image.resize` computes from two sizes → the same matrix in fewer
//! nodes.
//!
//! For images, the matrix is a `Resize` of the identity: two nodes, and closer to float64.
//! Multiplying a few rows takes less time than resizing a matrix, so their weights are computed by
//! a formula, which is also faster for large sizes. See `scripts/measure_resizing.py`.

use onnx::{Attrs, Graph, Op, Use, ValueId, attrs, schema};
use tensor::bounds::at_least;
use tensor::division::exact_div;
use tensor::{DType, Dim};

use super::RANK;
use super::matrix::{Filter, Kernel};
use super::sized::{Sized, float, sized};
use crate::recognize::{check_kernel, tensor_of};
use crate::{Form, Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "resampling_weights", roots: Roots::Named(&["Where"]), try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let matrix = m.result()?;
    let found = sized(m.graph(), matrix).ok_or("the matrix does not resample")?;
    let dtype = m.ty(matrix).dtype;
    if !matches!(dtype, DType::F32 | DType::F64) {
        return Err("weights are computed in larger floats".into());
    }
    let [from, to] = m.ty(matrix).shape.as_slice() else {
        return Err("it is not a matrix".into());
    };
    let sizes = [from.clone(), to.clone()];
    let attrs = by_resizing(m, matrix, found.filter);
    let weights = match attrs {
        Some(attrs) => resized(m, &found, &sizes, attrs)?,
        None => computed(m, &found, &sizes, dtype)?,
    };
    if m.ty(weights) != m.ty(matrix) {
        return Err("the shape would change".into());
    }
    Ok(vec![weights])
}

/// Returns the attributes of the `Resize` that turns the identity into weights, if that form is
/// preferred.
fn by_resizing(m: &Match<'_>, matrix: ValueId, filter: Filter) -> Option<Attrs> {
    let forms = m.forms();
    let antialias = match (filter.kernel, filter.antialias) {
        // Without antialiasing, the runtime takes twenty times as long, and upsampling does not
        // depend on it.
        (Kernel::Cubic, None) => Some(true),
        (Kernel::Cubic, Some(false)) => return None,
        (_, antialias) => antialias,
    };
    let (mut attrs, _) = Filter { antialias, ..filter }.attrs();
    attrs.extend(attrs! { axes: vec![1i64] });
    let schema = schema::find(&Op::onnx("Resize"), forms.opset)?;
    let has_attrs = attrs.iter().all(|(name, _)| schema.attr(name).is_some());
    let is_wanted = |op| forms.of(op) != Form::Elementary;
    let dtype = m.ty(matrix).dtype;
    let runs = dtype == DType::F32 && check_kernel(forms, "EyeLike", dtype).is_ok();
    let wanted =
        forms.target.resizes_identities_fast && is_wanted("Resize") && is_wanted("EyeLike");
    (wanted && runs && has_attrs && is_of_image(m.graph(), matrix)).then_some(attrs)
}

/// Returns `true` if all consumers of `matrix` are products with images.
fn is_of_image(graph: &Graph, matrix: ValueId) -> bool {
    let mut uses = graph.value(matrix).uses();
    uses.all(|place| {
        let Use::Operand(id, index) = place else { return false };
        let node = graph.node(id);
        match node.op.name {
            "Cast" => node.outputs.iter().all(|value| is_of_image(graph, *value)),
            "MatMul" if index == 1 => {
                node.input(0).is_some_and(|image| graph.ty(image).rank() == RANK)
            }
            _ => false,
        }
    })
}

/// Converts a size that is stored as a float to a vector of one integer.
pub(super) fn vector(m: &mut Match<'_>, float: ValueId, dim: &Dim) -> Result<ValueId, Skip> {
    if let Some(size) = dim.as_known() {
        return Ok(m.i64s(&[size]));
    }
    let cast = m.producer(float, &["Cast"]).and_then(|node| node.input(0));
    let size = cast.filter(|size| m.ty(*size).dtype == DType::I64).ok_or("a size is unknown")?;
    let squeezed = m.producer(size, &["Squeeze", "Reshape"]).and_then(|node| node.input(0));
    if let Some(vector) = squeezed.filter(|vector| m.ty(*vector).shape == [Dim::Known(1)]) {
        return Ok(vector);
    }
    let axes = m.i64s(&[0]);
    m.op("Unsqueeze", &[size, axes], attrs! {})
}

fn resized(
    m: &mut Match<'_>,
    found: &Sized,
    sizes: &[Dim; 2],
    attrs: Attrs,
) -> Result<ValueId, Skip> {
    let ends = [vector(m, found.from, &sizes[0])?, vector(m, found.to, &sizes[1])?];
    // The runtime rejects resizing from or to an empty axis.
    let may_be_empty = |axis: &usize| !at_least(&sizes[*axis], 1);
    let cut: Vec<usize> = (0..2).filter(may_be_empty).collect();
    let mut given = ends;
    for axis in &cut {
        let one = m.i64s(&[1]);
        given[*axis] = m.op("Max", &[ends[*axis], one], attrs! {})?;
    }
    let square = m.op("Concat", &[given[0], given[0]], attrs! { axis: 0 })?;
    let zeros = m.op("ConstantOfShape", &[square], attrs! {})?;
    let identity = m.op("EyeLike", &[zeros], attrs! {})?;
    let operands = vec![Some(identity), None, None, Some(given[1])];
    let weights = m.op_many("Resize", operands, attrs, 1)?[0];
    if cut.is_empty() {
        return Ok(weights);
    }
    let starts = m.i64s(&vec![0; cut.len()]);
    let axes: Vec<i64> = cut.iter().map(|axis| *axis as i64).collect();
    let axes = m.i64s(&axes);
    let ends: Vec<ValueId> = cut.iter().map(|axis| ends[*axis]).collect();
    let ends = match *ends {
        [end] => end,
        _ => m.op("Concat", &ends, attrs! { axis: 0 })?,
    };
    m.op("Slice", &[weights, starts, ends, axes], attrs! {})
}

/// The largest ratio of sizes that is treated as a constant multiple.
const MOST: i64 = 64;

fn computed(
    m: &mut Match<'_>,
    found: &Sized,
    [from, to]: &[Dim; 2],
    dtype: DType,
) -> Result<ValueId, Skip> {
    let one = m.scalar(dtype, 1.0)?;
    let times = |a: &Dim, b: &Dim| {
        let count = exact_div(a, b).and_then(|count| count.as_known());
        count.filter(|count| (1..=MOST).contains(count)).map(float)
    };
    let step = match (times(to, from), times(from, to)) {
        (Some(count), _) => m.scalar(dtype, count.recip())?,
        (_, Some(count)) => m.scalar(dtype, count)?,
        _ => m.op("Div", &[found.from, found.to], attrs! {})?,
    };
    // The width of the kernel.
    let width = match found.filter.antialias {
        Some(true) if at_least(&(from.clone() - to.clone()), 0) => step,
        Some(true) => m.op("Max", &[step, one], attrs! {})?,
        _ => one,
    };
    let new = centers(m, found.to, to, dtype)?;
    let places = m.op("Mul", &[new, step], attrs! {})?;
    let old = centers(m, found.from, from, dtype)?;
    let axes = m.i64s(&[1]);
    let old = m.op("Unsqueeze", &[old, axes], attrs! {})?;
    let apart = m.op("Sub", &[places, old], attrs! {})?;
    let distance = m.op("Abs", &[apart], attrs! {})?;
    let weights = match found.filter.kernel {
        // A common factor of all weights cancels.
        Kernel::Linear => {
            let below = m.op("Sub", &[width, distance], attrs! {})?;
            m.op("Relu", &[below], attrs! {})?
        }
        Kernel::Cubic => {
            let x =
                if width == one { distance } else { m.op("Div", &[distance, width], attrs! {})? };
            cubic(m, x, dtype)?
        }
    };
    let axes = m.i64s(&[0]);
    let total = m.op("ReduceSum", &[weights, axes], attrs! { keepdims: 1 })?;
    m.op("Div", &[weights, total], attrs! {})
}

/// Returns `0.5, 1.5, …`, one for each element of an axis. In 32-bit floats, these are exact up to
/// eight million.
fn centers(m: &mut Match<'_>, size: ValueId, dim: &Dim, dtype: DType) -> Result<ValueId, Skip> {
    if let Some(size) = dim.as_known() {
        let count = usize::try_from(size).map_err(|_| "a size is negative")?;
        let tensor = tensor_of(dtype, &[count], (0..size).map(|i| float(i) + 0.5));
        return Ok(m.tensor(tensor.ok_or("the type cannot represent the number")?));
    }
    let (half, one) = (m.scalar(dtype, 0.5)?, m.scalar(dtype, 1.0)?);
    m.op("Range", &[half, size, one], attrs! {})
}

/// Returns twice the weights of Keys's kernel: with `v = max(2 - x, 0)`, `t = v - 1` and `u =
/// max(t, 0)`, `t v² + u² (2 - 4u)`.
fn cubic(m: &mut Match<'_>, x: ValueId, dtype: DType) -> Result<ValueId, Skip> {
    let (one, two, four) = (m.scalar(dtype, 1.0)?, m.scalar(dtype, 2.0)?, m.scalar(dtype, 4.0)?);
    let below = m.op("Sub", &[two, x], attrs! {})?;
    let v = m.op("Relu", &[below], attrs! {})?;
    let t = m.op("Sub", &[v, one], attrs! {})?;
    let u = m.op("Relu", &[t], attrs! {})?;
    let far = m.op("Mul", &[v, v], attrs! {})?;
    let far = m.op("Mul", &[t, far], attrs! {})?;
    let near = m.op("Mul", &[u, u], attrs! {})?;
    let slope = m.op("Mul", &[u, four], attrs! {})?;
    let slope = m.op("Sub", &[two, slope], attrs! {})?;
    let near = m.op("Mul", &[near, slope], attrs! {})?;
    m.op("Add", &[far, near], attrs! {})
}
