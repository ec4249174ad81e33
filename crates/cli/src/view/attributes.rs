//! Formatting of a node's attributes on one line.

use onnx_file::proto::{AttributeProto, NodeProto};

use crate::model::tensor_text;
use crate::table::cut;

/// The maximum number of elements shown of a list.
const SHOWN: usize = 12;
/// The maximum number of characters shown of a string.
const LONGEST: usize = 80;

/// Formats attributes: `axis=1, perm=[0, 2, 1]`. Subgraphs are omitted, because the page shows them
/// as nodes.
pub(super) fn attributes_text(node: &NodeProto) -> String {
    let texts = node.attribute.iter().filter_map(|attribute| {
        attribute_text(attribute).map(|value| format!("{}={value}", attribute.name))
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Formats the value of an attribute, shortened if it is long.
pub(crate) fn attribute_text(attribute: &AttributeProto) -> Option<String> {
    if !attribute.ref_attr_name.is_empty() {
        return Some(format!("@{}", attribute.ref_attr_name));
    }
    let string = |bytes: &[u8]| format!("{:?}", cut(&String::from_utf8_lossy(bytes), LONGEST));
    let one = attribute.i.map(|i| i.to_string());
    let one = one.or_else(|| attribute.f.map(|f| f.to_string()));
    let one = one.or_else(|| attribute.s.as_ref().map(|s| string(s)));
    let one = one.or_else(|| attribute.t.as_ref().map(|t| tensor_text(t)));
    if one.is_some() {
        return one;
    }
    if attribute.g.is_some() || !attribute.graphs.is_empty() {
        return None;
    }
    let ints = attribute.ints.iter().map(i64::to_string);
    let floats = attribute.floats.iter().map(f32::to_string);
    let strings = attribute.strings.iter().map(|s| string(s));
    let tensors = attribute.tensors.iter().map(tensor_text);
    let mut all = ints.chain(floats).chain(strings).chain(tensors);
    let mut shown: Vec<String> = all.by_ref().take(SHOWN).collect();
    let more = all.count();
    if more > 0 {
        shown.push(format!("… {more} more"));
    }
    Some(format!("[{}]", shown.join(", ")))
}

#[cfg(test)]
mod tests {
    use onnx_file::proto::GraphProto;

    use super::*;

    #[test]
    fn lists_are_cut_and_graphs_are_left_out() {
        let ints = |count: i64| AttributeProto {
            name: "perm".to_owned(),
            ints: (0..count).collect(),
            ..AttributeProto::default()
        };
        let text = |attribute: &AttributeProto| attribute_text(attribute);
        assert_eq!(text(&ints(0)).as_deref(), Some("[]"));
        assert_eq!(text(&ints(12)).as_deref(), Some("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]"));
        assert!(text(&ints(13)).unwrap().ends_with("11, … 1 more]"));
        let graph = GraphProto::default();
        let one = AttributeProto { g: Some(Box::new(graph.clone())), ..ints(0) };
        let several = AttributeProto { graphs: vec![graph], ..ints(0) };
        assert_eq!([text(&one), text(&several)], [None, None]);
        let axis = AttributeProto { name: "axis".to_owned(), i: Some(1), ..ints(0) };
        let node = NodeProto { attribute: vec![axis, one, ints(2)], ..NodeProto::default() };
        assert_eq!(attributes_text(&node), "axis=1, perm=[0, 1]");
    }
}
