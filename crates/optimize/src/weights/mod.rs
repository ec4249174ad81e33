//! Smaller weights: stores parameters as smaller floats or small integers, and widens them for
//! their consumers.
//!
//! A matrix of integers is widened by `DequantizeLinear` next to the product that reads it.
//! Runtimes may run both as one node on the integers. On request, contributed operators read the
//! integers themselves, which takes less time when the model is loaded. Of a table, or of the experts of a mixture,
//! only those rows are widened that are looked up. Floats are widened by `Cast`,
//! which runtimes execute once when they load the model. The stored elements are computed while the
//! model is written.

mod contributed;
mod formats;
mod merged;
mod plan;
mod quantized;
mod readers;
mod rows;
#[cfg(test)]
mod tests;

use onnx::{Attr, Builder, Editor, Graph, NodeId, ValueId, attrs};
use provenance::{Origins, Stage};
use tensor::{BlockLayout, Blocks, DType, Quantized, ReduceError, Tensor};

use crate::recognize::Forms;
use crate::targets::ReadableBlocks;
use crate::wildcard::matches;

use formats::BLOCK;
pub use formats::{ALL, Format, Weights};
use plan::Plan;
pub(crate) use readers::multiplies_stacks;
use readers::{Reader, casts, readers};

/// The first opset whose operators support blocks.
const OPSET: i64 = 21;

/// The smallest number of elements of a weight that is converted without being named by a pattern.
const WORTH_IT: usize = 1024;

/// The error if weights cannot be stored in the requested format.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A pattern matches no weight.
    #[error("`weights` names `{pattern}`, which matches no parameter")]
    NoMatch {
        /// The pattern.
        pattern: String,
        /// The names of the largest parameters.
        largest: Vec<String>,
    },
    /// No weight that a pattern matches can be stored in the format.
    #[error("`{name}` cannot be stored as {format}: {reason}")]
    Unsuitable {
        /// The first of these weights.
        name: String,
        /// The requested format.
        format: Format,
        /// The reason.
        reason: String,
    },
    /// The opset has no operator for integer weights.
    #[error(
        "weights in blocks of integers need opset {OPSET} or newer, but the model is written in opset {0}"
    )]
    Opset(i64),
    /// The graph or an emitted node is invalid, which is a bug in this project.
    #[error(transparent)]
    Graph(#[from] onnx::Error),
}

/// The name that nodes are emitted under.
const NAME: &str = "smaller_weights";

/// The result of [`shrink`].
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The patterns without effect: `*` if nothing else had one, and others if `for_others` is set.
    pub unmatched: Vec<String>,
    /// All parameters, the largest first, if formats were requested.
    pub weights: Vec<Weight>,
}

/// A parameter, and the way it is stored.
#[derive(Clone, Debug)]
pub struct Weight {
    /// Its name.
    pub name: String,
    /// The element type before.
    pub from: DType,
    /// The number of bytes in that type.
    pub bytes: usize,
    /// The format, or `None` if the weight is unchanged.
    pub format: Option<Format>,
    /// The number of bytes that are stored, with scales and zero points.
    pub stored: usize,
    /// The reason for the format, or for its absence. It may be empty.
    pub reason: String,
}

