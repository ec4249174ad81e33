//! Operator schemas: the parameters, attributes and types that ONNX accepts, one [`Schema`] per
//! operator version.

mod binding;
mod contrib;
mod table;
mod types;

pub use binding::Binding;
pub use contrib::{CONTRIB, contributed};
pub use types::Types;

use std::ops::RangeInclusive;

use crate::{Attr, Op};

/// The oldest opset that models are written for.
pub const OLDEST: i64 = 9;
/// The newest opset that models are written for.
pub const NEWEST: i64 = 28;

/// One version of an operator.
#[derive(Debug)]
pub struct Schema {
    /// The name of the operator.
    pub name: &'static str,
    /// The first opset that contains this version.
    pub since: i64,
    /// The last opset that contains this version, up to [`NEWEST`].
    pub until: i64,
    /// The operands.
    pub inputs: &'static [Param],
    /// The results.
    pub outputs: &'static [Param],
    /// The attributes, sorted by name.
    pub attrs: &'static [AttrSpec],
    /// The element types of operands and results. Parameters refer to them by index.
    pub types: &'static [Constraint],
    /// `true` if the specification defines a body, so that a runtime without a kernel can expand
    /// the operator.
    pub function: bool,
}

/// An operand or a result.
#[derive(Debug)]
pub struct Param {
    /// The name in the specification.
    pub name: &'static str,
    /// The index in [`Schema::types`].
    pub types: usize,
    /// The number of occurrences.
    pub arity: Arity,
}

/// The number of times that a parameter occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly once.
    One,
    /// Once or not at all.
    Optional,
    /// At least this many times, all with the same element type.
    Many(usize),
    /// At least this many times, each with its own element type.
    Mixed(usize),
}

/// The specification of an attribute.
#[derive(Debug)]
pub struct AttrSpec {
    /// The name.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: AttrKind,
    /// `true` if the attribute is required.
    pub required: bool,
}

/// The kind of an attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum AttrKind {
    Int,
    Float,
    String,
    Ints,
    Floats,
    Strings,
    Tensor,
    Graph,
    /// A kind that [`Attr`] does not support.
    Other,
}

impl AttrKind {
    /// Returns the kind of `attr`.
    pub fn of(attr: &Attr) -> Self {
        match attr {
            Attr::Int(_) => Self::Int,
            Attr::Float(_) => Self::Float,
            Attr::String(_) => Self::String,
            Attr::Ints(_) => Self::Ints,
            Attr::Floats(_) => Self::Floats,
            Attr::Strings(_) => Self::Strings,
            Attr::Tensor(_) => Self::Tensor,
            Attr::Graph(_) => Self::Graph,
        }
    }
}

/// The element types that parameters share.
#[derive(Debug)]
pub struct Constraint {
    /// The name in the specification, or the name of the only allowed type.
    pub name: &'static str,
    /// The types that the specification allows.
    pub allowed: Types,
}

/// Attribute values that are newer than the attribute: (operator, attribute, value, since).
const NEW_VALUES: &[(&str, &str, &str, i64)] = &[
    ("GridSample", "mode", "cubic", 20),
    ("GridSample", "mode", "linear", 20),
    ("Pad", "mode", "wrap", 19),
    ("Resize", "coordinate_transformation_mode", "half_pixel_symmetric", 19),
    ("ScatterElements", "reduction", "max", 18),
    ("ScatterElements", "reduction", "min", 18),
    ("ScatterND", "reduction", "max", 18),
    ("ScatterND", "reduction", "min", 18),
];

/// Attribute values that were renamed: (operator, attribute, value, until).
const OLD_VALUES: &[(&str, &str, &str, i64)] =
    &[("GridSample", "mode", "bicubic", 19), ("GridSample", "mode", "bilinear", 19)];

