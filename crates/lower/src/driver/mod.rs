//! The driver: walks equations, tracks the position of each one in the program, calls its rule, and
//! checks the results.

mod context;
mod emit;
mod functions;
mod sizes;
mod slice;

use std::collections::BTreeMap;
use std::sync::Arc;

use jaxpr::{Atom, Constant, Eqn, Jaxpr, JaxprId, Program, VarId};
use onnx::{Assumptions, BlockId, Builder, Graph, Source, ValueId};
use provenance::{Call, CallId, Emitter, Origins, ScopeId, Stage};
use rustc_hash::FxHashMap;
use tensor::bounds::same_type;
use tensor::{DType, Dim, Tensor, Type};

pub use context::Context;
pub use emit::Foreign;
pub(crate) use functions::Label;
pub(crate) use slice::{counted, written};

use functions::Functions;

use crate::parts::{Parts, boundary_type, pack, part_type, unpack};
use crate::{
    EqnResult, Error, ExternalRules, Fault, Missing, Result, Results, RuleError, preflight, rules,
};

/// The names and layouts of the model's inputs and outputs, by position.
#[derive(Clone, Debug, Default)]
pub struct Boundary {
    /// The model's name.
    pub model_name: String,
    /// One name per input.
    pub input_names: Vec<String>,
    /// One name per output.
    pub output_names: Vec<String>,
    /// The inputs that the model takes as NCHW and the function as NHWC.
    pub inputs_as_nchw: Vec<usize>,
    /// The outputs that the model returns as NCHW and the function as NHWC.
    pub outputs_as_nchw: Vec<usize>,
    /// The element types of inputs whose type in the model differs from that in the function.
    pub input_types: BTreeMap<usize, DType>,
    /// The element types of outputs whose type in the model differs from that in the function.
    pub output_types: BTreeMap<usize, DType>,
    /// The default values of boolean inputs, used when the model is run without them.
    pub defaults: BTreeMap<usize, bool>,
}

/// Settings of the lowering.
#[derive(Debug, Default)]
pub struct Options {
    /// External rules.
    pub external: ExternalRules,
    /// `true` to record the values of all equations.
    pub record: bool,
    /// The assumptions about values.
    pub assumptions: Assumptions,
}

/// A lowered program.
#[derive(Debug)]
pub struct Lowered {
    /// The model.
    pub graph: Graph,
    /// The values of the equations, if they were recorded.
    pub results: Results,
}

/// The values of a jaxpr's variables, by their ids.
type Env = Vec<Option<Parts>>;

/// The driver's state for the whole program.
#[derive(Debug)]
struct State {
    /// The part that is being lowered: the main graph or a function.
    frame: Frame,
    /// The functions so far.
    functions: Functions,
    /// The values of the equations so far.
    results: Results,
}

/// The state of the main graph or of one function. Frames do not see each other.
#[derive(Debug)]
struct Frame {
    /// The main block or the function's body.
    root: BlockId,
    /// Constants by the address of their bytes: one array, one initializer or operand.
    constants: FxHashMap<(usize, usize), (Type, Parts)>,
    /// For each symbolic dimension, an input and an axis that it can be read from.
    places: FxHashMap<Dim, (ValueId, usize)>,
    /// The formulas for dimension variables that can be computed from such a dimension.
    solutions: FxHashMap<String, Solution>,
    /// Dimensions that are computed already, as vectors of one element in the root block.
    dims: FxHashMap<Dim, ValueId>,
    /// The dimensions that a function takes as operands, because it cannot compute them.
    sizes: Vec<Dim>,
}

impl Frame {
    fn new(root: BlockId) -> Self {
        Self {
            root,
            constants: FxHashMap::default(),
            places: FxHashMap::default(),
            solutions: FxHashMap::default(),
            dims: FxHashMap::default(),
            sizes: Vec::new(),
        }
    }

    /// Records the symbolic dimensions of an input.
    fn learn(&mut self, input: ValueId, ty: &Type) {
        for (axis, dim) in ty.shape.iter().enumerate() {
            if dim.as_known().is_none() && !self.follows_from_others(dim, input) {
                self.places.entry(dim.clone()).or_insert((input, axis));
            }
            if let Some((name, solution)) = solve(dim) {
                self.solutions.entry(name).or_insert(solution);
            }
        }
    }

