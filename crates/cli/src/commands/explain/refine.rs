//! Refines the meaning of a message with facts from the model.

use tensor::DType;

use crate::log::pattern::find;
use crate::log::{Meaning, NAMED, cut};
use crate::model::{Index, Node};

/// The maximum number of names listed.
const LISTED: usize = 8;

/// Refines the meaning with facts about the model, and about `node` if the message names one.
pub(super) fn refine(index: &Index<'_>, node: Option<usize>, said: &str, meaning: &mut Meaning) {
    if let (Some(a), Some(b), Some(node)) = (meaning.blank("a"), meaning.blank("b"), node)
        && meaning.code == "broadcast-mismatch"
        && let Some(symbols) = shared_symbols(index, &index.nodes[node])
    {
        meaning.message = format!("the inputs give the dimension {symbols} two sizes: {a} and {b}");
        meaning.code = "dimension-conflict";
        meaning.help = NAMED;
    }
    if meaning.code != "wrong-input" {
        return;
    }
    let axes = wrong_axes(said);
    if meaning.message.ends_with("a different shape") && !axes.is_empty() {
        return meaning.message.push_str(&format!(": {}", axes.join(", ")));
    }
    let more = if meaning.blank("unknown_input").is_some() {
        format!("; its inputs are {}", list(index.inputs()))
    } else if meaning.blank("unknown_output").is_some() {
        let outputs = index.graph.output.iter().map(|output| output.name.as_str());
        format!("; its outputs are {}", list(outputs))
    } else if let Some(want) = meaning.blank("want_type").and_then(dtype) {
        let is_meant = |name: &&str| index.type_of(0, name).split('[').next() == Some(want);
        let names: Vec<&str> = index.inputs().filter(is_meant).collect();
        match names.is_empty() {
            true => "; this model has no such input, so the message may be about another model"
                .to_owned(),
            false => format!("; the model's inputs of that kind: {}", list(names.into_iter())),
        }
    } else {
        return;
    };
    meaning.message.push_str(&more);
}

/// Parses entries such as `index: 1 Got: 3 Expected: 4`.
fn wrong_axes(said: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some((_, end, blanks)) = find("index: {axis} Got: {got} Expected: {want}", said, from)
        && found.len() < LISTED
    {
        from = end;
        if let [(_, axis), (_, got), (_, want)] = blanks[..] {
            let want = want.split_whitespace().next().unwrap_or_default();
            found.push(format!("axis {} has size {} instead of {want}", cut(axis), cut(got)));
        }
    }
    found
}

/// OpenVINO's operators whose names differ from ONNX's, with the ONNX equivalents.
#[rustfmt::skip]
const OPENVINO: &[(&str, &[&str])] = &[
    ("Multiply", &["Mul"]), ("Subtract", &["Sub"]), ("Divide", &["Div"]), ("Power", &["Pow"]),
    ("Convert", &["Cast"]), ("Select", &["Where"]), ("Parameter", &[]), ("Result", &[]),
    ("Convolution", &["Conv"]), ("GroupConvolution", &["Conv"]), ("Broadcast", &["Expand"]),
    ("LogicalAnd", &["And"]), ("LogicalOr", &["Or"]), ("LogicalNot", &["Not"]),
    ("Maximum", &["Max"]), ("Minimum", &["Min"]), ("MVN", &["LayerNormalization"]),
    ("ShapeOf", &["Shape"]), ("StridedSlice", &["Slice"]), ("Eltwise", &["Add", "Sub", "Mul", "Div"]),
];

/// Returns a note if OpenVINO turned a node of the operator `own` into the operator `op`.
pub(super) fn other_operator(op: &str, own: &str) -> Option<String> {
    let same = OPENVINO.iter().find(|(name, _)| *name == op).map(|(_, same)| *same);
    let is_same = same.is_some_and(|same| same.is_empty() || same.contains(&own))
        || same.is_none()
            && (op.contains(own) || own.contains(op) || !op.starts_with(char::is_uppercase));
    (!is_same).then(|| {
        let (op, own) = (cut(op), cut(own));
        format!("the message is about {op}, which OpenVINO may have created from this {own} or from an adjacent node")
    })
}

/// Returns a note if the message mentions an operator other than `own`, the operator of the model's
/// node with that name.
pub(super) fn mismatched_operator(op: &str, own: &str) -> Option<String> {
    // Versions and domains are written in several ways. The names of fused operators contain the
    // names of their parts.
    let said = op.split(['(', '-']).next().unwrap_or(op).rsplit([':', '.']).next().unwrap_or(op);
    let is_same = said.is_empty() || said.contains(own) || own.contains(said);
    (!is_same).then(|| {
        let (said, own) = (cut(said), cut(own));
        format!("the message is about the operator {said}, but this node is {own}; it may be about another model")
    })
}

/// Returns the named dimensions of a node's operands, if the operands agree on all other
/// dimensions.
fn shared_symbols(index: &Index<'_>, node: &Node<'_>) -> Option<String> {
    let inputs = node.proto.input.iter().filter(|name| !name.is_empty());
    let shapes: Option<Vec<_>> = inputs.map(|name| dims(&index.type_of(node.body, name))).collect();
    symbols_of(&shapes?)
}

