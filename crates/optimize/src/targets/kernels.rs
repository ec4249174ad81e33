//! Kernels of a target: the element types that each version of an operator runs on.

use onnx::Attr;
use onnx::schema::{Schema, Types};

/// The operands that a kernel handles correctly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// All operands.
    Always,
    /// Small numbers, because some kernels for wide integers are inexact or compare wrongly.
    SmallNumbers,
    /// All numbers, but not NaN, which is lost.
    Numbers,
    /// Sums of at least one term.
    Terms,
}

/// A set of element types per constraint. Every combination of them runs.
#[derive(Debug)]
pub(crate) struct Row {
    /// The operands that are handled correctly.
    pub(crate) right: Right,
    /// The value of the deciding attribute that the row applies to. It is empty if the row always
    /// applies.
    variant: &'static str,
    masks: &'static [u32],
}

impl Row {
    /// Returns the set of types for each constraint.
    pub(crate) fn types(&self) -> impl ExactSizeIterator<Item = Types> {
        self.masks.iter().map(|mask| Types::from_bits(*mask))
    }
}

/// The combinations that run for some versions of an operator.
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) op: &'static str,
    pub(super) versions: &'static [i64],
    pub(super) rows: &'static [Row],
}

/// The kernels of a target: tables that are sorted by operator. The first table that mentions a
/// version of an operator describes all its kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels(pub(super) &'static [&'static [Runs]]);

impl Kernels {
    /// Returns the combinations that run for a node of `schema` with these attributes.
    pub(crate) fn rows(
        self,
        schema: &Schema,
        attrs: &[(&'static str, Attr)],
    ) -> impl Iterator<Item = &'static Row> {
        let rows = self.0.iter().find_map(|table| find(table, schema)).unwrap_or_default();
        let variant = schema.variant(attrs);
        rows.iter().filter(move |row| row.variant.is_empty() || row.variant == variant)
    }
}

/// Returns the rows for a version of an operator.
fn find(table: &'static [Runs], schema: &Schema) -> Option<&'static [Row]> {
    let first = table.partition_point(|runs| runs.op < schema.name);
    let mut same = table[first..].iter().take_while(|runs| runs.op == schema.name);
    same.find(|runs| runs.versions.contains(&schema.since)).map(|runs| runs.rows)
}

/// Returns a row of kernels that are always right.
pub(super) const fn row(variant: &'static str, masks: &'static [u32]) -> Row {
    Row { right: Right::Always, variant, masks }
}

/// Returns a row of kernels that are right for small numbers.
pub(super) const fn small(variant: &'static str, masks: &'static [u32]) -> Row {
    Row { right: Right::SmallNumbers, variant, masks }
}

/// Returns a row of kernels that lose NaN.
pub(super) const fn numbers(variant: &'static str, masks: &'static [u32]) -> Row {
    Row { right: Right::Numbers, variant, masks }
}

/// Returns a row of kernels that need at least one term.
pub(super) const fn terms(variant: &'static str, masks: &'static [u32]) -> Row {
    Row { right: Right::Terms, variant, masks }
}

#[cfg(test)]
mod tests {
    use onnx::Op;
    use onnx::schema::{OLDEST, find};
    use rustc_hash::FxHashSet;

    use super::*;
    use crate::targets::ALL;

    #[test]
    fn tables_are_sorted_and_list_allowed_types() {
        let kernels = ALL.iter().flat_map(|spec| spec.kernels.into_iter().chain(spec.on_device));
        for table in kernels.flat_map(|kernels| kernels.0) {
            assert!(table.is_sorted_by_key(|runs| (runs.op, runs.versions)));
            let versions = |runs: &'static Runs| runs.versions.iter().map(move |v| (runs, *v));
            let mut seen = FxHashSet::default();
            for (runs, since) in table.iter().flat_map(versions) {
                assert!(seen.insert((runs.op, since)), "{} {since} is there twice", runs.op);
                let schema = find(&Op::onnx(runs.op), since.max(OLDEST)).unwrap();
                assert_eq!(schema.since, since, "{}", runs.op);
                for row in runs.rows {
                    assert_eq!(row.types().len(), schema.types.len(), "{}", runs.op);
                    let mut pairs = row.types().zip(schema.types);
                    let is_allowed = pairs.all(|(types, c)| types.is_subset(c.allowed));
                    assert!(is_allowed, "{} {since}", runs.op);
                }
            }
        }
    }
}
