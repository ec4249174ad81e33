//! Symbolic sizes, computed from the shapes of inputs.

use onnx::{Attrs, Graph, ValueId, attrs};
use tensor::bounds::at_least;
use tensor::{Atom, DType, Dim, DimOp, Type};

use super::{Context, Solution};
use crate::{Result, RuleError};

impl Context<'_> {
    /// Returns the dimensions as a vector of 64-bit integers. It is a constant if all are known.
    /// Otherwise it is computed from the inputs' shapes, each distinct dimension once per model.
    #[track_caller]
    pub fn dims(&mut self, shape: &[Dim]) -> Result<ValueId> {
        let known = Dim::all_known(shape);
        if let Some(known) = known {
            return Ok(self.i64s(&known));
        }
        let mut parts = Vec::new();
        let mut rest = shape;
        while let Some(first) = rest.first() {
            let run = rest.iter().take_while(|d| d.as_known().is_some()).count();
            if run > 0 {
                let values: Vec<i64> = rest[..run].iter().filter_map(Dim::as_known).collect();
                parts.push(self.i64s(&values));
                rest = &rest[run..];
            } else {
                parts.push(self.dim(first)?);
                rest = &rest[1..];
            }
        }
        match parts.as_slice() {
            [one] => Ok(*one),
            _ => Ok(self.op("Concat", &parts, attrs! { axis: 0 })?),
        }
    }

    /// Returns a dimension as a scalar.
    #[track_caller]
    pub(crate) fn size(&mut self, dim: &Dim) -> Result<ValueId> {
        let size = self.dims(std::slice::from_ref(dim))?;
        Ok(self.squeeze(size, &[0])?)
    }

    /// Returns a dimension as a vector of one element, computed in the root block, where all blocks
    /// of the main graph or of the function see it.
    #[track_caller]
    fn dim(&mut self, dim: &Dim) -> Result<ValueId> {
        if let Some(known) = dim.as_known() {
            return Ok(self.i64s(&[known]));
        }
        if let Some(&known) = self.state.frame.dims.get(dim) {
            return Ok(known);
        }
        let root = self.state.frame.root;
        let value = if let Some((input, axis)) = self.state.frame.places.get(dim).copied() {
            let axis = axis as i64;
            self.in_root("Shape", &[input], attrs! { start: axis, end: axis + 1 })?
        } else if let Some(name) = dim.as_var() {
            if let Some(Solution { size, offset, factor }) =
                self.state.frame.solutions.get(name).cloned()
            {
                let mut value = self.dim(&size)?;
                for (op, number, neutral) in [("Sub", offset, 0), ("Div", factor, 1)] {
                    if number != neutral {
                        let number = self.i64s(&[number]);
                        value = self.in_root(op, &[value, number], Attrs::new())?;
                    }
                }
                value
            } else if root == Graph::MAIN {
                return Err(RuleError::unsupported(format!(
                    "the size `{name}` cannot be computed from any single dimension of an input"
                ))
                .with_help(format!("give an input whose shape contains `{name}` by itself")));
            } else {
                // The caller of the function provides the size, or takes it as an operand as well.
                self.state.frame.sizes.push(dim.clone());
                let size = Type::new(DType::I64, [Dim::Known(1)]);
                let value = self.builder.graph_mut().add_input(root, size);
                self.builder.graph_mut().set_name(value, format!("size_of_{name}"));
                value
            }
        } else {
            self.polynomial(dim)?
        };
        self.builder.graph_mut().set_content(value, Some([dim.clone()].into()));
        self.state.frame.dims.insert(dim.clone(), value);
        Ok(value)
    }

    #[track_caller]
    fn polynomial(&mut self, dim: &Dim) -> Result<ValueId> {
        let mut sum = None;
        for (factor, atoms) in dim.terms() {
            let mut product = None;
            for (atom, power) in atoms {
                let value = match &atom {
                    Atom::Var(_) => self.dim(&Dim::atom(atom.clone()))?,
                    Atom::Op(op, a, b) => self.dim_op(*op, a, b)?,
                };
                for _ in 0..power {
                    product = Some(self.fold("Mul", product, value)?);
                }
            }
            let term = match (factor, product) {
                (1, Some(product)) => product,
                _ => {
                    let factor = self.i64s(&[factor]);
                    self.fold("Mul", product, factor)?
                }
            };
            sum = Some(self.fold("Add", sum, term)?);
        }
        sum.ok_or_else(|| RuleError::Internal(format!("the dimension `{dim}` has no terms")))
    }

    #[track_caller]
    fn fold(&mut self, op: &'static str, left: Option<ValueId>, right: ValueId) -> Result<ValueId> {
        match left {
            None => Ok(right),
            Some(left) => self.in_root(op, &[left, right], Attrs::new()),
        }
    }

    #[track_caller]
    fn dim_op(&mut self, op: DimOp, a: &Dim, b: &Dim) -> Result<ValueId> {
        let pair = [self.dim(a)?, self.dim(b)?];
        match op {
            DimOp::Max => self.in_root("Max", &pair, Attrs::new()),
            DimOp::Min => self.in_root("Min", &pair, Attrs::new()),
            // ONNX's `Mod` without `fmod` takes the sign of the divisor, like Python's.
            DimOp::Mod => self.in_root("Mod", &pair, Attrs::new()),
            // `Div` truncates, which is equivalent if nothing is negative.
            DimOp::FloorDiv if at_least(a, 0) && at_least(b, 1) => {
                self.in_root("Div", &pair, Attrs::new())
            }
            // Subtracting the remainder first makes the division exact.
            DimOp::FloorDiv => {
                let rest = self.in_root("Mod", &pair, Attrs::new())?;
                let exact = self.in_root("Sub", &[pair[0], rest], Attrs::new())?;
                self.in_root("Div", &[exact, pair[1]], Attrs::new())
            }
        }
    }

    #[track_caller]
    fn in_root(&mut self, op: &'static str, inputs: &[ValueId], attrs: Attrs) -> Result<ValueId> {
        let block = self.builder.enter(self.state.frame.root);
        let value = self.builder.op(op, inputs, attrs);
        self.builder.enter(block);
        Ok(value?)
    }
}
