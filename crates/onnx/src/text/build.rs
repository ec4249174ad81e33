//! Builds a graph from its syntax tree.

use std::panic::Location;

use provenance::{Origins, Stage};
use rustc_hash::FxHashMap;
use tensor::Type;
use tokens::{Read, fail};

use super::functions;
use super::parse::Parser;
use super::syntax::{Argument, Body, Declared, Model, Name, Statement};
use crate::attr::constant_of;
use crate::edit::may_be_same;
use crate::{
    Attr, Attrs, BlockId, Builder, Error, Function, Graph, Op, Result, Source, ValueId, intern,
};

/// Parses a model, or a graph alone. A node's scope is its name up to the last `/`.
pub fn parse(text: &str, origins: &mut Origins) -> Result<Graph> {
    let read = Parser::new(text).and_then(|mut parser| parser.model());
    let built = read.and_then(|model| Reader::build(&model, origins));
    built.map_err(|fail| {
        let (line, column) = fail.position(text);
        Error::Text { line, column, reason: fail.reason }
    })
}

/// The names in scope, and the types that are declared for them.
#[derive(Default)]
struct Scope<'a> {
    values: FxHashMap<&'a str, ValueId>,
    types: FxHashMap<&'a str, &'a Declared>,
    /// The names that each open block defines.
    added: Vec<Vec<&'a str>>,
}

struct Reader<'a, 'o> {
    graph: Graph,
    origins: &'o mut Origins,
    functions: FxHashMap<Op, BlockId>,
    scope: Scope<'a>,
}

impl<'a, 'o> Reader<'a, 'o> {
    fn build(model: &'a Model, origins: &'o mut Origins) -> Read<Graph> {
        let (graph, functions) = (Graph::new(&model.graph.name), FxHashMap::default());
        let mut reader = Self { graph, origins, functions, scope: Scope::default() };
        for index in functions::callees_first(&model.functions)? {
            let text = &model.functions[index];
            let block = reader.graph.add_block();
            reader.body(block, &text.body)?;
            let op = Op { domain: intern(&text.domain), name: intern(&text.body.name) };
            if reader.functions.insert(op, block).is_some() {
                return fail(text.at, format!("the function `{}` is defined twice", op.name));
            }
        }
        reader.body(Graph::MAIN, &model.graph)?;
        for text in &model.functions {
            let op = Op { domain: intern(&text.domain), name: intern(&text.body.name) };
            let body = reader.functions[&op];
            reader.graph.functions.push(Function { op, body });
        }
        Ok(reader.graph)
    }

    fn define(&mut self, name: &'a Name, value: ValueId) -> Read<()> {
        if name.text.is_empty() {
            return Ok(());
        }
        if self.scope.values.insert(&name.text, value).is_some() {
            return fail(name.at, format!("the value `{}` is defined twice", name.text));
        }
        if let Some(added) = self.scope.added.last_mut() {
            added.push(&name.text);
        }
        if self.graph.tensor(value).is_none() {
            self.graph.value_mut(value).name.clone_from(&name.text);
        }
        Ok(())
    }

    fn lookup(&self, name: &Name) -> Read<ValueId> {
        if let Some(known) = self.scope.values.get(name.text.as_str()) {
            return Ok(*known);
        }
        let declared = self.scope.types.contains_key(name.text.as_str());
        let why =
            if declared { "has no data, and no earlier node computes it" } else { "is unknown" };
        fail(name.at, format!("`{}` {why}", name.text))
    }

    fn body(&mut self, block: BlockId, body: &'a Body) -> Read<()> {
        self.scope.added.push(Vec::new());
        for input in &body.inputs {
            let Some(ty) = &input.ty else {
                return fail(input.name.at, "an input needs a type");
            };
            let value = self.graph.add_input(block, ty.clone());
            self.define(&input.name, value)?;
        }
        for (value, tensor) in &body.values {
            match tensor {
                Some(tensor) => {
                    let name = value.name.text.clone();
                    let parameter = self.graph.add_parameter(name, tensor.clone());
                    self.define(&value.name, parameter)?;
                }
                None => drop(self.scope.types.insert(&value.name.text, value)),
            }
        }
        for output in &body.outputs {
            self.scope.types.entry(&output.name.text).or_insert(output);
        }
        for node in &body.nodes {
            self.statement(block, node)?;
        }
        for (value, _) in body.values.iter().filter(|(_, tensor)| tensor.is_none()) {
            if !self.scope.values.contains_key(value.name.text.as_str()) {
                let reason = format!("`{}` has no data, and no node computes it", value.name.text);
                return fail(value.name.at, reason);
            }
        }
        let mut outputs = Vec::with_capacity(body.outputs.len());
        for output in &body.outputs {
            let value = self.lookup(&output.name)?;
            outputs.push(value);
            agree(output, self.graph.ty(value))?;
        }
        self.graph.set_outputs(block, &outputs);
        for name in self.scope.added.pop().into_iter().flatten() {
            self.scope.values.remove(name);
        }
        for declared in body.values.iter().map(|(value, _)| value).chain(&body.outputs) {
            self.scope.types.remove(declared.name.text.as_str());
        }
        Ok(())
    }

