//! What messages of runtimes mean in terms of the program that was exported.

use super::cut;
use super::pattern::{Captures, find, render};

/// An explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meaning {
    /// A stable kebab-case code.
    pub(crate) code: &'static str,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do.
    pub(crate) help: &'static str,
    /// Where in the message it says so.
    pub(crate) at: usize,
    blanks: Vec<(&'static str, String)>,
}

impl Meaning {
    /// What the message has in a blank of its pattern.
    pub(crate) fn blank(&self, key: &str) -> Option<&str> {
        self.blanks.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }
}

/// Code, pattern of the message, what it means, what to do.
struct Entry(&'static str, &'static str, &'static str, &'static str);

const SIZES: &str = "JAX fixes sizes when it traces: feed arrays of the exported shapes, or export the \
                     dimension by name, such as (\"B\", 4)";
/// What to do about a dimension of two sizes.
pub(crate) const NAMED: &str = "feed one size wherever the inputs of the model name the same dimension, or export them under \
                     different names";
const INDICES: &str = "check the indices that are fed; JAX guards them with mode=\"clip\" or mode=\"fill\", \
                       but not with mode=\"promise_in_bounds\"";
const KERNEL: &str = "cast to float32 around this line, choose another execution provider, or use a newer \
                      runtime";
const OPSET: &str = "use a newer runtime, or export with a lower opset=";
const FEED: &str =
    "change what is fed to session.run, or export with the sizes and types that are fed";
const NAMES: &str = "use the names of the model with session.run; an export names its inputs with input_names= and its outputs \
                     with output_names=";
const DAMAGED: &str = "a tool that changed the model after the export broke it; check the model as it was \
                       exported";

