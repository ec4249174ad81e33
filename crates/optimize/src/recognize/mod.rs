//! Recognition: replaces groups of elementary nodes by the ONNX operator that they spell out.
//!
//! Frameworks write a layer norm as fifteen small operations, each framework a little differently.
//! `patterns/` lists the spellings of operators, `conditions/` checks everything else that they
//! require, and `targets/` holds the speed and accuracy of the operators in each target.

pub(crate) mod batch_norm;
mod choice;
mod conditions;
mod found;
mod instances;
mod matcher;
mod parts;
mod pattern;
mod placement;
pub(crate) mod recurrent;
pub(crate) mod resample;
mod syntax;
#[cfg(test)]
mod tests;

pub use choice::{ALL_OPERATORS, Form, Forms, NORMALIZATIONS};
pub(crate) use choice::{check_contrib, check_kernel, check_movement, check_unmeasured};
pub(crate) use conditions::normalization::is_slow_by_rows;

use std::sync::{Arc, LazyLock};

use onnx::{Graph, Node, Op, ValueId, schema};
use tensor::{DType, Tensor};

use self::conditions::{Condition, attention};
use self::found::Found;
use self::instances::used_elsewhere;
use self::matcher::{Finding, Seen};
use self::pattern::Spelling;
use crate::passes::layout;
use crate::rewrites::REWRITES;
use crate::runner::{Rule, Rules};
use crate::{Match, Skip};

/// The texts of the patterns. Among spellings with the same root, more specific ones come first.
const TEXTS: &[(&str, &str)] = &[
    ("words", include_str!("patterns/words.txt")),
    ("activations", include_str!("patterns/activations.txt")),
    ("reductions", include_str!("patterns/reductions.txt")),
    ("normalizations", include_str!("patterns/normalizations.txt")),
    ("softmax", include_str!("patterns/softmax.txt")),
    ("attention", include_str!("patterns/attention.txt")),
    ("rotary", include_str!("patterns/rotary.txt")),
    ("elementary", include_str!("patterns/elementary.txt")),
];

/// Operators for attention.
const ATTENTION: &[&str] = &["Attention", choice::GROUPED];

/// Operators without a choice of form. Their spellings are merely shortened.
const ELEMENTARY: &[&str] = &["Add"];

/// One spelling of an operator, and its condition.
#[derive(Debug)]
pub(crate) struct Recognizer {
    /// The recognised operator.
    op: &'static str,
    root: &'static str,
    /// The summary of the operands that the spelling requires.
    operands: Seen,
    spelling: Spelling,
    condition: Option<Condition>,
}

static RECOGNIZERS: LazyLock<Result<Vec<Recognizer>, String>> = LazyLock::new(|| {
    let spellings = pattern::compile(TEXTS)?.into_iter();
    let recognizers = spellings.flat_map(|spelling| {
        let op = spelling.replacement.core().op;
        let condition = conditions::of(op);
        let root = |root| {
            let operands = matcher::expected(root, &spelling.pattern);
            Recognizer { op, root, operands, spelling: spelling.clone(), condition }
        };
        roots(&spelling).into_iter().map(root).collect::<Vec<_>>()
    });
    Ok(recognizers.collect())
});

/// Returns the operators that may be the root of a spelling.
fn roots(spelling: &Spelling) -> Vec<&'static str> {
    let root = &spelling.pattern;
    let other = pattern::respelled(root.op).filter(|_| root.ends_in_constant());
    std::iter::once(root.op).chain(other).collect()
}

/// Returns all recognisers, or the error if a pattern cannot be parsed, which is a bug in this
/// project.
fn all() -> Result<&'static [Recognizer], &'static str> {
    RECOGNIZERS.as_deref().map_err(String::as_str)
}

/// The name of the group of recognition rules.
pub(crate) const RECOGNITION: &str = "recognition";

/// A group of recognition rules, or the error if a pattern cannot be parsed.
type Recognizers = Result<Rules<'static, Recognizer>, &'static str>;

/// The rules of all recognisers but those of attention.
pub(crate) static RULES: LazyLock<Recognizers> = LazyLock::new(|| rules(false));

/// The rules of attention, whose conditions examine what the others recognise: softmaxes and rotary
/// embeddings.
pub(crate) static ATTENTION_RULES: LazyLock<Recognizers> = LazyLock::new(|| rules(true));

fn rules(of_attention: bool) -> Recognizers {
    let rules = all()?.iter().filter(|rule| ATTENTION.contains(&rule.op) == of_attention);
    Ok(Rules::new(RECOGNITION, rules))
}

impl Rule for Recognizer {
    type Glance = Seen;

    fn glance(graph: &Graph, node: &Node) -> Seen {
        matcher::seen(graph, node)
    }