/// Returns all versions of an operator, oldest first. The slice is empty if neither ONNX nor
/// [`CONTRIB`] has such an operator.
pub fn versions(op: &Op) -> &'static [Schema] {
    match op.domain {
        CONTRIB => contrib::versions(op.name),
        _ => op.operator().versions,
    }
}

/// Returns the names of ONNX's own operators, in alphabetical order, with repetitions.
pub fn names() -> impl Iterator<Item = &'static str> {
    table::TABLE.iter().map(|schema| schema.name)
}

/// Returns the versions of each operator.
pub(crate) fn by_name() -> impl Iterator<Item = &'static [Schema]> {
    table::TABLE.chunk_by(|a, b| a.name == b.name)
}

/// Returns the version of an operator that is current at `opset`.
pub fn find(op: &Op, opset: i64) -> Option<&'static Schema> {
    current(versions(op), opset)
}

/// Returns the version that is current at `opset`.
pub(crate) fn current(versions: &'static [Schema], opset: i64) -> Option<&'static Schema> {
    versions.iter().find(|s| s.since <= opset && opset <= s.until)
}

impl Schema {
    /// Returns the parameter of the operand at `index`. A variadic parameter applies to all further
    /// operands.
    pub fn input(&self, index: usize) -> Option<&'static Param> {
        at(self.inputs, index)
    }

    /// Returns the parameter of the result at `index`.
    pub fn output(&self, index: usize) -> Option<&'static Param> {
        at(self.outputs, index)
    }

    /// Returns the specification of the attribute `name`.
    pub fn attr(&self, name: &str) -> Option<&'static AttrSpec> {
        let found = self.attrs.binary_search_by(|spec| spec.name.cmp(name));
        found.ok().map(|i| &self.attrs[i])
    }

    /// Returns the value of the attribute that kernels of the operator differ by. It is empty if
    /// there is no such attribute.
    pub fn variant<'a>(&self, attrs: &'a [(&'static str, Attr)]) -> &'a str {
        let Some((_, name, default)) = table::VARIANTS.iter().find(|row| row.0 == self.name) else {
            return "";
        };
        match attrs.iter().find(|(key, _)| key == name) {
            Some((_, Attr::String(value))) => value,
            Some((_, Attr::Int(0))) => "0",
            Some((_, Attr::Int(_))) => "1",
            _ => default,
        }
    }
}

/// Returns the opsets that allow `value` for the string attribute `attr` of `op`.
pub(crate) fn value_range(op: &str, attr: &str, value: &str) -> RangeInclusive<i64> {
    let find = |table: &[(&str, &str, &str, i64)]| {
        table.iter().find(|r| (r.0, r.1, r.2) == (op, attr, value)).map(|r| r.3)
    };
    find(NEW_VALUES).unwrap_or(0)..=find(OLD_VALUES).unwrap_or(i64::MAX)
}

fn at(params: &'static [Param], index: usize) -> Option<&'static Param> {
    let variadic = |p: &&Param| matches!(p.arity, Arity::Many(_) | Arity::Mixed(_));
    params.get(index).or_else(|| params.last().filter(variadic))
}

const fn one(name: &'static str, types: usize) -> Param {
    Param { name, types, arity: Arity::One }
}

const fn optional(name: &'static str, types: usize) -> Param {
    Param { name, types, arity: Arity::Optional }
}

const fn many(name: &'static str, types: usize, least: usize) -> Param {
    Param { name, types, arity: Arity::Many(least) }
}

const fn mixed(name: &'static str, types: usize, least: usize) -> Param {
    Param { name, types, arity: Arity::Mixed(least) }
}

const fn attr(name: &'static str, kind: AttrKind) -> AttrSpec {
    AttrSpec { name, kind, required: false }
}

const fn required(name: &'static str, kind: AttrKind) -> AttrSpec {
    AttrSpec { name, kind, required: true }
}

const fn constraint(name: &'static str, mask: u32) -> Constraint {
    Constraint { name, allowed: Types::from_bits(mask) }
}

#[cfg(test)]
mod tests;
