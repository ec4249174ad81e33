//! Rebuilds nodes to work on transposed operands, and inserts transposes between them and all other
//! nodes.

use onnx::{Attrs, Builder, Graph, Node, NodeId, Op, Use, ValueId, attrs, can_be_output};
use rustc_hash::{FxHashMap, FxHashSet};
use tensor::{Dim, Type};

use super::{CONVOLUTION, Move, PASS};
use crate::movement::{AxisMap, Change};
use crate::{Changed, Editor, Error, Problem};

/// Returns `ty` with leading unit axes, up to `rank` axes.
pub(super) fn widened(ty: &Type, rank: usize) -> Type {
    let added = rank.saturating_sub(ty.rank());
    let front = std::iter::repeat_n(Dim::Known(1), added);
    Type::new(ty.dtype, front.chain(ty.shape.iter().cloned()).collect::<Vec<_>>())
}

/// Rebuilds nodes of one block, given in order, on operands that are transposed to `order`.
pub(super) fn relay(
    edit: &mut Editor<'_>,
    order: &AxisMap,
    nodes: Vec<(NodeId, Move)>,
) -> Result<Changed, Error> {
    let (known, kernels) = (FxHashMap::default(), FxHashMap::default());
    let mut relay = Relay { back: order.inverse(), order, edit, known, kernels };
    let moving: FxHashSet<NodeId> = nodes.iter().map(|(id, _)| *id).collect();
    let mut old = Vec::new();
    for (id, movement) in nodes {
        if !relay.edit.spend(PASS.name) {
            break;
        }
        old.push((id, relay.node(id, &movement, &moving)?));
    }
    // In reverse order, because only later nodes of the list still read their results.
    for (id, new) in old.iter().rev() {
        relay.edit.remove(*id, new.as_slice());
    }
    relay.drop_transposes();
    Ok(Changed::from(!old.is_empty()))
}

struct Relay<'a, 'e> {
    edit: &'a mut Editor<'e>,
    order: &'a AxisMap,
    back: AxisMap,
    /// The transposed counterparts of values.
    known: FxHashMap<ValueId, ValueId>,
    /// The weights of convolutions that replace the weights of products.
    kernels: FxHashMap<ValueId, ValueId>,
}

impl Relay<'_, '_> {
    fn graph(&self) -> &Graph {
        self.edit.graph()
    }

    /// Rebuilds a node on transposed operands. Returns its replacement.
    fn node(
        &mut self,
        id: NodeId,
        movement: &Move,
        moving: &FxHashSet<NodeId>,
    ) -> Result<Option<NodeId>, Error> {
        let mut node = self.graph().node(id).clone();
        for &index in &movement.pushed.operands {
            if let Some(value) = node.inputs[index] {
                node.inputs[index] = Some(self.transposed(value, id)?);
            }
        }
        let change = &movement.pushed.change;
        change.apply(&mut node, |tensor| self.edit.graph_mut().intern_constant(tensor));
        if movement.convolution.is_some() {
            (node.op, node.attrs) = (Op::onnx(CONVOLUTION), Attrs::new());
            if let Some(weight) = node.inputs[1] {
                node.inputs[1] = Some(self.kernel(weight, id)?);
            }
        }
        let transposed = movement.transposes_results();
        let made = match change {
            Change::Sizes(sizes) if sizes.len() != 1 => vec![self.sizes(id, &node, sizes)?],
            _ => self.remade(&node, transposed, id),
        };
        for (old, new) in node.outputs.iter().zip(&made) {
            self.hand_on(id, *old, *new, transposed, moving)?;
        }
        Ok(made.first().and_then(|value| self.graph().producer(*value)))
    }