    fn statement(&mut self, block: BlockId, node: &'a Statement) -> Read<()> {
        let op = Op { domain: intern(&node.domain), name: intern(&node.op) };
        let attrs = self.attrs(node)?;
        if op == Op::onnx("Constant") {
            let ([output], Some(tensor)) = (&*node.outputs, constant_of(&attrs)) else {
                return fail(node.at, "a `Constant` must hold one tensor or number");
            };
            let value = self.graph.add_constant(tensor);
            return self.define(output, value);
        }
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for name in &node.inputs {
            inputs.push(if name.text.is_empty() { None } else { Some(self.lookup(name)?) });
        }
        let outputs = self.emit(block, node, (op, inputs, attrs))?;
        for (name, &value) in node.outputs.iter().zip(&outputs) {
            self.define(name, value)?;
            let declared = self.scope.types.get(name.text.as_str()).copied();
            if let Some((declared, ty)) = declared.and_then(|d| Some((d, d.ty.as_ref()?))) {
                agree(declared, self.graph.ty(value))?;
                let inferred = &mut self.graph.value_mut(value).ty.shape;
                for (dim, given) in inferred.iter_mut().zip(&ty.shape) {
                    if dim.as_known().is_none() {
                        dim.clone_from(given);
                    }
                }
            }
        }
        Ok(())
    }

    /// Emits a node. Its types are inferred, taken from the function that it calls, or declared.
    fn emit(
        &mut self,
        block: BlockId,
        node: &'a Statement,
        (op, inputs, attrs): (Op, Vec<Option<ValueId>>, Attrs),
    ) -> Read<Vec<ValueId>> {
        let label = node.label.as_deref().unwrap_or_default();
        let path = label.rsplit_once('/').map_or("", |(path, _)| path.trim_start_matches('/'));
        let scope = self.origins.scope(Origins::ROOT, path);
        let types = match self.functions.get(&op) {
            _ if op.domain.is_empty() => None,
            Some(&body) => Some(self.result_types(node, body, &inputs)?),
            None => Some(self.declared_types(node)?),
        };
        let (rule, at) = (("text", Stage::Lower), Location::caller());
        let source = Source::Equation { call: None, scope };
        let mut builder = Builder::new(&mut self.graph, self.origins, rule, source, block);
        let outputs = match types {
            Some(types) => builder.emit_typed((op, inputs, attrs), types, at),
            None => {
                let outputs = builder.emit(op, inputs, attrs, node.outputs.len(), at);
                outputs.or_else(|error| fail(node.at, error.to_string()))?
            }
        };
        if let Some(id) = outputs.first().and_then(|value| self.graph.producer(*value)) {
            label.clone_into(&mut self.graph.node_mut(id).name);
        }
        Ok(outputs)
    }

    fn declared_types(&self, node: &Statement) -> Read<Vec<Type>> {
        let types = node.outputs.iter().map(|name| {
            let declared = self.scope.types.get(name.text.as_str());
            let ty = declared.and_then(|d| d.ty.clone());
            ty.map_or_else(|| fail(name.at, format!("`{}` needs a type", name.text)), Ok)
        });
        types.collect()
    }

    fn result_types(
        &self,
        node: &Statement,
        body: BlockId,
        inputs: &[Option<ValueId>],
    ) -> Read<Vec<Type>> {
        let body = self.graph.block(body);
        if inputs.len() > body.inputs.len() || node.outputs.len() > body.outputs().len() {
            return fail(node.at, "the function has fewer operands or results");
        }
        for (i, (formal, actual)) in body.inputs.iter().zip(inputs).enumerate() {
            let Some(actual) = actual else { continue };
            if self.graph.ty(*formal) != self.graph.ty(*actual) {
                let (is, must) = (self.graph.ty(*actual), self.graph.ty(*formal));
                let reason = format!("operand {i} is {is}, but the function takes {must}");
                return fail(node.at, reason);
            }
        }
        let results = body.outputs().iter().take(node.outputs.len());
        Ok(results.map(|value| self.graph.ty(*value).clone()).collect())
    }

    fn attrs(&mut self, node: &'a Statement) -> Read<Attrs> {
        let mut attrs = Attrs::with_capacity(node.attrs.len());
        for (name, argument) in &node.attrs {
            let attr = match argument {
                Argument::Plain(attr) => attr.clone(),
                Argument::Graph(body) => {
                    let block = self.graph.add_block();
                    self.body(block, body)?;
                    Attr::Graph(block)
                }
            };
            attrs.push((intern(&name.text), attr));
        }
        Ok(attrs)
    }
}

/// Fails if the declared type of a value contradicts its type `ty`.
fn agree(declared: &Declared, ty: &Type) -> Read<()> {
    let Some(wanted) = &declared.ty else { return Ok(()) };
    if may_be_same(wanted, ty) {
        return Ok(());
    }
    fail(declared.name.at, format!("`{}` is {ty}, not {wanted}", declared.name.text))
}