#[rustfmt::skip]
const ENTRIES: &[Entry] = &[
    Entry("dimension-conflict", "Shape mismatch attempting to re-use buffer. {{a}} != {{b}}",
        "a dimension that has one name in the model has two sizes in what was fed: shapes ({a}) and ({b}) should be one", NAMED),
    Entry("broadcast-mismatch", "Attempting to broadcast an axis by a dimension other than 1. {a} by {b}",
        "arrays of {a} and of {b} elements along one axis meet in this expression; they must be equal, or one of them 1", SIZES),
    Entry("matmul-mismatch", "GEMM: Dimension mismatch, W: {w} K: {k} N:{n}",
        "a matrix with {k} columns meets one of shape {w} in this product; the inner sizes must be equal", SIZES),
    Entry("matmul-mismatch", "MatMul dimension mismatch",
        "the arrays of this matrix product do not fit: their inner sizes differ", SIZES),
    Entry("matmul-mismatch", "Incompatible dimensions for matrix multiplication",
        "the arrays of this matrix product do not fit: their inner sizes differ", SIZES),
    Entry("matmul-mismatch", "Incompatible MatMul matrix dimension. First input dimension={a} at {i} doesn't match the second input dimension={b} at",
        "the inner sizes of this matrix product differ: {a} and {b}", SIZES),
    Entry("matmul-mismatch", "Matmul input shapes are incompatible shape A: {a} shape B: {b}",
        "arrays of the shapes {a} and {b} do not fit in this matrix product: their inner sizes differ", SIZES),
    Entry("broadcast-mismatch", "Eltwise shape infer input shapes dim index: {axis} mismatch",
        "the arrays of this expression differ along axis {axis}, and neither has one element there", SIZES),
    Entry("broadcast-mismatch", "broadcast dimensions must be conformable",
        "the arrays of this expression differ along an axis, and neither has one element there", SIZES),
    Entry("shape-mismatch", "Argument shapes are inconsistent",
        "the shapes of the arrays in this expression do not fit together", SIZES),
    Entry("reshape-mismatch", "the shape of input data {from} conflicts with the reshape pattern {to}",
        "an array of shape {from} has another number of elements than the shape {to} that this expression gives it", SIZES),
    Entry("reshape-mismatch", "reshape changes volume. Reshaping {from} to {to}.",
        "an array of shape {from} has another number of elements than the shape {to} that this expression gives it", SIZES),
    Entry("type-mismatch", "Arguments do not have the same element type (arg0 element type: {a}, arg1 element type: {b})",
        "arrays of {a} and of {b} meet in this expression", DAMAGED),
    Entry("bad-attribute", "Axis {axis} out of the tensor rank range {range}.",
        "axis {axis} does not exist: axes go over {range}", DAMAGED),
    Entry("dynamic-rank", "doesn't support {op} operation with dynamic rank",
        "OpenVINO cannot tell how many axes the result of this {op} has", "export with the shapes of all values known"),
    Entry("no-kernel", "Unsupported operation of type: {op} name:",
        "OpenVINO has no {op} for these shapes and element types", KERNEL),
    Entry("dangling-value", "Input tensor isn't found for node \"{value}\"",
        "nothing computes `{value}` before this node reads it", DAMAGED),
    Entry("einsum-mismatch", "Einsum operands could not be broadcast together",
        "the arrays of this einsum give different sizes to one letter of its equation", SIZES),
    Entry("shape-mismatch", "[ShapeInferenceError] Incompatible dimensions",
        "the shapes of the arrays in this expression do not fit together", SIZES),
    Entry("reshape-mismatch", "cannot be reshaped to the requested shape. Input shape:{{from}}, requested shape:{{to}}",
        "an array of shape ({from}) has another number of elements than the shape ({to}) that this expression gives it", SIZES),
    Entry("index-out-of-range", "indices element out of data bounds, idx={i} must be within the inclusive range [{low},{high}]",
        "index {i} is outside of the axis that this expression reads, which goes from {low} to {high}", INDICES),
    Entry("index-out-of-range", "invalid indice found, indice = {i}",
        "index {i} is outside of the array that this expression writes to", INDICES),
    Entry("index-out-of-range", "invalid index found, index = {i}",
        "index {i} is outside of the array that this expression reads", INDICES),
    Entry("channel-mismatch", "Input channels C is not equal to kernel channels * group. C: {c} kernel channels: {k} group: {g}",
        "the input of this convolution has {c} channels, its kernel is for {k} in each of {g} groups", SIZES),
    Entry("concatenate-mismatch", "Non concat axis dimensions must match: Axis {axis} has mismatched dimensions of {a} and {b}",
        "the arrays that this expression joins differ along axis {axis}, which it does not join: {a} and {b}", SIZES),
    Entry("expand-mismatch", "invalid expand shape",
        "the array cannot be broadcast to the shape that this expression asks for", SIZES),
    Entry("squeeze-mismatch", "Dimension of input {axis} must be 1 instead of {n}. shape={shape}",
        "axis {axis}, which this expression removes, has {n} elements instead of 1; the shape is {shape}", SIZES),
    Entry("split-mismatch", "Invalid value in 'split'. Split size {a} exceeds the remaining size of the selected axis, {b}",
        "this expression takes {a} elements where only {b} are left", SIZES),
    Entry("top-k-too-large", "k argument [{k}] should not be greater than specified axis dim value [{n}]",
        "this expression asks for the {k} largest of only {n} elements", SIZES),
    Entry("zero-step", "'step' value cannot be 0", "the step of this slice is 0", "compute a step other than 0"),
    Entry("no-kernel", "Could not find an implementation for {op}({version}) node with name",
        "onnxruntime has no {op} (version {version}) for these element types", KERNEL),
    Entry("no-kernel", "Could not find any implementation for node",
        "TensorRT found no way to run this node with these shapes and element types", KERNEL),
    Entry("unknown-operator", "No Op registered for {op} with domain_version of {version}",
        "the runtime does not know the operator {op} of opset {version}", OPSET),
    Entry("unknown-operator", "Fatal error: {op}({version}) is not a registered function/op",
        "the runtime does not know the operator {op}", "register the library that has this operator with the session"),
    Entry("unknown-operator", "UNSUPPORTED_NODE", "TensorRT's parser does not support this node",
        "register a plugin for it, use a newer TensorRT, or rewrite this line"),
    Entry("unknown-operator", "No conversion rule found for operations: {ops}",
        "OpenVINO does not support these operators: {ops}", OPSET),
    Entry("type-mismatch", "Type parameter ({t}) of Optype ({op}) bound to different types ({a} and {b} in node",
        "{op} takes arrays of one element type; here meet {a} and {b}", DAMAGED),
    Entry("type-mismatch", "Type '{ty}' of input parameter ({value}) of operator ({op}) in node",
        "{op} does not take {ty}, the element type of `{value}`", DAMAGED),
    Entry("type-mismatch", "Type ({a}) of output arg ({value}) of node ({name}) does not match expected type ({b})",
        "the model declares `{value}` as {a}, but the node computes {b}", DAMAGED),
    Entry("shape-mismatch", "Error merging shape info for output. '{value}' source:{a} target:{b}.",
        "the model declares another shape for `{value}` than the runtime computes: {b} and {a}", DAMAGED),
    Entry("bad-attribute", "Unrecognized attribute: {name} for operator {op}",
        "{op} of this opset has no attribute `{name}`", OPSET),
    Entry("bad-attribute", "'{name}' must be in {range}. Its actual value is: {value}",
        "the attribute `{name}` is {value}, which is not in {range}", DAMAGED),
    Entry("dangling-value", "Node input '{value}' is not a graph input, initializer, or output of a previous node",
        "nothing computes `{value}` before this node reads it", DAMAGED),
    Entry("duplicate-name", "Duplicate definition of name ({value})", "two nodes compute a value called `{value}`", DAMAGED),
    Entry("duplicate-name", "two nodes with same node name ({name})", "two nodes are called `{name}`", DAMAGED),
    Entry("cyclic-graph", "the graph is not acyclic", "nodes of the model wait for one another", DAMAGED),
    Entry("wrong-input", "Invalid rank for input: {value} Got: {got} Expected: {want} Please",
        "an array with {got} axes was fed as `{value}`, which has {want}", FEED),
    Entry("wrong-input", "Got invalid dimensions for input: {value} for the following",
        "the array that was fed as `{value}` has another shape", FEED),
    Entry("wrong-input", "Unexpected input data type. Actual: (tensor({got})) , expected: (tensor({want_type}))",
        "an array of {got} was fed to an input of {want_type}", FEED),
    Entry("wrong-input", "Unexpected input data type. Actual: (tensor({got})), expected: (tensor({want_type}))",
        "an array of {got} was fed to an input of {want_type}", FEED),
    Entry("wrong-input", "Invalid input name: {unknown_input}", "the model has no input `{unknown_input}`", NAMES),
    Entry("wrong-input", "Invalid Feed Input Name:{unknown_input}", "the model has no input `{unknown_input}`", NAMES),
    Entry("wrong-input", "Invalid output name:{unknown_output}", "the model has no output `{unknown_output}`", NAMES),
    Entry("wrong-input", "Invalid Output Name:{unknown_output}", "the model has no output `{unknown_output}`", NAMES),
    Entry("wrong-input", "Required inputs ({feeds}) are missing from input feed ({given})",
        "nothing was fed for {feeds}; the arrays that were fed are called {given}", FEED),
    Entry("unused-initializer", "Removing initializer '{value}'.", "no node reads `{value}`",
        "this is harmless; the model is larger than it need be"),
    Entry("too-new", "Unsupported model IR version: {a}, max supported IR version: {b}",
        "the model has IR version {a}, the runtime reads up to {b}", OPSET),
    Entry("too-new", "Opset {a} is under development",
        "the model has opset {a}, which the runtime does not know", OPSET),
    Entry("out-of-memory", "Failed to allocate memory for requested buffer of size {n}",
        "the result of this node takes {n} bytes, which the runtime could not get", "feed a smaller batch"),
    Entry("not-a-model", "protobuf parsing failed", "the runtime could not read the file: it is no ONNX model, or damaged",
        "export it again; a model whose file was copied in part looks like this"),
];