    /// Returns `true` if `dim` is computed from several variables that are sizes of other inputs. A
    /// past of `total - sequence` tokens may be in a buffer that is longer.
    fn follows_from_others(&self, dim: &Dim, input: ValueId) -> bool {
        let is_other = |atom: tensor::Atom| {
            let place = self.places.get(&Dim::atom(atom));
            place.is_some_and(|(place, _)| *place != input)
        };
        let atoms = dim.terms().into_iter().flat_map(|(_, atoms)| atoms);
        let atoms: Vec<_> = atoms.map(|(atom, _)| atom).collect();
        atoms.len() > 1 && atoms.into_iter().all(is_other)
    }

    /// Records the values that represent an array.
    fn hold(&mut self, tensor: &Tensor, parts: Parts) {
        let key = (tensor.address(), tensor.byte_len());
        self.constants.insert(key, (tensor.ty(), parts));
    }

    /// Returns the values that represent an array.
    fn held(&self, tensor: &Tensor) -> Option<Parts> {
        // All empty arrays may have the same address.
        let (ty, parts) = self.constants.get(&(tensor.address(), tensor.byte_len()))?;
        (!tensor.is_empty() && *ty == tensor.ty()).then_some(*parts)
    }
}

/// A formula for a dimension variable: `(size - offset) / factor`.
#[derive(Clone, Debug)]
struct Solution {
    size: Dim,
    offset: i64,
    factor: i64,
}

/// The position in the graph that a jaxpr is lowered to.
#[derive(Clone, Copy, Debug)]
struct Destination {
    block: BlockId,
    scope: ScopeId,
    /// The equation that calls the jaxpr, and the line of the rule that descended into it.
    caller: Option<(CallId, Emitter)>,
    /// The index of that equation in the recorded results; `None` if nothing is recorded.
    recorded: Option<Option<u32>>,
}

/// The driver of one program.
#[derive(Debug)]
struct Driver<'a> {
    program: &'a Program,
    graph: &'a mut Graph,
    origins: &'a mut Origins,
    state: &'a mut State,
    external: &'a ExternalRules,
}

/// Lowers a whole program. All primitives without a rule are reported at once, before any work.
pub fn lower(
    program: &Program,
    boundary: &Boundary,
    options: &Options,
    origins: &mut Origins,
) -> Result<Lowered, Error> {
    let main = program.main.ok_or_else(|| Error::Boundary("the program is empty".to_owned()))?;
    let external = &options.external;
    preflight::check(program, main, external, origins)?;
    let mut graph = Graph::new(&boundary.model_name);
    graph.assumptions = options.assumptions;
    let equations = program.jaxprs.iter().map(|jaxpr| jaxpr.eqns.len()).sum();
    graph.reserve(equations);
    origins.reserve(equations);
    let frame = Frame::new(Graph::MAIN);
    let functions = Functions::default();
    let mut state = State { frame, functions, results: Results::default() };
    let mut driver = Driver { program, graph: &mut graph, origins, state: &mut state, external };
    let at_boundary = |error: RuleError| Error::Boundary(error.to_string());
    let inputs = driver.inputs(main, boundary).map_err(at_boundary)?;
    let recorded = options.record.then_some(None);
    let place = Destination { block: Graph::MAIN, scope: Origins::ROOT, caller: None, recorded };
    let outputs = driver.jaxpr(main, &inputs, place)?;
    let outputs = driver.outputs(main, &outputs, boundary).map_err(at_boundary)?;
    graph.set_outputs(Graph::MAIN, &outputs);
    Ok(Lowered { graph, results: state.results })
}

/// Returns the variable of a dimension such as `4*b + 3`, and the formula for it.
fn solve(dim: &Dim) -> Option<(String, Solution)> {
    let (mut offset, mut variable) = (0, None);
    for (factor, atoms) in dim.terms() {
        match (atoms.as_slice(), &variable) {
            ([], _) => offset = factor,
            ([(tensor::Atom::Var(found), 1)], None) => {
                variable = Some((found.name().to_owned(), factor));
            }
            _ => return None,
        }
    }
    let (name, factor) = variable?;
    Some((name, Solution { size: dim.clone(), offset, factor }))
}