/// Stores the weights of a finished graph in the requested formats.
pub fn shrink(
    graph: &mut Graph,
    origins: &mut Origins,
    weights: &Weights,
    opset: i64,
    forms: &Forms,
) -> Result<Report, Error> {
    let blocks = |format: &Format| matches!(format, Format::Blocks { .. });
    if opset < OPSET && weights.formats.iter().flat_map(|(_, formats)| formats).any(blocks) {
        return Err(Error::Opset(opset));
    }
    let mut edit = Editor::new(graph, origins, Stage::Rewrite);
    let graph = edit.graph();
    let is_parameter = |id: &ValueId| graph.parameter(*id).is_some();
    let tensors = graph.live_tensors().map(|(id, _)| id);
    let parameters: Vec<ValueId> = tensors.filter(is_parameter).collect();
    let mut matched = vec![Matched::default(); weights.formats.len()];
    let mut report = Report::default();
    for mut value in parameters {
        let Some(tensor) = edit.graph().tensor(value) else { continue };
        let (from, bytes) = (tensor.dtype(), tensor.byte_len());
        let name = edit.graph().value(value).name.clone();
        let mut weight =
            Weight { name, from, bytes, format: None, stored: bytes, reason: String::new() };
        let name = &weight.name;
        let found = weights.formats.iter().position(|(pattern, _)| matches(pattern, name));
        let mut refused = None;
        if let Some(at) = found {
            let (pattern, formats) = &weights.formats[at];
            let matched = &mut matched[at];
            if formats.iter().any(|format| format.is_integer()) {
                value = as_matrix(&mut edit, value);
            }
            let shape = edit.graph().tensor(value).map(|tensor| tensor.shape().to_vec());
            let shape = shape.unwrap_or_default();
            for (i, format) in formats.iter().enumerate() {
                let format = &resolved(*format, &shape, opset, forms);
                match suitable(edit.graph(), value, *format, pattern == ALL, forms) {
                    Ok(_) if *format == Format::Keep => {
                        refused = Some((name.clone(), *format, "as requested".to_owned()));
                        matched.used = true;
                        break;
                    }
                    Ok(plan) if plan.leaves_part(*format, &formats[i + 1..], &shape) => {}
                    Ok(plan) => {
                        matched.used = true;
                        weight.stored = store(&mut edit, value, *format, &plan)?;
                        weight.format = Some(*format);
                        weight.reason = plan.note().to_owned();
                        refused = None;
                        break;
                    }
                    Err(reason) => {
                        refused.get_or_insert((name.clone(), *format, reason));
                    }
                }
            }
            if let Some(refused) = &refused {
                matched.refused.get_or_insert_with(|| refused.clone());
            }
        }
        if weight.format.is_none() {
            let unnamed = || "no pattern matches it".to_owned();
            weight.reason = refused.map_or_else(unnamed, |(_, _, reason)| reason);
            if let Some(dtype) = smaller_table(edit.graph(), value) {
                let format = Format::Float(dtype);
                weight.stored = store(&mut edit, value, format, &Plan::Cast)?;
                weight.format = Some(format);
                weight.reason = "as in the checkpoint".to_owned();
            }
        }
        report.weights.push(weight);
    }
    merged::merge(&mut edit)?;
    if weights.formats.is_empty() {
        return Ok(Report::default());
    }
    report.weights.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    let any_used = matched.iter().any(|matched| matched.used);
    for ((pattern, _), matched) in weights.formats.iter().zip(matched) {
        if matched.used {
            continue;
        }
        if pattern == ALL {
            report.unmatched.extend(Some(pattern.clone()).filter(|_| !any_used));
            continue;
        }
        match matched.refused {
            Some((name, format, reason)) => return Err(Error::Unsuitable { name, format, reason }),
            None if weights.for_others => report.unmatched.push(pattern.clone()),
            None => {
                return Err(Error::NoMatch {
                    pattern: pattern.clone(),
                    largest: largest(edit.graph()),
                });
            }
        }
    }
    Ok(report)
}

/// Replaces a stack of one matrix by the matrix, if its products allow that. Returns the weight.
fn as_matrix(edit: &mut Editor<'_>, value: ValueId) -> ValueId {
    let graph = edit.graph();
    let Some(stack) = graph.tensor(value) else { return value };
    let &[1, rows, columns] = stack.shape() else { return value };
    let Ok(matrix) = stack.reshaped(&[rows, columns]) else { return value };
    if !multiplies_stacks(graph, value) {
        return value;
    }
    let products: Vec<NodeId> = graph.value(value).consumers().collect();
    let graph = edit.graph_mut();
    let name = graph.take_name(value);
    let matrix = graph.add_parameter(name, matrix);
    for product in products {
        edit.set_input(product, 1, Some(matrix));
    }
    matrix
}

/// Returns the smaller float type of a table in a checkpoint, if only its rows are looked up, so
/// that they can be widened after that.
fn smaller_table(graph: &Graph, value: ValueId) -> Option<DType> {
    let source = graph.tensor(value)?.widened_from()?;
    let read = readers(graph, value);
    let is_table = !read.is_empty() && read.iter().all(|one| matches!(one, Reader::Lookup(_)));
    is_table.then(|| source.dtype())
}

/// The effect of a pattern.
#[derive(Clone, Debug, Default)]
struct Matched {
    used: bool,
    /// The first weight that could not be stored, the format, and the reason.
    refused: Option<(String, Format, String)>,
}

/// The maximum number of names in a message.
const LISTED: usize = 5;

