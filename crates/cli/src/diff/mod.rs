//! The differences between two models, in terms of their sources.

mod compare;
mod contents;
mod interface;
mod matching;
mod pattern;
mod report;
mod sequence;
mod side;
mod weights;

pub use sequence::common_subsequence;

pub(crate) use compare::{Change, ChangeKind, Difference, compare};
pub(crate) use report::{By, Line, gather, report, value};
pub(crate) use side::Side;
