//! Computes in small floats what was traced in float32, by the places in the user's program.
//!
//! Products, which take the time, compute in float16 or bfloat16, and so does what only handles their
//! results. Sums, norms, exponentials and the last products stay in float32. Wherever both meet, the wider
//! type wins, as it does in JAX, and there is one cast.

mod classes;
mod convert;
mod last_products;
mod places;
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
use places::{Places, Program};

/// What to compute in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    /// The type: float16, bfloat16 or float32.
    pub dtype: DType,
    /// Whether sums, norms, exponentials and the last products compute in it, too.
    pub all: bool,
}

impl Precision {
    /// Reads `float16`, `float16:all` or `float32`; `None` if it is nothing like that.
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

    /// The text that [`Precision::parse`] reads.
    pub fn to_text(self) -> String {
        format!("{}{}", self.dtype.numpy_name(), if self.all { ":all" } else { "" })
    }
}

/// What is computed in which precision: the first entry decides whose pattern matches a place.
#[derive(Clone, Debug, Default)]
pub struct Compute {
    /// Patterns of modules, lines, functions or parameters. `*` stands for any text, `?` for any
    /// character.
    pub precisions: Vec<(String, Precision)>,
    /// Whether a pattern may match nothing: others of the same set may have what it is about.
    pub for_others: bool,
}

impl Compute {
    /// One pattern and its precision a line, as in `blocks.*=float16`; `None` if there are none.
    pub fn to_text(&self) -> Option<String> {
        wildcard::to_text(&self.precisions, |precision| precision.to_text())
    }

    /// Reads what [`Compute::to_text`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self { precisions: wildcard::parse(text, Precision::parse)?, for_others: false })
    }
}

/// Why a model cannot compute as asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A pattern matches nothing.
    #[error("`compute` names `{pattern}`, which matches no module, line, function or parameter")]
    NoMatch {
        /// The pattern.
        pattern: String,
        /// Some names that could be matched.
        names: Vec<String>,
    },
    /// Nothing of what a pattern matches can compute like that.
    #[error("nothing in `{pattern}` can compute in {dtype}", dtype = dtype.numpy_name())]
    Nothing {
        /// The pattern.
        pattern: String,
        /// The type.
        dtype: DType,
        /// Whether it matches products that are kept because they are the last ones.
        last: bool,
        /// What the model is for, if it has no kernels for that type.
        target: Option<Target>,
    },
    /// The graph or what was to be put into it is invalid: a bug in this project.
    #[error(transparent)]
    Graph(#[from] onnx::Error),
}

/// Computes in small floats as asked for. Returns the patterns that matched nothing, if that is allowed.
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
    let mut places = Places::new(program, patterns.collect());
    let found: Vec<(NodeId, usize)> = graph
        .all_nodes()
        .into_iter()
        .filter_map(|id| Some((id, places.find(graph, id)?)))
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
                let names = places::examples(graph, program);
                return Err(Error::NoMatch { pattern: pattern.clone(), names });
            }
            unmatched.push(pattern.clone());
        } else if precision.dtype != DType::F32 && is_useless && !compute.for_others {
            let why = plan::obstacles(graph, &matched, precision.dtype, opset, target);
            let (pattern, dtype) = (pattern.clone(), precision.dtype);
            return Err(Error::Nothing { pattern, dtype, last: why.last, target: why.target });
        }
    }
    convert::convert(graph, origins, &plan, opset)?;
    Ok(unmatched)
}
