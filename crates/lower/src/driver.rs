//! The driver: walks equations, enters each one's place in the program, calls its rule, and checks
//! what comes back.

use jaxpr::{Atom, Constant, Eqn, Jaxpr, JaxprId, Program};
use onnx::{BlockId, Builder, Graph, Source, ValueId};
use provenance::{Call, CallId, Emitter, Origins, ScopeId, Stage};
use rustc_hash::FxHashMap;
use tensor::bounds::same_type;
use tensor::{Dim, Tensor, Type};

use crate::context::Context;
use crate::{Error, RuleError, preflight, rules};

/// The names and layouts of the model's inputs and outputs, by position.
#[derive(Clone, Debug, Default)]
pub struct Boundary {
    /// The model's name.
    pub model_name: String,
    /// One name per input.
    pub input_names: Vec<String>,
    /// One name per output.
    pub output_names: Vec<String>,
    /// The inputs that the model takes as NCHW where the function takes NHWC.
    pub inputs_as_nchw: Vec<usize>,
    /// The outputs that the model returns as NCHW where the function returns NHWC.
    pub outputs_as_nchw: Vec<usize>,
}

/// What the driver remembers over the whole program.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Constants by the address of their bytes: one array, one initializer.
    constants: FxHashMap<(usize, usize), ValueId>,
    /// Where each dimension variable can be read: an input and its axis.
    pub(crate) symbols: FxHashMap<String, (ValueId, usize)>,
    /// Dimensions that are computed already, as vectors of one element in the main block.
    pub(crate) dims: FxHashMap<Dim, ValueId>,
}

/// Where a jaxpr is being lowered to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) block: BlockId,
    pub(crate) scope: ScopeId,
    /// The equation that calls the jaxpr, and the rule line that descended into it.
    pub(crate) caller: Option<(CallId, Emitter)>,
}

/// A program on its way into a graph.
#[derive(Debug)]
pub(crate) struct Driver<'a> {
    pub(crate) program: &'a Program,
    pub(crate) graph: &'a mut Graph,
    pub(crate) origins: &'a mut Origins,
    pub(crate) state: &'a mut State,
}

/// Lowers a whole program. Everything that has no rule is reported at once, before any work.
pub fn lower(
    program: &Program,
    boundary: &Boundary,
    origins: &mut Origins,
) -> Result<Graph, Error> {
    let main = program.main.ok_or_else(|| Error::Boundary("the program is empty".to_owned()))?;
    preflight::check(program, main, origins)?;
    let mut graph = Graph::new(&boundary.model_name);
    let mut state = State::default();
    let mut driver = Driver { program, graph: &mut graph, origins, state: &mut state };
    let inputs = driver.inputs(main, boundary)?;
    let place = Place { block: Graph::MAIN, scope: Origins::ROOT, caller: None };
    let outputs = driver.jaxpr(main, &inputs, place)?;
    let outputs = driver.outputs(&outputs, boundary)?;
    graph.set_outputs(Graph::MAIN, &outputs);
    Ok(graph)
}

