//! Computes in small floats instead of float32, in selected parts of the user's program.
//!
//! Products dominate the run time. They compute in float16 or bfloat16, and so do operators that
//! only process their results. Sums, norms, exponentials and the last products stay in float32.
//! Where both types meet, the wider type wins, as in JAX, and there is one cast.

mod convert;
mod last_products;
mod locations;
mod plan;
mod range;
#[cfg(test)]
mod tests;

use onnx::{Graph, NodeId};
use provenance::{Origins, Stacks};
use rustc_hash::FxHashMap;
use tensor::DType;

use crate::Target;
use crate::weights::ALL;
use crate::wildcard;
use locations::{Locations, Program};

/// The precision of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    /// The type: float16, bfloat16 or float32.
    pub dtype: DType,
    /// `true` if sums, norms, exponentials and the last products use this type as well.
    pub all: bool,
}

impl Precision {
    /// Parses `float16`, `float16:all` or `float32`. Returns `None` for other texts.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, all) = match text.split_once(':') {
            Some((name, "all")) => (name, true),
            Some(_) => return None,
            None => (text, false),
        };
        match DType::from_numpy_name(name)? {
            dtype @ (DType::F16 | DType::BF16) => Some(Self { dtype, all }),
            dtype @ DType::F32 if !all => Some(Self { dtype, all }),
            _ => None,
        }
    }

    /// Returns the text that [`Precision::parse`] accepts.
    pub fn to_text(self) -> String {
        format!("{}{}", self.dtype.numpy_name(), if self.all { ":all" } else { "" })
    }
}

/// The requested precisions. The first entry with a matching pattern applies.
#[derive(Clone, Debug, Default)]
pub struct Compute {
    /// The patterns of modules, lines, functions or parameters. `*` matches any text, and `?`
    /// matches any character.
    pub precisions: Vec<(String, Precision)>,
    /// `true` if a pattern may match nothing, because it may refer to other models of the same set.
    pub for_others: bool,
}

impl Compute {
    /// Returns one pattern and its precision per line, such as `blocks.*=float16`, or `None` if the
    /// list is empty.
    pub fn to_text(&self) -> Option<String> {
        wildcard::to_text(&self.precisions, |precision| precision.to_text())
    }

    /// Parses the text that [`Compute::to_text`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self { precisions: wildcard::parse(text, Precision::parse)?, for_others: false })
    }
}

/// The error if a model cannot compute in the requested precision.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A pattern matches nothing.
    #[error("`compute` names `{pattern}`, which matches no module, line, function or parameter")]
    NoMatch {
        /// The pattern.
        pattern: String,
        /// Examples of names that a pattern could match.
        names: Vec<String>,
    },
    /// No node that a pattern matches can compute in the type.
    #[error("nothing in {place} can compute in {dtype}", place = place(pattern), dtype = dtype.numpy_name())]
    Nothing {
        /// The pattern.
        pattern: String,
        /// The type.
        dtype: DType,
        /// `true` if the pattern matches products that stay in float32 because they are the last
        /// ones.
        last: bool,
        /// The target of the model, and an operator that it has no kernels for in this type.
        missing: Option<(Target, &'static str)>,
    },
    /// The graph or an emitted node is invalid, which is a bug in this project.
    #[error(transparent)]
    Graph(#[from] onnx::Error),
}

/// Returns the part of the model that a pattern matches, for messages.
fn place(pattern: &str) -> String {
    if pattern == "*" { "the model".to_owned() } else { format!("`{pattern}`") }
}

/// Converts the graph to the requested small floats. Returns the patterns without effect, if
/// that is allowed.
pub fn narrow(
    graph: &mut Graph,
    origins: &mut Origins,
    stacks: &Stacks,
    compute: &Compute,
    opset: i64,
    target: Target,
) -> Result<Vec<String>, Error> {
    if compute.precisions.is_empty() {
        return Ok(Vec::new());
    }
    let program = Program { origins, stacks };
    let patterns = compute.precisions.iter().map(|(pattern, _)| pattern.as_str());
    let mut locations = Locations::new(program, patterns.collect());
    let found: Vec<(NodeId, usize)> = graph
        .all_nodes()
        .into_iter()
        .filter_map(|id| Some((id, locations.find(graph, id)?)))
        .collect();
    let asked: FxHashMap<NodeId, Precision> =
        found.iter().map(|(id, at)| (*id, compute.precisions[*at].1)).collect();
    let plan = plan::plan(graph, &asked, opset, target);
    let mut unmatched = Vec::new();
    for (at, (pattern, precision)) in compute.precisions.iter().enumerate() {
        let matched: Vec<NodeId> =
            found.iter().filter(|(_, by)| *by == at).map(|(id, _)| *id).collect();
        let is_useless = matched.iter().all(|id| !plan.contains_key(id));
        if matched.is_empty() && pattern != ALL {
            if !compute.for_others {
                let names = locations::examples(graph, program);
                return Err(Error::NoMatch { pattern: pattern.clone(), names });
            }
            unmatched.push(pattern.clone());
        } else if precision.dtype != DType::F32 && is_useless {
            if compute.for_others {
                unmatched.push(pattern.clone());
                continue;
            }
            let why = plan::obstacles(graph, &matched, precision.dtype, opset, target);
            let (pattern, dtype) = (pattern.clone(), precision.dtype);
            let missing = why.missing.map(|op| (target, op));
            return Err(Error::Nothing { pattern, dtype, last: why.last, missing });
        }
    }
    convert::convert(graph, origins, &plan, opset)?;
    Ok(unmatched)
}
