//! Converts nodes to small floats, with casts to and from the float32 of other nodes.

use onnx::{Attrs, BlockId, Builder, Editor, Graph, NodeId, Producer, Use, ValueId, attrs};
use provenance::{OriginId, Origins, Stage};
use rustc_hash::FxHashMap;
use tensor::{DType, Tensor, Type};

use super::plan::{Converted, Plan, widened};

/// The maximum number of elements of a constant that is cast by a node, which is folded
/// immediately. Larger constants are rounded while they are written.
const FOLDED: usize = 4096;

/// Converts the nodes of a plan.
pub(super) fn convert(
    graph: &mut Graph,
    origins: &mut Origins,
    plan: &Plan,
    opset: i64,
) -> onnx::Result<()> {
    let order = graph.all_nodes();
    let planned = || order.iter().filter_map(|id| Some((*id, *plan.get(id)?)));
    let mut operands = Vec::new();
    for (id, dtype) in planned() {
        let node = graph.node(id);
        let Some(converted) = Converted::of(graph, node, opset) else { continue };
        let inputs = node.inputs.iter().enumerate().filter(|(i, _)| converted.reads(*i));
        operands.extend(inputs.filter_map(|(i, value)| Some((id, i, (*value)?, dtype))));
    }
    let small = operands.iter().map(|(id, i, _, dtype)| ((*id, *i), *dtype)).collect();
    let mut work = Converter::new(graph, origins, small);
    // Converts results first, so that operands already have their final types.
    for (id, dtype) in planned() {
        for value in work.graph().node(id).outputs.clone() {
            if work.graph().ty(value).dtype == DType::F32 {
                let shape = work.graph().ty(value).shape.clone();
                work.edit.graph_mut().set_type(value, Type::new(dtype, shape));
            }
        }
    }
    for (id, index, value, dtype) in operands {
        let small = work.small(value, dtype, id)?;
        work.edit.set_input(id, index, Some(small));
    }
    for (id, dtype) in planned() {
        keep_softmax_wide(&mut work.edit, id);
        for value in work.graph().node(id).outputs.clone() {
            if work.graph().ty(value).dtype == dtype {
                work.widen(value, id)?;
            }
        }
    }
    Ok(())
}

/// Keeps the softmax of `Attention` in float32. The node combines several operators, and only its
/// products are small.
fn keep_softmax_wide(edit: &mut Editor<'_>, id: NodeId) {
    let node = edit.graph().node(id);
    if node.is("Attention") && node.attr("softmax_precision").is_none() {
        let wide: Attrs = attrs! { softmax_precision: DType::F32 };
        edit.attrs_mut(id).extend(wide);
    }
}

struct Converter<'a> {
    edit: Editor<'a>,
    /// The outermost block around each block: the main graph or the body of a function.
    roots: FxHashMap<BlockId, BlockId>,
    /// The node after each node in the original graph.
    next: FxHashMap<NodeId, NodeId>,
    /// The operands that are read in a small type, by node and position.
    read_small: FxHashMap<(NodeId, usize), DType>,
    made: FxHashMap<(ValueId, DType, BlockId), ValueId>,
}

impl<'a> Converter<'a> {
    fn new(
        graph: &'a mut Graph,
        origins: &'a mut Origins,
        read_small: FxHashMap<(NodeId, usize), DType>,
    ) -> Self {
        let (mut roots, mut next) = (FxHashMap::default(), FxHashMap::default());
        // Outer blocks come first.
        for block in graph.live_blocks() {
            let root = *roots.entry(block).or_insert(block);
            let nodes: Vec<NodeId> = graph.nodes_of(block).collect();
            next.extend(nodes.windows(2).map(|pair| (pair[0], pair[1])));
            for inner in nodes.iter().flat_map(|id| graph.node(*id).blocks()) {
                roots.insert(inner, root);
            }
        }
        let edit = Editor::new(graph, origins, Stage::Rewrite);
        Self { edit, roots, next, read_small, made: FxHashMap::default() }
    }

    fn graph(&self) -> &Graph {
        self.edit.graph()
    }

