//! Products with the matrices that `jax.image.resize` computes from two sizes, one per axis →
//! `Resize`.

mod matrix;
mod sized;
pub(crate) mod weights;

use onnx::{Attrs, Graph, Node, ValueId, attrs};
use tensor::bounds::at_least;
use tensor::{DType, Dim};

use self::matrix::{Filter, filter, sized_of};
use self::sized::Sized;
use self::weights::vector;
use super::choice::check_form;
use super::missed;
use crate::movement::{AxisMap, transposed};
use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "Resize", roots: Roots::Named(&["MatMul", "Reshape"]), try_at };

/// The rank of an image: batch, channels, rows and columns.
const RANK: usize = 4;

/// Products with `x`, whose axes may have been permuted.
struct Chain {
    x: ValueId,
    /// The axis of `x` that corresponds to each axis of the result.
    order: AxisMap,
    /// The resized axes of `x`, with the symbolic sizes of those whose sizes are unknown.
    resized: Vec<(usize, Option<Sized>)>,
    filter: Filter,
}

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let result = m.result()?;
    if m.ty(result).rank() != RANK {
        return Err("it is not an image".into());
    }
    let graph = m.graph();
    let chain = chain(graph, result)?;
    if is_resized_further(graph, result) {
        return Err("another axis follows".into());
    }
    let (attrs, variant) = chain.filter.attrs();
    let dtype = m.ty(result).dtype;
    check_form(m.forms(), "Resize", variant, dtype, &attrs)?;
    if dtype == DType::F64 {
        return Err(missed("the runtime computes it in float32"));
    }
    if chain.filter.skips_by_cubes() {
        // Runtimes may move transposes through `Resize`, and then have no kernel for it.
        return Err(missed("the runtime fails where it makes images smaller without a filter"));
    }
    chain.emit(m, result, attrs)
}

/// Returns the product that computes `value`, together with the preceding one if that resizes
/// another axis.
fn chain(graph: &Graph, value: ValueId) -> Result<Chain, Skip> {
    let outer = ResampledAxis::of(graph, value).ok_or("the matrix does not resample")?;
    let last = outer.order.sources()[outer.axis];
    let (x, order) = (outer.x, outer.order.clone());
    let one = Chain { x, resized: vec![(last, outer.sized.clone())], order, filter: outer.filter };
    let Some(inner) = ResampledAxis::of(graph, outer.x).filter(|inner| inner.axis != last) else {
        return Ok(one);
    };
    let Some(filter) = outer.filter.with(inner.filter).filter(|_| outer.is_alone) else {
        return Ok(one);
    };
    let order = inner.order.then(&outer.order);
    let from = |axis: usize| inner.order.sources()[axis];
    let resized = vec![(from(last), outer.sized), (from(inner.axis), inner.sized)];
    Ok(Chain { x: inner.x, order, resized, filter })
}

/// A product that resamples one axis of a value, possibly after a transpose.
struct ResampledAxis {
    x: ValueId,
    /// The axis of `x` that corresponds to each axis of the product.
    order: AxisMap,
    /// The resampled axis of the product.
    axis: usize,
    filter: Filter,
    sized: Option<Sized>,
    /// `true` if `x` has no other consumers.
    is_alone: bool,
}

impl ResampledAxis {
    fn of(graph: &Graph, value: ValueId) -> Option<Self> {
        let node = graph.node(graph.producer(value)?);
        let as_it_is = AxisMap::permutation((0..RANK).collect());
        let (image, moved, axis, matrix, is_left) = match node.op.name {
            "MatMul" => (node.input(0)?, as_it_is, RANK - 1, node.input(1)?, false),
            "Reshape" => {
                let (image, order, matrix) = from_the_left(graph, node)?;
                (image, order, 0, matrix, true)
            }
            _ => return None,
        };
        let filter = filter(graph, matrix, is_left)?;
        let sized = sized_of(graph, matrix, is_left);
        if graph.ty(image).rank() != RANK || graph.ty(value).rank() != RANK {
            return None;
        }
        let is_read_once = |value: ValueId| graph.value(value).uses().len() == 1;
        let turned = graph.producer(image).map(|id| graph.node(id)).filter(|n| n.is("Transpose"));
        let (x, order) = match turned {
            Some(turned) => (turned.input(0)?, AxisMap::of(graph, turned)?.then(&moved)),
            None => (image, moved),
        };
        let is_alone = is_read_once(image) && is_read_once(x);
        Some(Self { x, order, axis, filter, sized, is_alone })
    }
}

