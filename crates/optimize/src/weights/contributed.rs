//! Weights that contributed operators read as integers: `MatMulNBits` and `GatherBlockQuantized`.
//!
//! Blocks run along the rows of the transposed weight, which is how published checkpoints store it.
//! A tied embedding is stored once, and serves the lookup and the product.

use std::panic::Location;

use onnx::schema::CONTRIB;
use onnx::{Attr, Attrs, Builder, Editor, Graph, Node, NodeId, Op, Use, ValueId, attrs};
use tensor::{Blocks, DType, Quantized, ReduceError, Tensor, Type};

use super::{Error, NAME, Stored, beside};
use crate::recognize::{Forms, check_contrib};

pub(super) const PRODUCT: &str = "MatMulNBits";
const LOOKUP: &str = "GatherBlockQuantized";

/// The level at which products round the other operand to 8 bits, as runtimes do by default if they
/// replace a product of widened integers.
const ACCURACY: (&str, Attr) = ("accuracy_level", Attr::Int(4));

/// The consumers of a weight.
#[derive(Clone, Debug)]
pub(super) struct Readers {
    /// The products with the weight, or with its transpose if there are lookups.
    products: Vec<NodeId>,
    lookups: Vec<NodeId>,
    /// `true` if products may round their other operand to 8 bits.
    rounds_operands: bool,
}

impl Readers {
    /// Returns the consumers of a weight, or `None` if the operators do not support one of them or
    /// were not requested.
    pub(super) fn of(
        graph: &Graph,
        value: ValueId,
        (dtype, size): (DType, usize),
        forms: &Forms,
    ) -> Option<Self> {
        let &[rows, columns] = graph.tensor(value)?.shape() else { return None };
        let rounds_operands = forms.target.rounds_operands;
        let mut found = Self { products: Vec::new(), lookups: Vec::new(), rounds_operands };
        for use_ in graph.value(value).uses() {
            let Use::Operand(id, index) = use_ else { return None };
            let node = graph.node(id);
            match node.op.name {
                "MatMul" if index == 1 => found.products.push(id),
                "Gather" if index == 0 && node.int("axis", 0) == 0 => found.lookups.push(id),
                "Transpose" => found.products.extend(products_of_transpose(graph, node)?),
                _ => return None,
            }
        }
        let has_transpose = |id: &NodeId| graph.node(*id).input(1) != Some(value);
        let is_consistent = match found.lookups.is_empty() {
            true => !found.products.iter().any(has_transpose),
            false => found.products.iter().all(has_transpose),
        };
        let length = if found.lookups.is_empty() { rows } else { columns };
        let wide = graph.ty(value).dtype;
        let is_allowed = |op: &str, readers: &[NodeId]| {
            readers.is_empty() || check_contrib(forms, op, wide).is_ok()
        };
        let fits = matches!(dtype, DType::I4 | DType::U4)
            && length.is_multiple_of(size)
            && is_consistent
            && is_allowed(PRODUCT, &found.products)
            && is_allowed(LOOKUP, &found.lookups);
        fits.then_some(found)
    }

    /// Quantises a weight, which is transposed unless its rows are looked up.
    pub(super) fn quantized(
        &self,
        tensor: &Tensor,
        blocks: Blocks,
        name: &str,
    ) -> Result<Quantized, ReduceError> {
        let table = if self.are_lookups() { tensor.clone() } else { tensor.transposed(&[1, 0])? };
        let mut parts = table.quantized(blocks, name)?;
        // The operators read scales in the type of their other operand. Widened here, they take less
        // time when the model is loaded.
        parts.scales = parts.scales.cast(tensor.dtype())?;
        if !self.products.is_empty() {
            let of_blocks = [parts.scales.shape(), &[blocks.size / 2]].concat();
            parts.values = parts.values.reshaped(&of_blocks)?;
        }
        Ok(parts)
    }

    pub(super) fn are_lookups(&self) -> bool {
        !self.lookups.is_empty()
    }