fn largest(graph: &Graph) -> Vec<String> {
    let mut named: Vec<(usize, String)> = graph
        .live_tensors()
        .filter(|(id, _)| graph.parameter(*id).is_some())
        .map(|(id, tensor)| (tensor.byte_len(), graph.value(id).name.clone()))
        .collect();
    named.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    named.into_iter().take(LISTED).map(|(_, name)| name).collect()
}

/// Returns the format that suits the opset and the target.
fn resolved(format: Format, shape: &[usize], opset: i64, forms: &Forms) -> Format {
    match format {
        Format::Bytes { dtype } if opset >= OPSET && reads_blocks(forms, BLOCK, shape) => {
            Format::Blocks { dtype, size: BLOCK }
        }
        Format::Bytes { dtype } => Format::Columns { dtype },
        other => other,
    }
}

/// Returns `true` if the target reads blocks of the rows of a weight.
fn reads_blocks(forms: &Forms, size: usize, shape: &[usize]) -> bool {
    match (forms.target.blocks, shape) {
        (ReadableBlocks::All, _) => true,
        (ReadableBlocks::Whole, &[rows, _]) => rows.is_multiple_of(size),
        (ReadableBlocks::Whole, _) => true,
        (ReadableBlocks::None, _) => false,
    }
}

/// Returns how a weight can be stored in the format, or the reason why not. If `by_itself` is set,
/// it must also be large enough.
fn suitable(
    graph: &Graph,
    value: ValueId,
    format: Format,
    by_itself: bool,
    forms: &Forms,
) -> Result<Plan, String> {
    let Some(tensor) = graph.tensor(value) else { return Err("it is computed".to_owned()) };
    let (dtype, is_small) = (tensor.dtype(), by_itself && tensor.len() < WORTH_IT);
    let blocks = |to, size| plan::blocks(graph, value, (to, size), by_itself, forms);
    match (format, tensor.shape()) {
        (Format::Keep, _) => Ok(Plan::Cast),
        (Format::Float(to), shape) => {
            if !matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64) {
                return Err(format!("it holds {dtype}"));
            }
            if dtype.bits() <= to.bits() {
                return Err(format!("it is {} already", dtype.numpy_name()));
            }
            if is_small || by_itself && shape.len() < 2 {
                return Err("it is small".to_owned());
            }
            Ok(Plan::Cast)
        }
        _ if quantized::is_integer(dtype) => quantized::found(graph, value).map(|_| Plan::Cast),
        _ if is_small => Err("it is small".to_owned()),
        (Format::Blocks { size, .. }, shape) if !reads_blocks(forms, size, shape) => Err(format!(
            "{} does not read such blocks; `int8:column` has a scale for each column",
            forms.target
        )),
        (Format::Blocks { dtype: to, size }, _) => blocks(to, size),
        (Format::Bytes { dtype: to } | Format::Columns { dtype: to }, &[rows, _]) => {
            match blocks(to, rows.max(1))? {
                Plan::Whole { scale, .. } => Ok(Plan::Whole { axis: 1, scale }),
                _ => Err("its rows are looked up, and columns have the scales".to_owned()),
            }
        }
        _ => Err("it is no matrix, and columns have the scales".to_owned()),
    }
}

/// Returns the float type in which products read a weight, and the values that they read: the
/// weight itself, or the results of casts if the target cannot multiply its type.
fn widened(graph: &Graph, value: ValueId) -> Result<(DType, Vec<ValueId>), String> {
    if let Some(casts) = casts(graph, value, DType::F32) {
        return Ok((DType::F32, casts.iter().map(|id| graph.node(*id).outputs[0]).collect()));
    }
    match graph.ty(value).dtype {
        dtype @ (DType::F16 | DType::F32) => Ok((dtype, vec![value])),
        other => Err(format!("products read it as {}", other.numpy_name())),
    }
}

