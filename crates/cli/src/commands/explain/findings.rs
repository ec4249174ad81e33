//! Finds the nodes that a log is about.

use std::cell::LazyCell;

use rustc_hash::FxHashSet;

use super::candidates::candidates;
use super::refine::{mismatched_operator, other_operator, refine};
use crate::log::{
    Meaning, Mention, Runtime, Severity, guessed, meaning, mentions, paragraph, severity, unfolded,
    unwrapped,
};
use crate::model::{Index, Origin, is_inlined, originals};
use crate::nearest::nearest;

/// The maximum number of nodes explained. Nobody reads more of them.
const MOST: usize = 8;

/// The findings of a log.
#[derive(Debug, Default)]
pub(crate) struct Explanation<'m> {
    /// The findings, most important first.
    pub(crate) findings: Vec<Finding<'m>>,
    /// The number of further nodes that the log names.
    pub(crate) hidden: usize,
    /// Names that the model lacks, each with similar names that it has.
    pub(crate) unknown: Vec<(String, Vec<&'m str>)>,
    /// The subjects of all findings, including further ones.
    seen: FxHashSet<String>,
}

/// A node or value that a log is about, or a message about the model as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Finding<'m> {
    /// The subject of the finding.
    pub(crate) subject: Subject<'m>,
    /// The name in the log, if it differs from the model's.
    pub(crate) renamed: Option<String>,
    /// The meaning of the message, if there is a message and it is known.
    pub(crate) meaning: Option<Meaning>,
    /// The source of the message, and its text.
    pub(crate) said: Option<(&'static str, String)>,
    /// The severity of the message.
    pub(crate) severity: Severity,
    /// The reason why the message may be about something else.
    pub(crate) doubt: Option<String>,
}

impl<'m> Finding<'m> {
    fn new((subject, renamed): (Subject<'m>, Option<String>)) -> Self {
        let severity = Severity::Error;
        Self { subject, renamed, meaning: None, said: None, severity, doubt: None }
    }
}

/// The subject of a finding.
#[derive(Clone, Debug)]
pub(crate) enum Subject<'m> {
    /// A node of the model.
    Node(usize),
    /// An input or an initializer, and a node that reads it.
    Value(String, Option<usize>),
    /// A node that is in the source map but no longer in the model.
    Gone(String, Vec<Origin<'m>>),
    /// The model as a whole.
    Model,
}

impl Subject<'_> {
    /// Returns the node, or a node that reads the value.
    pub(super) fn node(&self) -> Option<usize> {
        match *self {
            Subject::Node(node) | Subject::Value(_, Some(node)) => Some(node),
            _ => None,
        }
    }

    fn is_gone(&self) -> bool {
        matches!(self, Subject::Gone(..))
    }
}

/// Explains a log, a message or a name.
pub(crate) fn explain<'m>(index: &Index<'m>, log: &str) -> Explanation<'m> {
    let name = log.trim();
    if let Some(found) = resolve(index, name) {
        let mut explanation = Explanation::default();
        explanation.add(index, Finding::new(found));
        return explanation;
    }
    let mut explanation = explain_lines(index, log);
    for join in [unwrapped, unfolded] {
        if explanation.understood() >= explanation.findings.len().max(1) {
            break;
        }
        let Some(log) = join(log) else { continue };
        let joined = explain_lines(index, &log);
        let rank = |e: &Explanation<'_>| (e.understood(), e.findings.len());
        if rank(&joined) > rank(&explanation) {
            explanation = joined;
        }
    }
    let is_name = !name.contains(char::is_whitespace) && !name.is_empty();
    if explanation.findings.is_empty() && explanation.unknown.is_empty() && is_name {
        explanation.unknown.push((name.to_owned(), nearest(name, index.names())));
    }
    explanation
}

