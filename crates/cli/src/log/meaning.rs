//! The meaning of runtime messages in terms of the exported program.

use super::cut;
use super::pattern::{Captures, find, render};

/// The meaning of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meaning {
    /// A stable kebab-case code.
    pub(crate) code: &'static str,
    /// The problem.
    pub(crate) message: String,
    /// The suggested remedy.
    pub(crate) help: &'static str,
    /// The offset of the recognised text in the message.
    pub(crate) at: usize,
    blanks: Vec<(&'static str, String)>,
}

impl Meaning {
    /// Returns the part of the message that fills a blank of its pattern.
    pub(crate) fn blank(&self, key: &str) -> Option<&str> {
        self.blanks.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }
}

/// The code, the pattern of the message, the problem and the remedy.
struct Entry(&'static str, &'static str, &'static str, &'static str);

const SIZES: &str = "pass arrays of the exported shapes, or export with a symbolic dimension, such as \
(\"B\", 4)";
/// The remedy for a dimension with two sizes.
pub(crate) const NAMED: &str = "pass the same size wherever the inputs share a dimension, or export them with \
different dimension names";
const INDICES: &str = "check the indices that are passed; JAX guards them with mode=\"clip\" or mode=\"fill\", \
but not with mode=\"promise_in_bounds\"";
const KERNEL: &str = "cast to float32 around this line, choose another execution provider, or use a newer \
                      runtime";
const OPSET: &str = "use a newer runtime, or export with a lower opset=";
const FEED: &str = "change the arrays passed to session.run, or export with their shapes and types";
const NAMES: &str = "pass the model's own names to session.run; to choose them, export with input_names= and \
output_names=";
const DAMAGED: &str = "a tool broke the model after the export; check whether the model as exported has the \
problem";

const DATA: &str = "put the data file that was exported with the model beside it, under its own name, or export \
again";

