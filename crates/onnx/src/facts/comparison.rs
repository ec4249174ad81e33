//! Comparisons in one direction: `b > a` is `a < b`.

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