/// Explains a log whose messages are not wrapped.
fn explain_lines<'m>(index: &Index<'m>, log: &str) -> Explanation<'m> {
    let mut explanation = Explanation::default();
    let mut mentions: Vec<(Severity, Mention<'_>)> = innermost(index, mentions(log))
        .into_iter()
        .map(|mention| (severity(mention.said).unwrap_or(Severity::Error), mention))
        .collect();
    mentions.sort_by_key(|(severity, _)| *severity);
    for (severity, mention) in mentions {
        explanation.mention(index, severity, &mention);
    }
    if explanation.findings.is_empty() {
        explanation.words(index, log);
    }
    if explanation.findings.is_empty()
        && let Some(known) = meaning(log)
    {
        let said = paragraph(Runtime::Onnx, log, known.at);
        let said = Some(("the runtime", said.to_owned()));
        let candidates = candidates(index, &known);
        let doubt = (!candidates.is_empty()).then(|| nameless(candidates.len()));
        for node in candidates {
            let new = Finding::new((Subject::Node(node), None));
            let (said, doubt, meaning) = (said.clone(), doubt.clone(), Some(known.clone()));
            explanation.add(index, Finding { meaning, said, doubt, ..new });
        }
        if explanation.findings.is_empty() {
            let new = Finding::new((Subject::Model, None));
            explanation.add(index, Finding { meaning: Some(known), said, ..new });
        }
    }
    if !explanation.findings.is_empty() {
        // Runtimes also invent names.
        explanation.unknown.clear();
    }
    explanation
}

impl<'m> Explanation<'m> {
    /// Returns the number of findings whose message has a known meaning.
    fn understood(&self) -> usize {
        self.findings.iter().filter(|finding| finding.meaning.is_some()).count()
    }

    fn mention(&mut self, index: &Index<'m>, severity: Severity, mention: &Mention<'_>) {
        let said = || Some((mention.runtime.name(), mention.said.to_owned()));
        for op in &mention.ops {
            let all = || (0..index.nodes.len()).filter(|node| index.nodes[*node].op() == *op);
            let is_unnamed = |node: &usize| index.nodes[*node].proto.name.is_empty();
            let unnamed: Vec<usize> = all().filter(is_unnamed).collect();
            let found =
                if mention.unnamed && !unnamed.is_empty() { unnamed } else { all().collect() };
            // An operator that occurs once is certain; of several, each is a candidate.
            let doubt = (mention.unnamed && found.len() > 1).then(|| nameless(found.len()));
            for node in found {
                let new = Finding::new((Subject::Node(node), None));
                let doubt = doubt.clone();
                self.add(index, Finding { said: said(), severity, doubt, ..new });
            }
        }
        if let Some(name) = mention.input.and_then(|at| index.inputs().nth(at)) {
            let subject = Subject::Value(name.to_owned(), index.reader(name));
            let new = Finding::new((subject, None));
            self.add(index, Finding { said: said(), severity, ..new });
        }
        for name in &mention.names {
            let Some(found) = resolve(index, name) else {
                let unknown = self.unknown.iter().any(|(known, _)| known == name);
                if !unknown && self.unknown.len() < MOST {
                    let name = (*name).to_owned();
                    let like = nearest(&name, index.names());
                    self.unknown.push((name, like));
                }
                continue;
            };
            let doubt = match (&found, mention.op) {
                ((Subject::Node(node), None), Some(op)) if mention.runtime == Runtime::OpenVino => {
                    other_operator(op, &index.nodes[*node].proto.op_type)
                }
                ((Subject::Node(node), None), Some(op)) => {
                    mismatched_operator(op, &index.nodes[*node].proto.op_type)
                }
                _ => None,
            };
            self.add(index, Finding { said: said(), severity, doubt, ..Finding::new(found) });
        }
    }

    /// Adds findings for words of the log that are names in the model. Covers runtimes whose
    /// message formats are unknown.
    fn words(&mut self, index: &Index<'m>, log: &str) {
        let is_border = |c: char| c.is_whitespace() || "'\"`()[]{}<>,;=".contains(c);
        let (mut found, mut known) = (Vec::new(), FxHashSet::default());
        for line in log.lines() {
            let severity = LazyCell::new(|| severity(line).unwrap_or_else(|| guessed(line)));
            for word in line.split(is_border) {
                let word = word.trim_end_matches(['.', ':']);
                // In prose, `x` or `Add` is rarely a name.
                let is_name = word.len() > 3 && word.contains(['/', '_', '.']);
                if let (true, Some(subject)) = (is_name, resolve(index, word))
                    && known.insert((word, severity.name()))
                {
                    found.push((*severity, line.trim(), subject));
                }
            }
        }
        found.sort_by_key(|(severity, ..)| *severity);
        for (severity, line, subject) in found {
            let said = Some(("the log", line.to_owned()));
            self.add(index, Finding { said, severity, ..Finding::new(subject) });
        }
    }

