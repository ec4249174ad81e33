//! A node that is about to be emitted, and the checks that inference makes on it.

use std::fmt;

use smallvec::SmallVec;
use tensor::{DType, Dim, Type};

use crate::{Attr, Attrs, Block, Error, Graph, Op, Result, ValueId, fold};

/// A few integers: axes, pads, repeats.
pub(super) type Ints = SmallVec<[i64; 8]>;
/// A few axes, counted from the front.
pub(super) type Axes = SmallVec<[usize; 8]>;
/// The elements of a short integer vector.
pub(super) type Dims = SmallVec<[Dim; 8]>;

/// A node that is about to be emitted.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) op: &'a Op,
    pub(crate) inputs: &'a [Option<ValueId>],
    pub(crate) attrs: &'a Attrs,
    /// The number of requested results.
    pub(crate) count: usize,
}

impl<'a> Call<'a> {
    /// Returns an error about this node.
    pub(crate) fn error(&self, reason: impl Into<String>) -> Error {
        Error::invalid(self.op.name, reason)
    }

    /// Returns the operand at `index`, if it is given.
    pub(super) fn optional(&self, index: usize) -> Option<ValueId> {
        self.inputs.get(index).copied().flatten()
    }

    /// Returns the operand at `index`, which must be given.
    pub(super) fn value(&self, index: usize) -> Result<ValueId> {
        self.optional(index).ok_or_else(|| self.error(format!("input {index} is missing")))
    }

