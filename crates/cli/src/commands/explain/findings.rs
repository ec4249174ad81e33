//! Which nodes a log is about.

use rustc_hash::FxHashSet;

use crate::log::{Meaning, Mention, meaning, mentions, originals};
use crate::model::{Index, Origin};
use crate::nearest::nearest;

/// Nodes that are explained; a log of thousands is a file to search, not to read.
const MOST: usize = 8;

/// What a log is about.
#[derive(Debug, Default)]
pub(crate) struct Explanation<'m> {
    /// What was found, most important first.
    pub(crate) findings: Vec<Finding<'m>>,
    /// How many more nodes are named.
    pub(crate) hidden: usize,
    /// Names that the model does not have, each with names like it.
    pub(crate) unknown: Vec<(String, Vec<&'m str>)>,
}

/// One node or value that a log is about, or a message about the model as a whole.
#[derive(Debug)]
pub(crate) struct Finding<'m> {
    /// What is the subject.
    pub(crate) subject: Subject<'m>,
    /// The name in the log, if it is another than the model's.
    pub(crate) renamed: Option<String>,
    /// What the message means; none if it is not known, or there is no message.
    pub(crate) meaning: Option<Meaning>,
    /// Who said what.
    pub(crate) said: Option<(&'static str, String)>,
}

/// What a finding is about.
#[derive(Debug)]
pub(crate) enum Subject<'m> {
    /// A node of the model.
    Node(usize),
    /// An input or an initializer, and a node that reads it.
    Value(String, Option<usize>),
    /// A node that the model no longer has, but its source map knows.
    Gone(String, Vec<Origin<'m>>),
    /// The model.
    Model,
}

/// Explains a log, a message or a name.
pub(crate) fn explain<'m>(index: &Index<'m>, log: &str) -> Explanation<'m> {
    let mut explanation = Explanation::default();
    let mut seen = FxHashSet::default();
    let name = log.trim();
    if let Some((subject, renamed)) = resolve(index, name) {
        explanation.add(&mut seen, Finding { subject, renamed, meaning: None, said: None });
        return explanation;
    }
    for mention in innermost(index, mentions(log)) {
        explanation.mention(index, &mut seen, &mention);
    }
    if explanation.findings.is_empty() {
        explanation.words(index, &mut seen, log);
    }
    if explanation.findings.is_empty()
        && let Some(known) = meaning(log)
    {
        let (subject, said) = (Subject::Model, Some(("the runtime", name.to_owned())));
        let finding = Finding { subject, renamed: None, meaning: Some(known), said };
        explanation.add(&mut seen, finding);
    }
    if !explanation.findings.is_empty() {
        // Runtimes make up names beside those that they were given.
        explanation.unknown.clear();
    }
    let is_name = !name.contains(char::is_whitespace) && !name.is_empty();
    if explanation.findings.is_empty() && explanation.unknown.is_empty() && is_name {
        explanation.unknown.push((name.to_owned(), nearest(name, index.names())));
    }
    explanation
}

impl<'m> Explanation<'m> {
    fn mention(&mut self, index: &Index<'m>, seen: &mut FxHashSet<String>, mention: &Mention<'_>) {
        let said = || Some((mention.runtime.name(), mention.said.to_owned()));
        for op in &mention.ops {
            let is_meant = |node: &usize| {
                let node = &index.nodes[*node];
                node.op() == *op && (!mention.unnamed || node.proto.name.is_empty())
            };
            for node in (0..index.nodes.len()).filter(is_meant) {
                let subject = Subject::Node(node);
                self.add(seen, Finding { subject, renamed: None, meaning: None, said: said() });
            }
        }
        for name in &mention.names {
            let Some((subject, renamed)) = resolve(index, name) else {
                let unknown = self.unknown.iter().any(|(known, _)| known == name);
                if !unknown && self.unknown.len() < MOST {
                    let name = (*name).to_owned();
                    let like = nearest(&name, index.names());
                    self.unknown.push((name, like));
                }
                continue;
            };
            self.add(seen, Finding { subject, renamed, meaning: None, said: said() });
        }
    }

    /// Whatever words of the log are names in the model: there are more runtimes than forms.
    fn words(&mut self, index: &Index<'m>, seen: &mut FxHashSet<String>, log: &str) {
        let is_border = |c: char| c.is_whitespace() || "'\"`()[]{}<>,;=".contains(c);
        for line in log.lines() {
            for word in line.split(is_border) {
                let word = word.trim_end_matches(['.', ':']);
                // `x` or `Add` in a sentence are seldom meant as names.
                let is_name = word.len() > 3 && word.contains(['/', '_', '.']);
                if let (true, Some((subject, renamed))) = (is_name, resolve(index, word)) {
                    let said = Some(("the log", line.trim().to_owned()));
                    self.add(seen, Finding { subject, renamed, meaning: None, said });
                }
            }
        }
    }

    /// Adds a finding, with what its message means, unless its subject was found before.
    fn add(&mut self, seen: &mut FxHashSet<String>, mut finding: Finding<'m>) {
        let key = match &finding.subject {
            Subject::Node(node) => format!("node {node}"),
            Subject::Value(name, _) | Subject::Gone(name, _) => format!("value {name}"),
            Subject::Model => "model".to_owned(),
        };
        if !seen.insert(key) {
            return;
        }
        if self.findings.len() < MOST {
            let known = finding.said.as_ref().and_then(|(_, said)| meaning(said));
            finding.meaning = finding.meaning.or(known);
            self.findings.push(finding);
        } else {
            self.hidden += 1;
        }
    }
}

/// The mentions without those of nodes around another one: the message of a loop repeats that of
/// the node inside, which says more.
fn innermost<'t>(index: &Index<'_>, mentions: Vec<Mention<'t>>) -> Vec<Mention<'t>> {
    let mut around: FxHashSet<(&str, usize)> = FxHashSet::default();
    let mut kept = Vec::new();
    for mention in mentions.into_iter().rev() {
        let name = mention.names.first().copied().unwrap_or_default();
        if let Some((Subject::Node(node), _)) = resolve(index, name) {
            if around.contains(&(mention.said, node)) {
                continue;
            }
            let owners = std::iter::successors(index.owner(node), |node| index.owner(*node));
            around.extend(owners.map(|owner| (mention.said, owner)));
        }
        kept.push(mention);
    }
    kept.reverse();
    kept
}

/// What `name` is in the model, and `name` itself if it is called otherwise there.
pub(super) fn resolve<'m>(index: &Index<'m>, name: &str) -> Option<(Subject<'m>, Option<String>)> {
    if name.is_empty() {
        return None;
    }
    if let Some(subject) = subject(index, name) {
        return Some((subject, None));
    }
    let functions: Vec<&str> =
        index.model.proto.functions.iter().map(|function| function.name.as_str()).collect();
    let mut originals = originals(name, &functions).into_iter();
    let found = originals.find_map(|original| subject(index, &original))?;
    Some((found, Some(name.to_owned())))
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
