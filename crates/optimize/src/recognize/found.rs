//! A matched spelling: the values bound to its names, and the emission of its replacement.

use onnx::{Attr, Attrs, ValueId};
use tensor::{DType, Dim};

use super::choice;
use super::matcher::{Bound, Finding};
use super::pattern::{Attribute, Name, Node, Pattern, Spelling};
use super::placement::Placement;
use crate::movement::{self, Movement};
use crate::{Match, Skip};

/// The operator that normalises groups of channels on their own axis.
const GROUPS: &str = "InstanceNormalization";

/// A matched spelling, with access to its bindings and to the emission of its replacement.
#[derive(Debug)]
pub(super) struct Found<'f, 'm> {
    pub(super) m: &'f mut Match<'m>,
    spelling: &'f Spelling,
    bound: Vec<(Name, Bound)>,
    after: Vec<Movement>,
}

impl<'f, 'm> Found<'f, 'm> {
    pub(super) fn new(m: &'f mut Match<'m>, spelling: &'f Spelling, finding: Finding) -> Self {
        Self { m, spelling, bound: finding.bound, after: Vec::new() }
    }

    fn name(&self, name: &str) -> Option<Name> {
        self.spelling.names.iter().position(|known| known == name)
    }

    fn get(&self, name: Name) -> Option<&Bound> {
        self.bound.iter().rev().find(|(known, _)| *known == name).map(|(_, bound)| bound)
    }

    fn named(&self, name: &str) -> Option<&Bound> {
        self.get(self.name(name)?)
    }

