//! Differences between corresponding nodes, and nodes without a counterpart.

use onnx_file::proto::TensorProto;

use super::contents::same;
use super::interface::{Places, interface, places};
use super::matching::{Matching, attributes, matching};
use super::pattern::{is_constant, pattern};
use super::side::{Operand, Side};
use super::weights;
use crate::failure::Failure;
use crate::model::tensor_text;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ChangeKind {
    /// Only the first model has it.
    Removed,
    /// Only the second model has it.
    Added,
    /// Both models have it, but it differs.
    Changed,
}

/// A node that differs.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) kind: ChangeKind,
    /// The node in the first model.
    pub(crate) a: Option<usize>,
    /// The node in the second model.
    pub(crate) b: Option<usize>,
    /// The differences, or the results of a node that only one model has.
    pub(super) details: Vec<Detail>,
}

/// A single difference.
#[derive(Clone, Debug)]
pub(super) struct Detail {
    /// The exact wording.
    pub(super) exact: String,
    /// A wording shared by all layers that repeat the difference.
    pub(super) alike: String,
}

impl From<String> for Detail {
    fn from(exact: String) -> Self {
        Self { alike: exact.clone(), exact }
    }
}

/// A parameter that differs.
#[derive(Clone, Debug)]
pub(crate) struct Weight {
    pub(crate) kind: ChangeKind,
    pub(super) name: String,
    pub(super) detail: String,
}

/// All differences between two models.
#[derive(Clone, Debug, Default)]
pub(crate) struct Difference {
    /// Differences in opsets, inputs and outputs.
    pub(crate) model: Vec<String>,
    pub(crate) nodes: Vec<Change>,
    pub(crate) weights: Vec<Weight>,
    /// Notes on comparisons that were not possible.
    pub(crate) remarks: Vec<String>,
    /// For each node of the second model, the corresponding node of the first.
    pub(crate) partners: Vec<Option<usize>>,
}

impl Change {
    /// Describes the differences.
    pub(crate) fn text(&self) -> String {
        self.details.iter().map(|detail| detail.exact.as_str()).collect::<Vec<_>>().join("; ")
    }
}

impl Difference {
    /// Returns `true` if nothing differs.
    pub(crate) fn is_empty(&self) -> bool {
        self.model.is_empty() && self.nodes.is_empty() && self.weights.is_empty()
    }
}

/// Compares two models. Compares the contents of parameters only if `contents` is set.
pub(crate) fn compare(a: &Side<'_>, b: &Side<'_>, contents: bool) -> Result<Difference, Failure> {
    let mut matching = matching(a, b);
    let inputs = &places(&a.index.graph.input, &b.index.graph.input);
    let outputs = &places(&a.index.graph.output, &b.index.graph.output);
    let strangers = Pair { a, b, matching: &matching, inputs, outputs, contents }.strangers()?;
    for (x, y) in strangers {
        matching.of_a[x] = None;
        matching.of_b[y] = None;
    }
    let mut difference =
        Difference { model: interface(a, b, inputs, outputs), ..Default::default() };
    let pair = Pair { a, b, matching: &matching, inputs, outputs, contents };
    difference.model.extend(pair.results(0, 0)?);
    for (node, partner) in matching.of_a.iter().enumerate() {
        let change = match partner {
            None => {
                let details = vec![a.index.results(&a.index.nodes[node]).into()];
                Change { kind: ChangeKind::Removed, a: Some(node), b: None, details }
            }
            Some(other) => {
                let details = pair.details(node, *other, &mut difference.remarks)?;
                if details.is_empty() {
                    continue;
                }
                Change { kind: ChangeKind::Changed, a: Some(node), b: Some(*other), details }
            }
        };
        difference.nodes.push(change);
    }
    let added = matching.of_b.iter().enumerate().filter(|(_, partner)| partner.is_none());
    difference.nodes.extend(added.map(|(node, _)| {
        let details = vec![b.index.results(&b.index.nodes[node]).into()];
        Change { kind: ChangeKind::Added, a: None, b: Some(node), details }
    }));
    weights::compare(a, b, &matching, contents, &mut difference)?;
    difference.partners = matching.of_b;
    Ok(difference)
}

/// Describes an operand: exactly by its name, and alike for every layer by the node that computes
/// it.
fn operand(side: &Side<'_>, body: usize, name: &str) -> Detail {
    if name.is_empty() {
        return "none".to_owned().into();
    }
    let alike = match side.makers.find(&side.index, body, name) {
        Some(node) => {
            let scope = pattern(&side.scopes[node]);
            let within = if scope.is_empty() { scope } else { format!(" of {scope}") };
            format!("{}{within}", side.index.nodes[node].op())
        }
        // Constants are named after their values.
        None if is_constant(name) => name.to_owned(),
        None => pattern(name),
    };
    Detail { exact: name.to_owned(), alike }
}

/// Describes a change from `old` to `new`. Different values may have the same text.
fn became(old: &str, new: &str) -> String {
    if old == new { format!("a different {new}") } else { format!("{old} → {new}") }
}

struct Pair<'p, 'a, 'b> {
    a: &'p Side<'a>,
    b: &'p Side<'b>,
    matching: &'p Matching,
    /// The correspondence of the models' inputs.
    inputs: &'p Places,
    outputs: &'p Places,
    contents: bool,
}

