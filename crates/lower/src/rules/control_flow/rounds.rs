//! Loops whose rounds do not depend on each other, such as those of `jax.lax.map`.
//!
//! Applied to all rows at once, a body runs once instead of once a row, and a runtime takes about a
//! microsecond for every operator, whatever its size.

/// How many bytes a body may compute for all rows: at once, they are in memory together.
const LARGEST: u64 = 1 << 26;

/// What a loop over the rows of arrays consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// How many rounds there are; `None` if that is not known yet.
    pub length: Option<u64>,
    /// How many values are carried from one round to the next.
    pub carried: usize,
    /// How many arrays it takes a row of in each round.
    pub arrays: usize,
    /// How many bytes the results of all equations of its body have. `None` if that is not known, if
    /// rows part ways, since all would take all ways at once, or if they have effects.
    pub bytes: Option<u64>,
}

impl Rounds {
    /// Whether the body is better applied to all rows at once.
    pub fn at_once(self) -> bool {
        let (Some(length @ 2..), Some(bytes)) = (self.length, self.bytes) else { return false };
        let fits = bytes.checked_mul(length).is_some_and(|bytes| bytes <= LARGEST);
        self.carried == 0 && self.arrays > 0 && fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_independent_rounds_are_computed_at_once() {
        let loop_ = Rounds { length: Some(4), carried: 0, arrays: 1, bytes: Some(LARGEST / 4) };
        assert!(loop_.at_once());
        assert!(!Rounds { bytes: Some(LARGEST / 4 + 1), ..loop_ }.at_once());
        assert!(!Rounds { bytes: None, ..loop_ }.at_once());
        assert!(!Rounds { length: Some(1), ..loop_ }.at_once());
        assert!(!Rounds { length: None, ..loop_ }.at_once());
        assert!(!Rounds { carried: 1, ..loop_ }.at_once());
        assert!(!Rounds { arrays: 0, ..loop_ }.at_once());
        assert!(!Rounds { length: Some(u64::MAX), ..loop_ }.at_once());
    }
}