#[rustfmt::skip]
const ENTRIES: &[Entry] = &[
    Entry("missing-data", "External data path does not exist: \"{path}\"",
        "this parameter is in the data file {path}, which does not exist", DATA),
    Entry("missing-data", "cannot get file size: No such file or directory [{path}]",
        "the model's data file {path} does not exist", DATA),
    Entry("missing-data", "in file_size: No such file or directory [{path}]",
        "the model's data file {path} does not exist", DATA),
    Entry("missing-data", "Deserialize tensor {value} failed.GetFileLength for {path} failed",
        "`{value}` is in the data file {path}, which cannot be opened", DATA),
    Entry("missing-data", "Data of TensorProto ( tensor name: {value}) should be stored in {path}, but it",
        "`{value}` is in the data file {path}, which does not exist or cannot be read", DATA),
    Entry("missing-data", "Failed to load external data file \"{path}\"",
        "the model's data file {path} was not loaded", DATA),
    Entry("missing-data", "Deserialize tensor {value} failed.{where} Random-access reads require a regular file: {path}",
        "`{value}` is in the data file {path}, which is not a regular file", DATA),
    Entry("linked-data", "External data path escapes model directory. External data path: \"{path}\" resolved path: \"{target}\"",
        "the model's data file {path} is a link to {target}, outside of the model's folder, which onnxruntime does not open",
        "copy the data file into the model's folder instead of linking to it"),
    Entry("truncated-data", "External initializer: {value} offset: {offset} size to read: {size} given file_length: {length} are out of bounds",
        "the model's data file ends too early: `{value}` needs {size} bytes at offset {offset}, but the file has only {length}", DATA),
    Entry("dimension-conflict", "Shape mismatch attempting to re-use buffer. {{a}} != {{b}}",
        "one dimension of the model was given two sizes: the shapes ({a}) and ({b}) should be equal", NAMED),
    Entry("broadcast-mismatch", "Attempting to broadcast an axis by a dimension other than 1. {a} by {b}",
        "this expression combines arrays with {a} and {b} elements along one axis; the sizes must be equal, or one of them 1", SIZES),
    Entry("matmul-mismatch", "GEMM: Dimension mismatch, W: {w} K: {k} N:{n}",
        "this product multiplies a matrix with {k} columns by one of shape {w}; the inner sizes must be equal", SIZES),
    Entry("matmul-mismatch", "MatMul dimension mismatch",
        "the inner sizes of this matrix product differ", SIZES),
    Entry("matmul-mismatch", "Incompatible dimensions for matrix multiplication",
        "the inner sizes of this matrix product differ", SIZES),
    Entry("matmul-mismatch", "Incompatible MatMul matrix dimension. First input dimension={a} at {i} doesn't match the second input dimension={b} at",
        "the inner sizes of this matrix product differ: {a} and {b}", SIZES),
    Entry("matmul-mismatch", "Matmul input shapes are incompatible shape A: {a} shape B: {b}",
        "this matrix product multiplies arrays of shapes {a} and {b}, whose inner sizes differ", SIZES),
    Entry("broadcast-mismatch", "Eltwise shape infer input shapes dim index: {axis} mismatch",
        "the arrays in this expression have different sizes along axis {axis}, and neither size is 1", SIZES),
    Entry("broadcast-mismatch", "broadcast dimensions must be conformable",
        "the arrays in this expression have different sizes along an axis, and neither size is 1", SIZES),
    Entry("shape-mismatch", "Argument shapes are inconsistent",
        "the shapes of the arrays in this expression are incompatible", SIZES),
    Entry("reshape-mismatch", "the shape of input data {from} conflicts with the reshape pattern {to}",
        "this expression reshapes an array of shape {from} to {to}, which has a different number of elements", SIZES),
    Entry("reshape-mismatch", "reshape changes volume. Reshaping {from} to {to}.",
        "this expression reshapes an array of shape {from} to {to}, which has a different number of elements", SIZES),
    Entry("type-mismatch", "Arguments do not have the same element type (arg0 element type: {a}, arg1 element type: {b})",
        "this expression combines arrays of {a} and {b}", DAMAGED),
    Entry("bad-attribute", "Axis {axis} out of the tensor rank range {range}.",
        "axis {axis} does not exist; valid axes are {range}", DAMAGED),
    Entry("dynamic-rank", "doesn't support {op} operation with dynamic rank",
        "OpenVINO does not know the rank of this {op}'s result", "export with fixed shapes"),
    Entry("no-kernel", "Unsupported operation of type: {op} name:",
        "OpenVINO has no implementation of {op} for these shapes and element types", KERNEL),
    Entry("dangling-value", "Input tensor isn't found for node \"{value}\"",
        "nothing computes `{value}` before this node reads it", DAMAGED),
    Entry("einsum-mismatch", "Einsum operands could not be broadcast together",
        "a letter of this einsum's equation has different sizes in its arrays", SIZES),
    Entry("shape-mismatch", "[ShapeInferenceError] Incompatible dimensions",
        "the shapes of the arrays in this expression are incompatible", SIZES),
    Entry("reshape-mismatch", "cannot be reshaped to the requested shape. Input shape:{{from}}, requested shape:{{to}}",
        "this expression reshapes an array of shape ({from}) to ({to}), which has a different number of elements", SIZES),
    Entry("index-out-of-range", "indices element out of data bounds, idx={i} must be within the inclusive range [{low},{high}]",
        "this expression reads index {i} of an axis whose indices go from {low} to {high}", INDICES),
    Entry("index-out-of-range", "invalid indice found, indice = {i}",
        "this expression writes to index {i}, which is outside the array", INDICES),
    Entry("index-out-of-range", "invalid index found, index = {i}",
        "this expression reads index {i}, which is outside the array", INDICES),
    Entry("channel-mismatch", "Input channels C is not equal to kernel channels * group. C: {c} kernel channels: {k} group: {g}",
        "the input of this convolution has {c} channels, but its kernel expects {k} in each of {g} groups", SIZES),
    Entry("concatenate-mismatch", "Non concat axis dimensions must match: Axis {axis} has mismatched dimensions of {a} and {b}",
        "the concatenated arrays have different sizes along axis {axis}, which is not the axis of concatenation: {a} and {b}", SIZES),
    Entry("expand-mismatch", "invalid expand shape",
        "this expression broadcasts an array to an incompatible shape", SIZES),
    Entry("squeeze-mismatch", "Dimension of input {axis} must be 1 instead of {n}. shape={shape}",
        "this expression squeezes axis {axis}, which has size {n} instead of 1; the shape is {shape}", SIZES),
    Entry("split-mismatch", "Invalid value in 'split'. Split size {a} exceeds the remaining size of the selected axis, {b}",
        "this expression splits off {a} elements, but only {b} are left", SIZES),
    Entry("top-k-too-large", "k argument [{k}] should not be greater than specified axis dim value [{n}]",
        "this expression asks for the top {k} of only {n} elements", SIZES),
    Entry("zero-step", "'step' value cannot be 0", "the step of this slice is 0", "compute a step other than 0"),
    Entry("no-kernel", "Could not find an implementation for {op}({version}) node with name",
        "onnxruntime has no implementation of {op} (version {version}) for these element types", KERNEL),
    Entry("no-kernel", "Could not find any implementation for node",
        "TensorRT found no way to run this node with these shapes and element types", KERNEL),
    Entry("unknown-operator", "No Op registered for {op} with domain_version of {version}",
        "the runtime does not support the operator {op} of opset {version}", OPSET),
    Entry("unknown-operator", "Fatal error: {op}({version}) is not a registered function/op",
        "the runtime does not support the operator {op}", "register the library that implements it with the session"),
    Entry("unknown-operator", "UNSUPPORTED_NODE", "TensorRT's parser does not support this node",
        "register a plugin for it, use a newer TensorRT, or rewrite this line"),
    Entry("unknown-operator", "No conversion rule found for operations: {ops}",
        "OpenVINO does not support these operators: {ops}", OPSET),
    Entry("type-mismatch", "Type parameter ({t}) of Optype ({op}) bound to different types ({a} and {b} in node",
        "the inputs of {op} must have the same element type, but have {a} and {b}", DAMAGED),
    Entry("type-mismatch", "Type '{ty}' of input parameter ({value}) of operator ({op}) in node",
        "{op} does not accept {ty}, the element type of `{value}`", DAMAGED),
    Entry("type-mismatch", "Type ({a}) of output arg ({value}) of node ({name}) does not match expected type ({b})",
        "the model declares `{value}` as {a}, but the node computes {b}", DAMAGED),
    Entry("shape-mismatch", "Error merging shape info for output. '{value}' source:{a} target:{b}.",
        "the model declares the shape {b} for `{value}`, but the runtime computes {a}", DAMAGED),
    Entry("bad-attribute", "Unrecognized attribute: {name} for operator {op}",
        "in this opset, {op} has no attribute `{name}`", OPSET),
    Entry("bad-attribute", "'{name}' must be in {range}. Its actual value is: {value}",
        "the attribute `{name}` is {value}, which is not in {range}", DAMAGED),
    Entry("dangling-value", "Node input '{value}' is not a graph input, initializer, or output of a previous node",
        "nothing computes `{value}` before this node reads it", DAMAGED),
    Entry("duplicate-name", "Duplicate definition of name ({value})", "two nodes compute a value named `{value}`", DAMAGED),
    Entry("duplicate-name", "two nodes with same node name ({name})", "two nodes are named `{name}`", DAMAGED),
    Entry("cyclic-graph", "the graph is not acyclic", "the model's nodes depend on each other in a cycle", DAMAGED),
    Entry("wrong-input", "Invalid rank for input: {value} Got: {got} Expected: {want} Please",
        "the input `{value}` has rank {want}, but was given an array of rank {got}", FEED),
    Entry("wrong-input", "Got invalid dimensions for input: {value} for the following",
        "the input `{value}` was given an array of a different shape", FEED),
    Entry("wrong-input", "Unexpected input data type. Actual: (tensor({got})) , expected: (tensor({want_type}))",
        "an input of type {want_type} was given an array of {got}", FEED),
    Entry("wrong-input", "Unexpected input data type. Actual: (tensor({got})), expected: (tensor({want_type}))",
        "an input of type {want_type} was given an array of {got}", FEED),
    Entry("wrong-input", "Invalid input name: {unknown_input}", "the model has no input `{unknown_input}`", NAMES),
    Entry("wrong-input", "Invalid Feed Input Name:{unknown_input}", "the model has no input `{unknown_input}`", NAMES),
    Entry("wrong-input", "Invalid output name:{unknown_output}", "the model has no output `{unknown_output}`", NAMES),
    Entry("wrong-input", "Invalid Output Name:{unknown_output}", "the model has no output `{unknown_output}`", NAMES),
    Entry("wrong-input", "Required inputs ({feeds}) are missing from input feed ({given})",
        "the inputs {feeds} are missing; the given inputs are {given}", FEED),
    Entry("unused-initializer", "Removing initializer '{value}'.", "no node reads `{value}`",
        "this is harmless, but the model is larger than necessary"),
    Entry("too-new", "Unsupported model IR version: {a}, max supported IR version: {b}",
        "the model has IR version {a}, but the runtime supports only versions up to {b}", OPSET),
    Entry("too-new", "Opset {a} is under development",
        "the model has opset {a}, which the runtime does not support", OPSET),
    Entry("out-of-memory", "Failed to allocate memory for requested buffer of size {n}",
        "the runtime could not allocate {n} bytes for the result of this node", "use a smaller batch"),
    Entry("not-a-model", "Protobuf parsing failed", "the runtime could not read the file: it is not an ONNX model, or it is damaged",
        "export it again; the file may be incomplete"),
    Entry("wrong-input", "input '{value}' is missing in 'feeds'", "the input `{value}` is missing", FEED),
    Entry("wrong-input", "because the model input (shape={want}) and the tensor (shape={got}) are incompatible",
        "an input of shape {want} was given an array of shape {got}", FEED),
    Entry("wrong-input", "because the model input (element_type={want}) and the tensor (element_type={got}) are incompatible",
        "an input of {want} was given an array of {got}", FEED),
    Entry("broadcast-mismatch", "Can't perform binary op on the given tensors",
        "the arrays in this expression have different sizes along an axis, and neither size is 1", SIZES),
    Entry("not-a-model", "protobuf parsing failed", "the runtime could not read the file: it is not an ONNX model, or it is damaged",
        "export it again; the file may be incomplete"),
];

/// Returns the meaning of a message, if it is known.
pub(crate) fn meaning(said: &str) -> Option<Meaning> {
    ENTRIES.iter().find_map(|Entry(code, pattern, message, help)| {
        // `{{` and `}}` in a pattern match braces in the message.
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
    // Only shapes are in braces. They are captured whole, without the braces.
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
                "[broadcast-mismatch] this expression combines arrays with 3 and 5 elements along one \
                axis; the sizes must be equal, or one of them 1",
            ),
            (
                "The input tensor cannot be reshaped to the requested shape. Input shape:{7}, \
                 requested shape:{2,3}",
                "[reshape-mismatch] this expression reshapes an array of shape (7) to (2,3), which has a \
                different number of elements",
            ),
            (
                "FAIL : Shape mismatch attempting to re-use buffer. {2,16} != {3,16}. Validate",
                "[dimension-conflict] one dimension of the model was given two sizes: the shapes (2,16) \
                and (3,16) should be equal",
            ),
            (
                "NOT_IMPLEMENTED : Could not find an implementation for Erf(13) node with name 'er'",
                "[no-kernel] onnxruntime has no implementation of Erf (version 13) for these element types",
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
