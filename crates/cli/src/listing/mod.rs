//! A line-by-line listing of a model, and queries for paths through its graph. Graph tests use
//! both.

mod path;
mod python;

use std::fmt::Write as _;

use onnx_file::proto::{
    AttributeProto, DataLocation, DimensionValue, GraphProto, ModelProto, NodeProto,
    StringStringEntryProto, TensorProto, TypeValue, ValueInfoProto,
};
use onnx_file::{element_name, tensor_of};
use rustc_hash::{FxHashMap, FxHashSet};

pub use path::PathError;
use python::Literal;

/// The maximum number of elements whose values are shown.
const SHOWN: usize = 8;

/// A dimension: a size, a name, or unknown.
#[derive(Clone, Debug, PartialEq)]
enum Dim {
    Size(i64),
    Name(String),
    Unknown,
}

impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Dim::Size(size) => write!(f, "{size}"),
            Dim::Name(name) => f.write_str(name),
            Dim::Unknown => f.write_str("?"),
        }
    }
}

/// A value: its name, and its element type and shape if the model records them.
#[derive(Clone, Debug)]
struct Value {
    name: String,
    dtype: Option<&'static str>,
    dims: Option<Vec<Dim>>,
}

impl Value {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), dtype: None, dims: None }
    }

    fn of(info: &ValueInfoProto) -> Self {
        let ty = info.r#type.as_ref().and_then(|ty| ty.value.as_ref());
        let Some(TypeValue::TensorType(tensor)) = ty else { return Self::new(&info.name) };
        let dims = tensor.shape.as_ref().map(|shape| {
            let dims = shape.dim.iter().map(|dim| match &dim.value {
                Some(DimensionValue::DimValue(size)) => Dim::Size(*size),
                Some(DimensionValue::DimParam(name)) if !name.is_empty() => Dim::Name(name.clone()),
                _ => Dim::Unknown,
            });
            dims.collect()
        });
        Self { name: info.name.clone(), dtype: Some(element_name(tensor.elem_type)), dims }
    }
}

/// Writes `y: float[B, 4]`.
impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        let Some(dtype) = self.dtype else { return Ok(()) };
        write!(f, ": {dtype}")?;
        self.dims.as_ref().map_or(Ok(()), |dims| write!(f, "[{}]", joined(dims, ", ")))
    }
}

/// A node of a listing.
#[derive(Debug)]
pub struct ListedNode {
    /// The operator, with its domain unless it is ONNX's own: `custom::Name`.
    pub op: String,
    /// The node's name.
    pub name: String,
    /// The node's metadata, including its provenance.
    pub metadata: Vec<(String, String)>,
    inputs: Vec<String>,
    /// The elements of each input that is a small constant.
    operands: Vec<Option<Literal>>,
    outputs: Vec<Value>,
    attributes: Vec<(String, Literal)>,
    bodies: Vec<(String, usize)>,
    /// The consumers of the node's results, as pairs of a result and a node.
    readers: Vec<(usize, usize)>,
}

impl ListedNode {
    /// Returns the names of the node's results.
    pub fn results(&self) -> impl Iterator<Item = &str> {
        self.outputs.iter().map(|value| value.name.as_str())
    }
}

/// The main graph, a graph inside a node, or a function.
#[derive(Debug, Default)]
struct Body {
    inputs: Vec<Value>,
    outputs: Vec<Value>,
    constants: Vec<(String, String)>,
    nodes: Vec<usize>,
}

/// The values visible in a graph.
#[derive(Clone, Debug, Default)]
struct Scope {
    /// The node and the position of each result.
    makers: FxHashMap<String, (usize, usize)>,
    /// The elements of small constants.
    constants: FxHashMap<String, Literal>,
}

/// A listing of a whole model.
#[derive(Debug, Default)]
pub struct Listing {
    header: Vec<String>,
    nodes: Vec<ListedNode>,
    bodies: Vec<Body>,
    main: usize,
    functions: Vec<(String, usize)>,
}

