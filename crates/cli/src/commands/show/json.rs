//! The JSON output of `show`. The keys are part of the interface.

use std::borrow::Cow;

use onnx_file::proto::{OperatorSetIdProto, TensorProto, ValueInfoProto};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::head::warnings;
use crate::model::{Frame, Index, Origin, tensor_text, type_text};

/// The output of `jax2onnx show --json`.
#[derive(Serialize)]
pub(super) struct ModelJson<'a, 'm> {
    name: &'a str,
    ir_version: i64,
    opsets: Vec<Value>,
    producer: Value,
    inputs: Typed<'a, ValueInfoProto>,
    outputs: Typed<'a, ValueInfoProto>,
    parameters: Typed<'a, TensorProto>,
    warnings: Vec<String>,
    nodes: Nodes<'a, 'm>,
}

/// The nodes, serialised one at a time: all their stacks together take more memory than the model.
struct Nodes<'a, 'm>(&'a Index<'m>);

impl Serialize for Nodes<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((0..self.0.nodes.len()).map(|position| node(self.0, position)))
    }
}

/// Values of a graph, serialised one at a time.
struct Typed<'a, T>(&'a [T], fn(&'a T) -> TypedValue<'a>);

#[derive(Serialize)]
struct TypedValue<'a> {
    name: &'a str,
    r#type: String,
}

impl<T> Serialize for Typed<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(self.1))
    }
}

fn value(value: &ValueInfoProto) -> TypedValue<'_> {
    let ty = value.r#type.as_ref().map_or("?".to_owned(), type_text);
    TypedValue { name: &value.name, r#type: ty }
}

fn parameter(tensor: &TensorProto) -> TypedValue<'_> {
    TypedValue { name: &tensor.name, r#type: tensor_text(tensor) }
}

pub(super) fn model<'a, 'm>(index: &'a Index<'m>) -> ModelJson<'a, 'm> {
    let (proto, graph) = (&index.model.proto, index.graph);
    let opset = |set: &OperatorSetIdProto| json!({"domain": set.domain, "version": set.version});
    ModelJson {
        name: &graph.name,
        ir_version: proto.ir_version,
        opsets: proto.opset_import.iter().map(opset).collect(),
        producer: json!({"name": proto.producer_name, "version": proto.producer_version}),
        inputs: Typed(&graph.input, value),
        outputs: Typed(&graph.output, value),
        parameters: Typed(&graph.initializer, parameter),
        warnings: warnings(&graph.initializer),
        nodes: Nodes(index),
    }
}

/// The output of `jax2onnx show --node NAME --json`. The keys are in alphabetical order.
#[derive(Serialize)]
pub(crate) struct NodeJson<'a, 'm> {
    domain: &'a str,
    function: Option<String>,
    inputs: Operands<'a, 'm>,
    inside: Option<&'a str>,
    name: &'a str,
    op: &'a str,
    outputs: Operands<'a, 'm>,
    scope: Cow<'m, str>,
    sources: Vec<Value>,
}

/// Operands or results of a node, serialised one at a time. One that is omitted is null.
struct Operands<'a, 'm> {
    index: &'a Index<'m>,
    body: usize,
    names: &'a [String],
}

impl Serialize for Operands<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let typed = |name| TypedValue { name, r#type: self.index.type_of(self.body, name) };
        let names = self.names.iter().map(String::as_str);
        serializer.collect_seq(names.map(|name| (!name.is_empty()).then(|| typed(name))))
    }
}

/// Builds the output of `jax2onnx show --node NAME --json`.
pub(crate) fn node<'a, 'm>(index: &'a Index<'m>, node: usize) -> NodeJson<'a, 'm> {
    let (proto, body) = (index.nodes[node].proto, index.nodes[node].body);
    NodeJson {
        domain: &proto.domain,
        function: index.function(node).map(|f| format!("{}.{}", f.domain, f.name)),
        inputs: Operands { index, body, names: &proto.input },
        inside: index.owner(node).map(|owner| index.nodes[owner].proto.name.as_str()),
        name: &proto.name,
        op: &proto.op_type,
        outputs: Operands { index, body, names: &proto.output },
        scope: index.scope(node),
        sources: index.origins(node).iter().map(source).collect(),
    }
}

/// Builds the JSON of one source of a node.
pub(crate) fn source(origin: &Origin<'_>) -> Value {
    let stack = |frames: &[Frame<'_>]| frames.iter().map(frame).collect::<Vec<_>>();
    json!({
        "site": origin.site.as_ref().map(frame),
        "scope": origin.scope,
        "rule": origin.rule,
        "stack": stack(&origin.stack),
        "others": origin.others.iter().map(source).collect::<Vec<_>>(),
    })
}

fn frame(frame: &Frame<'_>) -> Value {
    let column = |column: u32| (frame.span.end_column > 0).then_some(column);
    json!({
        "file": (!frame.file.is_empty()).then_some(frame.file),
        "function": frame.function,
        "kind": frame.kind().as_str(),
        "line": frame.span.line,
        "column": column(frame.span.column),
        "end_line": frame.span.end_line,
        "end_column": column(frame.span.end_column),
    })
}
