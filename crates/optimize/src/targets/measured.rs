//! The speed and accuracy of ONNX's own operators in a runtime, relative to elementary operators.

use std::sync::OnceLock;

use rustc_hash::FxHashSet;
use tensor::DType::{self, BF16, F16, F32};

use super::Kernels;

/// The measurements of an operator for one element type.
#[derive(Debug)]
pub(super) struct Row {
    op: &'static str,
    /// The attribute that distinguishes the forms of the operator, or an empty string.
    variant: &'static str,
    dtype: DType,
    /// The speed-up of one node on one thread.
    one: f64,
    /// The speed-up on all threads.
    all: f64,
    /// The ratio of its error to that of the elementary form.
    error: f64,
    /// The same ratio on hostile numbers: large means, tiny spreads, long rows.
    hostile: f64,
    /// `true` if NaN and infinities occur in the same elements as in JAX.
    agrees: bool,
}

impl Row {
    /// Returns `true` if the errors on hostile numbers are acceptable.
    fn is_exact(&self) -> bool {
        self.hostile <= MOST_HOSTILE_ERROR
    }
}

/// The relative variation of timings between runs.
const NOISE: f64 = 0.1;

/// The largest acceptable ratio of errors.
const MOST_ERROR: f64 = 1.2;

/// The largest acceptable ratio on hostile numbers, where a single number decides.
const MOST_HOSTILE_ERROR: f64 = 4.0;

/// The measurements of a runtime.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Tables that are sorted by operator. The first one with an operator and a type decides.
    tables: &'static [&'static [Row]],
    /// The kernels that were measured.
    pub(crate) kernels: Kernels,
    /// The operators that are better as one node in any form, by type and by whether all numbers
    /// are finite.
    better: OnceLock<FxHashSet<(&'static str, DType, bool)>>,
}

impl Measured {
    /// Returns the measurements in `tables`, which are sorted by operator.
    pub(super) const fn new(tables: &'static [&'static [Row]], kernels: Kernels) -> Self {
        Self { tables, kernels, better: OnceLock::new() }
    }

    /// Returns `true` if `op` as one node is as exact on hostile numbers as the elementary form.
    pub(crate) fn is_exact(&self, op: &str, variant: &str, dtype: DType) -> bool {
        self.find(op, variant, dtype).is_some_and(Row::is_exact)
    }

    /// Returns `true` if `op` as one node is as exact as the elementary form and at least as fast.
    /// Unless all numbers are `finite`, NaN and infinities count as well. Small floats are computed
    /// in float32 between casts, so the timings of float32 apply to them.
    pub(crate) fn is_better(&self, op: &str, variant: &str, dtype: DType, finite: bool) -> bool {
        let is_fast = |row: &Row| row.one.min(row.all) >= 1.0 - NOISE;
        self.find(op, variant, dtype).is_some_and(|row| {
            (row.agrees || finite)
                && row.error <= MOST_ERROR
                && row.is_exact()
                && match dtype {
                    F16 | BF16 => self.find(op, variant, F32).is_some_and(is_fast),
                    _ => is_fast(row),
                }
        })
    }

    /// Returns `true` if [`Measured::is_better`] holds for any form of `op`.
    pub(crate) fn may_be_better(&self, op: &str, dtype: DType, finite: bool) -> bool {
        let better = self.better.get_or_init(|| {
            let rows =
                self.tables.iter().copied().flatten().flat_map(|row| [(row, false), (row, true)]);
            let better = rows
                .filter(|(row, finite)| self.is_better(row.op, row.variant, row.dtype, *finite));
            better.map(|(row, finite)| (row.op, row.dtype, finite)).collect()
        });
        better.contains(&(op, dtype, finite))
    }

    /// Returns `true` if `variant`, a special case of `op`, was measured and is slower as one node.
    pub(crate) fn is_slower(&self, op: &str, variant: &str, dtype: DType) -> bool {
        self.find(op, variant, dtype).is_some_and(|row| row.one.min(row.all) < 1.0 - NOISE)
    }

    /// Returns `true` if any form of `op` was measured.
    pub(crate) fn has(&self, op: &str) -> bool {
        self.tables.iter().any(|table| table.binary_search_by(|row| row.op.cmp(op)).is_ok())
    }

    fn find(&self, op: &str, variant: &str, dtype: DType) -> Option<&'static Row> {
        self.tables.iter().find_map(|table| {
            let first = table.partition_point(|row| row.op < op);
            let mut rows = table[first..].iter().take_while(|row| row.op == op);
            rows.find(|row| row.variant == variant && row.dtype == dtype)
        })
    }
}

/// Returns the measurements of an operator: the speed on one thread and on all, and the errors on
/// ordinary and on hostile numbers.
pub(super) const fn row(
    op: &'static str,
    variant: &'static str,
    dtype: DType,
    one: f64,
    all: f64,
    [error, hostile]: [f64; 2],
    agrees: bool,
) -> Row {
    Row { op, variant, dtype, one, all, error, hostile, agrees }
}

#[cfg(test)]
#[test]
fn rows_are_sorted_by_operator() {
    for spec in super::ALL {
        for table in spec.measured.tables {
            assert!(table.is_sorted_by_key(|row| row.op));
        }
    }
}