/// What a message means, if it is one of those that are known.
pub(crate) fn meaning(said: &str) -> Option<Meaning> {
    ENTRIES.iter().find_map(|Entry(code, pattern, message, help)| {
        // `{{` and `}}` in a pattern are braces of the message.
        let (at, _, captures) = find_braced(pattern, said)?;
        let blanks: Vec<(&'static str, String)> = captures
            .into_iter()
            .map(|(key, value)| (key, cut(value.trim()).into_owned()))
            .collect();
        let captures = blanks.iter().map(|(key, value)| (*key, value.as_str())).collect();
        Some(Meaning { code, message: render(message, &captures), help, at, blanks })
    })
}

fn find_braced<'t>(
    pattern: &'static str,
    said: &'t str,
) -> Option<(usize, usize, Captures<'static, 't>)> {
    let Some((start, _)) = pattern.split_once("{{") else { return find(pattern, said, 0) };
    // Only shapes are in braces: read them as they stand and take the braces off.
    let (at, mut end, mut captures) = find(start, said, 0)?;
    let mut rest = &pattern[start.len()..];
    while let Some((key, after)) = rest.strip_prefix("{{").and_then(|r| r.split_once("}}")) {
        let shape = said.get(end..)?.strip_prefix('{')?.split_once('}')?.0;
        captures.push((key, shape));
        end += shape.len() + 2;
        let literal = after.split("{{").next().unwrap_or_default();
        said.get(end..)?.strip_prefix(literal)?;
        end += literal.len();
        rest = &after[literal.len()..];
    }
    Some((at, end, captures))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(said: &str) -> String {
        meaning(said).map(|m| format!("[{}] {}", m.code, m.message)).unwrap_or_default()
    }

    #[test]
    fn messages_become_sentences() {
        for (said, expected) in [
            (
                "axis == 1 || axis == largest was false. Attempting to broadcast an axis by a \
                 dimension other than 1. 3 by 5\n",
                "[broadcast-mismatch] arrays of 3 and of 5 elements along one axis meet in this \
                 expression; they must be equal, or one of them 1",
            ),
            (
                "The input tensor cannot be reshaped to the requested shape. Input shape:{7}, \
                 requested shape:{2,3}",
                "[reshape-mismatch] an array of shape (7) has another number of elements than the \
                 shape (2,3) that this expression gives it",
            ),
            (
                "FAIL : Shape mismatch attempting to re-use buffer. {2,16} != {3,16}. Validate",
                "[dimension-conflict] a dimension that has one name in the model has two sizes in \
                 what was fed: shapes (2,16) and (3,16) should be one",
            ),
            (
                "NOT_IMPLEMENTED : Could not find an implementation for Erf(13) node with name 'er'",
                "[no-kernel] onnxruntime has no Erf (version 13) for these element types",
            ),
        ] {
            assert_eq!(message(said), expected);
        }
        assert_eq!(message("all is well"), "");
    }

    #[test]
    fn every_blank_of_a_sentence_is_in_its_pattern() {
        for Entry(code, pattern, message, _) in ENTRIES {
            for blank in message.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
                assert!(pattern.contains(&format!("{{{blank}}}")), "{code}: {blank}");
            }
        }
    }
}
