//! Lookup from the names in a model to the program's source.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{CallEntry, OriginEntry, SourceMap, Tables, default_output};
use crate::FUNCTION_CALL;
use crate::origin::function;
use crate::{FrameKind, Span};

/// Positions of nodes, by the names of their results and by their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    values: FxHashMap<String, usize>,
    nodes: FxHashMap<String, usize>,
    inputs: FxHashSet<String>,
    /// Positions of callers, by the first call.
    callers: FxHashMap<u32, usize>,
    /// Positions of entries about merged origins without effect, by the origin.
    idle: FxHashMap<u32, usize>,
}

/// The maximum number of frames returned per stack. Python's default recursion limit is a thousand.
const DEEPEST: usize = 1000;

/// The maximum number of merged sources returned per node.
const MOST: usize = 256;

/// The maximum total number of frames in the other calls of a node's sources.
const FRAMES: usize = 1 << 14;

/// A frame as recorded in a map or in the metadata of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MapFrame<'a> {
    /// The file, or an empty string if only the function is known.
    pub file: &'a str,
    /// The function's qualified name.
    pub function: &'a str,
    /// The expression; both columns are 0 if only the line is known.
    pub span: Span,
    /// `true` for the user's own code.
    pub is_user: bool,
    /// `true` for JAX's own code.
    pub is_jax: bool,
}

impl MapFrame<'_> {
    /// Formats `file:line`, or `function:line` if the file is unknown.
    pub fn place(&self) -> String {
        let whose = if self.file.is_empty() { self.function } else { self.file };
        format!("{whose}:{}", self.span.line)
    }

    /// Returns the owner of the code. The converter's own frames count as a library's.
    pub fn kind(&self) -> FrameKind {
        match (self.is_user, self.is_jax) {
            (true, _) => FrameKind::User,
            (_, true) => FrameKind::Jax,
            _ => FrameKind::Library,
        }
    }
}

/// One source of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    /// The frame that represents it, unless all known frames are in JAX.
    pub site: Option<MapFrame<'a>>,
    /// The module instance. In an ONNX function whose call is unknown, it starts with the
    /// function's name.
    pub scope: Cow<'a, str>,
    /// The rule or rewrite that emitted the node, such as `sin.lower:12`.
    pub rule: String,
    /// All frames, innermost first. In an ONNX function, they continue with the selected call, or
    /// with the first call if none is selected.
    pub stack: Vec<MapFrame<'a>>,
    /// The alternatives: other calls to the functions that contain the node, innermost function
    /// first.
    pub others: Vec<OtherCall<'a>>,
    /// `true` if the operation had no effect, so that the node does not compute it.
    pub is_idle: bool,
}

/// Another call to a function, as seen by a node of its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherCall<'a> {
    /// The frame that represents the node in this call.
    pub site: Option<MapFrame<'a>>,
    /// All frames, innermost first.
    pub stack: Vec<MapFrame<'a>>,
    /// The number of these frames that are inside the function.
    pub inside: usize,
}

impl SourceMap {
    pub(super) fn from_tables(tables: Tables) -> Self {
        let mut index = Index::default();
        for (position, node) in tables.nodes.iter().enumerate() {
            if node.3.is_empty() {
                index.values.insert(default_output(&node.0, 0), position);
            }
            for output in node.3.iter().filter(|name| !name.is_empty()) {
                index.values.insert(output.clone(), position);
            }
            index.nodes.insert(node.0.clone(), position);
        }
        let callers = tables.callers.iter().enumerate();
        index.callers.extend(callers.map(|(position, entry)| (entry.0, position)));
        let idle = tables.idle.iter().enumerate();
        index.idle.extend(idle.map(|(position, entry)| (entry.0, position)));
        index.inputs.extend(tables.inputs.iter().cloned());
        Self { tables, index }
    }

    /// Returns the number of nodes in the map.
    pub fn len(&self) -> usize {
        self.tables.nodes.len()
    }

    /// Returns `true` if the map lists no nodes.
    pub fn is_empty(&self) -> bool {
        self.tables.nodes.is_empty()
    }