/// Reads a product of a matrix and an image whose other axes are flattened. Returns the image, the
/// axis of the image for each axis of the result, and the matrix.
fn from_the_left(graph: &Graph, node: &Node) -> Option<(ValueId, AxisMap, ValueId)> {
    let product = graph.node(graph.producer(node.input(0)?)?);
    let (left, right) = (product.input(0)?, product.input(1)?);
    let flat = graph.node(graph.producer(right).filter(|_| product.is("MatMul"))?);
    let image = flat.input(0).filter(|_| flat.is("Reshape"))?;
    let alone = |value: ValueId| graph.value(value).uses().len() == 1;
    let shape = |value: ValueId| graph.ty(value).shape.as_slice();
    let (old, new) = (shape(image), shape(*node.outputs.first()?));
    if shape(right).len() != 2 || old.len() != RANK || !alone(right) || !alone(node.input(0)?) {
        return None;
    }
    // Unit axes may precede the rows.
    let rows = old.iter().position(|size| *size != Dim::Known(1))?;
    let others: Vec<usize> = (0..RANK).filter(|axis| *axis != rows).collect();
    let fits = old.get(rows) == shape(right).first()
        && others.iter().map(|axis| &old[*axis]).eq(new.get(1..)?);
    let order = AxisMap::permutation([&[rows], others.as_slice()].concat());
    fits.then_some((image, order, left))
}

/// Returns `true` if a consumer of `value` resizes the other axis.
fn is_resized_further(graph: &Graph, value: ValueId) -> bool {
    let mut value = value;
    for _ in 0..3 {
        let Some((id, index)) = graph.value(value).only_consumer() else { return false };
        let node = graph.node(id);
        match node.op.name {
            "Transpose" | "Reshape" => value = node.outputs[0],
            "MatMul" => {
                let matrix = node.input(1 - index);
                return matrix.is_some_and(|v| filter(graph, v, index == 1).is_some());
            }
            _ => return false,
        }
    }
    false
}

impl Chain {
    fn emit(&self, m: &mut Match<'_>, result: ValueId, attrs: Attrs) -> Result<Vec<ValueId>, Skip> {
        // Rows and columns come last, in their original order.
        let sized = |axis: usize| self.resized.iter().find(|(resized, _)| *resized == axis);
        let mut perm: Vec<usize> = (0..RANK).filter(|a| sized(*a).is_none()).collect();
        perm.extend((0..RANK).filter(|a| sized(*a).is_some()));
        let perm = AxisMap::permutation(perm);
        let sizes = perm.apply(&self.order.shape_before(&m.ty(result).shape));
        // The runtime rejects resizing from or to an empty axis.
        let before = self.resized.iter().map(|(axis, _)| &m.ty(self.x).shape[*axis]);
        let first = RANK - self.resized.len();
        if !before.chain(&sizes[first..]).all(|size| at_least(size, 1)) {
            return Err(missed("an axis may be empty"));
        }
        let image = transposed(m, self.x, perm.clone())?;
        let known = Dim::all_known(&sizes);
        let sizes = match known {
            Some(sizes) => m.i64s(&sizes),
            None => {
                let mut parts =
                    vec![m.op("Shape", &[image], attrs! { start: 0, end: first as i64 })?];
                let mut known = Vec::new();
                for (axis, size) in perm.sources().iter().zip(&sizes).skip(first) {
                    if let Some(size) = size.as_known() {
                        known.push(size);
                        continue;
                    }
                    let found = sized(*axis).and_then(|(_, found)| found.as_ref());
                    let found = found.ok_or_else(|| missed("a size is unknown"))?;
                    if !known.is_empty() {
                        parts.push(m.i64s(&std::mem::take(&mut known)));
                    }
                    parts.push(vector(m, found.to, size)?);
                }
                if !known.is_empty() {
                    parts.push(m.i64s(&known));
                }
                m.op("Concat", &parts, attrs! { axis: 0 })?
            }
        };
        let resized = m.op_many("Resize", vec![Some(image), None, None, Some(sizes)], attrs, 1)?[0];
        let back = perm.inverse().then(&self.order);
        let moved = transposed(m, resized, back)?;
        let same = |(a, b): (&Dim, &Dim)| a == b || a.as_known().is_none();
        let (made, wanted) = (&m.ty(moved).shape, &m.ty(result).shape);
        if !made.iter().zip(wanted).all(same) {
            return Err("the shape would change".into());
        }
        Ok(vec![moved])
    }
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{edited_with, run, stays_natively};
    use crate::{Form, Forms, Options};

