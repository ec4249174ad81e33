//! The options of the optimiser, and its report.

use std::collections::BTreeMap;

use provenance::OriginId;

use crate::Forms;

/// When the graph is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verify {
    /// After every rewrite and every pass: slow, but identifies the culprit.
    EachRewrite,
    /// After every pass, and after every round of rewrites.
    EachPass,
    /// By whoever asked for the optimisation, when everything is done.
    Later,
}

/// How to optimise.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many changes may be made; `None` for any number. Bisecting it finds a wrong rewrite.
    pub fuel: Option<u64>,
    /// Whether several operators may become one. Clean-ups keep results bit for bit in any runtime,
    /// except that sums and functions of constants are computed here and rounded once. After a fusion, sums may be
    /// added up in another order, as runtimes that fuse do anyway.
    pub fuse: bool,
    /// When the graph is verified.
    pub verify: Verify,
    /// The operator set that the graph must keep to, if it has been decided.
    pub opset: Option<i64>,
    /// Which operators become one node.
    pub forms: Forms,
    /// Whether to report operators that were nearly recognised.
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

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How often each rewrite and pass changed something.
    pub applied: BTreeMap<&'static str, u64>,
    /// How often each rewrite left a node alone, by its reason.
    #[cfg(test)]
    pub skipped: BTreeMap<(&'static str, &'static str), u64>,
    /// What was nearly recognised, if that was asked for.
    pub missed: Vec<Missed>,
}

/// An operator that is spelled out in the model, and why it stays so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The operator.
    pub op: &'static str,
    /// Why it is not one node.
    pub reason: String,
    /// Where its result is computed.
    pub origin: OriginId,
}

impl Report {
    /// The number of all changes.
    pub fn total(&self) -> u64 {
        self.applied.values().sum()
    }
}