impl<'a, 'b> Pair<'_, 'a, 'b> {
    /// Returns matched nodes that have only the operator in common: their results differ, and so do
    /// their operands.
    fn strangers(&self) -> Result<Vec<(usize, usize)>, Failure> {
        let mut found = Vec::new();
        for (x, partner) in self.matching.of_a.iter().enumerate() {
            let Some(y) = *partner else { continue };
            let (a, b) = (&self.a.index.nodes[x], &self.b.index.nodes[y]);
            let has_bodies = !self.a.nesting.inside(x).is_empty();
            if has_bodies || self.a.index.results(a) == self.b.index.results(b) {
                continue;
            }
            let mut related = a.proto.input.is_empty();
            for (from, to) in a.proto.input.iter().zip(&b.proto.input) {
                related = related || self.same_value(a.body, from, b.body, to)?;
            }
            if !related {
                found.push((x, y));
            }
        }
        Ok(found)
    }

    fn details(
        &self,
        x: usize,
        y: usize,
        remarks: &mut Vec<String>,
    ) -> Result<Vec<Detail>, Failure> {
        let (a, b) = (&self.a.index.nodes[x], &self.b.index.nodes[y]);
        let mut details = Vec::new();
        let (old, new) = (self.a.index.results(a), self.b.index.results(b));
        if old != new {
            details.push(format!("{old} → {new}").into());
        }
        let (old, new) = (attributes(a.proto), attributes(b.proto));
        if old != new {
            let text = |text: String| if text.is_empty() { "none".to_owned() } else { text };
            details.push(format!("{} → {}", text(old), text(new)).into());
        } else if self.contents && !self.same_tensors(x, y, remarks)? {
            details.push("different values".to_owned().into());
        }
        let (old, new) = (&a.proto.input, &b.proto.input);
        if old.len() != new.len() {
            details.push(format!("{} inputs → {}", old.len(), new.len()).into());
        }
        for (at, (from, to)) in old.iter().zip(new).enumerate() {
            if !self.same_value(a.body, from, b.body, to)? {
                let (old, new) = (operand(self.a, a.body, from), operand(self.b, b.body, to));
                // Another node's result may have the same name.
                let named = old.exact != new.exact;
                let exact = |d: &Detail| if named { d.exact.clone() } else { d.alike.clone() };
                details.push(Detail {
                    exact: format!("input {at}: {}", became(&exact(&old), &exact(&new))),
                    alike: format!("input {at}: {}", became(&old.alike, &new.alike)),
                });
            }
        }
        for (body_a, body_b) in self.matching.inner(self.a, x, self.b, y) {
            let results = self.results(body_a, body_b)?;
            details.extend(results.into_iter().map(Detail::from));
        }
        Ok(details)
    }

    /// Returns `true` if tensor attributes of equal types have equal contents.
    fn same_tensors(&self, x: usize, y: usize, remarks: &mut Vec<String>) -> Result<bool, Failure> {
        let (x, y) = (self.a.index.nodes[x].proto, self.b.index.nodes[y].proto);
        for attribute in &x.attribute {
            let Some(old) = &attribute.t else { continue };
            let other = y.attribute.iter().find(|other| other.name == attribute.name);
            let Some(new) = other.and_then(|other| other.t.as_ref()) else { continue };
            match self.same_contents(old, new)? {
                Some(true) => {}
                Some(false) => return Ok(false),
                None => remarks.push(format!("the values of `{}` were not compared", x.name)),
            }
        }
        Ok(true)
    }

    fn same_contents(&self, old: &TensorProto, new: &TensorProto) -> Result<Option<bool>, Failure> {
        same(old, &self.a.path, new, &self.b.path)
    }

    /// Returns `true` if two operands correspond. They are results of matched nodes, inputs at the
    /// same position of matched bodies, or parameters with the same name.
    fn same_value(&self, a: usize, from: &'a str, b: usize, to: &'b str) -> Result<bool, Failure> {
        Ok(match (self.a.operand(a, from), self.b.operand(b, to)) {
            (Operand::Result(x, at), Operand::Result(y, place)) => {
                self.matching.of_a[x] == Some(y) && at == place
            }
            (Operand::Input(x, at), Operand::Input(y, place)) => {
                let same = if x == 0 { self.inputs[at] == Some(place) } else { at == place };
                same && self.matching.body_of_a(x) == Some(y)
            }
            (Operand::Tensor(old), Operand::Tensor(new)) => {
                // Unnamed constants are numbered, so their names differ. They are small enough to
                // compare.
                let small = |t: &TensorProto| t.external_data.is_empty();
                let alike = small(old) && small(new) && tensor_text(old) == tensor_text(new);
                from == to || (alike && self.same_contents(old, new)? == Some(true))
            }
            (Operand::Other(from), Operand::Other(to)) => from == to,
            _ => false,
        })
    }

    /// Describes the differences between the results of two bodies.
    fn results(&self, body_a: usize, body_b: usize) -> Result<Vec<String>, Failure> {
        let (old, new) = (&self.a.outputs[body_a], &self.b.outputs[body_b]);
        let mut found = Vec::new();
        for (at, from) in old.iter().enumerate() {
            let place = if body_a == 0 { self.outputs[at] } else { Some(at) };
            let Some(to) = place.and_then(|place| new.get(place)) else { continue };
            if !self.same_value(body_a, from, body_b, to)? {
                let (x, y) = (operand(self.a, body_a, from), operand(self.b, body_b, to));
                found.push(format!("output {at} computed by: {}", became(&x.alike, &y.alike)));
            }
        }
        if old.len() != new.len() {
            found.push(format!("number of outputs: {} → {}", old.len(), new.len()));
        }
        Ok(found)
    }
}
