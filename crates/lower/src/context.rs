//! What a rule sees: the equation's parameters and result types, and a builder.

use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::Arc;

use jaxpr::{Eqn, FromParam, Jaxpr, JaxprId};
use onnx::{Attrs, BlockId, Builder, Graph, Source, ValueId, attrs};
use provenance::{CallId, Emitter, ScopeId, Stage};
use tensor::{Atom, DType, Dim, DimOp, Storage, Tensor, Type};

use crate::driver::{Driver, Place, Solution, State};
use crate::parts::{Parts, part_type, width};
use crate::{ExternalRules, RuleError};

/// The equation being lowered, and the builder that emits its nodes.
#[derive(Debug)]
pub struct Context<'a> {
    builder: Builder<'a>,
    pub(crate) state: &'a mut State,
    pub(crate) program: &'a jaxpr::Program,
    eqn: &'a Eqn,
    jaxpr: &'a Jaxpr,
    pub(crate) call: CallId,
    pub(crate) scope: ScopeId,
    external: &'a ExternalRules,
    /// The equation among the recorded ones.
    recorded: Option<u32>,
}

impl<'a> Deref for Context<'a> {
    type Target = Builder<'a>;

    fn deref(&self) -> &Builder<'a> {
        &self.builder
    }
}

impl<'a> DerefMut for Context<'a> {
    fn deref_mut(&mut self) -> &mut Builder<'a> {
        &mut self.builder
    }
}

type Result<T> = std::result::Result<T, RuleError>;

impl<'a> Context<'a> {
    pub(crate) fn enter(
        driver: &'a mut Driver<'_>,
        eqn: &'a Eqn,
        jaxpr: &'a Jaxpr,
        place: Place,
        call: CallId,
        scope: ScopeId,
        recorded: Option<u32>,
    ) -> Self {
        let builder = Builder {
            graph: driver.graph,
            origins: driver.origins,
            name: "",
            stage: Stage::Lower,
            site: None,
            source: Source::Equation { call: Some(call), scope },
            block: place.block,
            before: None,
        };
        Self {
            builder,
            state: driver.state,
            program: driver.program,
            external: driver.external,
            eqn,
            jaxpr,
            call,
            scope,
            recorded,
        }
    }

