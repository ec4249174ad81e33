//! Prints a graph as text.

use std::fmt::Write as _;

use rustc_hash::FxHashSet;
use tensor::{DType, Dim, Type};

use super::constant;
use super::layout::{Layout, Names, is_elided};
use super::lexer::is_float_word;
use super::literal::{float, write_elements};
use crate::{Attr, BlockId, Graph, Node, Op, Use, ValueId};

/// Returns the model as text. Unnamed values are numbered in order of appearance. Large constants
/// are printed without their data; such text cannot be parsed.
pub fn print(graph: &Graph) -> String {
    let mut printer = Printer {
        graph,
        names: Names::new(graph),
        functions: graph.functions.iter().map(|f| f.op).collect(),
        layout: Layout::new(graph, Graph::MAIN),
        out: String::new(),
        depth: 0,
    };
    printer.body(&graph.name, Graph::MAIN, true);
    printer.out.push('\n');
    for function in &graph.functions {
        printer.layout = Layout::new(graph, function.body);
        printer.put(&format!("\n<domain: {}>\n", quoted(function.op.domain)));
        printer.body(function.op.name, function.body, true);
        printer.out.push('\n');
    }
    printer.out
}

struct Printer<'a> {
    graph: &'a Graph,
    names: Names<'a>,
    functions: FxHashSet<Op>,
    layout: Layout,
    out: String,
    depth: usize,
}

