//! The forms in which runtimes name nodes and values in their messages.

use super::pattern::{self, Captures, prefix, suffix};

/// The runtime that wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runtime {
    Onnx,
    TensorRt,
    OpenVino,
}

impl Runtime {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Runtime::Onnx => "onnxruntime",
            Runtime::TensorRt => "TensorRT",
            Runtime::OpenVino => "OpenVINO",
        }
    }
}

/// The message forms. The blank `name` is a node, `value` a value, `names` several names that a
/// runtime joined, `feeds` a Python list of inputs, `op` the operator, `ops` operators of unnamed
/// nodes, `input` the position of an input. Other blanks are ignored.
#[rustfmt::skip]
const FORMS: &[(Runtime, &str)] = &[
    (Runtime::Onnx, "running {op} node. Name:'{name}' Status Message:"),
    (Runtime::Onnx, "Node ({name}) Op ({op}) ["),
    (Runtime::Onnx, "Node:{name} Output:{value} ["),
    (Runtime::Onnx, "Could not find an implementation for {op} node with name '{name}'"),
    (Runtime::Onnx, "In Node, (\"{name}\", {op}, \""),
    (Runtime::Onnx, " in node ({name})"),
    (Runtime::Onnx, " of node ({name}) does not match"),
    (Runtime::Onnx, " node name: {name} "),
    (Runtime::Onnx, "two nodes with same node name ({name})."),
    (Runtime::Onnx, "Node input '{value}' is not a graph input"),
    (Runtime::Onnx, "Duplicate definition of name ({value})."),
    (Runtime::Onnx, "Invalid rank for input: {value} Got:"),
    (Runtime::Onnx, "Got invalid dimensions for input: {value} for the following"),
    (Runtime::Onnx, "Required inputs ({feeds}) are missing from input feed"),
    (Runtime::Onnx, "input '{value}' is missing in 'feeds'"),
    (Runtime::Onnx, "(op_type:{op}, node name: {name}): "),
    (Runtime::Onnx, "Kernel \"[{op}] {name}\" failed"),
    (Runtime::Onnx, "Error merging shape info for output. '{value}' source:"),
    (Runtime::Onnx, "Removing initializer '{value}'."),
    (Runtime::Onnx, "failed for initializer: {value}. Error:"),
    (Runtime::Onnx, "External initializer: {value} offset:"),
    (Runtime::Onnx, "Deserialize tensor {value} failed."),
    (Runtime::Onnx, "( tensor name: {value}) should be stored in"),
    (Runtime::Onnx, "Fatal error: {ops}(-1) is not a registered function/op"),
    (Runtime::TensorRt, "While parsing node number {n} [{op} -> \"{value}\""),
    (Runtime::TensorRt, "In node {n} with name: {name} and operator: {op} ("),
    (Runtime::TensorRt, "[ONNX Layer: {names}]"),
    (Runtime::TensorRt, "Could not find any implementation for node {names}"),
    (Runtime::TensorRt, "(I{layer}Layer {name}: "),
    (Runtime::TensorRt, "Error Code 4: Internal Error ({name}: "),
    (Runtime::TensorRt, "Layer({kind}): {names}, Tactic:"),
    (Runtime::OpenVino, "While validating ONNX node '<Node({op}): {value}>'"),
    (Runtime::OpenVino, "with friendly_name '{name}'"),
    (Runtime::OpenVino, " node with name '{name}' "),
    (Runtime::OpenVino, "Unsupported operation of type: {op} name: {name}"),
    (Runtime::OpenVino, "Operation name: {name}"),
    (Runtime::OpenVino, "input tensor with index: {input},"),
    (Runtime::OpenVino, "Input tensor isn't found for node \"{value}\""),
    (Runtime::OpenVino, "No conversion rule found for operations: {ops}"),
];

/// The maximum number of occurrences examined per form. Logs repeat themselves.
const MOST: usize = 256;

/// The maximum number of bytes kept of a message before and after a name.
const LONGEST: usize = 8192;

/// A mention of nodes, values or operators in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mention<'t> {
    /// The offset in the log.
    pub(crate) at: usize,
    /// The runtime that wrote the message.
    pub(crate) runtime: Runtime,
    /// The operators, if the message names no node: `MatMul`, `my.domain.Op`.
    pub(crate) ops: Vec<String>,
    /// The position of an input of the model.
    pub(crate) input: Option<usize>,
    /// The operator of the named node.
    pub(crate) op: Option<&'t str>,
    /// `true` if the node has no name.
    pub(crate) unnamed: bool,
    /// The names of nodes or values: one, unless the runtime joined several.
    pub(crate) names: Vec<&'t str>,
    /// The whole message.
    pub(crate) said: &'t str,
}

/// Returns all mentions in `text`, in order of appearance.
pub(crate) fn mentions(text: &str) -> Vec<Mention<'_>> {
    let mut found = Vec::new();
    for (runtime, form) in FORMS {
        let mut from = 0;
        for _ in 0..MOST {
            let Some((at, end, captures)) = pattern::find(form, text, from) else { break };
            from = end.max(at + 1);
            found.push(mention(*runtime, text, at, &captures));
        }
    }
    found.retain(|mention| {
        !mention.names.is_empty() || !mention.ops.is_empty() || mention.input.is_some()
    });
    found.sort_by_key(|mention| mention.at);
    found
}

