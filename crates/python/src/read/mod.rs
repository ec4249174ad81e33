//! Copies a jaxpr out of Python. After this, no stage touches a Python object.

pub(crate) mod array;
mod files;
mod frames;
mod params;
mod scopes;

use std::sync::Arc;

use jaxpr::{Atom, Constant, Eqn, Jaxpr, JaxprId, Param, Params, Program, VarId};
use lower::{EXPANSION, Expansion, Primitive};
use provenance::{FrameKind, StackId, Stacks};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};
use tensor::{Constraints, DType, Dim, Shape, Tensor, Type};

use crate::error::ReadError;
use crate::expand::{self, Expansions, Plan};
use crate::jax_names::{SCAN_OPERANDS, attr, class, is_ignored_param};
use crate::objects::ByType;

pub(crate) use files::LoadedTexts;
pub(crate) use files::cells;
pub(crate) use frames::Tracebacks;
use scopes::Scopes;

type Result<T> = std::result::Result<T, ReadError>;

/// The identity of a Python object that the jaxpr keeps alive while it is being read.
pub(crate) type Address = usize;

pub(crate) fn address(object: &Bound<'_, PyAny>) -> Address {
    object.as_ptr() as Address
}

/// A traced program, and the tracebacks behind its stacks.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) program: Program,
    pub(crate) stacks: Stacks,
    pub(crate) tracebacks: Tracebacks,
    /// The stack of the call to the converter.
    pub(crate) entry: Option<StackId>,
    /// The equations that are left to external rules, by their number.
    pub(crate) external: Vec<Py<PyAny>>,
    /// All jaxprs by the address of their objects.
    pub(crate) jaxprs: FxHashMap<Address, JaxprId>,
}

/// Settings for reading call stacks.
#[derive(Debug)]
pub(crate) struct StackOptions<'a, 'py> {
    /// The traceback of the call to the converter.
    pub(crate) entry: Option<&'a Bound<'py, PyAny>>,
    /// `true` to look up every stack's frames immediately, rather than on demand.
    pub(crate) resolve: bool,
    /// `true` to record files with absolute paths.
    pub(crate) absolute_paths: bool,
    /// The packages whose code counts as the user's or as a library's.
    pub(crate) user_packages: &'a [String],
}

/// The maximum recursion of a primitive without a row whose implementation uses smaller cases of
/// itself.
const MOST_NESTED: usize = 4;

/// The reason that a jaxpr cannot be read, with the parts of the message.
pub(crate) struct FailedRead {
    pub(crate) error: ReadError,
    pub(crate) stacks: Stacks,
    pub(crate) texts: LoadedTexts,
}

