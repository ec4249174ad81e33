//! Prints models that were read from files.

use std::fmt::Write as _;
use std::sync::Arc;

use onnx::text::{SHOWN, float, quotable, quoted, write_elements};
use tensor::{DType, Tensor};

use crate::proto::{
    AttributeProto, AttributeType, DataLocation, DimensionValue, FunctionProto, GraphProto,
    ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorTypeProto, TypeProto, TypeValue,
    ValueInfoProto,
};

/// The code of the string type, the only element type that `DType` lacks.
const STRING: i32 = 8;

/// Returns the model as text, in the syntax of `onnx.parser`.
///
/// Data that is too large to show, or that was not read, is replaced by a comment. Such text cannot
/// be parsed.
pub fn print_model(model: &ModelProto) -> String {
    let mut printer = Printer { out: String::new(), depth: 0 };
    printer.head(model);
    if let Some(graph) = &model.graph {
        printer.graph(&graph.name, graph);
        printer.out.push('\n');
    }
    for function in &model.functions {
        printer.function(function);
    }
    printer.out
}

struct Printer {
    out: String,
    depth: usize,
}

impl Printer {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn line(&mut self) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n("  ", self.depth));
    }

    /// Prints items separated by commas.
    fn list<T>(&mut self, items: &[T], mut put: impl FnMut(&mut Self, &T)) {
        for (i, item) in items.iter().enumerate() {
            self.put(if i > 0 { ", " } else { "" });
            put(self, item);
        }
    }

    fn head(&mut self, model: &ModelProto) {
        let mut fields = vec![format!("ir_version: {}", model.ir_version)];
        fields.push(format!("opset_import: [{}]", opsets(&model.opset_import)));
        for (key, text) in [
            ("producer_name", &model.producer_name),
            ("producer_version", &model.producer_version),
            ("domain", &model.domain),
        ] {
            fields.extend((!text.is_empty()).then(|| format!("{key}: {}", quoted(text))));
        }
        self.put(&format!("<\n  {}\n>\n", fields.join(",\n  ")));
    }

    fn function(&mut self, function: &FunctionProto) {
        let domain = quoted(&function.domain);
        let opsets = opsets(&function.opset_import);
        self.put(&format!("\n<\n  domain: {domain},\n  opset_import: [{opsets}]\n>\n"));
        self.put(&quotable(&function.name));
        if !function.attribute.is_empty() {
            self.put(" <");
            self.list(&function.attribute, |p, name| p.put(&quotable(name)));
            self.put(">");
        }
        for (open, names) in [(" (", &function.input), (" => (", &function.output)] {
            self.put(open);
            self.list(names, |p, name| p.put(&quotable(name)));
            self.put(")");
        }
        self.nodes(&function.node);
        self.put("\n");
    }

    fn graph(&mut self, name: &str, graph: &GraphProto) {
        self.put(&quotable(name));
        for (open, values) in [(" (", &graph.input), (" => (", &graph.output)] {
            self.put(open);
            self.list(values, Self::value);
            self.put(")");
        }
        if !graph.initializer.is_empty() || !graph.value_info.is_empty() {
            self.line();
            self.put("<");
            self.depth += 1;
            let last = graph.initializer.len() + graph.value_info.len() - 1;
            for (i, tensor) in graph.initializer.iter().enumerate() {
                self.line();
                self.initializer(tensor, if i < last { "," } else { "" });
            }
            for (i, value) in graph.value_info.iter().enumerate() {
                self.line();
                self.value(value);
                self.put(if graph.initializer.len() + i < last { "," } else { "" });
            }
            self.depth -= 1;
            self.line();
            self.put(">");
        }
        self.nodes(&graph.node);
    }

    fn value(&mut self, value: &ValueInfoProto) {
        let ty = value.r#type.as_ref().map(type_text).unwrap_or_default();
        self.put(&format!("{ty} {}", quotable(&value.name)));
    }

    fn initializer(&mut self, tensor: &TensorProto, separator: &str) {
        self.put(&format!("{} {}", tensor_type(tensor), quotable(&tensor.name)));
        if tensor.data_location == DataLocation::External as i32 {
            self.put(" = [");
            self.list(&tensor.external_data, |p, entry| {
                p.put(&format!("{}: {}", quoted(&entry.key), quoted(&entry.value)));
            });
            return self.put(&format!("]{separator}"));
        }
        match elements(tensor) {
            Some(elements) => self.put(&format!(" = {{{elements}}}{separator}")),
            None => self.put(&format!("{separator}  # data not shown")),
        }
    }

    fn nodes(&mut self, nodes: &[NodeProto]) {
        self.line();
        self.put("{");
        self.depth += 1;
        for node in nodes {
            self.line();
            self.node(node);
        }
        self.depth -= 1;
        self.line();
        self.put("}");
    }

    fn node(&mut self, node: &NodeProto) {
        if !node.name.is_empty() {
            self.put(&format!("[{}] ", quotable(&node.name)));
        }
        self.list(&node.output, |p, name| p.put(&quotable(name)));
        let dot = if node.domain.is_empty() { "" } else { "." };
        self.put(&format!(" = {}{dot}{}", node.domain, node.op_type));
        if !node.overload.is_empty() {
            self.put(&format!(":{}", node.overload));
        }
        if !node.attribute.is_empty() {
            self.put(" <");
            self.list(&node.attribute, Self::attribute);
            self.put(">");
        }
        self.put(" (");
        self.list(&node.input, |p, name| p.put(&quotable(name)));
        self.put(")");
    }

    fn attribute(&mut self, attribute: &AttributeProto) {
        let (ty, text) = attribute_text(attribute);
        self.put(&format!("{}: {ty} = ", quotable(&attribute.name)));
        if !attribute.ref_attr_name.is_empty() {
            return self.put(&format!("@{}", attribute.ref_attr_name));
        }
        match (&attribute.g, text) {
            (Some(graph), _) => self.graph(inner_name(graph, attribute), graph),
            (None, Some(text)) => self.put(&text),
            (None, None) => {
                self.put("[");
                self.list(&attribute.graphs, |p, graph| {
                    p.graph(inner_name(graph, attribute), graph);
                });
                self.put("]");
            }
        }
    }
}

