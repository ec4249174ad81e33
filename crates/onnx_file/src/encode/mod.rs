//! Encodes a graph as ONNX messages.

mod leaf;

use std::collections::BTreeSet;

use indexmap::IndexMap;
use leaf::{
    attribute, constant_node, entry, initializer, ir_version_of, opset_imports, tensor_proto,
    type_proto,
};
use onnx::schema::{self, Arity};
use onnx::{Attr, BlockId, CONSTANT_PREFIX, Function, Graph, Node, NodeId, Op, Producer, ValueId};
use prost::bytes::Bytes;
use rustc_hash::{FxBuildHasher, FxHashMap};
use tensor::{DType, Tensor};

use crate::body_constants::is_declared_in;
use crate::function_constants::{FunctionConstant, function_constants};
use crate::proto::{
    AttributeProto, AttributeType, FunctionProto, GraphProto, ModelProto, NodeProto,
    StringStringEntryProto, TensorProto, ValueInfoProto,
};
use crate::{Error, Model, Result};

/// The settings for encoding a graph as a model.
pub struct EncodeOptions<'a> {
    /// The version of ONNX's own operators.
    pub opset: i64,
    /// The lowest IR version to declare. Newer element types raise it.
    pub ir_version: i64,
    /// The name of the tool that made the model.
    pub producer_name: &'a str,
    /// The version of that tool.
    pub producer_version: &'a str,
    /// A function that returns the metadata of a node, in order.
    pub node_metadata: &'a dyn Fn(&Node) -> Vec<(&'static str, String)>,
    /// The metadata of the model, in order.
    pub model_metadata: Vec<(String, String)>,
}

impl EncodeOptions<'_> {
    /// The first IR version with metadata on nodes. Checkers and runtimes accept it together with
    /// older and newer operator sets.
    pub const IR_VERSION: i64 = 10;

    /// Returns the IR version that models of `opset` declare. Older runtimes accept no newer
    /// version; they skip metadata that they do not know.
    const fn ir_version_at(opset: i64) -> i64 {
        match opset {
            ..10 => 4,
            10 => 5,
            11 => 6,
            12..15 => 7,
            15..19 => 8,
            19..21 => 9,
            _ => Self::IR_VERSION,
        }
    }

    /// Returns the settings for the given operator set, without metadata.
    pub fn new(opset: i64) -> Self {
        Self {
            opset,
            ir_version: Self::ir_version_at(opset),
            producer_name: "jax2onnx",
            producer_version: env!("CARGO_PKG_VERSION"),
            node_metadata: &|_| Vec::new(),
            model_metadata: Vec::new(),
        }
    }
}

/// The first IR version with functions.
const FUNCTIONS: i64 = 8;

/// The largest nesting depth of subgraphs. Protobuf readers stop at 100 nested messages, and a
/// subgraph is three levels below the graph that contains its node.
const DEEPEST: usize = 30;

/// Encodes `graph`, whose values must have names, as a model. Constants are not copied: the model
/// refers to their bytes.
///
/// A block must return distinct values computed by its own nodes (a subgraph may also return its
/// inputs), and nodes may only read values that are in scope. Anything else is an error.
pub fn encode(graph: &Graph, options: &EncodeOptions<'_>) -> Result<Model> {
    let mut encoder = Encoder {
        graph,
        options,
        visible: vec![false; graph.value_count()],
        owners: FxHashMap::default(),
        constants: IndexMap::default(),
        in_function: false,
        domains: BTreeSet::new(),
        ir_version: options.ir_version,
    };
    let main = encoder.main()?;
    let functions = encoder.functions()?;
    if !functions.is_empty() {
        encoder.ir_version = encoder.ir_version.max(FUNCTIONS);
    }
    let metadata = options.model_metadata.iter();
    let proto = ModelProto {
        ir_version: encoder.ir_version,
        producer_name: options.producer_name.to_owned(),
        producer_version: options.producer_version.to_owned(),
        graph: Some(main),
        opset_import: opset_imports(options.opset, &encoder.domains),
        metadata_props: metadata.map(|(key, value)| entry(key, value.clone())).collect(),
        functions,
        ..ModelProto::default()
    };
    Ok(Model { proto })
}

/// The kind of graph that a block becomes.
#[derive(Clone, Copy, PartialEq)]
enum GraphKind {
    Main,
    Subgraph,
    Function,
}