impl Listing {
    /// Lists the contents of a model.
    pub fn new(model: &ModelProto) -> Self {
        let mut listing = Self::default();
        let name = |domain: &str| if domain.is_empty() { "ai.onnx" } else { domain }.to_owned();
        let mut opsets: Vec<_> =
            model.opset_import.iter().map(|set| (name(&set.domain), set.version)).collect();
        opsets.sort_unstable();
        let header = opsets.iter().map(|(domain, version)| format!("opset {domain} {version}"));
        listing.header = header.collect();
        for function in &model.functions {
            let values = values(&[&function.value_info]);
            let inputs = function.input.iter().map(|name| value(&values, name)).collect();
            let outputs = function.output.iter().map(|name| value(&values, name)).collect();
            let body = Body { inputs, outputs, ..Body::default() };
            let body = listing.fill(body, &function.node, &values, &Scope::default());
            listing.functions.push((qualified(&function.domain, &function.name), body));
        }
        if let Some(graph) = &model.graph {
            listing.main = listing.graph(graph, &Scope::default());
        }
        listing
    }

    /// Restricts the listing to the body of a function, which is given by its name with or without
    /// its domain. Returns the names of all functions if there is no such function.
    pub fn select(&mut self, function: &str) -> Result<(), Vec<String>> {
        let is_it = |name: &str| {
            name == function || name.rsplit_once("::").is_some_and(|(_, name)| name == function)
        };
        let found = self.functions.iter().find(|(name, _)| is_it(name)).map(|(_, body)| *body);
        let names = || self.functions.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        self.main = found.ok_or_else(names)?;
        self.functions.clear();
        Ok(())
    }

    fn graph(&mut self, graph: &GraphProto, outer: &Scope) -> usize {
        let values = values(&[&graph.input, &graph.output, &graph.value_info]);
        let listed = |infos: &[ValueInfoProto]| infos.iter().map(Value::of).collect();
        let constants = graph.initializer.iter().map(|t| (t.name.clone(), tensor_text(t)));
        let body = Body {
            inputs: listed(&graph.input),
            outputs: listed(&graph.output),
            constants: constants.collect(),
            nodes: Vec::new(),
        };
        let mut outer = outer.clone();
        let known = graph.initializer.iter().filter_map(|t| Some((t.name.clone(), elements(t)?)));
        outer.constants.extend(known);
        self.fill(body, &graph.node, &values, &outer)
    }

    /// Adds a body and its nodes. `outer` are the values visible in the enclosing graphs.
    fn fill(
        &mut self,
        mut body: Body,
        nodes: &[NodeProto],
        values: &FxHashMap<&str, Value>,
        outer: &Scope,
    ) -> usize {
        let mut scope = outer.clone();
        for node in nodes {
            let mut bodies = Vec::new();
            let mut attributes = Vec::new();
            for attribute in &node.attribute {
                match &attribute.g {
                    Some(graph) => {
                        bodies.push((attribute.name.clone(), self.graph(graph, &scope)));
                    }
                    None => attributes.push((attribute.name.clone(), literal(attribute))),
                }
            }
            attributes.sort_by(|a, b| a.0.cmp(&b.0));
            let outputs: Vec<Value> = node.output.iter().map(|name| value(values, name)).collect();
            let entry = |entry: &StringStringEntryProto| (entry.key.clone(), entry.value.clone());
            let own = self.nodes.len();
            body.nodes.push(own);
            for name in &node.input {
                if let Some((maker, result)) = scope.makers.get(name) {
                    self.nodes[*maker].readers.push((*result, own));
                }
            }
            let results = outputs.iter().enumerate().map(|(at, v)| (v.name.clone(), (own, at)));
            scope.makers.extend(results);
            let known = node.attribute.iter().find_map(constant);
            if let (Some(known), "Constant", [value]) = (known, &*node.op_type, &*outputs) {
                scope.constants.insert(value.name.clone(), known);
            }
            self.nodes.push(ListedNode {
                op: qualified(&node.domain, &node.op_type),
                name: node.name.clone(),
                metadata: node.metadata_props.iter().map(entry).collect(),
                operands: node.input.iter().map(|n| scope.constants.get(n).cloned()).collect(),
                inputs: node.input.clone(),
                outputs,
                attributes,
                bodies,
                readers: Vec::new(),
            });
        }
        self.bodies.push(body);
        self.bodies.len() - 1
    }