    /// Adds `node` in place of the node `id`. Returns its results.
    fn remade(&mut self, node: &Node, transposed: bool, id: NodeId) -> Vec<ValueId> {
        let of = |value: &ValueId| {
            let ty = self.graph().ty(*value);
            let shape = if transposed { self.order.apply(&ty.shape) } else { ty.shape.clone() };
            Type::new(ty.dtype, shape)
        };
        let types: Vec<Type> = node.outputs.iter().map(of).collect();
        let parts = (node.op, node.inputs.clone(), node.attrs.clone());
        let new = self.edit.remake(id, parts, types);
        let results = self.graph().node(new).outputs.clone();
        if !transposed {
            for (old, new) in node.outputs.iter().zip(&results) {
                let content = self.graph().value(*old).content.clone();
                self.edit.graph_mut().set_content(*new, content);
            }
        }
        results
    }

    /// Converts the weight of a product to that of a convolution with a kernel of one pixel, for
    /// the node `at`.
    fn kernel(&mut self, weight: ValueId, at: NodeId) -> Result<ValueId, Error> {
        if let Some(known) = self.kernels.get(&weight) {
            return Ok(*known);
        }
        let pixel: Vec<i64> = (2..self.order.rank()).map(|axis| axis as i64).collect();
        let kernel = self.emit(at, |b| {
            let turned = b.transpose(weight, &[1, 0])?;
            b.unsqueeze(turned, &pixel)
        })?;
        self.kernels.insert(weight, kernel);
        Ok(kernel)
    }

    /// Emits a selection of the sizes of a value.
    fn sizes(&mut self, id: NodeId, node: &Node, sizes: &[i64]) -> Result<ValueId, Error> {
        let whole: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
        self.emit(id, |b| {
            let shape = b.op("Shape", &whole, Attrs::new())?;
            let indices = b.i64s(sizes);
            b.op("Gather", &[shape, indices], attrs! { axis: 0 })
        })
    }

    /// Makes all consumers of `old` that do not move read `new`, or `new` transposed back.
    fn hand_on(
        &mut self,
        id: NodeId,
        old: ValueId,
        new: ValueId,
        transposed: bool,
        moving: &FxHashSet<NodeId>,
    ) -> Result<(), Error> {
        if !transposed {
            self.edit.graph_mut().move_name(old, new);
            self.edit.replace_uses(old, new);
            return Ok(());
        }
        self.known.insert(old, new);
        let block = self.graph().node(id).block();
        let uses: Vec<Use> = self.graph().value(old).uses().collect();
        let mut others = false;
        for place in uses {
            match place {
                Use::Operand(reader, _) if moving.contains(&reader) => {}
                Use::Operand(reader, _) if self.is_transpose(reader, block) => {
                    others |= !self.replaces_transpose(reader, new);
                }
                _ => others = true,
            }
        }
        if others {
            let perm = self.back.sources().to_vec();
            let back = self.emit(id, |b| b.transpose(new, &perm))?;
            let ty = self.graph().ty(old).clone();
            self.edit.graph_mut().set_type(back, ty);
            self.edit.graph_mut().move_name(old, back);
            self.edit.replace_uses(old, back);
            self.known.insert(back, new);
        }
        let graph = self.edit.graph_mut();
        if graph.value(new).name.is_empty() {
            graph.move_name(old, new);
        }
        Ok(())
    }

    /// Returns `true` if a node transposes to the order in question.
    fn is_transpose(&self, id: NodeId, block: onnx::BlockId) -> bool {
        let node = self.graph().node(id);
        node.block() == block && self.order.is_made_by(self.graph(), node)
    }

    /// Makes all consumers of a transpose read `new`, which has the same elements. Returns `false`
    /// if one of them cannot.
    fn replaces_transpose(&mut self, id: NodeId, new: ValueId) -> bool {
        let node = self.graph().node(id);
        let (result, block) = (node.outputs[0], node.block());
        let mut readers = Vec::new();
        for place in self.graph().value(result).uses() {
            match place {
                Use::Operand(node, _) => readers.push(node),
                Use::Output(..) if can_be_output(self.graph(), new, block) => {}
                Use::Output(..) => return false,
            }
        }
        self.edit.graph_mut().move_name(result, new);
        self.edit.replace_uses(result, new);
        // The origin belongs to the nodes that needed the transposed value.
        self.edit.remove(id, &readers);
        true
    }

