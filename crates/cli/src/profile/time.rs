//! Execution times.

use std::ops::AddAssign;

/// A time in total over all runs, and in a typical run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time {
    /// The time of a typical run in nanoseconds: the sum of the medians of its kernels. Medians
    /// ignore a kernel that was preempted once, and their sums stay consistent.
    pub(crate) median: u64,
    /// The total over all runs in nanoseconds.
    pub(crate) ns: u64,
}

impl Time {
    /// Returns the time of a kernel that ran in some of `runs` runs and took `each` nanoseconds
    /// there. The median is weighted by the share of runs in which the kernel ran.
    pub(crate) fn of_runs(each: impl IntoIterator<Item = u64>, runs: u64) -> Self {
        let mut each: Vec<u64> = each.into_iter().collect();
        each.sort_unstable();
        let ns = each.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
        let count = each.len();
        let Some(&high) = each.get(count / 2) else { return Self::default() };
        let low = if count.is_multiple_of(2) { each[count / 2 - 1] } else { high };
        let median = (u128::from(low) + u128::from(high)) * count as u128 / 2 / u128::from(runs);
        Self { median: u64::try_from(median).unwrap_or(u64::MAX), ns }
    }

    /// Splits the time into parts that differ by at most one nanosecond and add up to it.
    pub(crate) fn split(self, parts: usize) -> impl Iterator<Item = Self> {
        let parts = parts as u64;
        let part = move |ns: u64, at: u64| ns / parts + u64::from(at < ns % parts);
        (0..parts).map(move |at| Self { median: part(self.median, at), ns: part(self.ns, at) })
    }
}

/// Sorts names by time, the slowest first.
pub(crate) fn slowest_first<K: Ord, T: Ord>(
    times: impl IntoIterator<Item = (K, T)>,
) -> Vec<(K, T)> {
    let mut times: Vec<(K, T)> = times.into_iter().collect();
    times.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    times
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Self) {
        self.median = self.median.saturating_add(other.median);
        self.ns = self.ns.saturating_add(other.ns);
    }
}

impl std::iter::Sum for Time {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        let mut sum = Self::default();
        times.for_each(|time| sum += time);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up() {
        for (ns, parts) in [(10, 3), (0, 2), (7, 7), (2, 5)] {
            let time = Time { median: ns / 2, ns };
            let split: Vec<Time> = time.split(parts).collect();
            assert_eq!((split.len(), split.into_iter().sum()), (parts, time));
        }
        assert_eq!(Time::default().split(0).count(), 0);
    }

    #[test]
    fn one_slow_run_does_not_count() {
        assert_eq!(Time::of_runs([3, 900, 4], 3), Time { median: 4, ns: 907 });
        assert_eq!(Time::of_runs([4, 2], 2), Time { median: 3, ns: 6 });
        assert_eq!(Time::of_runs([8], 4), Time { median: 2, ns: 8 }, "it ran once in four runs");
        assert_eq!(Time::of_runs([], 4), Time::default());
        assert_eq!(Time::of_runs([u64::MAX, u64::MAX], 1).ns, u64::MAX);
    }
}