impl Driver<'_> {
    fn inputs(&mut self, main: JaxprId, boundary: &Boundary) -> Result {
        let jaxpr = self.program.jaxpr(main);
        let mut inputs = Vec::with_capacity(jaxpr.inputs.len());
        for (i, var) in jaxpr.inputs.iter().enumerate() {
            let ty = jaxpr.ty(*var);
            let nchw = boundary.inputs_as_nchw.contains(&i);
            let outer = if nchw { permuted(ty, NHWC_TO_NCHW)? } else { boundary_type(ty) };
            let inner = outer.dtype;
            let dtype = boundary.input_types.get(&i).copied().unwrap_or(inner);
            let value = self.graph.add_input(Graph::MAIN, Type { dtype, ..outer });
            if let Some(name) = boundary.input_names.get(i) {
                self.graph.set_name(value, name.clone());
            }
            if let Some(&default) = boundary.defaults.get(&i) {
                let tensor = Tensor::scalar(dtype, f64::from(default));
                let tensor = tensor.ok_or_else(|| {
                    RuleError::unsupported(format!(
                        "an input of type {dtype} cannot have a default"
                    ))
                })?;
                self.graph.defaults.push((value, tensor));
            }
            self.state.frame.learn(value, self.graph.ty(value));
            let value = self.boundary("input_dtypes").cast(value, inner)?;
            if nchw {
                inputs.push(self.boundary("inputs_as_nchw").transpose(value, &NCHW_TO_NHWC)?);
            } else if ty.dtype.is_complex() {
                inputs.extend(unpack(&mut self.boundary("input"), value)?.flat());
            } else {
                inputs.push(value);
            }
        }
        Ok(inputs)
    }

    fn outputs(&mut self, main: JaxprId, outputs: &[ValueId], boundary: &Boundary) -> Result {
        let jaxpr = self.program.jaxpr(main);
        let mut flat = outputs.iter().copied();
        let mut result = Vec::with_capacity(jaxpr.outputs.len());
        for (i, atom) in jaxpr.outputs.iter().enumerate() {
            let ty = jaxpr.atom_ty(atom);
            let parts = Parts::next(ty.dtype, &mut flat)
                .ok_or_else(|| RuleError::Internal("a result is missing".to_owned()))?;
            let nchw = boundary.outputs_as_nchw.contains(&i);
            if nchw {
                permuted(&ty, NHWC_TO_NCHW)?;
            }
            let value = match parts {
                Parts::Complex(re, im) => pack(&mut self.boundary("output"), re, im)?,
                Parts::Real(value) if nchw => {
                    self.boundary("outputs_as_nchw").transpose(value, &NHWC_TO_NCHW)?
                }
                Parts::Real(value) => value,
            };
            result.push(match boundary.output_types.get(&i) {
                Some(dtype) => self.boundary("output_dtypes").cast(value, *dtype)?,
                None => value,
            });
        }
        Ok(result)
    }

    /// Returns a builder for nodes that belong to the model's boundary rather than to an equation.
    fn boundary(&mut self, name: &'static str) -> Builder<'_> {
        let source = Source::Equation { call: None, scope: Origins::ROOT };
        Builder::new(self.graph, self.origins, (name, Stage::Lower), source, Graph::MAIN)
    }

    /// Lowers one jaxpr, called with `inputs`, into `place`, and returns its results. Complex
    /// inputs and results are two values each.
    fn jaxpr(
        &mut self,
        id: JaxprId,
        inputs: &[ValueId],
        place: Destination,
    ) -> Result<Vec<ValueId>, Error> {
        let program = self.program;
        let jaxpr = program.jaxpr(id);
        let mut env: Env = vec![None; jaxpr.vars.len()];
        for (var, constant) in &jaxpr.consts {
            env[var.0 as usize] = Some(self.constant(constant));
        }
        let mut flat = inputs.iter().copied();
        for var in &jaxpr.inputs {
            env[var.0 as usize] = Parts::next(jaxpr.ty(*var).dtype, &mut flat);
        }
        for number in 0..jaxpr.eqns.len() {
            self.eqn(jaxpr, number, &mut env, place)?;
        }
        let results = jaxpr.outputs.iter().map(|atom| self.atom(atom, &env));
        let results: Option<Vec<Parts>> = results.collect();
        let results =
            results.ok_or_else(|| Error::Boundary("a result is not defined".to_owned()))?;
        Ok(results.into_iter().flat_map(Parts::flat).collect())
    }

    fn eqn(
        &mut self,
        jaxpr: &Jaxpr,
        number: usize,
        env: &mut Env,
        place: Destination,
    ) -> Result<(), Error> {
        let eqn = &jaxpr.eqns[number];
        let call = self.origins.call(Call { stack: eqn.stack, caller: place.caller });
        let scope = self.origins.scope(place.scope, &eqn.scope);
        let external = self.external.get(&eqn.primitive).filter(|_| eqn.external.is_some());
        let wrap = |error| explain(error, eqn, call, scope, external.is_some());

        if let Some(empty) = self.empty(jaxpr, eqn) {
            empty.into_iter().for_each(|(var, value)| env[var.0 as usize] = Some(value));
            return Ok(());
        }
        let inputs: Option<Vec<Parts>> = eqn.inputs.iter().map(|a| self.atom(a, env)).collect();
        let inputs = inputs
            .ok_or_else(|| wrap(RuleError::Internal("an operand is not defined".to_owned())))?;
        let built_in = rules::primitive(&eqn.primitive);
        let rule = match (external, built_in) {
            (Some(rule), _) => (rule.name(), Stage::Custom),
            (None, Some(rule)) => (rule.name, Stage::Lower),
            (None, None) => {
                let primitive = eqn.primitive.clone();
                return Err(Error::MissingRules(vec![Missing { primitive, call, scope }]));
            }
        };
        let recorded = place.recorded.map(|caller| {
            let made_by = |var: &VarId| jaxpr.made_by.get(var.0 as usize).copied().flatten();
            let made_by = eqn.outputs.iter().map(made_by).collect();
            let types = eqn.outputs.iter().map(|var| jaxpr.ty(*var).clone()).collect();
            let values = Vec::new();
            let entry = EqnResult { caller, made_by, values, types, rule, call, scope };
            self.state.results.enter(entry)
        });
        let source = Source::Equation { call: Some(call), scope };
        let mut cx = Context {
            builder: Builder::new(self.graph, self.origins, rule, source, place.block),
            state: self.state,
            program: self.program,
            eqn,
            jaxpr,
            call,
            scope,
            external: self.external,
            recorded,
        };
        let outputs = match external {
            Some(rule) => rule.lower(&mut cx, &inputs),
            None => cx.built_in(&inputs),
        };
        let outputs = outputs.map_err(wrap)?;

        self.check(jaxpr, eqn, &outputs).map_err(wrap)?;
        if let Some(id) = recorded {
            self.state.results.leave(id, &outputs);
        }
        for (var, value) in eqn.outputs.iter().zip(outputs) {
            env[var.0 as usize] = Some(value);
        }
        Ok(())
    }

    /// Returns constants for an equation whose results all have no elements, so that rules need not
    /// handle this case.
    fn empty(&mut self, jaxpr: &Jaxpr, eqn: &Eqn) -> Option<Vec<(VarId, Parts)>> {
        let is_empty = |var: &VarId| jaxpr.ty(*var).shape.contains(&Dim::Known(0));
        if !eqn.outputs.iter().all(is_empty) {
            return None;
        }
        let tensor = |var: &VarId| {
            let ty = part_type(jaxpr.ty(*var));
            let shape = ty.static_shape().filter(|shape| shape.contains(&0))?;
            let shape: Option<Vec<usize>> =
                shape.into_iter().map(|size| size.try_into().ok()).collect();
            Tensor::new(ty.dtype, &shape?, Arc::new(Vec::new())).ok().map(|tensor| (*var, tensor))
        };
        let tensors: Option<Vec<(VarId, Tensor)>> = eqn.outputs.iter().map(tensor).collect();
        let intern = |(var, tensor): (VarId, Tensor)| {
            let value = self.graph.intern_constant(tensor);
            let is_complex = jaxpr.ty(var).dtype.is_complex();
            (var, if is_complex { Parts::Complex(value, value) } else { Parts::Real(value) })
        };
        Some(tensors?.into_iter().map(intern).collect())
    }

    /// Compares the results of a rule with the types that JAX expects.
    fn check(&mut self, jaxpr: &Jaxpr, eqn: &Eqn, outputs: &[Parts]) -> Result<()> {
        if outputs.len() != eqn.outputs.len() {
            let (got, want) = (outputs.len(), eqn.outputs.len());
            let reason = format!("the rule returned {got} values instead of {want}");
            return Err(RuleError::Internal(reason));
        }
        for (i, (var, parts)) in eqn.outputs.iter().zip(outputs).enumerate() {
            let want = jaxpr.ty(*var);
            if parts.is_complex() != want.dtype.is_complex() {
                let reason = format!(
                    "result {i} must be {want}, but the rule returned a different kind of value"
                );
                return Err(RuleError::Internal(reason));
            }
            for value in parts.flat() {
                self.check_part(i, value, want)?;
            }
        }
        Ok(())
    }

    fn check_part(&mut self, i: usize, value: ValueId, whole: &Type) -> Result<()> {
        let got = self.graph.ty(value);
        if got == whole {
            return Ok(());
        }
        let want = part_type(whole);
        if !same_type(got, &want) {
            let reason = format!("the rule returned {got} as result {i} instead of {want}");
            return Err(RuleError::Internal(reason));
        }
        // The sizes are equal but written differently. From here on, use JAX's form.
        self.graph.set_type(value, want);
        Ok(())
    }

    fn atom(&mut self, atom: &Atom, env: &Env) -> Option<Parts> {
        match atom {
            Atom::Var(var) => env[var.0 as usize],
            Atom::Literal(tensor) => Some(match tensor.parts() {
                Some((re, im)) => {
                    Parts::Complex(self.graph.intern_constant(re), self.graph.intern_constant(im))
                }
                None => Parts::Real(self.graph.intern_constant(tensor.clone())),
            }),
        }
    }

    fn constant(&mut self, constant: &Constant) -> Parts {
        let Constant { tensor, name } = constant;
        let parts = self.array(tensor);
        match parts {
            Parts::Real(value) => self.name(name.as_ref(), "", value),
            Parts::Complex(re, im) => {
                self.name(name.as_ref(), ".real", re);
                self.name(name.as_ref(), ".imag", im);
            }
        }
        parts
    }

    /// Names a constant after the path of its parameter, unless it already has a name.
    fn name(&mut self, name: Option<&Arc<str>>, part: &str, value: ValueId) {
        if let Some(name) = name.filter(|_| self.graph.constant(value).is_some()) {
            self.graph.set_name(value, format!("{name}{part}"));
        }
    }

    fn array(&mut self, tensor: &Tensor) -> Parts {
        if let Some(known) = self.state.frame.held(tensor) {
            return known;
        }
        let parts = match tensor.parts() {
            Some((re, im)) => {
                Parts::Complex(self.graph.add_constant(re), self.graph.add_constant(im))
            }
            None if tensor.is_empty() => Parts::Real(self.graph.intern_constant(tensor.clone())),
            None => Parts::Real(self.graph.add_constant(tensor.clone())),
        };
        self.state.frame.hold(tensor, parts);
        parts
    }
}