/// Reads the closed jaxpr `closed`. `name_of` gives a constant's path in the user's model, or
/// `None`. The equations of the primitives `rules` are kept for external rules.
pub(crate) fn read(
    closed: &Bound<'_, PyAny>,
    name_of: &Bound<'_, PyAny>,
    rules: &FxHashSet<&str>,
    options: &StackOptions<'_, '_>,
) -> std::result::Result<Traced, Box<FailedRead>> {
    let py = closed.py();
    let mut stacks = Stacks::default();
    let tracebacks = match Tracebacks::new(py, options.absolute_paths, options.user_packages) {
        Ok(tracebacks) => tracebacks,
        Err(error) => {
            let texts = LoadedTexts::default();
            return Err(Box::new(FailedRead { error: error.into(), stacks, texts }));
        }
    };
    let entry = options.entry.map(|traceback| tracebacks.stack(traceback, &mut stacks));
    let mut reader = Reader {
        py,
        stacks,
        tracebacks,
        program: Program::default(),
        knows_constraints: false,
        jaxprs: FxHashMap::default(),
        types: FxHashMap::default(),
        dtypes: FxHashMap::default(),
        primitives: FxHashMap::default(),
        scopes: FxHashMap::default(),
        arrays: FxHashMap::default(),
        kinds: ByType::default(),
        param_names: FxHashMap::default(),
        name_of,
        keys: FxHashSet::default(),
        unknown: Vec::new(),
        expansions: Expansions::default(),
        rules,
        external: Vec::new(),
        alike: PyDict::new(py),
        within: Vec::new(),
    };
    let main = reader.jaxpr(closed);
    let Reader { mut stacks, tracebacks, mut program, within, external, jaxprs, .. } = reader;
    program.main = main.as_ref().ok().copied();
    jaxpr::outline(&mut program, &mut |stack, inside, outside| {
        tracebacks.part(py, &mut stacks, stack, inside, outside)
    });
    let resolved = match &main {
        Ok(_) if options.resolve => tracebacks.resolve_all(py, &mut stacks),
        Ok(_) => Ok(()),
        Err(_) => within.iter().try_for_each(|s| tracebacks.resolve(py, &mut stacks, *s)),
    };
    match main.and_then(|main| resolved.map(|()| main).map_err(ReadError::from)) {
        Ok(_) => Ok(Traced { program, stacks, tracebacks, entry, external, jaxprs }),
        Err(error) => {
            let at = innermost_of_user(&within, &stacks);
            // Texts that cannot be found leave the message without its line.
            let texts = tracebacks.texts(py).unwrap_or_default();
            Err(Box::new(FailedRead { error: error.at(at), stacks, texts }))
        }
    }
}

/// Returns the innermost stack with a line of the user, because JAX itself wrote some jaxprs.
fn innermost_of_user(within: &[StackId], stacks: &Stacks) -> Option<StackId> {
    let of_user = |s: &&StackId| stacks.frames(**s).any(|f| f.kind == FrameKind::User);
    within.iter().rev().find(of_user).or(within.last()).copied()
}

/// Returns the primitive and parameters of the equation that calls an expansion.
fn expansion(primitive: Arc<str>, jaxpr: JaxprId) -> (Arc<str>, Params) {
    (primitive, Params(vec![(EXPANSION.1.into(), Param::Jaxpr(jaxpr))]))
}