    /// Twice as many columns, by linear interpolation.
    const COLUMNS: &str = "{1, 0.75, 0.25, 0, 0, 0.25, 0.75, 1}";
    /// Twice as many rows.
    const ROWS: &str = "{1, 0, 0.75, 0.25, 0.25, 0.75, 0, 1}";

    fn resized(text: &str) -> String {
        let forms = Forms { default: Form::Measured, ..Forms::auto(onnx::schema::NEWEST) };
        let options = Options { forms, ..Options::default() };
        edited_with(&options, text, |edit| run(edit, [&REWRITE]).unwrap()).0
    }

    fn columns(ty: &str, shape: &str) -> String {
        format!(
            "g ({ty}[{shape},2] x) => ({ty}[{shape},4] y) {{
                w = Constant <value = {ty}[2,4] {COLUMNS}> () y = MatMul (x, w) }}"
        )
    }

    /// The products of both axes. Their other axes are flattened for the product from the left.
    fn both(more: &str, result: &str) -> String {
        format!(
            "g (float[1,2,3,2] x) => (float[4,1,3,4] y{result}) {{
                w = Constant <value = float[2,4] {COLUMNS}> () v = Constant <value = float[4,2] {ROWS}> ()
                c = MatMul (x, w) rows = Constant <value_ints = [2, 12]> () flat = Reshape (c, rows)
                p = MatMul (v, flat) shape = Constant <value_ints = [4, 1, 3, 4]> ()
                y = Reshape (p, shape) {more} }}"
        )
    }

    #[test]
    fn images_are_resized() {
        let text = resized(&columns("float", "B,3,4"));
        assert!(
            text.contains("Resize <mode: string = \"linear\">") && !text.contains("MatMul"),
            "{text}"
        );
        for other in
            [columns("float", "3,4"), columns("double", "1,3,4"), columns("float", "0,3,4")]
        {
            stays_natively(&REWRITE, &other.replace("0,3,4", "1,2,3,4"));
        }
    }

    #[test]
    fn both_axes_are_resized_at_once() {
        let counts = |text: &str| ["Resize", "MatMul"].map(|op| text.matches(op).count());
        assert_eq!(counts(&resized(&both("", ""))), [1, 0]);
        // Something else reads an image or a product on the way.
        for (value, shape) in [("c", "1,2,3,4"), ("flat", "2,12"), ("p", "4,12")] {
            let more = format!("z = Exp ({value})");
            let text = resized(&both(&more, &format!(", float[{shape}] z")));
            assert_eq!(text.contains("p = MatMul"), value != "c", "{text}");
            assert_eq!(text.contains("c = Resize"), value != "p", "{text}");
        }
        // Rows of other axes.
        let other = both("", "")
            .replace("[4, 1, 3, 4]", "[4, 1, 4, 3]")
            .replace("[4,1,3,4] y", "[4,1,4,3] y");
        assert!(resized(&other).contains("MatMul"));
    }
}