    /// Returns the type of the operand at `index`, which must be given.
    pub(super) fn ty(&self, index: usize) -> Result<&'a Type> {
        Ok(self.graph.ty(self.value(index)?))
    }

    /// Returns the type of the operand at `index`, if it is given.
    pub(super) fn optional_ty(&self, index: usize) -> Option<&'a Type> {
        self.optional(index).map(|value| self.graph.ty(value))
    }

    /// Returns the type of the operand at `index`. Fails with the requirement unless it holds.
    pub(super) fn required(
        &self,
        index: usize,
        requirement: impl fmt::Display,
        holds: impl FnOnce(&Type) -> bool,
    ) -> Result<&'a Type> {
        let ty = self.ty(index)?;
        match holds(ty) {
            true => Ok(ty),
            false => Err(self.error(format!("input {index} is {ty}, but {requirement}"))),
        }
    }

    /// Returns the type of the operand at `index`, which must have the rank `rank`.
    pub(super) fn ranked(&self, index: usize, rank: usize) -> Result<&'a Type> {
        self.required(index, format_args!("its rank must be {rank}"), |ty| ty.rank() == rank)
    }

    /// Returns the type of the operand at `index`, which must have at least the rank `rank`.
    pub(super) fn ranked_from(&self, index: usize, rank: usize) -> Result<&'a Type> {
        let requirement = format_args!("its rank must be at least {rank}");
        self.required(index, requirement, |ty| ty.rank() >= rank)
    }

    /// Checks that two operands have the same element type.
    pub(super) fn same_dtype(&self, a: usize, b: usize) -> Result<()> {
        let (a, b) = (self.ty(a)?, self.ty(b)?);
        if a.dtype != b.dtype {
            return Err(self.error(format!("operands are {a} and {b}")));
        }
        Ok(())
    }

    /// Checks that an operand has the element type `dtype`.
    pub(super) fn dtype_is(&self, index: usize, dtype: DType) -> Result<()> {
        self.required(index, format_args!("must be {dtype}"), |ty| ty.dtype == dtype).map(drop)
    }

    /// Checks that an operand is `i32` or `i64`, the types of indices.
    pub(super) fn is_index(&self, index: usize) -> Result<()> {
        let is_index = |ty: &Type| matches!(ty.dtype, DType::I32 | DType::I64);
        self.required(index, "must be i32 or i64", is_index).map(drop)
    }

    /// Checks that an operand has a single element: a scalar, or a vector of one.
    pub(super) fn is_single(&self, index: usize) -> Result<()> {
        let is_single = |ty: &Type| matches!(ty.shape.as_slice(), [] | [Dim::Known(1)]);
        self.required(index, "must be a scalar", is_single).map(drop)
    }

    /// Returns the elements of the integer operand at `index`. Fails if they are not known.
    fn content(&self, index: usize) -> Result<Dims> {
        let value = self.value(index)?;
        let content = match (&self.graph.value(value).content, self.graph.tensor(value)) {
            (Some(content), _) => Some(content.iter().cloned().collect()),
            // The common case is decoded without wider integers.
            (None, Some(tensor)) if tensor.dtype() == DType::I64 && tensor.shape().len() < 2 => {
                tensor.bytes().map(|bytes| {
                    let words = bytes.as_chunks().0.iter();
                    words.map(|word| Dim::Known(i64::from_le_bytes(*word))).collect()
                })
            }
            _ => self.graph.content(value).map(SmallVec::from_vec),
        };
        content.ok_or_else(|| self.error(format!("input {index} must be known here")))
    }

    /// Returns the elements of the operand at `index`, a vector of `i32` or `i64`.
    pub(super) fn vector(&self, index: usize) -> Result<Dims> {
        self.is_index(index)?;
        self.ranked(index, 1)?;
        self.content(index)
    }

    /// Returns the elements of the operand at `index`, a vector of `i32` or `i64`, as numbers.
    pub(super) fn numbers(&self, index: usize) -> Result<Ints> {
        let known = |dim: &Dim| {
            let reason =
                || self.error(format!("input {index} holds {dim}, but must hold a number"));
            dim.as_known().ok_or_else(reason)
        };
        self.vector(index)?.iter().map(known).collect()
    }

    /// Returns the only element of the integer operand at `index`.
    pub(super) fn single(&self, index: usize) -> Result<Dim> {
        self.is_single(index)?;
        let mut content = self.content(index)?;
        content.pop().ok_or_else(|| self.error(format!("input {index} is empty")))
    }

    /// Returns `axis`, counted from the front.
    pub(super) fn axis(&self, axis: i64, rank: usize) -> Result<usize> {
        let out_of_range = |_| self.error(format!("axis {axis} is out of range for rank {rank}"));
        fold::axis(axis, rank).map_err(out_of_range)
    }

    /// Returns the attribute `axis`, counted from the front.
    pub(super) fn axis_attr(&self, default: i64, rank: usize) -> Result<usize> {
        self.axis(self.int("axis", default)?, rank)
    }

    /// Returns `axes`, counted from the front, in the same order. Each may occur once.
    pub(super) fn axes(&self, axes: &[i64], rank: usize) -> Result<Axes> {
        let mut found = Axes::new();
        for &axis in axes {
            let counted = self.axis(axis, rank)?;
            if found.contains(&counted) {
                return Err(self.error(format!("axis {axis} occurs twice")));
            }
            found.push(counted);
        }
        Ok(found)
    }

    /// Returns the attribute `name`.
    pub(super) fn attr(&self, name: &str) -> Option<&'a Attr> {
        self.attrs.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Rejects an attribute that became an operand, since it would be ignored.
    pub(super) fn not_an_attr(&self, name: &str) -> Result<()> {
        match self.attr(name) {
            Some(_) => Err(self.error(format!("`{name}` is an operand, not an attribute"))),
            None => Ok(()),
        }
    }

    fn wrong_attr(&self, name: &str, expected: &str) -> Error {
        self.error(format!("attribute `{name}` must be {expected}"))
    }

    /// Returns the integer attribute `name`, or `default`.
    pub(super) fn int(&self, name: &str, default: i64) -> Result<i64> {
        match self.attr(name) {
            Some(Attr::Int(value)) => Ok(*value),
            None => Ok(default),
            Some(_) => Err(self.wrong_attr(name, "an integer")),
        }
    }

    /// Returns the integer attribute `name`, which must be given.
    pub(super) fn required_int(&self, name: &str) -> Result<i64> {
        match self.attr(name) {
            Some(_) => self.int(name, 0),
            None => Err(self.error(format!("attribute `{name}` is missing"))),
        }
    }

    /// Returns the integer attribute `name` as a flag.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.int(name, i64::from(default))? != 0)
    }

    /// Returns the integer-list attribute `name`.
    pub(super) fn ints(&self, name: &str) -> Result<Option<&'a [i64]>> {
        match self.attr(name) {
            Some(Attr::Ints(values)) => Ok(Some(values)),
            None => Ok(None),
            Some(_) => Err(self.wrong_attr(name, "a list of integers")),
        }
    }

    /// Returns the integer-list attribute `name`, which must have the length `len` if it is given.
    pub(super) fn ints_of(&self, name: &str, len: usize) -> Result<Option<&'a [i64]>> {
        let values = self.ints(name)?;
        match values {
            Some(values) if values.len() != len => {
                Err(self.error(format!("`{name}` has {} entries, not {len}", values.len())))
            }
            _ => Ok(values),
        }
    }

    /// Returns the string attribute `name`, or `default`.
    pub(super) fn string(&self, name: &str, default: &'static str) -> Result<&'a str> {
        match self.attr(name) {
            Some(Attr::String(value)) => Ok(value),
            None => Ok(default),
            Some(_) => Err(self.wrong_attr(name, "a string")),
        }
    }

    /// Returns the element type whose code is the attribute `name`.
    pub(super) fn dtype(&self, name: &str) -> Result<Option<DType>> {
        if self.attr(name).is_none() {
            return Ok(None);
        }
        let code = self.int(name, 0)?;
        let dtype = i32::try_from(code).ok().and_then(DType::from_onnx_code);
        let unknown = || self.error(format!("`{name}` is {code}, which is not an element type"));
        dtype.map(Some).ok_or_else(unknown)
    }

    /// Returns the block of the subgraph attribute `name`.
    pub(super) fn block(&self, name: &str) -> Result<&'a Block> {
        match self.attr(name) {
            Some(Attr::Graph(block)) => Ok(self.graph.block(*block)),
            Some(_) => Err(self.wrong_attr(name, "a graph")),
            None => Err(self.error(format!("attribute `{name}` is missing"))),
        }
    }
}

/// Returns a shape as text, such as `[2,b]`.
pub(super) fn text(shape: &[Dim]) -> String {
    let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(","))
}