fn symbols_of(shapes: &[Vec<String>]) -> Option<String> {
    let rank = shapes.iter().map(Vec::len).max()?;
    let mut symbols: Vec<String> = Vec::new();
    for axis in 1..=rank {
        let at = shapes.iter().filter_map(|shape| Some(&shape[shape.len().checked_sub(axis)?]));
        let sizes: Vec<&String> = at.filter(|size| *size != "1").collect();
        let Some((first, others)) = sizes.split_first() else { continue };
        if *first == "?" || others.iter().any(|size| size != first) {
            return None;
        }
        let is_symbol = first.parse::<u64>().is_err() && !others.is_empty();
        let text = format!("`{}`", cut(first));
        if is_symbol && !symbols.contains(&text) {
            symbols.push(text);
        }
    }
    symbols.reverse();
    (!symbols.is_empty()).then(|| symbols.join(" or "))
}

/// Returns the sizes in a type such as `f32[B,4]`.
pub(super) fn dims(ty: &str) -> Option<Vec<String>> {
    let inner = ty.split_once('[')?.1.strip_suffix(']')?;
    // A dimension expression may contain commas.
    let is_plain = !inner.contains(['(', '…']);
    let dims = inner.split(',').filter(|dim| !dim.is_empty()).map(str::to_owned);
    is_plain.then(|| dims.collect())
}

fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{}`", cut(name))).collect();
    let shown = names[..names.len().min(LISTED)].join(", ");
    match names.len() {
        0 => "none".to_owned(),
        count if count > LISTED => format!("{shown} and {} more", count - LISTED),
        _ => shown,
    }
}

/// Converts onnxruntime's name of an element type to this program's.
fn dtype(name: &str) -> Option<&'static str> {
    match name {
        "string" => Some("string"), // Not an element type of this program's tensors.
        name => DType::from_onnx_name(name).map(DType::short_name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(types: &[&str]) -> Option<String> {
        symbols_of(&types.iter().map(|ty| dims(ty)).collect::<Option<Vec<_>>>()?)
    }

    #[test]
    fn operands_that_agree_share_their_named_dimensions() {
        assert_eq!(symbols(&["f32[B,4]", "f32[B,4]"]).as_deref(), Some("`B`"));
        assert_eq!(symbols(&["f32[B,T]", "f32[B,T]"]).as_deref(), Some("`B` or `T`"));
        assert_eq!(symbols(&["f32[B,B]", "f32[B,B]"]).as_deref(), Some("`B`"));
        assert_eq!(symbols(&["f32[T,1]", "f32[B,T,4]"]).as_deref(), Some("`T`"));
        // A single operand cannot give a dimension two sizes.
        assert_eq!(symbols(&["f32[B,4]", "f32[4]"]), None);
        assert_eq!(symbols(&["f32[2,4]", "f32[2,4]"]), None);
        assert_eq!(symbols(&["f32[B,4]", "f32[T,4]"]), None);
        assert_eq!(symbols(&["f32[B,4]", "f32[B,5]"]), None);
        assert_eq!(symbols(&["f32[?,4]", "f32[?,4]"]), None);
        assert_eq!(symbols(&["f32[]"]), None);
        assert_eq!(symbols(&[]), None);
    }

    #[test]
    fn types_have_sizes() {
        assert_eq!(dims("f32[B,4]"), Some(vec!["B".to_owned(), "4".to_owned()]));
        assert_eq!(dims("f32[]"), Some(Vec::new()));
        assert_eq!(dims("f32[floordiv(B, 2)]"), None);
        assert_eq!(dims("f32"), None);
    }

    #[test]
    fn operators_of_openvino_are_known_by_both_names() {
        for (op, own) in [
            ("Multiply", "Mul"),
            ("Eltwise", "Sub"),
            ("Parameter", "Add"),
            ("MatMul", "MatMul"),
            ("Softmax", "LogSoftmax"),
            ("LogSoftmax", "Softmax"),
            ("internal", "Add"),
        ] {
            assert_eq!(other_operator(op, own), None, "{op} {own}");
        }
        for (op, own) in [("Multiply", "Add"), ("Eltwise", "Pow"), ("FullyConnected", "Relu")] {
            let note = other_operator(op, own).unwrap();
            assert!(note.contains(op) && note.contains(own), "{note}");
        }
    }

    #[test]
    fn a_message_about_another_operator_may_be_about_another_model() {
        for (op, own) in [("Add", "Add"), ("FusedMatMul", "MatMul"), ("Add(13)", "Add")] {
            assert_eq!(mismatched_operator(op, own), None, "{op} {own}");
        }
        assert_eq!(mismatched_operator("com.microsoft:Gelu", "Gelu"), None);
        assert_eq!(mismatched_operator("", "Add"), None);
        let note = mismatched_operator("Conv(11)", "Add").unwrap();
        assert!(note.contains("the operator Conv, but this node is Add"), "{note}");
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..10).map(|i| format!("x{i}")).collect();
        let list = |count: usize| list(names[..count].iter().map(String::as_str));
        assert_eq!(list(0), "none");
        assert_eq!(list(2), "`x0`, `x1`");
        assert!(list(8).ends_with("`x7`"));
        assert!(list(10).ends_with("`x7` and 2 more"));
    }

    #[test]
    fn element_types_have_two_names() {
        for (theirs, ours) in [
            ("float", "f32"),
            ("double", "f64"),
            ("bfloat16", "bf16"),
            ("uint8", "u8"),
            ("bool", "bool"),
            ("string", "string"),
        ] {
            assert_eq!(dtype(theirs), Some(ours));
        }
        assert_eq!(dtype("quux"), None);
    }
}
