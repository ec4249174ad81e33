//! What the user promises about values that exist only when the model runs.

use std::fmt;

/// One promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// What is read or written by index lies inside of its array.
    IndicesInRange,
    /// No NaN is compared, ordered or searched, and zeros of both signs are the same there.
    NoNan,
    /// A float that becomes an integer is a number that the integer's type can hold.
    CastsInRange,
    /// No number is NaN or infinite, so there is no NaN that could be compared either.
    Finite,
}

impl Assumption {
    /// All of them.
    pub const ALL: [Assumption; 4] = [
        Assumption::IndicesInRange,
        Assumption::NoNan,
        Assumption::CastsInRange,
        Assumption::Finite,
    ];

    /// What users call it.
    pub fn name(self) -> &'static str {
        match self {
            Assumption::IndicesInRange => "indices_in_range",
            Assumption::NoNan => "no_nan",
            Assumption::CastsInRange => "casts_in_range",
            Assumption::Finite => "finite",
        }
    }

    /// The one of that name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// A set of promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assumptions(u8);

impl Assumptions {
    /// Whether it contains `one`, or another one that includes it.
    pub fn contains(self, one: Assumption) -> bool {
        self.names(one) || one == Assumption::NoNan && self.names(Assumption::Finite)
    }

    fn names(self, one: Assumption) -> bool {
        self.0 & (1 << one as u8) != 0
    }

    /// Reads what [`fmt::Display`] writes: names separated by spaces. Fails on a name that there is
    /// not, which it returns.
    pub fn parse(text: &str) -> Result<Self, &str> {
        text.split_whitespace().map(|name| Assumption::find(name).ok_or(name)).collect()
    }

    /// Whether nothing is promised.
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
        let names = Assumption::ALL.into_iter().filter(|one| self.names(*one));
        f.write_str(&names.map(Assumption::name).collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::{Assumption, Assumptions};

    #[test]
    fn sets_are_texts() {
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