    /// Adds a finding, and one for each node with the same name.
    fn add(&mut self, index: &Index<'m>, mut finding: Finding<'m>) {
        if let Subject::Node(node) = finding.subject {
            let others: Vec<usize> = index.namesakes(node).collect();
            if !others.is_empty() {
                let count = others.len() + 1;
                let doubt = format!("{count} nodes have this name, each in its own graph");
                finding.doubt = finding.doubt.or(Some(doubt));
            }
            self.add_one(index, finding.clone());
            for other in others {
                let subject = Subject::Node(other);
                self.add_one(index, Finding { subject, ..finding.clone() });
            }
            return;
        }
        self.add_one(index, finding);
    }

    /// Adds a finding with the meaning of its message, unless its subject already has one.
    fn add_one(&mut self, index: &Index<'m>, mut finding: Finding<'m>) {
        let key = match &finding.subject {
            Subject::Node(node) => format!("node {node}"),
            Subject::Value(name, _) | Subject::Gone(name, _) => format!("value {name}"),
            Subject::Model => "model".to_owned(),
        };
        if !self.seen.insert(key) {
            return;
        }
        if self.findings.len() < MOST {
            let known = finding.said.as_ref().and_then(|(_, said)| meaning(said));
            finding.meaning = finding.meaning.or(known);
            let node = match finding.subject {
                Subject::Node(node) => Some(node),
                _ => None,
            };
            if let Some(meaning) = &mut finding.meaning {
                let said = finding.said.as_ref().map_or("", |(_, said)| said);
                refine(index, node, said, meaning);
            }
            self.findings.push(finding);
        } else {
            self.hidden += 1;
        }
    }
}

/// Returns the note for a message that names no node.
fn nameless(count: usize) -> String {
    match count {
        1 => "the message names no node; this is the only one that it can be about".to_owned(),
        _ => format!("the message names no node; it may be about any of {count}"),
    }
}

/// Drops mentions of nodes that contain another mentioned node. The message of a loop repeats the
/// more precise message of the node inside it.
fn innermost<'t>(index: &Index<'_>, mentions: Vec<Mention<'t>>) -> Vec<Mention<'t>> {
    let mut around: FxHashSet<(&str, usize)> = FxHashSet::default();
    let mut kept = Vec::new();
    for mention in mentions.into_iter().rev() {
        let name = mention.names.first().copied().unwrap_or_default();
        if let Some((Subject::Node(node), _)) = resolve(index, name) {
            if around.contains(&(mention.said, node)) {
                continue;
            }
            for chain in index.calls().chains(index, node) {
                for inside in std::iter::once(node).chain(chain) {
                    let owners = std::iter::successors(index.owner(inside), |n| index.owner(*n));
                    around.extend(owners.map(|owner| (mention.said, owner)));
                    around.extend((inside != node).then_some((mention.said, inside)));
                }
            }
        }
        kept.push(mention);
    }
    kept.reverse();
    kept
}

/// Resolves a name to its subject. Also returns `name` if the model uses another name.
pub(super) fn resolve<'m>(index: &Index<'m>, name: &str) -> Option<(Subject<'m>, Option<String>)> {
    if name.is_empty() {
        return None;
    }
    // The source map also knows nodes of functions by the names that inlining gives them, but the
    // model's own node carries more information.
    let is_inlined = is_inlined(name) && index.named(name).is_none();
    if let Some(subject) = subject(index, name).filter(|s| !(is_inlined && s.is_gone())) {
        return Some((subject, None));
    }
    let functions: Vec<&str> =
        index.model.proto.functions.iter().map(|function| function.name.as_str()).collect();
    let mut originals = originals(name, &functions).into_iter();
    let found = originals.find_map(|original| subject(index, &original));
    let renamed = found.map(|found| (found, Some(name.to_owned())));
    renamed.or_else(|| subject(index, name).map(|found| (found, None)))
}

fn subject<'m>(index: &Index<'m>, name: &str) -> Option<Subject<'m>> {
    if let Some(node) = index.named(name).or_else(|| index.producer(name)) {
        return Some(Subject::Node(node));
    }
    if let Some(reader) = index.reader(name) {
        return Some(Subject::Value(name.to_owned(), Some(reader)));
    }
    if index.has_input(name) {
        return Some(Subject::Value(name.to_owned(), None));
    }
    let origins = index.origins_of_name(name);
    (!origins.is_empty()).then(|| Subject::Gone(name.to_owned(), origins))
}