/// Returns the name to print for a graph in an attribute. If the graph's name needs quotes, this is
/// the attribute's name, because `onnx.parser` reads a quoted name as a string here.
fn inner_name<'a>(graph: &'a GraphProto, attribute: &'a AttributeProto) -> &'a str {
    if quotable(&graph.name) == graph.name { &graph.name } else { &attribute.name }
}

/// Returns the type of an attribute and its text. The text is `None` for graphs.
fn attribute_text(attribute: &AttributeProto) -> (&'static str, Option<String>) {
    let list = |items: Vec<String>| Some(format!("[{}]", items.join(", ")));
    let string = |bytes: &[u8]| quoted(&String::from_utf8_lossy(bytes));
    let number = |value: &f32| float(value);
    match AttributeType::try_from(attribute.r#type).unwrap_or(AttributeType::Undefined) {
        AttributeType::Float => ("float", Some(number(&attribute.f.unwrap_or_default()))),
        AttributeType::Int => ("int", Some(attribute.i.unwrap_or_default().to_string())),
        AttributeType::String => {
            ("string", Some(string(attribute.s.as_deref().unwrap_or_default())))
        }
        AttributeType::Floats => ("floats", list(attribute.floats.iter().map(number).collect())),
        AttributeType::Ints => ("ints", list(attribute.ints.iter().map(i64::to_string).collect())),
        AttributeType::Strings => {
            ("strings", list(attribute.strings.iter().map(|s| string(s)).collect()))
        }
        AttributeType::Tensor => ("tensor", attribute.t.as_deref().map(tensor_text)),
        AttributeType::Tensors => {
            ("tensors", list(attribute.tensors.iter().map(tensor_text).collect()))
        }
        AttributeType::TypeProto => ("type_proto", attribute.tp.as_deref().map(type_text)),
        AttributeType::TypeProtos => {
            ("type_protos", list(attribute.type_protos.iter().map(type_text).collect()))
        }
        AttributeType::Graph => ("graph", None),
        AttributeType::Graphs => ("graphs", None),
        AttributeType::SparseTensor => ("sparse_tensor", Some("{}  # not shown".to_owned())),
        AttributeType::SparseTensors => ("sparse_tensors", Some("[]  # not shown".to_owned())),
        AttributeType::Undefined => ("undefined", Some(String::new())),
    }
}

fn tensor_text(tensor: &TensorProto) -> String {
    let data = elements(tensor).unwrap_or_else(|| "…".to_owned());
    let name =
        if tensor.name.is_empty() { String::new() } else { format!(" {}", quotable(&tensor.name)) };
    format!("{}{name} {{{data}}}", tensor_type(tensor))
}