    /// Returns the node that computes the value `name`, or else the node named `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.index.values.get(name).or_else(|| self.index.nodes.get(name)).copied()
    }

    /// Returns `true` if the model has a node named `name`.
    pub fn has_node(&self, name: &str) -> bool {
        self.index.nodes.contains_key(name)
    }

    /// Returns `true` if the model has an input named `name`.
    pub fn has_input(&self, name: &str) -> bool {
        self.index.inputs.contains(name)
    }

    /// Returns the name of a node.
    pub fn node_name(&self, node: usize) -> Option<&str> {
        self.tables.nodes.get(node).map(|entry| entry.0.as_str())
    }

    /// Returns the module that a node was recorded in.
    pub fn scope(&self, node: usize) -> Option<&str> {
        Some(&self.tables.scopes[self.origin(node)?.1 as usize])
    }

    /// Returns the own origin of a node.
    fn origin(&self, node: usize) -> Option<&OriginEntry> {
        Some(&self.tables.origins[self.tables.nodes.get(node)?.1 as usize])
    }

    /// Returns `true` if a node calls a function.
    pub fn is_call(&self, node: usize) -> bool {
        let is_call =
            |origin: &OriginEntry| self.tables.emitters[origin.2 as usize].0 == FUNCTION_CALL;
        self.origin(node).is_some_and(is_call)
    }

    /// Returns the sources of a node, its own first. `calls` are the nodes that call the functions
    /// which contain it, innermost first, as far as they are known.
    pub fn sources(&self, node: usize, calls: &[usize]) -> Vec<Source<'_>> {
        let Some(entry) = self.tables.nodes.get(node) else { return Vec::new() };
        let own = entry.1 as usize;
        let others = self.tables.origins[own].3.iter().take(MOST).map(|other| *other as usize);
        let mut frames = FRAMES;
        let idle = self.index.idle.get(&entry.1).map(|position| &self.tables.idle[*position].1);
        let idle: FxHashSet<usize> =
            idle.into_iter().flatten().take(MOST).map(|origin| *origin as usize).collect();
        let all = std::iter::once((own, false)).chain(others.map(|o| (o, idle.contains(&o))));
        all.map(|(origin, is_idle)| Source { is_idle, ..self.source(origin, calls, &mut frames) })
            .collect()
    }

    /// Returns the own source of a node.
    pub fn own_source(&self, node: usize, calls: &[usize]) -> Option<Source<'_>> {
        Some(self.source(self.tables.nodes.get(node)?.1 as usize, calls, &mut { FRAMES }))
    }

    /// Returns `true` if the node `call` calls the function that contains `node`.
    pub fn is_called_by(&self, node: usize, call: usize) -> bool {
        let (Some(inner), Some(outer)) = (self.origin(node), self.origin(call)) else {
            return false;
        };
        self.boundary(&self.chain(inner.0), outer.0).is_some()
    }

    /// Returns the node inside a function that computes the only result of a call.
    pub fn result_of_call(&self, call: usize) -> Option<usize> {
        let entry = self.tables.nodes.get(call).filter(|_| self.is_call(call))?;
        entry.2.first().map(|node| *node as usize)
    }

    /// Returns the nodes whose results a node reads.
    pub fn reads(&self, node: usize) -> impl Iterator<Item = usize> {
        let read = self.tables.nodes.get(node).map_or(&[][..], |entry| &entry.2);
        read.iter().map(|node| *node as usize)
    }

    /// Returns the nodes `results` and all nodes upstream of them, up to those that are `outside`.
    pub fn between(&self, results: Vec<usize>, is_outside: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut seen: FxHashSet<usize> = FxHashSet::default();
        let mut found = results;
        found.retain(|node| seen.insert(*node));
        let mut at = 0;
        while at < found.len() {
            for read in self.reads(found[at]) {
                if !is_outside(read) && seen.insert(read) {
                    found.push(read);
                }
            }
            at += 1;
        }
        found
    }

    /// Returns the digest and the text of a file, if the map has them.
    pub fn file(&self, path: &str) -> Option<(Option<&str>, Option<&str>)> {
        let entry = self.tables.files.iter().find(|entry| entry.0 == path)?;
        Some((entry.1.as_deref(), entry.2.as_deref()))
    }

    /// Returns the files of the user's frames.
    pub fn user_files(&self) -> impl Iterator<Item = &str> {
        let user = self.tables.frames.iter().filter(|frame| frame.6 == FrameKind::User as u8);
        let files: FxHashSet<u32> = user.map(|frame| frame.0).collect();
        let files = (0..).zip(&self.tables.files).filter(move |(at, _)| files.contains(at));
        files.map(|(_, entry)| entry.0.as_str())
    }

    /// Returns the files that were edited after their code was loaded and before the export. The
    /// map's line numbers refer to a text that is unknown.
    pub fn edited(&self) -> impl Iterator<Item = &str> {
        let files = self.tables.edited.iter().filter_map(|at| self.tables.files.get(*at as usize));
        files.map(|entry| entry.0.as_str())
    }

    /// Returns one source of a node. Its other calls draw on the remaining budget of `frames`.
    fn source(&self, origin: usize, calls: &[usize], frames: &mut usize) -> Source<'_> {
        let tables = &self.tables;
        let origin = &tables.origins[origin];
        let emitter = &tables.emitters[origin.2 as usize];
        let rule = format!("{}:{}", function(&emitter.0, &emitter.1), emitter.3);
        let (chain, known) = self.called_by(origin.0, calls);
        let stack = self.stack(&chain);
        let site = site(&stack);
        let own = Cow::Borrowed(tables.scopes[origin.1 as usize].as_str());
        let scope = self.scope_in(own, &calls[..known.len()]);
        Source {
            site,
            scope,
            rule,
            stack,
            others: self.others(&chain, &known, frames),
            is_idle: false,
        }
    }

    /// Returns the positions of a call and of the calls that enclose it.
    fn chain(&self, call: i64) -> Vec<i64> {
        let enclosing = |call: &i64| self.call(*call).map(|entry| entry.1);
        let calls = std::iter::successors(Some(call), enclosing);
        calls.take_while(|call| self.call(*call).is_some()).take(DEEPEST).collect()
    }

    fn call(&self, call: i64) -> Option<&CallEntry> {
        self.tables.calls.get(usize::try_from(call).ok()?)
    }

    /// Returns the other calls to the function whose first call is at this position.
    fn beside(&self, call: i64) -> &[u32] {
        let first = u32::try_from(call).ok().and_then(|call| self.index.callers.get(&call));
        first.map_or(&[], |position| &self.tables.callers[*position].1)
    }

    /// Returns the level at which `chain` leaves its innermost function, if `call` is one of that
    /// function's calls.
    fn boundary(&self, chain: &[i64], call: i64) -> Option<usize> {
        let is_inside = |level: &usize| {
            let emitter =
                self.call(chain[level - 1]).and_then(|entry| usize::try_from(entry.2).ok());
            emitter.is_none_or(|emitter| self.tables.emitters[emitter].0 != FUNCTION_CALL)
        };
        let level = (1..chain.len()).find(|level| !is_inside(level))?;
        let first = chain[level];
        let is_meant =
            first == call || self.beside(first).iter().any(|other| i64::from(*other) == call);
        is_meant.then_some(level)
    }

    /// Returns the chain of a call inside the functions that the nodes `calls` call, and the levels
    /// at which these functions end. Stops at the first of `calls` that does not fit.
    fn called_by(&self, call: i64, calls: &[usize]) -> (Vec<i64>, Vec<usize>) {
        let (mut chain, mut known) = (self.chain(call), Vec::new());
        for node in calls {
            let inside = known.last().copied().unwrap_or_default();
            let Some(OriginEntry(outer, ..)) = self.origin(*node) else { break };
            let Some(level) = self.boundary(&chain[inside..], *outer) else { break };
            chain.truncate(inside + level);
            chain.extend(self.chain(*outer));
            known.push(inside + level);
        }
        (chain, known)
    }

    /// Returns the module of a node inside a function that the nodes `calls` call. The first level
    /// of a scope inside a function is the function's name.
    fn scope_in<'a>(&'a self, own: Cow<'a, str>, calls: &[usize]) -> Cow<'a, str> {
        let Some((call, outer)) = calls.split_first() else { return own };
        let Some(scope) = self.scope(*call) else { return own };
        let scope = self.scope_in(Cow::Borrowed(scope), outer);
        match own.split_once('/') {
            None => scope,
            Some((_, rest)) if scope.is_empty() => Cow::Owned(rest.to_owned()),
            Some((_, rest)) => Cow::Owned(format!("{scope}/{rest}")),
        }
    }

    fn stack(&self, chain: &[i64]) -> Vec<MapFrame<'_>> {
        let mut stack = Vec::new();
        for entry in chain.iter().filter_map(|call| self.call(*call)) {
            if stack.len() >= DEEPEST {
                break;
            }
            self.frames(entry.0, &mut stack);
        }
        stack
    }

    /// Returns the alternatives for a chain through functions with several calls. The calls at the
    /// levels `known` of the chain are certain.
    fn others(&self, chain: &[i64], known: &[usize], frames: &mut usize) -> Vec<OtherCall<'_>> {
        let mut found = Vec::new();
        for level in (1..chain.len()).filter(|level| !known.contains(level)) {
            for other in self.beside(chain[level]).iter().take(MOST - found.len()) {
                let mut stack = self.stack(&chain[..level]);
                let inside = stack.len();
                stack.extend(self.stack(&self.chain(i64::from(*other))));
                let Some(left) = frames.checked_sub(stack.len()) else { return found };
                *frames = left;
                found.push(OtherCall { site: site(&stack), stack, inside });
            }
        }
        found
    }

    fn frames<'a>(&'a self, mut link: i64, into: &mut Vec<MapFrame<'a>>) {
        let tables = &self.tables;
        while let Some(entry) = usize::try_from(link).ok().and_then(|i| tables.stacks.get(i)) {
            let frame = &tables.frames[entry.0 as usize];
            into.push(MapFrame {
                file: &tables.files[frame.0 as usize].0,
                function: &tables.functions[frame.1 as usize],
                span: Span {
                    line: frame.2,
                    column: frame.3,
                    end_line: frame.4,
                    end_column: frame.5,
                },
                is_user: frame.6 == crate::FrameKind::User as u8,
                is_jax: frame.6 == crate::FrameKind::Jax as u8,
            });
            link = if into.len() < DEEPEST { entry.1 } else { -1 };
        }
    }
}

/// Returns the frame that represents a stack.
fn site<'a>(stack: &[MapFrame<'a>]) -> Option<MapFrame<'a>> {
    let own = stack.iter().find(|frame| frame.is_user);
    own.or_else(|| stack.iter().find(|frame| !frame.is_jax)).copied()
}