    /// Returns `value` in the other order, for the node `at`.
    fn transposed(&mut self, value: ValueId, at: NodeId) -> Result<ValueId, Error> {
        if let Some(known) = self.known.get(&value) {
            return Ok(*known);
        }
        let rank = self.order.rank();
        let wide = widened(self.graph().ty(value), rank);
        if wide.shape.iter().all(|dim| *dim == Dim::Known(1)) {
            return Ok(value);
        }
        let made = self.graph().producer(value).map(|id| self.graph().node(id));
        if let Some(node) = made
            && self.back.is_made_by(self.graph(), node)
            && let Some(source) = node.input(0)
        {
            self.known.insert(value, source);
            return Ok(source);
        }
        let new = if can_be_renamed(&wide.shape) && self.order.only_renames(&wide.shape) {
            self.renamed(value, &wide, at)?
        } else {
            let added: Vec<i64> =
                (0..rank - self.graph().ty(value).rank()).map(|axis| axis as i64).collect();
            let order = self.order.sources();
            self.emit(at, |b| {
                let whole = b.unsqueeze(value, &added)?;
                b.transpose(whole, order)
            })?
        };
        self.known.insert(value, new);
        Ok(new)
    }

    /// Reshapes a value whose elements keep their order, so that its axes are at the new positions.
    fn renamed(&mut self, value: ValueId, wide: &Type, at: NodeId) -> Result<ValueId, Error> {
        let mut shape = self.order.apply(&wide.shape);
        if self.graph().ty(value).rank() < wide.rank() {
            let ones = shape.iter().take_while(|dim| **dim == Dim::Known(1)).count();
            shape.drain(..ones);
        }
        let target: Vec<i64> = shape.iter().map(|dim| dim.as_known().unwrap_or(-1)).collect();
        let new = self.emit(at, |b| {
            let target = b.i64s(&target);
            b.op("Reshape", &[value, target], Attrs::new())
        })?;
        self.edit.graph_mut().set_type(new, Type::new(wide.dtype, shape));
        Ok(new)
    }

    fn emit(
        &mut self,
        at: NodeId,
        emit: impl FnOnce(&mut Builder<'_>) -> onnx::Result<ValueId>,
    ) -> Result<ValueId, Error> {
        let made = emit(&mut self.edit.builder(PASS.name, at));
        made.map_err(|error| self.edit.error(PASS.name, at, Problem::Node(error)))
    }

    /// Removes transposes whose results are no longer read. Their origins go to the producers of
    /// their operands.
    fn drop_transposes(&mut self) {
        let mut transposes: Vec<NodeId> = Vec::new();
        transposes.extend(self.known.keys().filter_map(|value| self.graph().producer(*value)));
        transposes.sort_unstable();
        transposes.dedup();
        for id in transposes {
            let Some(node) = self.graph().get(id) else { continue };
            let moves = ["Reshape", "Transpose"].iter().any(|op| node.op == Op::onnx(op));
            if !moves || self.graph().value(node.outputs[0]).is_used() {
                continue;
            }
            let Some(source) = node.input(0) else { continue };
            let heirs = match self.graph().producer(source) {
                Some(producer) => vec![producer],
                None => self.graph().value(source).consumers().filter(|by| *by != id).collect(),
            };
            self.edit.remove(id, &heirs);
        }
    }
}

/// Returns `true` if a `Reshape` can express the permuted shape: at most one size may be unknown,
/// and a zero would copy the size of the operand.
fn can_be_renamed(shape: &[Dim]) -> bool {
    let unknown = shape.iter().filter(|dim| dim.as_known().is_none()).count();
    unknown < 2 && !shape.contains(&Dim::Known(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reshape_computes_at_most_one_size() {
        let (symbolic, one) = (Dim::var, Dim::Known(1));
        assert!(can_be_renamed(&[one.clone(), Dim::Known(3)]));
        assert!(can_be_renamed(&[symbolic("B"), one.clone()]));
        assert!(!can_be_renamed(&[symbolic("B"), one.clone(), symbolic("H")]));
        assert!(!can_be_renamed(&[one, Dim::Known(0)]));
    }
}