/// Stores a suitable weight, and widens it for its consumers. Returns the number of bytes stored.
fn store(
    edit: &mut Editor<'_>,
    value: ValueId,
    format: Format,
    plan: &Plan,
) -> Result<usize, Error> {
    let graph = edit.graph();
    let name = graph.value(value).name.clone();
    let Some(tensor) = graph.tensor(value).cloned() else { return Ok(0) };
    let because = |reason| Error::Unsuitable { name: name.clone(), format, reason };
    let unsuitable = |error: ReduceError| because(error.to_string());
    let (dtype, size) = match format {
        Format::Keep => return Ok(tensor.byte_len()),
        Format::Float(dtype) => {
            let small = tensor.rounded(dtype, &name).map_err(unsuitable)?;
            let (wide, bytes) = (tensor.dtype(), small.byte_len());
            let stored = edit.graph_mut().add_constant(small);
            let read = readers(edit.graph(), value);
            if read.iter().all(|one| matches!(one, Reader::Lookup(_))) {
                for one in read {
                    if let Reader::Lookup(node) = one {
                        look_up(edit, node, stored, wide)?;
                    }
                }
            } else {
                let cast = beside(edit, value)?.cast(stored, wide)?;
                replace_by_widened(edit, value, cast, &name);
            }
            edit.graph_mut().move_name(value, stored);
            return Ok(bytes);
        }
        _ if quantized::is_integer(tensor.dtype()) => {
            let found = quantized::found(graph, value).map_err(because)?;
            quantized::store(edit, value, found)?;
            return Ok(tensor.byte_len());
        }
        Format::Blocks { dtype, size } => (dtype, size),
        Format::Bytes { dtype } | Format::Columns { dtype } => (dtype, tensor.shape()[0].max(1)),
    };
    let by_column = !matches!(format, Format::Blocks { .. });
    let (axis, blocks) = match plan {
        Plan::Rows { lookups, transposed, scale } => {
            let blocks = Blocks { dtype, size, scale: *scale, layout: BlockLayout::Halves };
            let parts = rows::quantized(&tensor, blocks, &name).map_err(unsuitable)?;
            let bytes = bytes_of(&parts);
            rows::store(edit, value, (parts, blocks), lookups, transposed)?;
            return Ok(bytes);
        }
        Plan::Contributed { readers, scale } => {
            let blocks = Blocks { dtype, size, scale: *scale, layout: BlockLayout::Pairs };
            let parts = readers.quantized(&tensor, blocks, &name).map_err(unsuitable)?;
            let bytes = bytes_of(&parts);
            contributed::store(edit, value, (parts, blocks), readers)?;
            return Ok(bytes);
        }
        Plan::Whole { axis, scale } => {
            // There are few scales of columns, so they need no cast.
            let is_single = by_column && tensor.dtype() == DType::F32;
            let scale = if is_single { &DType::F32 } else { scale };
            (*axis, Blocks { dtype, size, scale: *scale, layout: BlockLayout::Columns })
        }
        Plan::Cast => return Ok(tensor.byte_len()),
    };
    let (wide, read) = widened(graph, value).map_err(because)?;
    let mut parts = quantized_stack(&tensor, axis, blocks, &name).map_err(unsuitable)?;
    if by_column {
        let flat = |part: Tensor| part.reshaped(&[part.len()]).map_err(|e| unsuitable(e.into()));
        parts.scales = flat(parts.scales)?;
        parts.zero_points = parts.zero_points.map(flat).transpose()?;
    }
    let bytes = bytes_of(&parts);
    let stored = Stored::add(edit.graph_mut(), parts);
    let mut builder = beside(edit, value)?;
    let scales = builder.cast(stored.scales, wide)?;
    let size = Some(size).filter(|_| !by_column);
    let dequantized = dequantize(&mut builder, Stored { scales, ..stored }, axis as i64, size)?;
    for old in read {
        replace_by_widened(edit, old, dequantized, &name);
    }
    let graph = edit.graph_mut();
    stored.name(graph, value);
    if scales != stored.scales {
        graph.set_name(scales, format!("{name}/scale/{}", wide.numpy_name()));
    }
    Ok(bytes)
}

/// The constants that a weight is stored in.
#[derive(Clone, Copy)]
struct Stored {
    values: ValueId,
    scales: ValueId,
    zeros: Option<ValueId>,
}

impl Stored {
    fn add(graph: &mut Graph, parts: Quantized) -> Self {
        let [values, scales] = [parts.values, parts.scales].map(|part| graph.add_constant(part));
        Self { values, scales, zeros: parts.zero_points.map(|zeros| graph.add_constant(zeros)) }
    }

    /// Moves the name of the weight to its integers, and names the other parts after it.
    fn name(&self, graph: &mut Graph, weight: ValueId) {
        let name = graph.value(weight).name.clone();
        name_parts(graph, &name, self.scales, self.zeros);
        graph.move_name(weight, self.values);
    }
}