    /// Returns `value`, an operand of `reader`, in the small type.
    fn small(&mut self, value: ValueId, dtype: DType, reader: NodeId) -> onnx::Result<ValueId> {
        if self.graph().ty(value).dtype == dtype {
            return Ok(value);
        }
        if let Some(from) = widened(self.graph(), value, dtype) {
            return Ok(from);
        }
        let here = self.graph().node(reader).block();
        let block = match self.graph().value(value).producer() {
            Producer::Node(id, _) => self.graph().node(*id).block(),
            Producer::Input(block) => *block,
            _ => self.roots.get(&here).copied().unwrap_or(here),
        };
        if let Some(known) = self.made.get(&(value, dtype, block)) {
            return Ok(*known);
        }
        let origin = self.graph().node(reader).origin;
        let small = match self.graph().tensor(value).cloned() {
            Some(tensor) => self.constant(value, &tensor, dtype, block, origin)?,
            None => {
                let before = match self.graph().producer(value) {
                    Some(id) => self.next.get(&id).copied(),
                    None => self.graph().nodes_of(block).next(),
                };
                self.builder(block, before, origin).cast(value, dtype)?
            }
        };
        self.made.insert((value, dtype, block), small);
        Ok(small)
    }

    /// Returns a constant in the small type. A large constant that is only read in small floats is
    /// stored in that type.
    fn constant(
        &mut self,
        value: ValueId,
        tensor: &Tensor,
        dtype: DType,
        block: BlockId,
        origin: OriginId,
    ) -> onnx::Result<ValueId> {
        let name = self.graph().value(value).name.clone();
        let in_file = !name.is_empty() || tensor.len() > FOLDED || !tensor.is_known();
        if in_file && self.is_small_everywhere(value, dtype) {
            let called = if name.is_empty() { "a constant" } else { &name };
            let rounded = tensor.rounded(dtype, called);
            let rounded = rounded.map_err(|error| onnx::Error::Graph(error.to_string()))?;
            let name = self.edit.graph_mut().take_name(value);
            return Ok(self.edit.graph_mut().add_parameter(name, rounded));
        }
        let before = self.graph().nodes_of(block).next();
        let small = self.builder(block, before, origin).cast(value, dtype)?;
        if !name.is_empty() {
            self.edit.graph_mut().set_name(small, format!("{name}/{}", dtype.numpy_name()));
        }
        Ok(small)
    }

    /// Returns `true` if all consumers of a constant read it in the small type.
    fn is_small_everywhere(&self, value: ValueId, dtype: DType) -> bool {
        self.graph().value(value).uses().all(|place| match place {
            Use::Operand(id, index) => self.read_small.get(&(id, index)) == Some(&dtype),
            Use::Output(..) => false,
        })
    }

    /// Casts a small result of `id` for consumers that read float32.
    fn widen(&mut self, value: ValueId, id: NodeId) -> onnx::Result<()> {
        let uses: Vec<Use> = self.graph().value(value).uses().collect();
        let reads_wide = |place: &Use| match place {
            // A cast to any type has the same result from the small type.
            Use::Operand(reader, index) => {
                !self.read_small.contains_key(&(*reader, *index))
                    && !self.graph().node(*reader).is("Cast")
            }
            Use::Output(..) => true,
        };
        let wide: Vec<Use> = uses.into_iter().filter(reads_wide).collect();
        if wide.is_empty() {
            return Ok(());
        }
        let node = self.graph().node(id);
        let (block, origin, next) = (node.block(), node.origin, self.next.get(&id).copied());
        let result = self.builder(block, next, origin).cast(value, DType::F32)?;
        for place in wide {
            match place {
                Use::Operand(reader, index) => self.edit.set_input(reader, index, Some(result)),
                Use::Output(block, index) => {
                    self.edit.graph_mut().move_name(value, result);
                    let mut outputs = self.graph().block(block).outputs().to_vec();
                    outputs[index] = result;
                    self.edit.graph_mut().set_outputs(block, &outputs);
                }
            }
        }
        Ok(())
    }

    fn builder(&mut self, block: BlockId, before: Option<NodeId>, origin: OriginId) -> Builder<'_> {
        self.edit.builder_at("compute_in_small_floats", origin, block, before)
    }
}
