//! Analysis of onnxruntime profiles in terms of the model's sources.

mod annotate;
mod attribute;
mod flame;
mod fuse;
mod moved;
mod read;
mod report;
mod share;
mod time;

pub(crate) use annotate::annotate;
pub(crate) use attribute::{Attributed, Target, attribute};
pub(crate) use flame::{Stacks, folded, speedscope};
pub(crate) use read::{Profile, read};
pub(crate) use report::{links, report};
pub(crate) use share::{Shares, inclusive, share};
pub(crate) use time::{Time, slowest_first};