    /// Returns all nodes: those of a graph, then those of its subgraphs. Functions come last.
    pub fn nodes(&self) -> impl Iterator<Item = &ListedNode> {
        self.order().into_iter().map(|node| &self.nodes[node])
    }

    fn order(&self) -> Vec<usize> {
        let mut order = Vec::new();
        let functions = self.functions.iter().map(|(_, body)| *body);
        let mut left: Vec<usize> = functions.rev().collect();
        left.push(self.main);
        while let Some(body) = left.pop() {
            let Some(body) = self.bodies.get(body) else { continue };
            order.extend(&body.nodes);
            let inner = body.nodes.iter().flat_map(|node| &self.nodes[*node].bodies);
            left.extend(inner.map(|(_, body)| *body).collect::<Vec<_>>().into_iter().rev());
        }
        order
    }

    /// Returns the inputs of the model that nothing reads.
    pub fn unused_inputs(&self) -> Vec<&str> {
        let mut read: FxHashSet<&str> =
            self.nodes.iter().flat_map(|node| &node.inputs).map(String::as_str).collect();
        read.extend(self.bodies.iter().flat_map(|b| &b.outputs).map(|value| value.name.as_str()));
        let inputs = self.bodies.get(self.main).map_or(&[][..], |body| &body.inputs);
        inputs.iter().map(|value| value.name.as_str()).filter(|name| !read.contains(name)).collect()
    }

    /// Returns the operators of the nodes that read the value `name`, and the names of their results.
    pub fn readers(&self, name: &str) -> Vec<(&str, Vec<&str>)> {
        let nodes = self.nodes.iter();
        let readers = nodes.filter(|node| node.inputs.iter().any(|input| input == name));
        readers.map(|node| (node.op.as_str(), node.results().collect())).collect()
    }

    /// Returns an integer attribute of the node that computes `value`.
    pub fn integer(&self, value: &str, attribute: &str) -> Option<i64> {
        let node = self.nodes.iter().find(|node| node.results().any(|result| result == value))?;
        let (_, found) = node.attributes.iter().find(|(name, _)| name == attribute)?;
        match found {
            Literal::Int(number) => i64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Returns the names of all constants.
    pub fn constants(&self) -> impl Iterator<Item = &str> {
        self.bodies.iter().flat_map(|body| &body.constants).map(|(name, _)| name.as_str())
    }

    /// Formats the model as text, one item per line.
    pub fn text(&self, metadata: bool) -> String {
        let mut text = String::new();
        for line in &self.header {
            let _ = writeln!(text, "{line}");
        }
        self.body_text(self.main, "", metadata, &mut text);
        for (name, body) in &self.functions {
            let _ = writeln!(text, "\nfunction {name}");
            self.body_text(*body, "  ", metadata, &mut text);
        }
        text
    }

    fn body_text(&self, body: usize, indent: &str, metadata: bool, text: &mut String) {
        let Some(body) = self.bodies.get(body) else { return };
        for value in &body.inputs {
            let _ = writeln!(text, "{indent}input {value}");
        }
        for (name, contents) in &body.constants {
            let _ = writeln!(text, "{indent}constant {name}: {contents}");
        }
        for node in &body.nodes {
            let node = &self.nodes[*node];
            let shown = node.attributes.iter().map(|(name, value)| format!("{name}={value}"));
            let arguments: Vec<String> = node.inputs.iter().cloned().chain(shown).collect();
            let (outputs, arguments) = (joined(&node.outputs, ", "), arguments.join(", "));
            let _ = writeln!(text, "{indent}{outputs} = {}({arguments})", node.op);
            for (key, value) in node.metadata.iter().filter(|_| metadata) {
                let _ = writeln!(
                    text,
                    "{indent}    {key} = {}",
                    value.replace('\n', &format!("\n{indent}        "))
                );
            }
            for (name, body) in &node.bodies {
                let _ = writeln!(text, "{indent}  {name}:");
                self.body_text(*body, &format!("{indent}    "), metadata, text);
            }
        }
        for value in &body.outputs {
            let _ = writeln!(text, "{indent}output {value}");
        }
    }
}

fn joined(items: &[impl std::fmt::Display], separator: &str) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
}

fn values<'m>(infos: &[&'m [ValueInfoProto]]) -> FxHashMap<&'m str, Value> {
    infos.iter().copied().flatten().map(|info| (info.name.as_str(), Value::of(info))).collect()
}

