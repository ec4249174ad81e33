//! The header of `show`: inputs, outputs and tensors of a model.

use std::collections::BTreeSet;

use onnx_file::proto::{DataLocation, TensorProto, ValueInfoProto};
use rustc_hash::FxHashSet;
use tensor::DType;

use crate::model::{Index, leaves_folder, location_property, opset_text, tensor_text, type_text};
use crate::style::{Style, Text};
use crate::table::{length, scaled};

pub(super) fn write(text: &mut Text, index: &Index<'_>, parameters: bool) {
    let (proto, graph) = (&index.model.proto, index.graph);
    // Some tools declare operator sets that the model does not use.
    let domains: FxHashSet<&str> =
        index.nodes.iter().map(|node| node.proto.domain.as_str()).chain([""]).collect();
    let used = proto.opset_import.iter().filter(|set| domains.contains(set.domain.as_str()));
    let opsets = used.map(opset_text);
    let mut parts = vec![graph.name.clone()];
    parts.extend(opsets);
    parts.push(format!("IR {}", proto.ir_version));
    let producer = format!("{} {}", proto.producer_name, proto.producer_version);
    parts.push(producer.trim().to_owned());
    parts.retain(|part| !part.is_empty());
    text.styled_line(Style::Bold, &parts.join(" · "));
    values(text, "input", &graph.input);
    values(text, "output", &graph.output);
    let tensors = &graph.initializer;
    if !tensors.is_empty() {
        let elements = tensors.iter().map(elements).try_fold(0_u64, |sum, n| sum.checked_add(n?));
        let bytes = tensors.iter().map(bytes).try_fold(0_u64, |sum, n| sum.checked_add(n?));
        let amount = |n: Option<u64>, unit| n.map_or("?".to_owned(), |n| scaled(n, unit));
        let (elements, bytes) = (amount(elements, ""), amount(bytes, "B"));
        let count = tensors.len();
        title(text, "tensors");
        let s = if elements == "1" { "" } else { "s" };
        text.line(&format!("{count}, {elements} element{s}, {bytes}"));
    }
    if parameters {
        let width = tensors.iter().map(|tensor| length(&tensor.name)).max().unwrap_or(0);
        for tensor in tensors {
            let place = external(tensor).map(|file| format!("  in {file}")).unwrap_or_default();
            let ty = tensor_text(tensor);
            text.line(&format!("          {:<width$}  {ty}{place}", tensor.name));
        }
    }
    for warning in warnings(tensors) {
        title(text, "warning");
        text.styled_line(Style::Yellow, &warning);
    }
    title(text, "nodes");
    text.line(&index.nodes.len().to_string());
    text.line("");
}

fn title(text: &mut Text, title: &str) {
    text.styled(Style::Dim, &format!("{title:<8}"));
}

fn values(text: &mut Text, name: &str, values: &[ValueInfoProto]) {
    for value in values {
        let ty = value.r#type.as_ref().map_or("?".to_owned(), type_text);
        title(text, name);
        text.line(&format!("{}: {ty}", value.name));
    }
}

/// Returns the file that holds a tensor's data, if the data is outside the model file.
fn external(tensor: &TensorProto) -> Option<&str> {
    let is_external = tensor.data_location == DataLocation::External as i32;
    location_property(tensor, "location").filter(|_| is_external)
}

/// Returns warnings about data files outside the model's folder, which runtimes refuse to open.
/// This program opens no data files at all.
pub(super) fn warnings(tensors: &[TensorProto]) -> Vec<String> {
    let files = tensors.iter().filter_map(external).filter(|file| leaves_folder(file));
    let files: BTreeSet<&str> = files.collect();
    let warning = |file| format!("weights are stored outside the model's folder: {file}");
    files.into_iter().map(warning).collect()
}

fn elements(tensor: &TensorProto) -> Option<u64> {
    tensor.dims.iter().try_fold(1_u64, |n, dim| n.checked_mul(u64::try_from(*dim).ok()?))
}

fn bytes(tensor: &TensorProto) -> Option<u64> {
    let bits = u64::from(DType::from_onnx_code(tensor.data_type)?.bits());
    Some(elements(tensor)?.checked_mul(bits)?.div_ceil(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_dimensions_have_no_size() {
        let tensor =
            |dims: &[i64]| TensorProto { dims: dims.to_vec(), data_type: 1, ..Default::default() };
        assert_eq!(bytes(&tensor(&[2, 3])), Some(24));
        assert_eq!(bytes(&tensor(&[i64::MAX, i64::MAX])), None);
        assert_eq!(bytes(&tensor(&[-1])), None);
    }
}