impl Printer<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn line(&mut self) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n("  ", self.depth));
    }

    fn put_name(&mut self, value: ValueId) {
        let name = self.names.get(value);
        self.put(&quotable(&name));
    }

    /// Prints items separated by commas.
    fn list<T>(&mut self, items: &[T], mut put: impl FnMut(&mut Self, &T)) {
        for (i, item) in items.iter().enumerate() {
            self.put(if i > 0 { ", " } else { "" });
            put(self, item);
        }
    }

    fn put_typed(&mut self, value: ValueId) {
        self.put(&type_text(self.graph.ty(value)));
        self.put(" ");
        self.put_name(value);
    }

    /// Prints a graph or a function. The `outermost` one lists the constants.
    fn body(&mut self, name: &str, block: BlockId, outermost: bool) {
        let graph = self.graph;
        self.put(&quotable(name));
        let (inputs, outputs) =
            (graph.block(block).inputs.as_slice(), graph.block(block).outputs());
        for (open, values) in [(" (", inputs), (" => (", outputs)] {
            self.put(open);
            self.list(values, |p, value| p.put_typed(*value));
            self.put(")");
        }
        let listed = self.initializers(block, outermost);
        if outermost || listed {
            self.line();
        } else {
            self.put(" ");
        }
        self.put("{");
        self.depth += 1;
        for id in graph.nodes_of(block) {
            for value in self.layout.before.remove(&id).unwrap_or_default() {
                self.constant(value);
            }
            self.node(graph.node(id));
        }
        if outermost {
            for value in std::mem::take(&mut self.layout.last) {
                self.constant(value);
            }
        }
        self.depth -= 1;
        self.line();
        self.put("}");
    }

    /// Prints the named constants, and the types that cannot be inferred. Returns `true` if there
    /// are any.
    fn initializers(&mut self, block: BlockId, outermost: bool) -> bool {
        let mut listed = Vec::new();
        if outermost {
            listed.append(&mut self.layout.listed);
        }
        for node in self.graph.nodes_of(block).map(|id| self.graph.node(id)) {
            if !node.op.domain.is_empty() && !self.functions.contains(&node.op) {
                let returned = |place| matches!(place, Use::Output(b, _) if b == block);
                let is_output = |v: ValueId| self.graph.value(v).uses().any(returned);
                listed.extend(node.outputs.iter().filter(|v| !is_output(**v)));
            }
        }
        if listed.is_empty() {
            return false;
        }
        self.line();
        self.put("<");
        self.depth += 1;
        let count = listed.len();
        for (i, value) in listed.into_iter().enumerate() {
            self.line();
            self.put_typed(value);
            let tensor = self.graph.tensor(value);
            let elided = is_elided(self.graph, value);
            if let (Some(tensor), false) = (tensor, elided) {
                self.put(" = {");
                write_elements(tensor, &mut self.out);
                self.put("}");
            }
            self.put(if i + 1 < count { "," } else { "" });
            if let (Some(tensor), true) = (tensor, elided) {
                self.put(&format!("  # {} bytes, not shown", tensor.byte_len()));
            }
        }
        self.depth -= 1;
        self.line();
        self.put(">");
        true
    }

    fn constant(&mut self, value: ValueId) {
        let Some(tensor) = self.graph.tensor(value) else { return };
        let (name, attr) = constant::attr(tensor);
        self.line();
        self.put_name(value);
        self.put(" = Constant <");
        self.attr(name, &attr);
        self.put("> ()");
    }

    fn node(&mut self, node: &Node) {
        self.line();
        if !node.name.is_empty() {
            self.put(&format!("[{}] ", quotable(&node.name)));
        }
        self.list(&node.outputs, |p, value| p.put_name(*value));
        let dot = if node.op.domain.is_empty() { "" } else { "." };
        self.put(&format!(" = {}{dot}{}", node.op.domain, node.op.name));
        let is_graph = |attr: &Attr| matches!(attr, Attr::Graph(_));
        let (graphs, plain): (Vec<_>, Vec<_>) = node.attrs.iter().partition(|(_, a)| is_graph(a));
        self.attributes(&plain);
        self.put(" (");
        self.list(&node.inputs, |p, input| match input {
            Some(value) => p.put_name(*value),
            None => p.put("\"\""),
        });
        self.put(")");
        self.attributes(&graphs);
        let types: Vec<_> = node.outputs.iter().map(|v| type_text(self.graph.ty(*v))).collect();
        self.put(&format!("  # {}", types.join(", ").replace('\n', " ")));
    }

    fn attributes(&mut self, attrs: &[&(&'static str, Attr)]) {
        if attrs.is_empty() {
            return;
        }
        self.put(" <");
        self.list(attrs, |p, (name, attr)| p.attr(name, attr));
        self.put(">");
    }

    fn attr(&mut self, name: &str, attr: &Attr) {
        let list = |items: Vec<String>| format!("[{}]", items.join(", "));
        let (ty, text) = match attr {
            Attr::Int(v) => ("int", v.to_string()),
            Attr::Float(v) => ("float", float(v)),
            Attr::String(v) => ("string", quoted(v)),
            Attr::Ints(v) => ("ints", list(v.iter().map(i64::to_string).collect())),
            Attr::Floats(v) => ("floats", list(v.iter().map(float).collect())),
            Attr::Strings(v) => ("strings", list(v.iter().map(|s| quoted(s)).collect())),
            Attr::Tensor(v) => {
                let mut text = format!("{} {{", type_text(&v.ty()));
                write_elements(v, &mut text);
                ("tensor", text + "}")
            }
            Attr::Graph(_) => ("graph", String::new()),
        };
        self.put(&format!("{}: {ty} = {text}", quotable(name)));
        if let Attr::Graph(block) = attr {
            self.body(name, *block, false);
        }
    }
}

fn type_text(ty: &Type) -> String {
    let mut text = ty.dtype.onnx_name().to_owned();
    for (i, dim) in ty.shape.iter().enumerate() {
        text.push(if i > 0 { ',' } else { '[' });
        // Writing to a string cannot fail.
        let _ = match dim {
            Dim::Known(n) => write!(text, "{n}"),
            Dim::Symbolic(_) => write!(text, "{}", quotable(&dim.to_string())),
        };
    }
    text + if ty.shape.is_empty() { "" } else { "]" }
}

/// Returns a name, in quotes unless it is a plain word.
pub fn quotable(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && DType::from_onnx_name(name).is_none()
        && !is_float_word(name);
    if plain { name.to_owned() } else { quoted(name) }
}

/// Returns a text in quotes.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
