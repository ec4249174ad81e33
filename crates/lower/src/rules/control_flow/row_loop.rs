//! Loops with independent iterations, such as those of `jax.lax.map`.
//!
//! Applied to all rows at once, a body runs once instead of once per row, and a runtime takes about
//! a microsecond for every operator, whatever its size.

/// The maximum number of bytes that a body may compute for all rows, which are in memory together.
const LARGEST: u64 = 1 << 26;

/// The shape of a loop over the rows of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLoop {
    /// The number of iterations, if it is known.
    pub length: Option<u64>,
    /// The number of loop-carried values.
    pub carried: usize,
    /// The number of arrays that each iteration takes one row of.
    pub arrays: usize,
    /// The size of all results in the body, in bytes. `None` if it is unknown, if the body has
    /// effects, or if it branches: applied at once, all rows would take all branches.
    pub bytes: Option<u64>,
}

impl RowLoop {
    /// Returns `true` if the body is better applied to all rows at once.
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
    fn small_independent_iterations_are_computed_at_once() {
        let loop_ = RowLoop { length: Some(4), carried: 0, arrays: 1, bytes: Some(LARGEST / 4) };
        assert!(loop_.at_once());
        assert!(!RowLoop { bytes: Some(LARGEST / 4 + 1), ..loop_ }.at_once());
        assert!(!RowLoop { bytes: None, ..loop_ }.at_once());
        assert!(!RowLoop { length: Some(1), ..loop_ }.at_once());
        assert!(!RowLoop { length: None, ..loop_ }.at_once());
        assert!(!RowLoop { carried: 1, ..loop_ }.at_once());
        assert!(!RowLoop { arrays: 0, ..loop_ }.at_once());
        assert!(!RowLoop { length: Some(u64::MAX), ..loop_ }.at_once());
    }
}