impl Driver<'_> {
    fn inputs(&mut self, main: JaxprId, boundary: &Boundary) -> Result<Vec<ValueId>, Error> {
        let jaxpr = self.program.jaxpr(main);
        let mut inputs = Vec::with_capacity(jaxpr.inputs.len());
        for (i, var) in jaxpr.inputs.iter().enumerate() {
            let ty = jaxpr.ty(*var).clone();
            let nchw = boundary.inputs_as_nchw.contains(&i);
            let outer = if nchw { permuted(&ty, NHWC_TO_NCHW)? } else { ty };
            let value = self.graph.add_input(Graph::MAIN, outer);
            if let Some(name) = boundary.input_names.get(i) {
                self.graph.value_mut(value).name.clone_from(name);
            }
            for (axis, dim) in self.graph.ty(value).shape.clone().iter().enumerate() {
                if let Some(symbol) = dim.as_var() {
                    self.state.symbols.entry(symbol.to_owned()).or_insert((value, axis));
                }
            }
            inputs.push(if nchw {
                let mut builder = self.boundary("inputs_as_nchw");
                builder
                    .transpose(value, &NCHW_TO_NHWC)
                    .map_err(|e| Error::Boundary(e.to_string()))?
            } else {
                value
            });
        }
        Ok(inputs)
    }

    fn outputs(&mut self, outputs: &[ValueId], boundary: &Boundary) -> Result<Vec<ValueId>, Error> {
        let mut result = outputs.to_vec();
        for &i in &boundary.outputs_as_nchw {
            let value = result[i];
            permuted(self.graph.ty(value), NHWC_TO_NCHW)?;
            let mut builder = self.boundary("outputs_as_nchw");
            result[i] = builder
                .transpose(value, &NHWC_TO_NCHW)
                .map_err(|e| Error::Boundary(e.to_string()))?;
        }
        Ok(result)
    }

    /// A builder for nodes that belong to the model's boundary rather than to an equation.
    fn boundary(&mut self, name: &'static str) -> Builder<'_> {
        Builder {
            graph: self.graph,
            origins: self.origins,
            name,
            stage: Stage::Lower,
            source: Source::Equation { call: None, scope: Origins::ROOT },
            block: Graph::MAIN,
            before: None,
        }
    }

    /// Lowers one jaxpr, called with `inputs`, into `place`; returns its results.
    pub(crate) fn jaxpr(
        &mut self,
        id: JaxprId,
        inputs: &[ValueId],
        place: Place,
    ) -> Result<Vec<ValueId>, Error> {
        let program = self.program;
        let jaxpr = program.jaxpr(id);
        let mut env: Vec<Option<ValueId>> = vec![None; jaxpr.vars.len()];
        for (var, constant) in &jaxpr.consts {
            env[var.0 as usize] = Some(self.constant(constant));
        }
        for (var, value) in jaxpr.inputs.iter().zip(inputs) {
            env[var.0 as usize] = Some(*value);
        }
        for eqn in &jaxpr.eqns {
            self.eqn(jaxpr, eqn, &mut env, place)?;
        }
        let results = jaxpr.outputs.iter().map(|atom| self.atom(atom, &env));
        let results: Option<Vec<_>> = results.collect();
        results.ok_or_else(|| Error::Boundary("a result is not defined".to_owned()))
    }

    fn eqn(
        &mut self,
        jaxpr: &Jaxpr,
        eqn: &Eqn,
        env: &mut [Option<ValueId>],
        place: Place,
    ) -> Result<(), Error> {
        let call = self.origins.call(Call { stack: eqn.stack, caller: place.caller });
        let scope = self.origins.scope(place.scope, &eqn.scope);
        let wrap = |error| explain(error, eqn, call, scope);

        let inputs: Option<Vec<_>> = eqn.inputs.iter().map(|a| self.atom(a, env)).collect();
        let inputs = inputs
            .ok_or_else(|| wrap(RuleError::Internal("an operand is not defined".to_owned())))?;
        let rule = rules::find(&eqn.primitive)
            .ok_or_else(|| wrap(RuleError::Internal("no rule after preflight".to_owned())))?;
        let mut context = Context::enter(self, eqn, jaxpr, rule.name, place.block, call, scope);
        let outputs = rule.apply(&mut context, &inputs).map_err(wrap)?;

        self.check(jaxpr, eqn, &outputs).map_err(wrap)?;
        for (var, value) in eqn.outputs.iter().zip(outputs) {
            env[var.0 as usize] = Some(value);
        }
        Ok(())
    }

    /// Compares what a rule returned with what JAX says the equation returns.
    fn check(&mut self, jaxpr: &Jaxpr, eqn: &Eqn, outputs: &[ValueId]) -> Result<(), RuleError> {
        if outputs.len() != eqn.outputs.len() {
            let (got, want) = (outputs.len(), eqn.outputs.len());
            let reason = format!("the rule returned {got} values instead of {want}");
            return Err(RuleError::Internal(reason));
        }
        for (i, (var, value)) in eqn.outputs.iter().zip(outputs).enumerate() {
            let (got, want) = (self.graph.ty(*value), jaxpr.ty(*var));
            if got == want {
                continue;
            }
            if !same_type(got, want) {
                let reason = format!("the rule returned {got} as result {i} instead of {want}");
                return Err(RuleError::Internal(reason));
            }
            // The same sizes in other words: from here on in JAX's.
            self.graph.value_mut(*value).ty = want.clone();
        }
        Ok(())
    }

    fn atom(&mut self, atom: &Atom, env: &[Option<ValueId>]) -> Option<ValueId> {
        match atom {
            Atom::Var(var) => env[var.0 as usize],
            Atom::Literal(tensor) => Some(self.graph.intern_constant(tensor.clone())),
        }
    }

    fn constant(&mut self, constant: &Constant) -> ValueId {
        let Constant { tensor, name } = constant;
        let Some(name) = name else {
            return self.array(tensor);
        };
        let value = self.array(tensor);
        let known = &mut self.graph.value_mut(value).name;
        if known.is_empty() {
            name.as_ref().clone_into(known);
        }
        value
    }

    fn array(&mut self, tensor: &Tensor) -> ValueId {
        let bytes = tensor.bytes();
        if bytes.is_empty() {
            return self.graph.intern_constant(tensor.clone());
        }
        let key = (bytes.as_ptr() as usize, bytes.len());
        if let Some(&known) = self.state.constants.get(&key)
            && *self.graph.ty(known) == tensor.ty()
        {
            return known;
        }
        let value = self.graph.add_constant(tensor.clone());
        self.state.constants.insert(key, value);
        value
    }
}

const NHWC_TO_NCHW: [usize; 4] = [0, 3, 1, 2];
const NCHW_TO_NHWC: [usize; 4] = [0, 2, 3, 1];

fn permuted(ty: &Type, perm: [usize; 4]) -> Result<Type, Error> {
    if ty.rank() != 4 {
        return Err(Error::Boundary(format!("only 4-dimensional values can be NCHW, not {ty}")));
    }
    Ok(Type::new(ty.dtype, perm.map(|p| ty.shape[p].clone())))
}

fn explain(error: RuleError, eqn: &Eqn, call: CallId, scope: ScopeId) -> Error {
    let primitive = eqn.primitive.clone();
    match error {
        RuleError::Unsupported { reason, help } => {
            Error::Unsupported { primitive, reason, help, call, scope }
        }
        RuleError::Internal(reason) => Error::Internal { primitive, reason, call, scope },
        RuleError::Inner(error) => *error,
    }
}
