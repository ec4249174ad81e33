//! The JSON output of `show`. The keys are part of the interface.

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
    inputs: Vec<Value>,
    outputs: Vec<Value>,
    parameters: Vec<Value>,
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

pub(super) fn model<'a, 'm>(index: &'a Index<'m>) -> ModelJson<'a, 'm> {
    let (proto, graph) = (&index.model.proto, index.graph);
    let opset = |set: &OperatorSetIdProto| json!({"domain": set.domain, "version": set.version});
    let parameter =
        |tensor: &TensorProto| json!({"name": tensor.name, "type": tensor_text(tensor)});
    ModelJson {
        name: &graph.name,
        ir_version: proto.ir_version,
        opsets: proto.opset_import.iter().map(opset).collect(),
        producer: json!({"name": proto.producer_name, "version": proto.producer_version}),
        inputs: values(&graph.input),
        outputs: values(&graph.output),
        parameters: graph.initializer.iter().map(parameter).collect(),
        warnings: warnings(&graph.initializer),
        nodes: Nodes(index),
    }
}

/// Builds the output of `jax2onnx show --node NAME --json`.
pub(crate) fn node(index: &Index<'_>, node: usize) -> Value {
    let (proto, body) = (index.nodes[node].proto, index.nodes[node].body);
    let typed = |names: &[String]| {
        let values = names.iter().map(|name| match name.as_str() {
            "" => Value::Null,
            name => json!({"name": name, "type": index.type_of(body, name)}),
        });
        values.collect::<Vec<_>>()
    };
    let function = index.function(node).map(|f| format!("{}.{}", f.domain, f.name));
    json!({
        "name": proto.name,
        "op": proto.op_type,
        "domain": proto.domain,
        "inputs": typed(&proto.input),
        "outputs": typed(&proto.output),
        "scope": index.scope(node),
        "inside": index.owner(node).map(|owner| &index.nodes[owner].proto.name),
        "function": function,
        "sources": index.origins(node).iter().map(source).collect::<Vec<_>>(),
    })
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
    let column = |column: u32| frame.has_columns().then_some(column);
    json!({
        "file": (!frame.file.is_empty()).then_some(frame.file),
        "function": frame.function,
        "kind": frame.kind(),
        "line": frame.span.line,
        "column": column(frame.span.column),
        "end_line": frame.span.end_line,
        "end_column": column(frame.span.end_column),
    })
}

fn values(values: &[ValueInfoProto]) -> Vec<Value> {
    let typed = values.iter().map(|value| {
        let ty = value.r#type.as_ref().map_or("?".to_owned(), type_text);
        json!({"name": value.name, "type": ty})
    });
    typed.collect()
}
