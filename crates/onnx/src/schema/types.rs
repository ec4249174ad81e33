//! Sets of element types.

use std::fmt;

use tensor::DType;

/// A set of element types: one bit per [`DType`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Types(u32);

impl Types {
    /// The empty set.
    pub const NONE: Types = Types(0);

    /// Returns the set with these bits.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the set of one type.
    pub const fn of(dtype: DType) -> Self {
        Self(1 << dtype as u32)
    }

    /// Returns `true` if the set contains `dtype`.
    pub const fn contains(self, dtype: DType) -> bool {
        self.0 & (1 << dtype as u32) != 0
    }

    /// Returns `true` if `other` contains all types of this set.
    pub const fn is_subset(self, other: Types) -> bool {
        self.0 & !other.0 == 0
    }

    /// Returns `true` if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn union(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    /// Returns the types of the set, in the order of [`DType`].
    pub fn iter(self) -> impl Iterator<Item = DType> {
        DType::all().filter(move |d| self.contains(*d))
    }

    /// Returns the only type of the set, if it contains exactly one.
    pub fn single(self) -> Option<DType> {
        if self.0.count_ones() == 1 { self.iter().next() } else { None }
    }
}

impl FromIterator<DType> for Types {
    fn from_iter<I: IntoIterator<Item = DType>>(types: I) -> Self {
        types.into_iter().fold(Types::NONE, |set, d| set.union(Types::of(d)))
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, dtype) in self.iter().enumerate() {
            write!(f, "{}{dtype}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}
