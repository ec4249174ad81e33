//! Weights that are integers already: `w.astype(float32) * scale` in front of a product. They stay what
//! they are, and are widened by `DequantizeLinear`, which computes the same bits.

use std::sync::Arc;

use onnx::{Graph, Node, NodeId, Use, ValueId, attrs};
use provenance::Origins;
use tensor::{DType, Tensor};

use super::readers::{Reader, readers};
use super::{Error, beside, rename};

/// How many elements share a scale where all of a column do: operators take no larger blocks
/// everywhere, and smaller ones repeat the scale more often.
const COLUMN: usize = 128;

/// How integers are widened.
pub(super) struct Widened {
    /// The integers as a matrix.
    values: Tensor,
    /// A scale for each block of a column.
    scales: Tensor,
    block: usize,
    /// The constant that holds the scales now.
    from: ValueId,
    /// The nodes that widen them, from the last to the first.
    nodes: Vec<NodeId>,
}

/// Whether weights of a type may be quantised already.
pub(super) fn is_integer(dtype: DType) -> bool {
    matches!(dtype, DType::I4 | DType::U4 | DType::I8 | DType::U8)
}

/// How the integers of `value` are widened for products, or why they are not.
pub(super) fn found(graph: &Graph, value: ValueId) -> Result<Widened, String> {
    let no_scale = || "it holds integers, and products do not read them times a scale".to_owned();
    let tensor = graph.constant(value).ok_or_else(no_scale)?;
    let (cast, node) = only_reader(graph, value).ok_or_else(no_scale)?;
    let wide = graph.ty(node.outputs[0]).dtype;
    if !node.is("Cast") || !matches!(wide, DType::F16 | DType::F32) {
        return Err(no_scale());
    }
    let (mul, node) = only_reader(graph, node.outputs[0]).ok_or_else(no_scale)?;
    let other = node.inputs.iter().flatten().find(|id| graph.producer(**id) != Some(cast));
    let (true, Some(from)) = (node.is("Mul"), other.copied()) else { return Err(no_scale()) };
    let scale = graph.constant(from).ok_or("its scales are computed")?;
    let (mut nodes, mut result) = (vec![mul, cast], node.outputs[0]);
    if let Some((reshape, node)) = only_reader(graph, result)
        && node.is("Reshape")
    {
        nodes.insert(0, reshape);
        result = node.outputs[0];
    }
    if !readers(graph, result).iter().all(|reader| *reader == Reader::Product) {
        return Err("not only products read it".to_owned());
    }
    let sizes: Option<Vec<usize>> =
        graph.ty(result).shape.iter().map(|dim| usize::try_from(dim.as_known()?).ok()).collect();
    let Some(&[rows, columns]) = sizes.as_deref() else {
        return Err("products do not read it as a matrix".to_owned());
    };
    let (block, scales) = match *tensor.shape() {
        [..] if tensor.shape() == [rows, columns] => {
            (COLUMN, of_columns(scale, rows.div_ceil(COLUMN), columns)?)
        }
        [blocks, block, last] if [blocks * block, last] == [rows, columns] => {
            if scale.shape() != [blocks, 1, columns] {
                return Err("its scales are not those of blocks of columns".to_owned());
            }
            (block, scale.reshaped(&[blocks, columns]).map_err(|error| error.to_string())?)
        }
        _ => return Err("its axes are not those of blocks of columns".to_owned()),
    };
    let values = tensor.reshaped(&[rows, columns]).map_err(|error| error.to_string())?;
    Ok(Widened { values, scales, block, from, nodes })
}

/// The node that alone reads a value, once.
fn only_reader(graph: &Graph, value: ValueId) -> Option<(NodeId, &Node)> {
    let mut uses = graph.value(value).uses();
    let (Some(Use::Operand(id, _)), None) = (uses.next(), uses.next()) else { return None };
    Some((id, graph.node(id)))
}

/// Scales of whole columns, or one for all, as those of blocks.
fn of_columns(scale: &Tensor, blocks: usize, columns: usize) -> Result<Tensor, String> {
    let width = scale.dtype().bits() as usize / 8;
    let Some(bytes) = scale.bytes() else { return Err("its scales are elsewhere".to_owned()) };
    let row = match *scale.shape() {
        [size] | [1, size] if size == columns => bytes.into_owned(),
        [] | [1] | [1, 1] => bytes.repeat(columns),
        _ => return Err("its scales are not those of columns".to_owned()),
    };
    debug_assert_eq!(row.len(), width * columns);
    Tensor::new(scale.dtype(), &[blocks, columns], Arc::new(row.repeat(blocks)))
        .map_err(|error| error.to_string())
}

/// Widens the integers by one node.
pub(super) fn store(
    graph: &mut Graph,
    origins: &mut Origins,
    value: ValueId,
    widened: Widened,
) -> Result<(), Error> {
    let Widened { values, scales, block, from, nodes } = widened;
    let name = graph.value(value).name.clone();
    let Some(result) = nodes.first().map(|id| graph.node(*id).outputs[0]) else { return Ok(()) };
    let wide = graph.ty(result).dtype;
    let (values, scales) = (graph.add_constant(values), graph.add_constant(scales));
    // Before the product, not before the cast, which may be far from it.
    let mut builder = beside(graph, origins, result)?;
    #[expect(clippy::cast_possible_wrap, reason = "a size that fits the memory")]
    let attrs = attrs! { axis: 0, block_size: block as i64 };
    let dequantized = builder.op("DequantizeLinear", &[values, scales], attrs)?;
    graph.replace_uses(result, dequantized);
    for node in nodes {
        graph.remove_node(node);
    }
    graph.value_mut(dequantized).name = format!("{name}/{}", wide.numpy_name());
    // Other weights may have the same scales.
    let scale_name = if graph.value(from).is_used() {
        format!("{name}/scale")
    } else {
        std::mem::take(&mut graph.value_mut(from).name)
    };
    graph.value_mut(scales).name = scale_name;
    rename(graph, value, values, name);
    Ok(())
}