/// Returns the value `name`, with its type if it is declared.
fn value(declared: &FxHashMap<&str, Value>, name: &str) -> Value {
    declared.get(name).cloned().unwrap_or_else(|| Value::new(name))
}

fn qualified(domain: &str, name: &str) -> String {
    if matches!(domain, "" | "ai.onnx") { name.to_owned() } else { format!("{domain}::{name}") }
}

fn literal(attribute: &AttributeProto) -> Literal {
    if !attribute.ref_attr_name.is_empty() {
        return Literal::Other(format!("@{}", attribute.ref_attr_name));
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if let Some(value) = attribute.i {
        return Literal::Int(value.into());
    }
    if let Some(value) = attribute.f {
        return Literal::Float(value.into());
    }
    if let Some(value) = &attribute.s {
        return Literal::Text(text(value));
    }
    if let Some(tensor) = &attribute.t {
        return Literal::Text(tensor_text(tensor));
    }
    let ints = attribute.ints.iter().map(|value| Literal::Int((*value).into()));
    let floats = attribute.floats.iter().map(|value| Literal::Float((*value).into()));
    let strings = attribute.strings.iter().map(|value| Literal::Bytes(text(value)));
    let tensors = attribute.tensors.iter().map(|tensor| Literal::Text(tensor_text(tensor)));
    let graphs =
        attribute.graphs.iter().map(|graph| Literal::Other(format!("graph {}", graph.name)));
    Literal::List(ints.chain(floats).chain(strings).chain(tensors).chain(graphs).collect())
}

/// Returns the elements of a `Constant`, given its attribute.
fn constant(attribute: &AttributeProto) -> Option<Literal> {
    match &attribute.t {
        Some(tensor) => elements(tensor),
        None => Some(literal(attribute)),
    }
}

/// Returns the elements of a tensor if they are few and stored in the model file.
fn elements(tensor: &TensorProto) -> Option<Literal> {
    let is_outside = tensor.data_location == DataLocation::External as i32;
    few_elements(tensor).filter(|_| !is_outside)
}

/// Formats type and shape, and the elements if they are few and stored in the model file.
fn tensor_text(tensor: &TensorProto) -> String {
    let text = format!("{}[{}]", element_name(tensor.data_type), joined(&tensor.dims, ", "));
    match elements(tensor) {
        Some(elements) => format!("{text} = {elements}"),
        None => text,
    }
}

fn few_elements(tensor: &TensorProto) -> Option<Literal> {
    let dims: Option<Vec<usize>> = tensor.dims.iter().map(|d| usize::try_from(*d).ok()).collect();
    let dims = dims?;
    let count = dims.iter().try_fold(1_usize, |n, dim| n.checked_mul(*dim))?;
    if count > SHOWN {
        return None;
    }
    let strings = tensor.string_data.iter().map(|s| String::from_utf8_lossy(s).into_owned());
    let strings: Vec<Literal> = strings.map(Literal::Text).collect();
    if !strings.is_empty() {
        return (strings.len() == count).then(|| Literal::nested(strings, &dims));
    }
    let elements = tensor_of(tensor)?;
    let is_bool = elements.dtype() == tensor::DType::Bool;
    let int = |value| if is_bool { Literal::Bool(value != 0) } else { Literal::Int(value) };
    let ints = elements.to_ints().map(|ints| ints.into_iter().map(int).collect());
    let floats = || Some(elements.to_f64s()?.into_iter().map(Literal::Float).collect());
    Some(Literal::nested(ints.or_else(floats)?, &dims))
}