    /// The equation.
    pub fn eqn(&self) -> &'a Eqn {
        self.eqn
    }

    /// The types of the equation's results, complex ones included.
    pub fn result_types(&self) -> impl Iterator<Item = &'a Type> {
        self.eqn.outputs.iter().map(|var| self.jaxpr.ty(*var))
    }

    /// The path of the module that the equation belongs to.
    pub fn scope_path(&self) -> &str {
        self.builder.origins.scope_path(self.scope)
    }

    /// Applies this crate's own rule for the equation's primitive, on behalf of an external rule.
    pub fn built_in(&mut self, inputs: &[Parts]) -> Result<Vec<Parts>> {
        let Some(rule) = crate::rules::find(&self.eqn.primitive) else {
            let reason = format!("`{}` has no built-in rule", self.eqn.primitive);
            return Err(RuleError::External(reason));
        };
        let (name, stage) = (self.builder.name, self.builder.stage);
        let site = self.builder.site.take();
        (self.builder.name, self.builder.stage) = (rule.name, Stage::Lower);
        let outputs = rule.apply(self, inputs);
        (self.builder.name, self.builder.stage, self.builder.site) = (name, stage, site);
        outputs
    }

    /// The parameter `name`, read as a `T`.
    pub fn param<T: FromParam>(&self, name: &str) -> Result<T> {
        Ok(self.eqn.params.get(name)?)
    }

    /// The parameter `name`, or `default` if this JAX version has no such parameter.
    pub fn param_or<T: FromParam>(&self, name: &str, default: T) -> Result<T> {
        if self.eqn.params.raw(name).is_none() { Ok(default) } else { self.param(name) }
    }

    /// The type that JAX gives the result at `index`; for a complex result, the type of its parts.
    pub fn out(&self, index: usize) -> Type {
        part_type(self.jaxpr.ty(self.eqn.outputs[index]))
    }

    /// How many values each of the equation's results consists of: a complex one is two.
    pub fn out_widths(&self) -> impl Iterator<Item = usize> {
        self.eqn.outputs.iter().map(|var| width(self.jaxpr.ty(*var).dtype))
    }

    /// How many values the equation's results consist of.
    pub fn out_count(&self) -> usize {
        self.out_widths().sum()
    }

    /// How many values the equation's first `count` operands consist of: a complex one is two.
    pub fn in_count(&self, count: usize) -> usize {
        let operands = self.eqn.inputs.iter().take(count);
        operands.map(|atom| width(self.jaxpr.atom_ty(atom).dtype)).sum()
    }

    /// Whether any of the equation's results is complex.
    pub fn is_complex(&self) -> bool {
        self.out_count() != self.eqn.outputs.len()
    }

    /// The equation's results, from the values they are made of.
    pub(crate) fn regroup(&self, flat: &mut impl Iterator<Item = ValueId>) -> Result<Vec<Parts>> {
        let parts = self.eqn.outputs.iter().map(|var| Parts::take(self.jaxpr.ty(*var).dtype, flat));
        let parts: Option<Vec<Parts>> = parts.collect();
        parts.ok_or_else(|| RuleError::Internal("the rule returned too few values".to_owned()))
    }

    /// A jaxpr of the program.
    pub fn jaxpr(&self, id: JaxprId) -> &'a Jaxpr {
        self.program.jaxpr(id)
    }

    /// Lowers the jaxpr `id`, called with `inputs`, in place. Complex inputs and results are two
    /// values each.
    #[track_caller]
    pub fn inline(&mut self, id: JaxprId, inputs: &[ValueId]) -> Result<Vec<ValueId>> {
        let block = self.builder.block;
        self.inline_into(id, inputs, block, Location::caller())
    }

    /// Emits nodes into a new block. `fill` returns what the block returns.
    pub fn block(
        &mut self,
        fill: impl FnOnce(&mut Self, BlockId) -> Result<Vec<ValueId>>,
    ) -> Result<BlockId> {
        let block = self.builder.graph.add_block();
        let outer = std::mem::replace(&mut self.builder.block, block);
        let outputs = fill(self, block);
        self.builder.block = outer;
        let outputs = outputs?;
        self.builder.graph.set_outputs(block, &outputs);
        Ok(block)
    }

    /// New inputs of a block, of the given types.
    pub fn inputs(&mut self, block: BlockId, types: Vec<Type>) -> Vec<ValueId> {
        types.into_iter().map(|ty| self.builder.graph.add_input(block, ty)).collect()
    }

    fn inline_into(
        &mut self,
        id: JaxprId,
        inputs: &[ValueId],
        block: BlockId,
        at: &'static Location<'static>,
    ) -> Result<Vec<ValueId>> {
        // What a body computes has no single value.
        let recorded = self.recorded.filter(|_| block == Graph::MAIN).map(Some);
        let place = Place { block, scope: self.scope, caller: Some(self.caller(at)), recorded };
        Ok(self.driver().jaxpr(id, inputs, place)?)
    }

    /// The equation, as the caller of what the statement at `at` descends into.
    pub(crate) fn caller(&self, at: &'static Location<'static>) -> (CallId, Emitter) {
        (self.call, self.builder.emitter(at))
    }

    /// The driver that entered this equation.
    pub(crate) fn driver(&mut self) -> Driver<'_> {
        Driver {
            program: self.program,
            graph: self.builder.graph,
            origins: self.builder.origins,
            state: self.state,
            external: self.external,
        }
    }

    /// The types of the values that the equation's results consist of.
    pub(crate) fn out_types(&self) -> Vec<Type> {
        let results = self.eqn.outputs.iter().map(|var| self.jaxpr.ty(*var));
        results.flat_map(|ty| std::iter::repeat_n(part_type(ty), width(ty.dtype))).collect()
    }

    /// A scalar constant of the element type that `like` has.
    pub fn scalar_like(&mut self, like: ValueId, value: f64) -> Result<ValueId> {
        let dtype = self.dtype(like);
        Ok(self.scalar(dtype, value)?)
    }

    /// The dimensions as a vector of 64-bit integers: a constant if all are known, otherwise computed
    /// from the inputs' shapes, each distinct dimension once per model.
    #[track_caller]
    pub fn dims(&mut self, shape: &[Dim]) -> Result<ValueId> {
        let known: Option<Vec<i64>> = shape.iter().map(Dim::as_known).collect();
        if let Some(known) = known {
            return Ok(self.i64s(&known));
        }
        let at = Location::caller();
        let mut parts = Vec::new();
        let mut rest = shape;
        while let Some(first) = rest.first() {
            let run = rest.iter().take_while(|d| d.as_known().is_some()).count();
            if run > 0 {
                let values: Vec<i64> = rest[..run].iter().filter_map(Dim::as_known).collect();
                parts.push(self.i64s(&values));
                rest = &rest[run..];
            } else {
                parts.push(self.dim(first, at)?);
                rest = &rest[1..];
            }
        }
        match parts.as_slice() {
            [one] => Ok(*one),
            _ => Ok(self.op("Concat", &parts, attrs! { axis: 0 })?),
        }
    }

    /// A dimension as a vector of one element, computed in the root block so that all blocks of
    /// the main graph, or of the function, see it.
    fn dim(&mut self, dim: &Dim, at: &'static Location<'static>) -> Result<ValueId> {
        if let Some(known) = dim.as_known() {
            return Ok(self.i64s(&[known]));
        }
        if let Some(&known) = self.state.frame.dims.get(dim) {
            return Ok(known);
        }
        let root = self.state.frame.root;
        let value = if let Some((input, axis)) = self.state.frame.place(dim) {
            let axis = axis as i64;
            self.in_root("Shape", &[input], attrs! { start: axis, end: axis + 1 }, at)?
        } else if let Some(name) = dim.as_var() {
            if let Some(Solution { size, offset, factor }) = self.state.frame.solution(name) {
                let mut value = self.dim(&size, at)?;
                for (op, number, neutral) in [("Sub", offset, 0), ("Div", factor, 1)] {
                    if number != neutral {
                        let number = self.i64s(&[number]);
                        value = self.in_root(op, &[value, number], Attrs::new(), at)?;
                    }
                }
                value
            } else if root == Graph::MAIN {
                return Err(RuleError::unsupported(format!(
                    "the size `{name}` cannot be computed from any single dimension of an input"
                ))
                .with_help(format!("add an input with a dimension that is just `{name}`")));
            } else {
                // The caller of the function computes it, or takes it as an operand as well.
                self.state.frame.sizes.push(dim.clone());
                let size = Type::new(DType::I64, [Dim::Known(1)]);
                let value = self.builder.graph.add_input(root, size);
                self.builder.graph.value_mut(value).name = format!("size_of_{name}");
                value
            }
        } else {
            self.polynomial(dim, at)?
        };
        self.builder.graph.value_mut(value).content = Some([dim.clone()].into());
        self.state.frame.dims.insert(dim.clone(), value);
        Ok(value)
    }

    fn polynomial(&mut self, dim: &Dim, at: &'static Location<'static>) -> Result<ValueId> {
        let mut sum = None;
        for (factor, atoms) in dim.terms() {
            let mut product = None;
            for (atom, power) in atoms {
                let value = match &atom {
                    Atom::Var(name) => self.dim(&Dim::var(name), at)?,
                    Atom::Op(op, a, b) => self.dim_op(*op, a, b, at)?,
                };
                for _ in 0..power {
                    product = Some(self.fold("Mul", product, value, at)?);
                }
            }
            let term = match (factor, product) {
                (1, Some(product)) => product,
                _ => {
                    let factor = self.i64s(&[factor]);
                    self.fold("Mul", product, factor, at)?
                }
            };
            sum = Some(self.fold("Add", sum, term, at)?);
        }
        sum.ok_or_else(|| RuleError::Internal(format!("the dimension `{dim}` has no terms")))
    }

    fn fold(
        &mut self,
        op: &'static str,
        left: Option<ValueId>,
        right: ValueId,
        at: &'static Location<'static>,
    ) -> Result<ValueId> {
        match left {
            None => Ok(right),
            Some(left) => self.in_root(op, &[left, right], Attrs::new(), at),
        }
    }

    fn dim_op(
        &mut self,
        op: DimOp,
        a: &Dim,
        b: &Dim,
        at: &'static Location<'static>,
    ) -> Result<ValueId> {
        let pair = [self.dim(a, at)?, self.dim(b, at)?];
        match op {
            DimOp::Max => self.in_root("Max", &pair, Attrs::new(), at),
            DimOp::Min => self.in_root("Min", &pair, Attrs::new(), at),
            // ONNX's Mod without `fmod` takes the sign of the divisor, as Python's does.
            DimOp::Mod => self.in_root("Mod", &pair, Attrs::new(), at),
            // Div truncates. Subtracting the remainder first makes the division exact.
            DimOp::FloorDiv => {
                let rest = self.in_root("Mod", &pair, Attrs::new(), at)?;
                let exact = self.in_root("Sub", &[pair[0], rest], Attrs::new(), at)?;
                self.in_root("Div", &[exact, pair[1]], Attrs::new(), at)
            }
        }
    }

    fn in_root(
        &mut self,
        op: &'static str,
        inputs: &[ValueId],
        attrs: Attrs,
        at: &'static Location<'static>,
    ) -> Result<ValueId> {
        let block = std::mem::replace(&mut self.builder.block, self.state.frame.root);
        let inputs = inputs.iter().map(|v| Some(*v)).collect();
        let outputs = self.builder.emit(onnx::Op::onnx(op), inputs, attrs, 1, at);
        self.builder.block = block;
        Ok(outputs?[0])
    }

    /// `value` in another shape with equally many elements.
    #[track_caller]
    pub fn reshape(&mut self, value: ValueId, shape: &[Dim]) -> Result<ValueId> {
        if self.shape(value) == shape {
            return Ok(value);
        }
        let shape = self.dims(shape)?;
        // A zero in the shape means zero, not "copy from the input".
        Ok(self.op("Reshape", &[value, shape], attrs! { allowzero: 1 })?)
    }

    /// `value` broadcast to `shape`, to which it must be broadcastable.
    #[track_caller]
    pub fn expand(&mut self, value: ValueId, shape: &[Dim]) -> Result<ValueId> {
        if self.shape(value) == shape {
            return Ok(value);
        }
        let sizes: Option<Vec<usize>> =
            shape.iter().map(|d| d.as_known().and_then(|n| n.try_into().ok())).collect();
        if let Some(sizes) = sizes.filter(|sizes| sizes.contains(&0)) {
            // onnxruntime's optimiser treats an Expand from one to zero as one that does nothing.
            let nothing: Arc<dyn Storage> = Arc::new(Vec::new());
            let empty = Tensor::new(self.dtype(value), &sizes, nothing);
            let empty = empty.map_err(|error| RuleError::Internal(error.to_string()))?;
            return Ok(self.constant(empty));
        }
        let shape = self.dims(shape)?;
        Ok(self.op("Expand", &[value, shape], Attrs::new())?)
    }

    /// The elements of `value` along one axis: `start` to `end` by `step`.
    #[track_caller]
    pub fn slice(
        &mut self,
        value: ValueId,
        axes: &[i64],
        starts: &[Dim],
        ends: &[Dim],
        steps: &[i64],
    ) -> Result<ValueId> {
        if axes.is_empty() {
            return Ok(value);
        }
        let (starts, ends) = (self.dims(starts)?, self.dims(ends)?);
        let (axes, steps) = (self.i64s(axes), self.i64s(steps));
        Ok(self.op("Slice", &[value, starts, ends, axes, steps], Attrs::new())?)
    }

    /// A tensor of `shape` filled with `value`.
    #[track_caller]
    pub fn full(&mut self, dtype: DType, value: f64, shape: &[Dim]) -> Result<ValueId> {
        let tensor = Tensor::scalar(dtype, value)
            .ok_or_else(|| RuleError::Internal(format!("{value} cannot be a {dtype} constant")))?;
        let scalar = self.constant(tensor);
        self.expand(scalar, shape)
    }
}
