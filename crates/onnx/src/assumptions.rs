//! Assumptions about values that are known only when the model runs, as promised by the user.

use std::fmt;

/// One assumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// All indices of reads and writes are within the bounds of their arrays.
    IndicesInRange,
    /// Comparisons, sorting and searching never see a NaN, and need not distinguish zeros by sign.
    NoNan,
    /// A float that is cast to an integer is in the range of the integer type.
    CastsInRange,
    /// No number is NaN or infinite. This includes [`Assumption::NoNan`].
    Finite,
    /// Every query of an attention sees at least one key.
    VisibleKeys,
    /// Past and present of an attention with a window are one buffer, of at least the window's
    /// size, and rows that no later query sees may be evicted.
    WindowedCaches,
    /// The input `attention_mask` is all ones, except for zeros at the padding that follows shorter
    /// prompts of a batch. Padding leaves no gap in the cache of an attention: the tokens of an
    /// example overwrite it.
    PaddedPrompts,
}

impl Assumption {
    /// All assumptions.
    pub const ALL: [Assumption; 7] = [
        Assumption::IndicesInRange,
        Assumption::NoNan,
        Assumption::CastsInRange,
        Assumption::Finite,
        Assumption::VisibleKeys,
        Assumption::WindowedCaches,
        Assumption::PaddedPrompts,
    ];

    /// Returns the name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Assumption::IndicesInRange => "indices_in_range",
            Assumption::NoNan => "no_nan",
            Assumption::CastsInRange => "casts_in_range",
            Assumption::Finite => "finite",
            Assumption::VisibleKeys => "visible_keys",
            Assumption::WindowedCaches => "windowed_caches",
            Assumption::PaddedPrompts => "padded_prompts",
        }
    }

    /// Returns the assumption called `name`.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// A set of assumptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assumptions(u8);

impl Assumptions {
    /// Returns `true` if the set contains `one` or an assumption that includes it.
    pub fn contains(self, one: Assumption) -> bool {
        self.lists(one) || one == Assumption::NoNan && self.lists(Assumption::Finite)
    }

    fn lists(self, one: Assumption) -> bool {
        self.0 & (1 << one as u8) != 0
    }

    /// Parses the output of [`fmt::Display`]: names separated by spaces. Fails with the first
    /// unknown name.
    pub fn parse(text: &str) -> Result<Self, &str> {
        text.split_whitespace().map(|name| Assumption::find(name).ok_or(name)).collect()
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Assumption> for Assumptions {
    fn from_iter<T: IntoIterator<Item = Assumption>>(all: T) -> Self {
        Self(all.into_iter().fold(0, |bits, one| bits | (1 << one as u8)))
    }
}

impl fmt::Display for Assumptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Assumption::ALL.into_iter().filter(|one| self.lists(*one));
        f.write_str(&names.map(Assumption::name).collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::{Assumption, Assumptions};

    #[test]
    fn sets_are_printed_and_parsed() {
        let set: Assumptions =
            [Assumption::CastsInRange, Assumption::IndicesInRange].into_iter().collect();
        assert_eq!(set.to_string(), "indices_in_range casts_in_range");
        assert_eq!(Assumptions::parse(&set.to_string()), Ok(set));
        assert!(!set.contains(Assumption::NoNan));
        assert_eq!(Assumptions::parse("no_nan no_nans"), Err("no_nans"));
        assert!(Assumptions::parse("").is_ok_and(Assumptions::is_empty));
    }

    #[test]
    fn finite_numbers_are_not_nan() {
        let finite: Assumptions = [Assumption::Finite].into_iter().collect();
        assert!(finite.contains(Assumption::NoNan));
        assert!(!finite.contains(Assumption::CastsInRange));
        assert_eq!(finite.to_string(), "finite");
        let no_nan: Assumptions = [Assumption::NoNan].into_iter().collect();
        assert!(!no_nan.contains(Assumption::Finite));
    }
}
