//! The options of the optimiser, and its report.

use std::collections::BTreeMap;

use provenance::OriginId;

use crate::Forms;

/// The frequency of verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verify {
    /// After every rewrite and every pass, which is slow but identifies the culprit.
    EachRewrite,
    /// After every pass, and after every group of rewrites.
    EachPass,
    /// By the caller, after the whole optimisation.
    Later,
}

/// The options of the optimiser.
#[derive(Clone, Debug)]
pub struct Options {
    /// The maximum number of changes, or `None` for any number. Bisecting it finds a wrong rewrite.
    pub fuel: Option<u64>,
    /// `true` if several operators may become one. Clean-ups preserve results bit for bit in any
    /// runtime, except that sums and functions of constants are computed at export and rounded
    /// once. Fusions may change the order of summation, as runtimes that fuse do anyway.
    pub fuse: bool,
    /// The frequency of verification.
    pub verify: Verify,
    /// The opset that the graph must conform to, if it has been decided.
    pub opset: Option<i64>,
    /// The choice of operators that become one node.
    pub forms: Forms,
    /// `true` if operators that were nearly recognised are reported.
    pub report_missed: bool,
}

impl Default for Options {
    fn default() -> Self {
        let each = cfg!(debug_assertions);
        let verify = if each { Verify::EachRewrite } else { Verify::Later };
        let forms = Forms::auto(onnx::schema::NEWEST);
        Self { fuel: None, fuse: true, verify, opset: None, forms, report_missed: false }
    }
}

/// The report of an optimisation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of changes by each rewrite and pass.
    pub applied: BTreeMap<&'static str, u64>,
    /// The number of nodes that each rewrite skipped, by reason.
    #[cfg(test)]
    pub skipped: BTreeMap<(&'static str, &'static str), u64>,
    /// The operators that were nearly recognised, if requested.
    pub missed: Vec<Missed>,
}

/// An operator that remains spelled out in the model, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The operator.
    pub op: &'static str,
    /// The reason why it is not one node.
    pub reason: String,
    /// The origin of its result.
    pub origin: OriginId,
}

impl Report {
    /// Returns the total number of changes.
    pub fn total(&self) -> u64 {
        self.applied.values().sum()
    }
}