struct Encoder<'a> {
    graph: &'a Graph,
    options: &'a EncodeOptions<'a>,
    /// Flags, by value, for the inputs and results that the current node may read.
    visible: Vec<bool>,
    /// The value that each name belongs to.
    owners: FxHashMap<&'a str, ValueId>,
    /// The constants read since they were last collected, each with the first node that reads it.
    constants: IndexMap<ValueId, NodeId, FxBuildHasher>,
    /// `true` while encoding a function, whose constants are nodes.
    in_function: bool,
    /// The domains used so far, besides ONNX's own.
    domains: BTreeSet<&'static str>,
    ir_version: i64,
}

/// The encoded contents of a block.
struct Body {
    inputs: Vec<ValueInfoProto>,
    outputs: Vec<ValueInfoProto>,
    nodes: Vec<NodeProto>,
    value_info: Vec<ValueInfoProto>,
}

/// Returns `true` for a result of a contributed operator that is optional and never read. Kernels
/// may not compute such a result at all.
fn is_omitted(graph: &Graph, node: &Node, result: ValueId) -> bool {
    if node.op.domain != schema::CONTRIB {
        return false;
    }
    let at = node.outputs.iter().position(|output| *output == result);
    let parameter = at.and_then(|at| node.schema(1)?.outputs.get(at));
    let is_optional = parameter.is_some_and(|output| output.arity == Arity::Optional);
    is_optional && !graph.value(result).is_used()
}

impl<'a> Encoder<'a> {
    fn main(&mut self) -> Result<GraphProto> {
        let body = self.block(Graph::MAIN, GraphKind::Main, 0)?;
        let constants = std::mem::take(&mut self.constants).into_keys().collect();
        let mut initializer = self.initializers(constants)?;
        for (input, default) in &self.graph.defaults {
            initializer.push(tensor_proto(self.name(*input)?.to_owned(), default)?);
        }
        let name = if self.graph.name.is_empty() { "main" } else { &self.graph.name };
        Ok(GraphProto { initializer, ..graph_proto(name.to_owned(), body) })
    }

    fn functions(&mut self) -> Result<Vec<FunctionProto>> {
        let functions = &self.graph.functions;
        if functions.is_empty() {
            return Ok(Vec::new());
        }
        let constants = function_constants(self.graph);
        self.in_function = true;
        let mut known = BTreeSet::new();
        let mut written = Vec::with_capacity(functions.len());
        for (function, constants) in functions.iter().zip(constants) {
            let Op { domain, name } = function.op;
            if !known.insert((domain, name)) {
                return Err(Error::graph(format!("two functions are named {domain}::{name}")));
            }
            written.push(self.function(function, constants)?);
            if !domain.is_empty() {
                self.domains.insert(domain);
            }
        }
        Ok(written)
    }

    fn function(
        &mut self,
        function: &Function,
        constants: Vec<FunctionConstant>,
    ) -> Result<FunctionProto> {
        let outside = std::mem::take(&mut self.domains);
        let body = self.block(function.body, GraphKind::Function, 0)?;
        let opset_import = opset_imports(self.options.opset, &self.domains);
        self.domains.extend(outside);

        self.constants.clear();
        let mut node = Vec::with_capacity(constants.len() + body.nodes.len());
        for FunctionConstant { value, reader, name } in constants {
            let metadata = self.metadata(self.graph.node(reader));
            node.push(constant_node(name, self.constant(value, tensor_proto)?, metadata));
        }
        node.extend(body.nodes);
        let names = |values: &[ValueInfoProto]| values.iter().map(|v| v.name.clone()).collect();
        Ok(FunctionProto {
            name: function.op.name.to_owned(),
            domain: function.op.domain.to_owned(),
            input: names(&body.inputs),
            output: names(&body.outputs),
            node,
            opset_import,
            value_info: [body.inputs, body.value_info, body.outputs].concat(),
            ..FunctionProto::default()
        })
    }

    /// Encodes constants as initializers, parameters first.
    fn initializers(&mut self, mut constants: Vec<ValueId>) -> Result<Vec<TensorProto>> {
        constants.sort_by_key(|id| (self.graph.value(*id).name.starts_with(CONSTANT_PREFIX), *id));
        constants.into_iter().map(|id| self.constant(id, initializer)).collect()
    }