struct Reader<'a, 'py> {
    py: Python<'py>,
    stacks: Stacks,
    tracebacks: Tracebacks,
    program: Program,
    /// `true` if the constraints on dimension variables have been read.
    knows_constraints: bool,
    jaxprs: FxHashMap<Address, JaxprId>,
    /// Types of arrays and elements by their objects, with references that keep the addresses
    /// valid.
    types: FxHashMap<Address, (Type, bool, Bound<'py, PyAny>)>,
    dtypes: FxHashMap<Address, (DType, Bound<'py, PyAny>)>,
    primitives: FxHashMap<Address, Arc<str>>,
    scopes: FxHashMap<Address, Scopes>,
    arrays: FxHashMap<Address, Tensor>,
    /// The kinds of parameters, by their Python types.
    kinds: ByType<params::ParamKind>,
    /// The names of parameters, with their objects, which keep the addresses valid.
    param_names: FxHashMap<Address, (ParamName, Bound<'py, PyAny>)>,
    name_of: &'a Bound<'py, PyAny>,
    /// The variables that are PRNG keys.
    keys: FxHashSet<Address>,
    /// The primitives without a row whose implementations are being read.
    unknown: Vec<Arc<str>>,
    /// The expansions that JAX has traced.
    expansions: Expansions<'py>,
    /// The primitives that have external rules.
    rules: &'a FxHashSet<&'a str>,
    /// The equations for external rules, and their numbers by everything that a rule sees of them.
    external: Vec<Py<PyAny>>,
    alike: Bound<'py, PyDict>,
    /// The equation being read and the enclosing ones, for errors.
    within: Vec<StackId>,
}

impl<'py> Reader<'_, 'py> {
    /// Reads a `ClosedJaxpr` or a `Jaxpr`, each object once.
    fn jaxpr(&mut self, object: &Bound<'py, PyAny>) -> Result<JaxprId> {
        if let Some(known) = self.jaxprs.get(&address(object)) {
            return Ok(*known);
        }
        let py = self.py;
        let open = object.getattr_opt(attr::jaxpr(py))?.unwrap_or_else(|| object.clone());
        let eqns = open.getattr(attr::eqns(py))?;
        let eqns = eqns.cast_into::<PyList>().map_err(PyErr::from)?;
        let mut scope = Scope::with_capacity(eqns.len());
        let constvars = open.getattr(attr::constvars(py))?;
        if let Some(consts) = object.getattr_opt(attr::consts(py))? {
            for (var, value) in constvars.try_iter()?.zip(consts.try_iter()?) {
                let (var, value) = (self.define(&mut scope, &var?)?, value?);
                let name: Option<String> = self.name_of.call1((&value,))?.extract()?;
                let tensor = self.constant(&value, scope.jaxpr.ty(var))?;
                scope.jaxpr.consts.push((var, Constant { tensor, name: name.map(Into::into) }));
            }
        }
        for var in open.getattr(attr::invars(py))?.try_iter()? {
            let var = self.define(&mut scope, &var?)?;
            scope.jaxpr.inputs.push(var);
        }
        for eqn in eqns.iter() {
            let eqn = self.eqn(&mut scope, &eqn)?;
            scope.jaxpr.eqns.push(eqn);
        }
        for atom in open.getattr(attr::outvars(py))?.try_iter()? {
            let atom = self.atom(&scope, &atom?)?;
            scope.jaxpr.outputs.push(atom);
        }
        let id = JaxprId(u32::try_from(self.program.jaxprs.len()).unwrap_or(u32::MAX));
        self.program.jaxprs.push(scope.jaxpr);
        self.jaxprs.insert(address(object), id);
        Ok(id)
    }

    fn eqn(&mut self, scope: &mut Scope, eqn: &Bound<'py, PyAny>) -> Result<Eqn> {
        let py = self.py;
        let info = eqn.getattr(attr::source_info(py))?;
        let traceback = info.getattr(attr::traceback(py))?;
        let stack =
            (!traceback.is_none()).then(|| self.tracebacks.stack(&traceback, &mut self.stacks));
        let depth = self.within.len();
        self.within.extend(stack);

        let primitive = self.primitive(&eqn.getattr(attr::primitive(py))?)?;
        let operands = eqn.getattr(attr::invars(py))?;
        let operands = operands.cast_into::<PyList>().map_err(PyErr::from)?;
        let inputs: Vec<Atom> =
            operands.iter().map(|a| self.atom(scope, &a)).collect::<Result<_>>()?;
        let results = eqn.getattr(attr::outvars(py))?;
        let results = results.cast_into::<PyList>().map_err(PyErr::from)?;
        let outputs: Vec<VarId> =
            results.iter().map(|v| self.define(scope, &v)).collect::<Result<_>>()?;
        let number = u32::try_from(scope.jaxpr.eqns.len()).unwrap_or(u32::MAX);
        scope.jaxpr.made_by.resize(scope.jaxpr.vars.len(), None);
        for (i, var) in (0..).zip(&outputs) {
            scope.jaxpr.made_by[var.0 as usize] = Some((number, i));
        }
        let external = match self.rules.contains(&*primitive) {
            true => Some(self.leave_to_rule(eqn)?),
            false => None,
        };
        let params = eqn.getattr(attr::params(py))?;
        let params = params.cast_into::<PyDict>().map_err(PyErr::from)?;
        let row = lower::primitive(&primitive);
        let unknown = row.is_none() && external.is_none();
        let implementation = if unknown { self.implementation(&primitive, eqn)? } else { None };
        let (primitive, params) = match (implementation, row.filter(|_| external.is_none())) {
            (Some(jaxpr), _) => expansion(EXPANSION.0.into(), jaxpr),
            (None, Some(row)) => {
                let keys = !self.keys.is_empty()
                    && operands.iter().chain(&results).any(|v| self.keys.contains(&address(&v)));
                let types = || inputs.iter().map(|atom| scope.jaxpr.atom_ty(atom)).collect();
                let plan = expand::plan(row, eqn, keys)?;
                match self.expansion(row, eqn, &params, plan, types)? {
                    Read::AsItIs(params) => (primitive, params),
                    Read::Expanded(jaxpr) => {
                        let keeps_name = row.is_always_expanded();
                        expansion(if keeps_name { primitive } else { EXPANSION.0.into() }, jaxpr)
                    }
                }
            }
            (None, None) => {
                // Only built-in rules read these. External rules get JAX's own parameters, and a
                // primitive without a rule is an error.
                (primitive, self.params(&params, row.is_some())?)
            }
        };
        let (scope, functions) = self.scope(&info.getattr(attr::name_stack(py))?, &traceback)?;
        self.within.truncate(depth);
        Ok(Eqn { primitive, inputs, outputs, params, stack, scope, functions, external })
    }

    /// Reads an equation according to `plan`.
    fn expansion(
        &mut self,
        row: &Primitive,
        eqn: &Bound<'py, PyAny>,
        params: &Bound<'py, PyDict>,
        plan: Plan,
        operands: impl FnOnce() -> Vec<Type>,
    ) -> Result<Read> {
        let how = match plan {
            Plan::Stay => None,
            Plan::Expand(how) => Some(how),
            Plan::ExpandIf(how, needed) => {
                let params = self.params(params, true)?;
                let (program, operands) = (&self.program, &operands());
                if !needed(&lower::Equation { program, params: &params, operands }) {
                    return Ok(Read::AsItIs(params));
                }
                Some(how)
            }
        };
        let expansion =
            how.map(|how| self.expansions.trace(row.name, eqn, how)).transpose()?.flatten();
        Ok(match expansion {
            Some(expansion) => Read::Expanded(self.jaxpr(&expansion)?),
            None => Read::AsItIs(self.params(params, true)?),
        })
    }

    /// Reads the implementation of a primitive that the table lacks, if JAX can trace it.
    fn implementation(
        &mut self,
        primitive: &Arc<str>,
        eqn: &Bound<'py, PyAny>,
    ) -> Result<Option<JaxprId>> {
        if self.unknown.iter().filter(|outer| *outer == primitive).count() == MOST_NESTED {
            return Ok(None); // its implementation is recursive
        }
        let how = Expansion::Implementation;
        let Some(jaxpr) = self.expansions.trace(primitive, eqn, how)? else { return Ok(None) };
        self.unknown.push(Arc::clone(primitive));
        let read = self.jaxpr(&jaxpr);
        self.unknown.pop();
        read.map(Some)
    }

    /// Keeps an equation for an external rule. Returns its number.
    fn leave_to_rule(&mut self, eqn: &Bound<'py, PyAny>) -> Result<u32> {
        let py = self.py;
        let next = u32::try_from(self.external.len()).unwrap_or(u32::MAX);
        let params = eqn.getattr(attr::params(py))?;
        let params = params.cast_into::<PyDict>().map_err(PyErr::from)?;
        let mut key = vec![eqn.getattr(attr::primitive(py))?, params.items().to_tuple().into_any()];
        for vars in [attr::invars(py), attr::outvars(py)] {
            for var in eqn.getattr(vars)?.try_iter()? {
                key.push(var?.getattr(attr::aval(py))?);
            }
        }
        let key = PyTuple::new(py, key)?;
        // An equation that cannot be hashed is not shared.
        if key.hash().is_ok() {
            if let Some(known) = self.alike.get_item(&key)? {
                return Ok(known.extract()?);
            }
            self.alike.set_item(key, next)?;
        }
        self.external.push(eqn.clone().unbind());
        Ok(next)
    }

    fn primitive(&mut self, primitive: &Bound<'py, PyAny>) -> Result<Arc<str>> {
        if let Some(known) = self.primitives.get(&address(primitive)) {
            return Ok(Arc::clone(known));
        }
        let name: String = primitive.getattr(attr::name(self.py))?.extract()?;
        let name: Arc<str> = name.into();
        self.primitives.insert(address(primitive), Arc::clone(&name));
        Ok(name)
    }

    fn define(&mut self, scope: &mut Scope, var: &Bound<'py, PyAny>) -> Result<VarId> {
        let (ty, key) = self.aval(&var.getattr(attr::aval(self.py))?)?;
        let id = VarId(u32::try_from(scope.jaxpr.vars.len()).unwrap_or(u32::MAX));
        scope.jaxpr.vars.push(ty);
        scope.vars.insert(address(var), id);
        if key {
            self.keys.insert(address(var));
        }
        Ok(id)
    }

    fn atom(&mut self, scope: &Scope, atom: &Bound<'py, PyAny>) -> Result<Atom> {
        if let Some(var) = scope.vars.get(&address(atom)) {
            return Ok(Atom::Var(*var));
        }
        if !atom.get_type().is(class::literal(self.py)?) {
            return Err(ReadError::Malformed("a variable is used before it is defined".into()));
        }
        let (ty, _) = self.aval(&atom.getattr(attr::aval(self.py))?)?;
        self.literal(&atom.getattr(attr::val(self.py))?, &ty).map(Atom::Literal)
    }

    /// Returns the type of an array, and `true` if it consists of PRNG keys. In that case, the type
    /// is that of the integers that make up the keys.
    fn aval(&mut self, aval: &Bound<'py, PyAny>) -> Result<(Type, bool)> {
        if let Some((ty, key, _)) = self.types.get(&address(aval)) {
            return Ok((ty.clone(), *key));
        }
        let Some(dtype) = aval.getattr_opt(attr::dtype(self.py))? else {
            return Err(ReadError::NoArray(aval.str()?.to_string()));
        };
        let Element { dtype, axes } = self.element(&dtype)?;
        let shape = aval.getattr(attr::shape(self.py))?;
        let shape = shape.cast_into::<PyTuple>().map_err(PyErr::from)?;
        let mut shape = shape.iter().map(|d| self.dim(&d)).collect::<Result<Shape>>()?;
        let key = !axes.is_empty();
        shape.extend(axes);
        let ty = Type::new(dtype, shape);
        self.types.insert(address(aval), (ty.clone(), key, aval.clone()));
        Ok((ty, key))
    }

    fn dim(&mut self, dim: &Bound<'py, PyAny>) -> Result<Dim> {
        if let Ok(known) = dim.extract::<i64>() {
            return Ok(Dim::Known(known));
        }
        let text = dim.str()?.to_string();
        if dim.is_instance_of::<PyInt>() {
            return Err(ReadError::Dimension(text));
        }
        self.constraints(dim)?;
        Dim::parse_with(&text, Some(&self.program.constraints))
            .map_err(|error| ReadError::Malformed(error.to_string()))
    }

    /// Reads the constraints of the scope of a symbolic dimension. JAX does not mix scopes, so they
    /// are read once.
    fn constraints(&mut self, dim: &Bound<'py, PyAny>) -> Result<()> {
        if std::mem::replace(&mut self.knows_constraints, true) {
            return Ok(());
        }
        let py = self.py;
        let scope = dim.getattr(attr::scope(py))?;
        let mut constraints = Constraints::default();
        for constraint in scope.getattr(attr::_explicit_constraints(py))?.try_iter()? {
            let text: String = constraint?.getattr(attr::debug_str(py))?.extract()?;
            constraints.add(&text).map_err(|error| ReadError::Malformed(error.to_string()))?;
        }
        self.program.constraints = Arc::new(constraints);
        Ok(())
    }

    /// Returns the numbers that make up an element type.
    fn element(&mut self, dtype: &Bound<'py, PyAny>) -> Result<Element> {
        let py = self.py;
        if let Some((dtype, _)) = self.dtypes.get(&address(dtype)) {
            return Ok(Element { dtype: *dtype, axes: Shape::new() });
        }
        match dtype.getattr_opt(attr::_impl(py))? {
            None => Ok(Element { dtype: self.dtype(dtype)?, axes: Shape::new() }),
            Some(keys) => {
                let shape: Vec<i64> = keys.getattr(attr::key_shape(py))?.extract()?;
                let axes = shape.into_iter().map(Dim::Known).collect();
                Ok(Element { dtype: DType::U32, axes })
            }
        }
    }

    fn dtype(&mut self, dtype: &Bound<'py, PyAny>) -> Result<DType> {
        if let Some((known, _)) = self.dtypes.get(&address(dtype)) {
            return Ok(*known);
        }
        let name: String = dtype.getattr(attr::name(self.py))?.extract()?;
        let known = DType::from_numpy_name(&name).ok_or(ReadError::DType(name))?;
        self.dtypes.insert(address(dtype), (known, dtype.clone()));
        Ok(known)
    }

    /// Reads parameters. Unless `strict` is set, unreadable ones are skipped.
    fn params(&mut self, params: &Bound<'py, PyDict>, strict: bool) -> Result<Params> {
        let mut read = Vec::with_capacity(params.len());
        for (name, value) in params.iter() {
            match self.param_name(&name)? {
                ParamName::Ignored => {}
                ParamName::ScanOperands => {
                    let parts = value.call_method0(attr::unpack(self.py))?;
                    for (part, count) in parts.try_iter()?.zip(SCAN_OPERANDS.1) {
                        read.push((count.into(), Param::Int(part?.len()? as i64)));
                    }
                }
                ParamName::Named(name) => match self.param(&value) {
                    Err(_) if !strict => {}
                    param => read.push((name, param?)),
                },
            }
        }
        Ok(Params(read))
    }

    /// Reads a parameter's name. Names are few, and nearly always the same objects.
    fn param_name(&mut self, name: &Bound<'py, PyAny>) -> Result<ParamName> {
        if let Some((known, _)) = self.param_names.get(&address(name)) {
            return Ok(known.clone());
        }
        let text: String = name.extract()?;
        let read = match text {
            _ if is_ignored_param(&text) => ParamName::Ignored,
            _ if text == SCAN_OPERANDS.0 => ParamName::ScanOperands,
            _ => ParamName::Named(text.into()),
        };
        self.param_names.insert(address(name), (read.clone(), name.clone()));
        Ok(read)
    }
}

/// The result of reading an equation.
enum Read {
    /// The parameters of an equation that is preserved.
    AsItIs(Params),
    /// The expansion of the equation.
    Expanded(JaxprId),
}

/// The representation of an array's element: a number, or a small array of numbers.
struct Element {
    dtype: DType,
    axes: Shape,
}

/// A parameter's name.
#[derive(Clone)]
enum ParamName {
    Ignored,
    ScanOperands,
    Named(Arc<str>),
}

/// The variables of the jaxpr being read.
struct Scope {
    jaxpr: Jaxpr,
    vars: FxHashMap<Address, VarId>,
}

impl Scope {
    /// Creates a scope for a jaxpr with this many equations.
    fn with_capacity(eqns: usize) -> Self {
        let mut scope = Self { jaxpr: Jaxpr::default(), vars: FxHashMap::default() };
        scope.jaxpr.eqns.reserve(eqns);
        // Equations with several results are rare.
        scope.jaxpr.vars.reserve(eqns);
        scope.vars.reserve(eqns);
        scope
    }
}