const NHWC_TO_NCHW: [usize; 4] = [0, 3, 1, 2];
const NCHW_TO_NHWC: [usize; 4] = [0, 2, 3, 1];

fn permuted(ty: &Type, perm: [usize; 4]) -> Result<Type> {
    if ty.dtype.is_complex() {
        return Err(RuleError::unsupported(format!("only real values can be NCHW, not {ty}")));
    }
    if ty.rank() != 4 {
        let reason = format!("only 4-dimensional values can be NCHW, not {ty}");
        return Err(RuleError::unsupported(reason));
    }
    Ok(Type::new(ty.dtype, perm.map(|p| ty.shape[p].clone())))
}

/// Adds the position to a rule's error. A mistake in an external rule is not a bug of this project.
fn explain(error: RuleError, eqn: &Eqn, call: CallId, scope: ScopeId, is_external: bool) -> Error {
    let (reason, fault) = match error {
        RuleError::Unsupported { reason, help } => (reason, Fault::Unsupported(help)),
        RuleError::Internal(reason) | RuleError::External(reason) => {
            (reason, if is_external { Fault::External } else { Fault::Rule })
        }
        RuleError::Inner(error) => return *error,
    };
    Error::Equation { primitive: eqn.primitive.clone(), reason, fault, call, scope }
}