    /// Encodes a constant under its name.
    fn constant(
        &mut self,
        id: ValueId,
        write: impl FnOnce(String, &Tensor) -> Result<TensorProto>,
    ) -> Result<TensorProto> {
        let name = self.name(id)?.to_owned();
        let Some(tensor) = self.graph.tensor(id) else {
            return Err(Error::graph(format!("`{name}` is not a constant")));
        };
        self.require(tensor.dtype());
        write(name, tensor)
    }

    fn block(&mut self, block: BlockId, kind: GraphKind, depth: usize) -> Result<Body> {
        if depth > DEEPEST {
            let origin = self.graph.nodes_of(block).next().map(|id| self.graph.node(id).origin);
            return Err(Error::TooDeep { origin });
        }
        let graph = self.graph;
        let mut defined = graph.block(block).inputs.clone();
        let inputs =
            defined.iter().map(|id| self.define(*id)).collect::<Result<Vec<ValueInfoProto>>>()?;
        let returned = graph.block(block).outputs();
        let ids: Vec<NodeId> = graph.nodes_of(block).collect();
        let mut nodes = Vec::with_capacity(ids.len());
        let mut value_info = Vec::with_capacity(ids.len());
        let mut outputs = vec![None; returned.len()];
        let positions = self.check_outputs(block, kind)?;
        if kind == GraphKind::Subgraph {
            for (id, info) in defined.iter().zip(&inputs) {
                if let Some(at) = positions.get(id) {
                    outputs[*at] = Some(info.clone());
                }
            }
        }
        for id in ids {
            nodes.push(self.node(id, depth)?);
            let node = graph.node(id);
            for id in node.outputs.iter().filter(|id| !is_omitted(graph, node, **id)) {
                let info = self.define(*id)?;
                match positions.get(id) {
                    Some(at) => outputs[*at] = Some(info),
                    None => value_info.push(info),
                }
            }
            defined.extend(&node.outputs);
        }
        for id in defined {
            self.visible[id.index()] = false;
        }
        let outputs = outputs.into_iter().collect::<Option<Vec<_>>>();
        let outputs = outputs
            .ok_or_else(|| Error::graph("a block returns a value that is not in it".to_owned()))?;
        Ok(Body { inputs, outputs, nodes, value_info })
    }

    /// Returns the position of each value among the outputs of a block. Fails if an output is not a
    /// value of the block itself, or occurs twice.
    fn check_outputs(&self, block: BlockId, kind: GraphKind) -> Result<FxHashMap<ValueId, usize>> {
        let mut positions = FxHashMap::default();
        for (i, id) in self.graph.block(block).outputs().iter().enumerate() {
            let value = self.graph.value(*id);
            let own = match value.producer() {
                Producer::Node(node, _) => self.graph.node(*node).block() == block,
                Producer::Input(of) => kind == GraphKind::Subgraph && *of == block,
                Producer::Constant(_) | Producer::Parameter(_) | Producer::Removed => false,
            };
            let problem = if !own {
                "which none of its nodes compute"
            } else if positions.insert(*id, i).is_some() {
                "twice"
            } else {
                continue;
            };
            let what = match kind {
                GraphKind::Main => "the main graph",
                GraphKind::Subgraph => "a subgraph",
                GraphKind::Function => "a function",
            };
            return Err(Error::graph(format!("{what} returns `{}` {problem}", value.name)));
        }
        Ok(positions)
    }

    fn node(&mut self, id: NodeId, depth: usize) -> Result<NodeProto> {
        let node = self.graph.node(id);
        let mut input = Vec::with_capacity(node.inputs.len());
        for operand in &node.inputs {
            input.push(match operand {
                Some(value) => self.read(*value, id)?.to_owned(),
                None => String::new(),
            });
        }
        while input.last().is_some_and(String::is_empty) {
            input.pop();
        }
        let attrs = node.attrs.iter();
        let attribute = attrs
            .map(|(name, value)| self.attr(node, name, value, depth))
            .collect::<Result<_>>()?;
        let name = |id: &ValueId| match is_omitted(self.graph, node, *id) {
            true => Ok(String::new()),
            false => self.name(*id).map(str::to_owned),
        };
        let mut output = node.outputs.iter().map(name).collect::<Result<Vec<_>>>()?;
        while output.last().is_some_and(String::is_empty) {
            output.pop();
        }
        if !node.op.domain.is_empty() {
            self.domains.insert(node.op.domain);
        }
        Ok(NodeProto {
            input,
            output,
            name: node.name.clone(),
            op_type: node.op.name.to_owned(),
            domain: node.op.domain.to_owned(),
            attribute,
            metadata_props: self.metadata(node),
            ..NodeProto::default()
        })
    }

