//! The model's functions. A function is lowered when it is first called, and calls of equivalent
//! jaxprs share it. Besides the jaxpr's own inputs, its operands are the parameters that inner
//! jaxprs close over, and dimensions that cannot be read from its operands.

use std::panic::Location;
use std::sync::Arc;

use jaxpr::{Alike, ClassId, Constant, JaxprId};
use onnx::schema::versions;
use onnx::{Function, Graph, Op, Producer, ValueId, intern};
use provenance::{CallId, Origins};
use rustc_hash::FxHashMap;
use tensor::{Dim, Type};

use super::{Context, Destination, Frame};
use crate::parts::{Parts, part_type, width};
use crate::{Result, RuleError};

/// The user's name for a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Label {
    pub(crate) name: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) unique: bool,
}

impl Label {
    /// Returns the operator that calls the variant `number`, counted from one.
    fn op(&self, number: usize) -> Op {
        let Self { name, namespace, unique } = self;
        let domain = match (unique, number) {
            (false, _) => format!("{namespace}.{name}.{number}"),
            (true, 1) => format!("{namespace}.{name}.unique"),
            (true, _) => format!("{namespace}.{name}.unique.{number}"),
        };
        // Some tools ignore domains. They would take the function for the operator.
        let is_taken = !versions(&Op::onnx(intern(name))).is_empty();
        let name = if is_taken { intern(&format!("{name}Function")) } else { intern(name) };
        Op { domain: intern(&domain), name }
    }
}

/// The functions of a model.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    alike: Alike,
    known: FxHashMap<(Label, ClassId), Known>,
    /// The number of functions of each label.
    variants: FxHashMap<Label, usize>,
}

/// A lowered function.
#[derive(Clone, Debug)]
struct Known {
    op: Op,
    /// The dimensions that it takes as its last operands.
    sizes: Vec<Dim>,
    first: CallId,
}

impl Context<'_> {
    /// Calls the jaxpr `id` as a function of the model. Complex inputs and results are two values
    /// each.
    #[track_caller]
    pub(crate) fn call_function(
        &mut self,
        id: JaxprId,
        label: Label,
        inputs: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        let functions = &mut self.state.functions;
        let class = functions.alike.class(self.program, id);
        let operands = functions.alike.operands(self.program, id);
        let key = (label, class);
        let known = match functions.known.get(&key) {
            Some(known) => known.clone(),
            None => {
                let known = self.define(id, &key.0, inputs, &operands, Location::caller())?;
                self.state.functions.known.insert(key, known.clone());
                known
            }
        };
        let mut all = inputs.to_vec();
        for operand in &operands {
            all.extend(self.driver().constant(operand).flat());
        }
        for size in &known.sizes {
            all.push(self.dims(std::slice::from_ref(size))?);
        }
        let results = self.result_types().flat_map(parts_of).collect();
        let node = self.builder.call(known.op, &all, results);
        let (origin, first) = (self.builder.graph().node(node).origin, known.first);
        if first != self.call {
            self.builder.parts_mut().1.called_again(first, origin);
        }
        Ok(self.builder.graph().node(node).outputs.clone())
    }

    /// Lowers the function's body.
    fn define(
        &mut self,
        id: JaxprId,
        label: &Label,
        inputs: &[ValueId],
        operands: &[Constant],
        at: &'static Location<'static>,
    ) -> Result<Known> {
        let number = self.state.functions.variants.entry(label.clone()).or_default();
        *number += 1;
        let (op, number) = (label.op(*number), *number);
        let scope = match number {
            1 => label.name.to_string(),
            _ => format!("{}.{number}", label.name),
        };

        let body = self.builder.graph_mut().add_block();
        let mut frame = Frame::new(body);
        let jaxpr = self.jaxpr(id);
        let types = jaxpr.inputs.iter().flat_map(|var| parts_of(jaxpr.ty(*var)));
        let mut formal = Vec::with_capacity(inputs.len());
        for (ty, actual) in types.zip(inputs) {
            let value = self.builder.graph_mut().add_input(body, ty);
            frame.learn(value, self.builder.graph().ty(value));
            self.name_after(value, *actual, &scope);
            formal.push(value);
        }
        for operand in operands {
            let ty = operand.tensor.ty();
            let actual: Vec<ValueId> = self.driver().constant(operand).flat().collect();
            let values = self.inputs(body, parts_of(&ty).collect());
            for (value, actual) in values.iter().zip(actual) {
                self.name_after(*value, actual, &scope);
            }
            let parts = Parts::next(ty.dtype, &mut values.into_iter());
            let parts =
                parts.ok_or_else(|| RuleError::Internal("an operand is lost".to_owned()))?;
            frame.hold(&operand.tensor, parts);
        }

        let outer = std::mem::replace(&mut self.state.frame, frame);
        let root = self.builder.parts_mut().1.scope(Origins::ROOT, &scope);
        let caller = Some(self.caller(at));
        let place = Destination { block: body, scope: root, caller, recorded: None };
        let outputs = self.driver().jaxpr(id, &formal, place)?;
        let frame = std::mem::replace(&mut self.state.frame, outer);
        for (i, value) in self.builder.graph().block(body).inputs.clone().into_iter().enumerate() {
            if self.builder.graph().value(value).name.is_empty() {
                self.builder.graph_mut().set_name(value, format!("{scope}_in_{i}"));
            }
        }
        self.builder.graph_mut().set_outputs(body, &outputs);
        self.builder.graph_mut().functions.push(Function { op, body });
        Ok(Known { op, sizes: frame.sizes, first: self.call })
    }

    /// Names an input after the parameter that the first call passes. For example,
    /// `blocks.0.attn.q.kernel` passed by `blocks.0` becomes `Block.attn.q.kernel`.
    fn name_after(&mut self, formal: ValueId, actual: ValueId, function: &str) {
        let value = self.builder.graph().value(actual);
        let parameter = match value.producer() {
            Producer::Parameter(_) => true,
            Producer::Input(block) => *block != Graph::MAIN,
            _ => false,
        };
        if !parameter || value.name.is_empty() {
            return;
        }
        let scope = self.builder.origins().scope_path(self.scope).split(['/', '.']);
        let path: Vec<&str> = value.name.split('.').collect();
        let shared = path.iter().zip(scope).take_while(|(a, b)| **a == *b).count();
        // The last component belongs to the parameter itself.
        let inner = path[shared.min(path.len() - 1)..].join(".");
        self.builder.graph_mut().set_name(formal, format!("{function}.{inner}"));
    }
}

/// Returns the types of the values that represent one program value of type `ty`.
fn parts_of(ty: &Type) -> impl Iterator<Item = Type> + use<> {
    std::iter::repeat_n(part_type(ty), width(ty.dtype))
}