/// Emits the widening of integers whose scales belong to `size` neighbours along an axis, or to all of them.
fn dequantize(
    builder: &mut Builder<'_>,
    Stored { values, scales, zeros }: Stored,
    axis: i64,
    size: Option<usize>,
) -> onnx::Result<ValueId> {
    let operands: Vec<ValueId> = [values, scales].into_iter().chain(zeros).collect();
    let mut attrs = attrs! { axis: axis };
    #[expect(clippy::cast_possible_wrap, reason = "a size that fits the memory")]
    attrs.extend(size.map(|size| ("block_size", Attr::Int(size as i64))));
    builder.op("DequantizeLinear", &operands, attrs)
}

/// Replaces a value that products read by the `widened` weight with this name.
fn replace_by_widened(edit: &mut Editor<'_>, old: ValueId, widened: ValueId, name: &str) {
    let (before, after) = (edit.graph().producer(old), edit.graph().producer(widened));
    edit.replace_uses(old, widened);
    if let Some(before) = before {
        edit.remove_unread(before, after.as_slice());
    }
    let graph = edit.graph_mut();
    graph.set_name(widened, format!("{name}/{}", graph.ty(widened).dtype.numpy_name()));
}

/// Names the scales and zero points of a weight.
fn name_parts(graph: &mut Graph, name: &str, scales: ValueId, zeros: Option<ValueId>) {
    for (value, part) in [(Some(scales), "scale"), (zeros, "zero_point")] {
        if let Some(value) = value {
            graph.set_name(value, format!("{name}/{part}"));
        }
    }
}

fn bytes_of(parts: &Quantized) -> usize {
    let zeros = parts.zero_points.as_ref().map_or(0, Tensor::byte_len);
    parts.values.byte_len() + parts.scales.byte_len() + zeros
}

/// Quantises a matrix, or a stack of matrices whose blocks do not cross the matrices. Blocks run
/// along `axis`. The stack is treated as one tall matrix.
fn quantized_stack(
    tensor: &Tensor,
    axis: usize,
    blocks: Blocks,
    name: &str,
) -> Result<Quantized, ReduceError> {
    let shape = tensor.shape();
    if shape.len() == 2 {
        return tensor.quantized(blocks, name);
    }
    let columns: usize = shape[axis + 1..].iter().product();
    let tall = tensor.reshaped(&[shape[..=axis].iter().product(), columns])?;
    let Quantized { values, scales, zero_points } = tall.quantized(blocks, name)?;
    let mut of_blocks = shape.to_vec();
    of_blocks[axis] /= blocks.size.max(1);
    Ok(Quantized {
        values: values.reshaped(shape)?,
        scales: scales.reshaped(&of_blocks)?,
        zero_points: zero_points.map(|zeros| zeros.reshaped(&of_blocks)).transpose()?,
    })
}

/// Gathers rows of the smaller table, and widens only those.
fn look_up(edit: &mut Editor<'_>, id: NodeId, table: ValueId, wide: DType) -> Result<(), Error> {
    let node = edit.graph().node(id).clone();
    let mut operands = vec![table];
    operands.extend(node.input(1));
    let mark = edit.mark();
    let mut builder = edit.builder(NAME, id);
    let rows = builder.op("Gather", &operands, node.attrs)?;
    let widened = builder.cast(rows, wide)?;
    Ok(edit.replace(NAME, id, &[widened], &edit.added_since(mark))?)
}

/// Returns a builder that emits nodes into the main graph, next to the consumers of `value`.
fn beside<'e>(edit: &'e mut Editor<'_>, value: ValueId) -> Result<Builder<'e>, Error> {
    let graph = edit.graph();
    let first = graph.nodes_of(Graph::MAIN).next();
    let reader = graph.value(value).consumers().next();
    // Weights are not widened inside the bodies of loops and branches. That would be repeated in
    // each execution, and runtimes may fail to load a product in a body whose integers are outside.
    let is_main = |id: &NodeId| graph.node(*id).block() == Graph::MAIN;
    let alone = graph.value(value).uses().len() == 1;
    let before = reader.filter(|id| alone && is_main(id)).or(first);
    let Some(origin) = reader.map(|id| graph.node(id).origin) else {
        return Err(onnx::Error::Graph("nothing reads a weight".to_owned()).into());
    };
    Ok(edit.builder_at(NAME, origin, Graph::MAIN, before))
}
