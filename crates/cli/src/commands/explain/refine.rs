//! What the model adds to the meaning of a message.

use crate::log::pattern::find;
use crate::log::{Meaning, NAMED, cut};
use crate::model::{Index, Node};

/// How many names are listed.
const LISTED: usize = 8;

/// Adds to the meaning what the model knows, about `node` if the message names one.
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

/// `index: 1 Got: 3 Expected: 4`
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

/// The operators of OpenVINO that have other names than those of ONNX.
#[rustfmt::skip]
const OPENVINO: &[(&str, &[&str])] = &[
    ("Multiply", &["Mul"]), ("Subtract", &["Sub"]), ("Divide", &["Div"]), ("Power", &["Pow"]),
    ("Convert", &["Cast"]), ("Select", &["Where"]), ("Parameter", &[]), ("Result", &[]),
    ("Convolution", &["Conv"]), ("GroupConvolution", &["Conv"]), ("Broadcast", &["Expand"]),
    ("LogicalAnd", &["And"]), ("LogicalOr", &["Or"]), ("LogicalNot", &["Not"]),
    ("Maximum", &["Max"]), ("Minimum", &["Min"]), ("MVN", &["LayerNormalization"]),
    ("ShapeOf", &["Shape"]), ("StridedSlice", &["Slice"]), ("Eltwise", &["Add", "Sub", "Mul", "Div"]),
];

/// A note if OpenVINO turned a node into another operator.
pub(super) fn other_operator(op: &str, node: &Node<'_>) -> Option<String> {
    let own = node.proto.op_type.as_str();
    let same = OPENVINO.iter().find(|(name, _)| *name == op).map(|(_, same)| *same);
    let is_same = same.is_some_and(|same| same.is_empty() || same.contains(&own))
        || same.is_none()
            && (op.contains(own) || own.contains(op) || !op.starts_with(char::is_uppercase));
    (!is_same).then(|| {
        let (op, own) = (cut(op), cut(own));
        format!("the message is about {op}, which OpenVINO may have made from this {own} or from a node next to it")
    })
}

/// A note if the message mentions a different operator than the model has under that name.
pub(super) fn stranger(op: &str, node: &Node<'_>) -> Option<String> {
    // Versions and domains are written in several ways, and the names of fused operators contain
    // those of their parts.
    let said = op.split(['(', '-']).next().unwrap_or(op).rsplit([':', '.']).next().unwrap_or(op);
    let own = node.proto.op_type.as_str();
    let is_same = said.is_empty() || said.contains(own) || own.contains(said);
    (!is_same).then(|| {
        let (said, own) = (cut(said), cut(own));
        format!("the message is about the operator {said}, but this node is {own}; it may be about another model")
    })
}

/// The named dimensions of a node's operands, if the operands agree in everything else.
fn shared_symbols(index: &Index<'_>, node: &Node<'_>) -> Option<String> {
    let inputs = node.proto.input.iter().filter(|name| !name.is_empty());
    let shapes: Vec<Vec<String>> =
        inputs.map(|name| dims(&index.type_of(node.body, name))).collect::<Option<_>>()?;
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

/// The sizes in `f32[B,4]`.
pub(super) fn dims(ty: &str) -> Option<Vec<String>> {
    let inner = ty.split_once('[')?.1.strip_suffix(']')?;
    // A formula may contain commas.
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

/// The element type that onnxruntime calls `name`, as this program writes it.
fn dtype(name: &str) -> Option<&'static str> {
    Some(match name {
        "float" => "f32",
        "double" => "f64",
        "float16" => "f16",
        "bfloat16" => "bf16",
        "int8" => "i8",
        "int16" => "i16",
        "int32" => "i32",
        "int64" => "i64",
        "uint8" => "u8",
        "uint16" => "u16",
        "uint32" => "u32",
        "uint64" => "u64",
        "bool" => "bool",
        "string" => "string",
        _ => return None,
    })
}