    fn attr(
        &mut self,
        node: &Node,
        name: &str,
        value: &Attr,
        depth: usize,
    ) -> Result<AttributeProto> {
        let empty = AttributeProto::default();
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let owner = if node.name.is_empty() { node.op.name } else { &node.name };
        let (kind, content) = match value {
            Attr::Int(i) => (AttributeType::Int, AttributeProto { i: Some(*i), ..empty }),
            Attr::Float(f) => (AttributeType::Float, AttributeProto { f: Some(*f), ..empty }),
            Attr::String(s) => {
                (AttributeType::String, AttributeProto { s: Some(bytes(s)), ..empty })
            }
            Attr::Ints(ints) => {
                (AttributeType::Ints, AttributeProto { ints: ints.clone(), ..empty })
            }
            Attr::Floats(floats) => {
                (AttributeType::Floats, AttributeProto { floats: floats.clone(), ..empty })
            }
            Attr::Strings(strings) => {
                let strings = strings.iter().map(|s| bytes(s)).collect();
                (AttributeType::Strings, AttributeProto { strings, ..empty })
            }
            Attr::Tensor(tensor) => {
                self.require(tensor.dtype());
                let t = Some(Box::new(tensor_proto(String::new(), tensor)?));
                (AttributeType::Tensor, AttributeProto { t, ..empty })
            }
            Attr::Graph(block) => {
                let graph = self.subgraph(*block, format!("{owner}/{name}"), depth)?;
                (AttributeType::Graph, AttributeProto { g: Some(Box::new(graph)), ..empty })
            }
        };
        Ok(attribute(name, kind, content))
    }

    fn subgraph(&mut self, block: BlockId, name: String, depth: usize) -> Result<GraphProto> {
        let body = self.block(block, GraphKind::Subgraph, depth + 1)?;
        let mut own = Vec::new();
        if !self.in_function {
            let graph = self.graph;
            self.constants.retain(|value, _| {
                let is_own = is_declared_in(graph, *value, block);
                own.extend(is_own.then_some(*value));
                !is_own
            });
        }
        let initializer = self.initializers(own)?;
        Ok(GraphProto { initializer, ..graph_proto(name, body) })
    }

    /// Encodes an input or a result and makes it visible.
    fn define(&mut self, id: ValueId) -> Result<ValueInfoProto> {
        let name = self.name(id)?.to_owned();
        self.visible[id.index()] = true;
        let ty = self.graph.ty(id);
        self.require(ty.dtype);
        let r#type = Some(type_proto(ty, &name)?);
        Ok(ValueInfoProto { name, r#type, ..ValueInfoProto::default() })
    }

    /// Returns the name of an operand, which must be visible.
    fn read(&mut self, id: ValueId, reader: NodeId) -> Result<&'a str> {
        let name = self.name(id)?;
        if self.graph.tensor(id).is_some() {
            self.constants.entry(id).or_insert(reader);
        } else if !self.visible[id.index()] {
            let Node { name: node, op, .. } = self.graph.node(reader);
            return Err(Error::graph(format!(
                "`{node}` ({}) reads `{name}`, which is not computed before it",
                op.name
            )));
        }
        Ok(name)
    }

    /// Returns the name of a value. Fails if it is empty or not unique.
    fn name(&mut self, id: ValueId) -> Result<&'a str> {
        let name = self.graph.value(id).name.as_str();
        if name.is_empty() {
            return Err(Error::graph(format!("value {} has no name", id.index())));
        }
        if *self.owners.entry(name).or_insert(id) != id {
            return Err(Error::graph(format!("two values are named `{name}`")));
        }
        Ok(name)
    }

    fn require(&mut self, dtype: DType) {
        self.ir_version = self.ir_version.max(ir_version_of(dtype));
    }

    fn metadata(&self, node: &Node) -> Vec<StringStringEntryProto> {
        let props = (self.options.node_metadata)(node);
        props.into_iter().map(|(key, value)| entry(key, value)).collect()
    }
}

fn graph_proto(name: String, body: Body) -> GraphProto {
    GraphProto {
        name,
        node: body.nodes,
        input: body.inputs,
        output: body.outputs,
        value_info: body.value_info,
        ..GraphProto::default()
    }
}
