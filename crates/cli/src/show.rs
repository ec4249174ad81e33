//! `jax2onnx show`: a model as a person wants to read it.

use std::collections::HashMap;
use std::path::Path;

use onnx::proto::{
    DimensionValue, GraphProto, NodeProto, StringStringEntryProto, TypeProto, TypeValue,
    ValueInfoProto,
};
use provenance::{CALLSITE, PLUGIN};
use tensor::DType;

use crate::table::table;

/// The text of `jax2onnx show MODEL`.
pub(crate) fn show(path: &Path) -> onnx::Result<String> {
    let model = onnx::read_file(path)?;
    let mut text = String::new();
    let opsets = model.opset_import.iter().map(|set| match set.domain.as_str() {
        "" => format!("opset {}", set.version),
        domain => format!("{domain} {}", set.version),
    });
    let opsets: Vec<_> = opsets.collect();
    let graph = model.graph.unwrap_or_default();
    text.push_str(&format!("{} · {} · IR {}\n", graph.name, opsets.join(", "), model.ir_version));
    for (title, values) in [("input", &graph.input), ("output", &graph.output)] {
        for value in values {
            text.push_str(&format!("{title:<6}  {}: {}\n", value.name, type_text(value)));
        }
    }
    let mut rows = Vec::new();
    collect(&graph, 0, &mut rows);
    for function in &model.functions {
        let graph = GraphProto {
            node: function.node.clone(),
            value_info: function.value_info.clone(),
            ..GraphProto::default()
        };
        rows.push(vec![format!("function {}.{}", function.domain, function.name)]);
        collect(&graph, 1, &mut rows);
    }
    text.push('\n');
    text.push_str(&table(&["node", "op", "result", "call site", "rule"], &rows));
    Ok(text)
}

/// One row per node; the nodes of subgraphs are indented under their owner.
fn collect(graph: &GraphProto, depth: usize, rows: &mut Vec<Vec<String>>) {
    let infos = graph.value_info.iter().chain(&graph.output).chain(&graph.input);
    let types: HashMap<&str, String> =
        infos.map(|info| (info.name.as_str(), type_text(info))).collect();
    for node in &graph.node {
        let results = node.output.iter().map(|name| types.get(name.as_str()).cloned());
        let results: Vec<_> = results.map(|ty| ty.unwrap_or_else(|| "?".to_owned())).collect();
        rows.push(vec![
            format!("{}{}", "  ".repeat(depth), node.name),
            op_text(node),
            results.join(", "),
            property(&node.metadata_props, CALLSITE),
            property(&node.metadata_props, PLUGIN),
        ]);
        for attribute in &node.attribute {
            for inner in attribute.g.iter().map(|g| &**g).chain(&attribute.graphs) {
                collect(inner, depth + 1, rows);
            }
        }
    }
}

fn op_text(node: &NodeProto) -> String {
    if node.domain.is_empty() {
        node.op_type.clone()
    } else {
        format!("{}.{}", node.domain, node.op_type)
    }
}

fn property(props: &[StringStringEntryProto], key: &str) -> String {
    props.iter().find(|prop| prop.key == key).map(|prop| prop.value.clone()).unwrap_or_default()
}

fn type_text(info: &ValueInfoProto) -> String {
    let Some(TypeProto { value: Some(TypeValue::TensorType(tensor)), .. }) = &info.r#type else {
        return "?".to_owned();
    };
    let dtype = DType::from_onnx_code(tensor.elem_type).map_or("?", DType::short_name);
    let Some(shape) = &tensor.shape else { return format!("{dtype}[…]") };
    let dims = shape.dim.iter().map(|dim| match &dim.value {
        Some(DimensionValue::DimValue(size)) => size.to_string(),
        Some(DimensionValue::DimParam(name)) => name.clone(),
        None => "?".to_owned(),
    });
    format!("{dtype}[{}]", dims.collect::<Vec<_>>().join(","))
}