    fn name(&self) -> &'static str {
        if ELEMENTARY.contains(&self.op) { "shorter_spelling" } else { self.op }
    }

    fn roots(&self) -> Vec<&'static str> {
        vec![self.root]
    }

    fn may_apply(&self, graph: &Graph, node: &Node, seen: &Seen) -> bool {
        let look = || matcher::may_be(graph, node, &self.spelling.pattern);
        let may_be = self.operands.may_be(seen);
        debug_assert!(may_be || !look(), "a glance at {} misses {}", node.op.name, self.op);
        may_be && look()
    }

    fn try_at(&self, m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
        let is_contrib = self.op == choice::GROUPED;
        if is_contrib {
            choice::check_contrib(m.forms(), self.op, m.ty(m.result()?).dtype)?;
        } else if !ELEMENTARY.contains(&self.op) {
            choice::check_operator(m.forms(), self.op, m.ty(m.result()?).dtype)?;
        }
        let finding =
            matcher::find(m.graph(), m.id(), &self.spelling).ok_or("it is spelled differently")?;
        let (result, shared) = (m.result()?, used_elsewhere(m, &finding, self.op));
        let rounded = rounded_on_the_way(m, result, &finding);
        let mut found = Found::new(m, &self.spelling, finding);
        if !ELEMENTARY.contains(&self.op) && !is_contrib {
            found.check_form(self.op)?;
            found.check_axes()?;
        }
        if let Some(reason) = shared.or(rounded) {
            return Err(Skip::Missed(reason));
        }
        if let Some(condition) = self.condition {
            condition(&mut found)?;
        }
        let new = if is_contrib { attention::grouped(&mut found)? } else { found.replacement()? };
        let new = m.cast(new, m.ty(result).dtype)?;
        if m.ty(new) != m.ty(result) {
            return Err("the shape would change".into());
        }
        Ok(vec![new])
    }
}

/// Returns a reason if an intermediate result is rounded to a smaller type than that of the result.
/// A single node would not round it.
fn rounded_on_the_way(m: &Match<'_>, result: ValueId, finding: &Finding) -> Option<String> {
    let least = matcher::digits(m.ty(result).dtype)?;
    let mut casts = finding.nodes.iter().map(|(id, _)| m.graph().node(*id));
    let rounds = casts.any(|node| {
        let digits = |value: Option<ValueId>| matcher::digits(m.ty(value?).dtype);
        let (from, to) = (digits(node.input(0)), digits(node.outputs.first().copied()));
        node.is("Cast") && to < from && to.is_some_and(|to| to < least)
    });
    rounds.then(|| "a result on the way is rounded to a smaller type".to_owned())
}

/// Returns the reason why an operator that is spelled out cannot become one node.
fn missed(reason: &str) -> Skip {
    Skip::Missed(reason.to_owned())
}

/// Returns the value that `value` is computed from by nodes of which `belongs` holds.
fn source_of(graph: &Graph, value: ValueId, belongs: impl Fn(&Node) -> bool) -> ValueId {
    upstream(graph, value, belongs).last().unwrap_or(value)
}

/// Returns `value`, and then the first operand of each producer for as long as `belongs` holds.
fn upstream(
    graph: &Graph,
    value: ValueId,
    belongs: impl Fn(&Node) -> bool,
) -> impl Iterator<Item = ValueId> {
    std::iter::successors(Some(value), move |value| {
        let node = graph.node(graph.producer(*value)?);
        node.input(0).filter(|_| belongs(node))
    })
}

/// Returns the tensor of the floats of `dtype` nearest to `numbers`.
fn tensor_of(
    dtype: DType,
    shape: &[usize],
    numbers: impl IntoIterator<Item = f64>,
) -> Option<Tensor> {
    let mut bytes = Vec::new();
    for number in numbers {
        bytes.extend_from_slice(&Tensor::scalar(dtype, number)?.bytes()?);
    }
    Tensor::new(dtype, shape, Arc::new(bytes)).ok()
}

/// Returns the names of the operators whose form can be chosen, in alphabetical order.
pub fn operators() -> Vec<&'static str> {
    let recognized = all().unwrap_or_default().iter().map(|recognizer| recognizer.op);
    let recognized = recognized.filter(|op| !ELEMENTARY.contains(op));
    let others = NORMALIZATIONS.iter().copied().chain(recurrent::operators());
    let rewrites = REWRITES.iter().map(|(_, rewrite)| rewrite.name);
    let rewrites = rewrites.filter(|name| !schema::versions(&Op::onnx(name)).is_empty());
    let others = others.chain([layout::CONVOLUTION]).chain(rewrites).chain(schema::contributed());
    let mut names: Vec<_> = recognized.chain(others).collect();
    names.sort_unstable();
    names.dedup();
    names
}