/// Returns the elements of a tensor, separated by commas, if they are present and few.
pub fn elements(tensor: &TensorProto) -> Option<String> {
    if tensor.data_type == STRING {
        let texts = tensor.string_data.iter().map(|s| quoted(&String::from_utf8_lossy(s)));
        let texts: Vec<String> = texts.collect();
        return (texts.len() as u64 == count(tensor)?).then(|| texts.join(", "));
    }
    count(tensor)?;
    let mut text = String::new();
    write_elements(&tensor_of(tensor)?, &mut text);
    Some(text)
}

/// Converts a tensor message to a tensor, if all of its elements are present.
pub fn tensor_of(tensor: &TensorProto) -> Option<Tensor> {
    let dtype = DType::from_onnx_code(tensor.data_type)?;
    let shape: Option<Vec<usize>> = tensor.dims.iter().map(|d| usize::try_from(*d).ok()).collect();
    let bytes = match &tensor.raw_data {
        Some(raw) => raw.to_vec(),
        None => typed_bytes(dtype, tensor),
    };
    Tensor::new(dtype, &shape?, Arc::new(bytes)).ok()
}

/// Returns the number of elements of a tensor, if it is small enough to show.
fn count(tensor: &TensorProto) -> Option<u64> {
    let dims = tensor.dims.iter().map(|dim| u64::try_from(*dim).ok());
    let count = dims.into_iter().try_fold(1_u64, |n, dim| n.checked_mul(dim?))?;
    (count <= SHOWN as u64).then_some(count)
}

/// Returns the elements in a tensor's typed fields, such as `float_data`, as bytes.
fn typed_bytes(dtype: DType, tensor: &TensorProto) -> Vec<u8> {
    let width = (dtype.bits() as usize).div_ceil(8);
    // Narrow types are stored in wider ones, so use the low bytes.
    let narrow = |wide: &[u8]| wide.iter().copied().take(width).collect::<Vec<_>>();
    let mut bytes = Vec::new();
    bytes.extend(tensor.float_data.iter().flat_map(|v| v.to_le_bytes()));
    bytes.extend(tensor.double_data.iter().flat_map(|v| v.to_le_bytes()));
    bytes.extend(tensor.int32_data.iter().flat_map(|v| narrow(&v.to_le_bytes())));
    bytes.extend(tensor.int64_data.iter().flat_map(|v| v.to_le_bytes()));
    bytes.extend(tensor.uint64_data.iter().flat_map(|v| narrow(&v.to_le_bytes())));
    bytes
}

fn opsets(sets: &[OperatorSetIdProto]) -> String {
    let sets = sets.iter().map(|set| format!("{}: {}", quoted(&set.domain), set.version));
    sets.collect::<Vec<_>>().join(", ")
}

/// Returns the name of an element type.
pub fn element_name(code: i32) -> &'static str {
    if code == STRING {
        "string"
    } else {
        DType::from_onnx_code(code).map_or("undefined", DType::onnx_name)
    }
}

fn tensor_type(tensor: &TensorProto) -> String {
    let dims: Vec<String> = tensor.dims.iter().map(i64::to_string).collect();
    let shape = if dims.is_empty() { String::new() } else { format!("[{}]", dims.join(",")) };
    format!("{}{shape}", element_name(tensor.data_type))
}

fn type_text(ty: &TypeProto) -> String {
    let inner = |ty: &Option<Box<TypeProto>>| ty.as_deref().map(type_text).unwrap_or_default();
    match &ty.value {
        Some(TypeValue::TensorType(tensor)) => tensor_type_text(tensor),
        Some(TypeValue::SparseTensorType(tensor)) => {
            format!("sparse_tensor({})", tensor_type_text(tensor))
        }
        Some(TypeValue::SequenceType(sequence)) => format!("seq({})", inner(&sequence.elem_type)),
        Some(TypeValue::OptionalType(optional)) => {
            format!("optional({})", inner(&optional.elem_type))
        }
        Some(TypeValue::MapType(map)) => {
            format!("map({}, {})", element_name(map.key_type), inner(&map.value_type))
        }
        Some(TypeValue::OpaqueType(_)) | None => String::new(),
    }
}

fn tensor_type_text(tensor: &TensorTypeProto) -> String {
    let mut text = element_name(tensor.elem_type).to_owned();
    let Some(shape) = &tensor.shape else { return text + "[]" };
    for (i, dim) in shape.dim.iter().enumerate() {
        text.push(if i > 0 { ',' } else { '[' });
        // Writing to a string cannot fail.
        let _ = match &dim.value {
            Some(DimensionValue::DimValue(size)) => write!(text, "{size}"),
            Some(DimensionValue::DimParam(name)) => write!(text, "{}", quotable(name)),
            None => write!(text, "?"),
        };
    }
    text + if shape.dim.is_empty() { "" } else { "]" }
}