fn mention<'t>(
    runtime: Runtime,
    text: &'t str,
    at: usize,
    captures: &Captures<'_, 't>,
) -> Mention<'t> {
    let get = |key| captures.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
    let one = get("name").or_else(|| get("value")).map(|name| vec![name]);
    let names = one
        .or_else(|| get("names").map(joined))
        .or_else(|| get("feeds").map(quoted))
        .unwrap_or_default();
    let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    let unnamed = names.is_empty() && get("name").is_some();
    let ops = get("ops").or_else(|| get("op").filter(|_| unnamed));
    let ops = ops.map(|ops| ops.split(", ").map(operator).collect()).unwrap_or_default();
    // For example, `Multiply node with name '/Div'`.
    let before = (runtime == Runtime::OpenVino && text[at..].starts_with(" node with name"))
        .then(|| text[..at].rsplit(char::is_whitespace).next())
        .flatten();
    let op = get("op").or(before).filter(|_| !names.is_empty());
    let input = get("input").and_then(|input| input.trim().parse().ok());
    Mention { at, runtime, ops, input, op, unnamed, names, said: paragraph(runtime, text, at) }
}

/// Returns the message around `at`. onnxruntime indents continuation lines; the other runtimes end
/// a message with an empty line.
pub(crate) fn paragraph(runtime: Runtime, text: &str, at: usize) -> &str {
    let before = suffix(&text[..at], LONGEST);
    let start = at - before.len() + before.rfind('\n').map_or(0, |end| end + 1);
    let after = prefix(&text[at..], LONGEST);
    let is_end = |end: &usize| match runtime {
        Runtime::Onnx => !after[end + 1..].starts_with([' ', '\t']),
        Runtime::TensorRt | Runtime::OpenVino => {
            after[end + 1..].trim_start_matches(' ').starts_with('\n')
        }
    };
    let end = after.match_indices('\n').map(|(end, _)| end).find(is_end);
    text[start..at + end.unwrap_or(after.len())].trim()
}

/// Normalises an operator's name. Runtimes add versions and use other separators: `my.domain:Op`,
/// `Op-23`, `Op(23)`.
fn operator(text: &str) -> String {
    let text = text.trim();
    let name = match text.rsplit_once('-') {
        Some((name, version)) if version.parse::<u32>().is_ok() => name,
        _ => text.split('(').next().unwrap_or(text),
    };
    name.replace(':', ".")
}

/// Splits names that TensorRT joined: `PWN(a, b)`, `a + b`, `{ForeignNode[a...b]}`.
fn joined(names: &str) -> Vec<&str> {
    let separators =
        [" + ", ", ", "...", "\u{1f}", "\u{1e}", "PWN(", "ForeignNode[", "ONNX Layer: "];
    let mut parts = vec![names];
    for separator in separators {
        parts = parts.into_iter().flat_map(|part| part.split(separator)).collect();
    }
    let ends = |c: char| matches!(c, '(' | ')' | '{' | '}' | '[' | ']' | '"' | '\'');
    // The sentence may continue after the last name.
    let parts = parts.into_iter().filter_map(|part| part.trim().split(' ').next());
    let names = parts.map(|part| part.trim_matches(ends).trim_end_matches('.').trim_matches(ends));
    names.filter(|name| !name.is_empty()).collect()
}

/// Returns the elements of a Python list of strings.
pub(crate) fn quoted(list: &str) -> Vec<&str> {
    list.split(['\'', '"']).skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<Vec<&str>> {
        mentions(text).into_iter().map(|mention| mention.names).collect()
    }

    #[test]
    fn nested_messages_name_the_outer_node_first() {
        let text = "Non-zero status code returned while running Loop node. Name:'/lp' Status \
                    Message: Non-zero status code returned while running Add node. Name:'/lp/Add' \
                    Status Message: why";
        assert_eq!(names(text), [["/lp"], ["/lp/Add"]]);
    }

    #[test]
    fn joined_names_are_split() {
        assert_eq!(
            names(
                "Could not find any implementation for node {ForeignNode[/a.0/MatMul.../b/Add]}.)"
            ),
            [["/a.0/MatMul", "/b/Add"]]
        );
        assert_eq!(
            names("Layer(PointWiseV2): PWN(PWN(/a/Sigmoid), /a/Mul) + /b, Tactic: 0x1"),
            [["/a/Sigmoid", "/a/Mul", "/b"]]
        );
        assert_eq!(names("[ONNX Layer: /a\u{1f}ONNX Layer: /b]"), [["/a", "/b"]]);
    }

    #[test]
    fn some_messages_name_only_operators() {
        let text = "Fatal error: my.dom:Foo(-1) is not a registered function/op\n\
                    -- No conversion rule found for operations: Bar-23, my.dom.Foo";
        let ops: Vec<_> = mentions(text).into_iter().map(|mention| mention.ops).collect();
        assert_eq!(ops, [vec!["my.dom.Foo"], vec!["Bar", "my.dom.Foo"]]);
        let mention = &mentions("running Add node. Name:'' Status Message: why")[0];
        assert!(mention.unnamed && mention.ops == ["Add"]);
    }

    #[test]
    fn a_message_ends_where_the_next_entry_begins() {
        let text =
            "one\nGot invalid dimensions for input: x for the following indices\n index: 1\nnext";
        let said = mentions(text)[0].said;
        assert!(said.starts_with("Got invalid") && said.ends_with("index: 1"), "{said}");
    }

    #[test]
    fn operators_have_no_version() {
        for (text, expected) in [
            ("my.domain:Op-23", "my.domain.Op"),
            ("Op(23)", "Op"),
            ("my-domain:Op", "my-domain.Op"),
            (" Op ", "Op"),
        ] {
            assert_eq!(operator(text), expected);
        }
    }
}
