//! Comparisons in one direction: `b > a` is `a < b`. Those of integers have operands with affine forms.

use tensor::Dim;

use super::affine::{Affine, ONE, Terms, kept_axes};
use super::{Facts, Progression};
use crate::{Node, ValueId};

/// `low < high`, or `low <= high` if the comparison is not strict.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<T> {
    /// The operand that is less where the comparison holds.
    pub low: T,
    /// The other operand.
    pub high: T,
    /// `false` if the comparison also holds for equal operands.
    pub strict: bool,
}

impl Comparison<ValueId> {
    /// Returns the comparison that `node` computes, if it orders its operands.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let (is_less, strict) = match node.op.name {
            "Less" => (true, true),
            "LessOrEqual" => (true, false),
            "Greater" => (false, true),
            "GreaterOrEqual" => (false, false),
            _ => return None,
        };
        let (a, b) = (node.input(0)?, node.input(1)?);
        let (low, high) = if is_less { (a, b) } else { (b, a) };
        Some(Self { low, high, strict })
    }
}

impl<T> Comparison<T> {
    /// Applies `f` to both operands.
    pub(super) fn try_map<U>(self, f: impl Fn(T) -> Option<U>) -> Option<Comparison<U>> {
        Some(Comparison { low: f(self.low)?, high: f(self.high)?, strict: self.strict })
    }
}

impl Facts<'_> {
    /// Returns the comparison of integers that `mask` is the result of, with operands in terms of the axes of `mask`.
    pub fn comparison(&self, mask: ValueId) -> Option<Comparison<Affine>> {
        let node = self.node(mask)?;
        let (from, to) = (self.shape(node.input(0)?), self.shape(mask));
        let each = |form: fn(&Affine, &[Dim], &[Dim]) -> Option<Affine>| {
            self.comparison(node.input(0)?)?.try_map(|side| form(&side, from, to))
        };
        if let Some(comparison) = Comparison::of(node) {
            let form = |value| self.affine(value, None, Terms::Computed)?.with_rank(to.len());
            let is_integer = self.graph.ty(comparison.low).dtype.is_integer();
            return if is_integer { comparison.try_map(form) } else { None };
        }
        match node.op.name {
            "Expand" => each(|form, _, to| form.clone().with_rank(to.len())),
            _ if node.is_reshape() => {
                each(|form, from, to| Some(form.moved(&kept_axes(from, to)?)))
            }
            _ => None,
        }
    }

    /// Returns progressions along the axes of `mask`, which is true exactly where none of them is
    /// negative, in a batch without padding.
    pub fn half_spaces(&self, mask: ValueId) -> Option<Vec<Progression>> {
        let node = self.node(mask)?;
        let (from, to) = (self.shape(node.input(0)?), self.shape(mask));
        let inner = |index: usize| self.half_spaces(node.input(index)?);
        let aligned = |all: Vec<Progression>| {
            all.into_iter().map(|one| one.with_rank(to.len())).collect::<Option<Vec<_>>>()
        };
        if let Some(comparison) = Comparison::of(node) {
            let form = |value| self.affine(value, None, Terms::Unpadded)?.with_rank(to.len());
            let Comparison { low, high, strict } = comparison.try_map(form)?;
            let mut found = high.plus(low.times(-1)?)?.progression;
            if strict {
                found.first = found.first - ONE;
            }
            return Some(vec![found]);
        }
        match node.op.name {
            "And" => Some([aligned(inner(0)?)?, aligned(inner(1)?)?].concat()),
            "Not" => {
                let [one] = <[Progression; 1]>::try_from(inner(0)?).ok()?;
                let negated = Affine::of(one).times(-1)?.progression;
                Some(vec![Progression { first: negated.first - ONE, ..negated }])
            }
            "Expand" => aligned(inner(0)?),
            _ if node.is_reshape() => {
                let axes = kept_axes(from, to)?;
                let moved = |one: Progression| Affine::of(one).moved(&axes).progression;
                Some(inner(0)?.into_iter().map(moved).collect())
            }
            _ => None,
        }
    }
}