    /// Returns `true` if the spelling or its replacement uses the name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.name(name).is_some()
    }

    /// Returns the value called `name`.
    pub(super) fn value(&self, name: &str) -> Option<ValueId> {
        self.placed(name).map(|(value, _)| value)
    }

    /// Returns the value called `name` and the placement of its axes in the result.
    pub(super) fn placed(&self, name: &str) -> Option<(ValueId, &Placement)> {
        let Bound::Value(value, placement) = self.named(name)? else { return None };
        Some((*value, placement))
    }

    /// Returns the number called `name`.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        let Bound::Number(number) = self.named(name)? else { return None };
        Some(*number)
    }

    /// Returns the integer attribute called `name`.
    pub(super) fn int(&self, name: &str) -> Option<i64> {
        let Bound::Attr(Attr::Int(value)) = self.named(name)? else { return None };
        Some(*value)
    }

    /// Returns the integer-list attribute called `name`.
    pub(super) fn ints(&self, name: &str) -> Option<&[i64]> {
        let Bound::Attr(Attr::Ints(values)) = self.named(name)? else { return None };
        Some(values)
    }

    /// Returns the reduced axes called `name`.
    pub(super) fn axes(&self, name: &str) -> Option<&[usize]> {
        let Bound::Axes(axes, _) = self.named(name)? else { return None };
        Some(axes)
    }

    /// Returns the number of elements in the reduced axes called `name`.
    pub(super) fn count(&self, name: &str) -> Option<Dim> {
        self.named(name)?.count()
    }

    /// Checks that axes and permutations refer to the values that the replacement reads. Unit axes
    /// may have been added or removed before a reduction.
    pub(super) fn check_axes(&self) -> Result<(), Skip> {
        let whole =
            ["grouped", "split", "x", "masked"].into_iter().find_map(|name| self.value(name));
        let whole = whole.map(|value| &self.m.ty(value).shape);
        let differs = |(_, bound): &(Name, Bound)| matches!((bound, whole), (Bound::Axes(_, shape), Some(whole)) if shape != whole);
        let rank = self.shape()?.len();
        if self.bound.iter().any(differs) || self.ints("back").is_some_and(|b| b.len() != rank) {
            return Err("the axes belong to another shape".into());
        }
        Ok(())
    }

    /// Rebinds `name` to another value.
    pub(super) fn set_value(&mut self, name: &str, value: ValueId) {
        if let (Some(name), Some(placement)) =
            (self.name(name), Placement::identity(self.m.ty(value).rank()))
        {
            self.bound.push((name, Bound::Value(value, placement)));
        }
    }

    /// Rebinds `name` to an attribute.
    pub(super) fn set_attr(&mut self, name: &str, attr: impl Into<Attr>) {
        if let Some(name) = self.name(name) {
            self.bound.push((name, Bound::Attr(attr.into())));
        }
    }

    /// Sets the data movement from the replacement to the result.
    pub(super) fn move_result(&mut self, steps: Vec<Movement>) {
        self.after = steps;
    }

    /// Returns the shape of the result.
    pub(super) fn shape(&self) -> Result<Vec<Dim>, Skip> {
        Ok(self.m.ty(self.m.result()?).shape.clone())
    }

    /// Returns the element type of the result.
    pub(super) fn dtype(&self) -> Result<DType, Skip> {
        Ok(self.m.ty(self.m.result()?).dtype)
    }

    /// Checks that the user, the opset and the runtime accept `op` as one node.
    pub(super) fn check_form(&self, op: &'static str) -> Result<(), Skip> {
        let attrs = self.attrs(self.spelling.replacement.core())?;
        choice::check_form(self.m.forms(), op, self.variant(), self.dtype()?, &attrs)
    }

    /// Returns the variant of the operator: a string attribute, or `groups`.
    fn variant(&self) -> &str {
        let of_groups = self.has("one") && self.value("x").is_some_and(|x| self.is_split(x));
        let has_groups = ["grouped", "split", "target"].iter().any(|name| self.has(name));
        if has_groups || (self.spelling.replacement.core().op == GROUPS && of_groups) {
            return "groups";
        }
        let mut attrs = self.spelling.replacement.core().attrs.iter();
        let text = attrs.find_map(|(_, attr)| match attr {
            Attribute::Is(Attr::String(text)) => Some(&**text),
            _ => None,
        });
        text.unwrap_or_default()
    }

    /// Returns `true` if a value is another one reshaped to a higher rank.
    fn is_split(&self, value: ValueId) -> bool {
        let source = self.m.producer(value, &["Reshape"]).and_then(|node| node.input(0));
        source.is_some_and(|source| self.m.ty(source).rank() < self.m.ty(value).rank())
    }

    /// Returns the attributes that are known so far.
    #[expect(clippy::cast_possible_truncation, reason = "attributes are 32-bit floats")]
    fn attrs(&self, node: &Node) -> Result<Attrs, Skip> {
        let mut attrs = Attrs::new();
        for (name, attribute) in &node.attrs {
            let attr = match attribute {
                Attribute::Is(attr) => attr.clone(),
                Attribute::Hole(hole) => match self.get(*hole) {
                    Some(Bound::Attr(attr)) => attr.clone(),
                    Some(Bound::Number(number)) => Attr::Float(*number as f32),
                    Some(_) => return Err("an attribute is not a number".into()),
                    None => continue,
                },
            };
            attrs.push((*name, attr));
        }
        Ok(attrs)
    }

    /// Emits the replacement.
    pub(super) fn replacement(&mut self) -> Result<ValueId, Skip> {
        let value = self.emit(&self.spelling.replacement)?;
        movement::emit(self.m, value, &self.after, &[])
    }

    fn emit(&mut self, node: &Node) -> Result<ValueId, Skip> {
        let mut inputs = Vec::with_capacity(node.args.len());
        for argument in &node.args {
            inputs.push(match argument {
                Pattern::Optional(name) if self.get(*name).is_none() => None,
                argument => Some(self.argument(argument)?),
            });
        }
        inputs.truncate(inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
        let attrs = self.attrs(node)?;
        let results = self.m.op_many(node.op, inputs, attrs, 1)?;
        results.first().copied().ok_or(Skip::Because("a node without results"))
    }

    fn argument(&mut self, argument: &Pattern) -> Result<ValueId, Skip> {
        let dtype = self.dtype()?;
        match argument {
            Pattern::Value(name) | Pattern::Optional(name) => match self.get(*name) {
                Some(Bound::Value(value, _)) => Ok(*value),
                _ => Err("a value is missing".into()),
            },
            Pattern::Number(number) => self.m.scalar(dtype, *number),
            Pattern::Hole(name) => match self.get(*name) {
                Some(Bound::Number(number)) => self.m.scalar(dtype, *number),
                Some(Bound::Axes(axes, _)) => {
                    let axes: Vec<i64> = axes.iter().map(|axis| *axis as i64).collect();
                    Ok(self.m.i64s(&axes))
                }
                _ => Err("a number is missing".into()),
            },
            Pattern::Node(node) => self.emit(node),
            _ => Err("a word stands for nothing here".into()),
        }
    }
}