#[cfg(test)]
mod tests {
    use onnx_file::proto::{GraphProto, ModelProto, NodeProto};

    use super::*;
    use crate::model::Model;

    /// Returns the positions of the nodes that a log is about with their doubts, the number of
    /// further ones and the unknown names. A node is an operator and a name.
    fn found(nodes: &[(&str, &str)], log: &str) -> (Vec<(usize, String)>, usize, usize) {
        let node = |(op, name): &(&str, &str)| NodeProto {
            op_type: (*op).to_owned(),
            name: (*name).to_owned(),
            ..NodeProto::default()
        };
        let graph = GraphProto { node: nodes.iter().map(node).collect(), ..GraphProto::default() };
        let proto = ModelProto { graph: Some(graph), ..ModelProto::default() };
        let model = Model { path: None, proto, map: None, map_path: None, remarks: vec![] };
        let index = Index::new(&model);
        let explanation = explain(&index, log);
        let findings = explanation.findings.iter().map(|finding| {
            let node = finding.subject.node().unwrap();
            (node, finding.doubt.clone().unwrap_or_default())
        });
        (findings.collect(), explanation.hidden, explanation.unknown.len())
    }

    fn running(op: &str, name: &str) -> String {
        format!(
            "Non-zero status code returned while running {op} node. Name:'{name}' Status Message: no\n"
        )
    }

    #[test]
    fn a_message_without_a_name_is_about_unnamed_nodes() {
        let log = running("Add", "");
        let any = "the message names no node; it may be about any of 2".to_owned();
        let one = [("Add", "/Add"), ("Add", ""), ("Neg", "")];
        assert_eq!(found(&one, &log).0, [(1, String::new())]);
        let two = [("Add", ""), ("Add", "/Add"), ("Add", "")];
        assert_eq!(found(&two, &log).0, [(0, any.clone()), (2, any.clone())]);
        let named = [("Add", "/Add"), ("Neg", ""), ("Add", "/Add_1")];
        assert_eq!(found(&named, &log).0, [(0, any.clone()), (2, any)]);
    }

    #[test]
    fn nodes_with_the_same_name_are_all_shown() {
        let doubt = "2 nodes have this name, each in its own graph".to_owned();
        let nodes = [("Add", "/Add"), ("Neg", "/Neg"), ("Add", "/Add")];
        assert_eq!(found(&nodes, &running("Add", "/Add")).0, [(0, doubt.clone()), (2, doubt)]);
        assert_eq!(found(&nodes, &running("Neg", "/Neg")).0, [(1, String::new())]);
    }

    #[test]
    fn a_few_of_many_findings_are_shown() {
        let names: Vec<String> = (0..10).map(|number| format!("/Add_{number}")).collect();
        let nodes: Vec<(&str, &str)> = names.iter().map(|name| ("Add", name.as_str())).collect();
        let log = |count: usize| {
            names[..count].iter().map(|name| running("Add", name)).collect::<String>()
        };
        let counts = |count| {
            let (findings, hidden, _) = found(&nodes, &log(count));
            (findings.len(), hidden)
        };
        assert_eq!([8, 9, 10].map(counts), [(8, 0), (8, 1), (8, 2)]);
        let unknown = |count| found(&[("Add", "x")], &log(count)).2;
        assert_eq!([7, 8, 9].map(unknown), [7, 8, 8]);
        let twice = log(1).repeat(2);
        assert_eq!(found(&[("Add", "x")], &twice).2, 1, "each unknown name once");
    }

    #[test]
    fn only_words_that_look_like_names_are_looked_up() {
        let nodes = [("Add", "a/b"), ("Neg", "a/bc"), ("Neg", "plain")];
        let words =
            |log: &str| found(&nodes, log).0.into_iter().map(|(node, _)| node).collect::<Vec<_>>();
        assert_eq!(words("cannot compute `a/bc`."), [1]);
        assert_eq!(words("cannot compute a/b here"), [0; 0], "three characters");
        assert_eq!(words("cannot compute plain things"), [0; 0]);
        assert_eq!(words("plain"), [2], "a name alone");
    }
}