    pub(super) fn are_both(&self) -> bool {
        !self.lookups.is_empty() && !self.products.is_empty()
    }
}

/// Returns the products that read a transposed matrix, or `None` if it has other consumers.
fn products_of_transpose(graph: &Graph, node: &Node) -> Option<Vec<NodeId>> {
    if node.ints("perm") != Some(&[1, 0]) {
        return None;
    }
    let uses = graph.value(*node.outputs.first()?).uses();
    let product = |use_| match use_ {
        Use::Operand(id, 1) if graph.node(id).is("MatMul") => Some(id),
        _ => None,
    };
    uses.map(product).collect()
}

/// Stores the parts of a weight for its consumers.
#[expect(clippy::cast_possible_wrap, reason = "sizes that fit the memory")]
pub(super) fn store(
    edit: &mut Editor<'_>,
    value: ValueId,
    (parts, blocks): (Quantized, Blocks),
    readers: &Readers,
) -> Result<(), Error> {
    let &[outputs, count] = parts.scales.shape() else { return Ok(()) };
    let inputs = count * blocks.size;
    let stored = Stored::add(edit.graph_mut(), parts);
    let Stored { values, scales, zeros } = stored;
    let block: Attrs = attrs! { bits: 4, block_size: blocks.size as i64 };
    for id in &readers.products {
        let sizes: Attrs = attrs! { K: inputs as i64, N: outputs as i64 };
        let accuracy = readers.rounds_operands.then_some(ACCURACY);
        let attrs = sizes.into_iter().chain(accuracy).chain(block.clone()).collect();
        let operand = edit.graph().node(*id).input(0);
        let inputs = [operand, Some(values), Some(scales)].into_iter();
        let inputs = inputs.chain(zeros.map(Some)).collect();
        replace(edit, *id, PRODUCT, inputs, attrs)?;
    }
    let mut rows = values;
    if readers.are_both() {
        let mut builder = beside(edit, value)?;
        let shape = builder.i64s(&[outputs as i64, inputs as i64 / 2]);
        rows = builder.op("Reshape", &[values, shape], attrs! {})?;
    }
    for id in &readers.lookups {
        let axes = [("gather_axis", Attr::Int(0)), ("quantize_axis", Attr::Int(1))];
        let attrs = block.clone().into_iter().chain(axes).collect();
        let indices = edit.graph().node(*id).input(1);
        let inputs = [Some(rows), indices, Some(scales)].into_iter();
        replace(edit, *id, LOOKUP, inputs.chain(zeros.map(Some)).collect(), attrs)?;
    }
    stored.name(edit.graph_mut(), value);
    Ok(())
}

/// Replaces a node by a contributed operator with a result of the same type.
#[track_caller]
fn replace(
    edit: &mut Editor<'_>,
    id: NodeId,
    name: &'static str,
    inputs: Vec<Option<ValueId>>,
    attrs: Attrs,
) -> Result<(), Error> {
    let graph = edit.graph();
    let types = graph.node(id).outputs.iter().map(|output| graph.ty(*output).clone()).collect();
    let mark = edit.mark();
    let made = emit(&mut edit.builder(NAME, id), name, inputs, attrs, types);
    Ok(edit.replace(NAME, id, &made, &edit.added_since(mark))?)
}

/// Emits a contributed operator whose results have the given types.
#[track_caller]
pub(super) fn emit(
    builder: &mut Builder<'_>,
    name: &'static str,
    inputs: Vec<Option<ValueId>>,
    attrs: Attrs,
    types: Vec<Type>,
) -> Vec<ValueId> {
    let op = Op { domain: CONTRIB, name };
    builder.emit_typed((op, inputs, attrs), types, Location::caller())
}

/// Returns `true` if a node is the contributed operator `name`.
pub(super) fn is_contributed(node: &Node, name: &str) -> bool {
    node.op.domain == CONTRIB && node.op.name == name
}
