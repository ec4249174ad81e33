//! Builds the map from a conversion's tables, restricted to entries that nodes refer to.

use std::borrow::Cow;
use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{
    CallEntry, CallersEntry, EmitterEntry, FileEntry, FrameEntry, IdleEntry, NodeEntry,
    OriginEntry, SourceMap, StackEntry, Tables, VERSION, default_output,
};
use crate::stack::LinkId;
use crate::{
    CallId, Emitter, Frame, FrameKind, OriginId, Origins, ScopeId, Span, StackId, Stacks, Stage,
};

/// A node of the model, as the map records it.
#[derive(Clone, Debug)]
pub struct MapNode<'a> {
    /// The node's name.
    pub name: Cow<'a, str>,
    /// The node's origin.
    pub origin: OriginId,
    /// The positions of the nodes whose results this node reads.
    pub inputs: Vec<usize>,
    /// The names of the node's results; a name is empty if it belongs to another value.
    pub outputs: Vec<&'a str>,
}

/// A function that reads the text of the file at a path.
pub type ReadText<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Recording options for the user's files.
#[derive(Clone, Copy, Default)]
pub struct Sources<'a> {
    /// Reads a file. Without it, files have no digest.
    pub text: Option<&'a ReadText<'a>>,
    /// Reads a file of a library. Without it, those files have no digest.
    pub library: Option<&'a ReadText<'a>>,
    /// Includes the texts in addition to their digests.
    pub embed: bool,
    /// The paths of files that were edited since their code was loaded. They have no text.
    pub edited: &'a [String],
}

impl std::fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources").field("embed", &self.embed).finish_non_exhaustive()
    }
}

/// The positions of entries in the tables of a map.
#[derive(Default)]
struct Positions {
    files: FxHashMap<Arc<str>, u32>,
    functions: FxHashMap<Arc<str>, u32>,
    frames: FxHashMap<FrameEntry, u32>,
    stacks: FxHashMap<StackEntry, u32>,
    links: FxHashMap<LinkId, i64>,
    scopes: FxHashMap<ScopeId, u32>,
    /// Name, stage, file, line.
    emitters: FxHashMap<(&'static str, Stage, &'static str, u32), u32>,
    calls: FxHashMap<CallId, i64>,
    /// Calls by content. Equations with equal stacks share an entry.
    call_entries: FxHashMap<CallEntry, u32>,
    origins: FxHashMap<OriginId, u32>,
}

/// Returns the position of the entry for `key` in a table. Adds the entry if the key is new.
fn position<K: Hash + Eq, T>(
    known: &mut FxHashMap<K, u32>,
    table: &mut Vec<T>,
    key: K,
    entry: impl FnOnce() -> T,
) -> u32 {
    *known.entry(key).or_insert_with(|| {
        table.push(entry());
        u32::try_from(table.len() - 1).unwrap_or(u32::MAX)
    })
}

struct Builder<'a> {
    origins: &'a Origins,
    stacks: &'a Stacks,
    function: Option<&'a Frame>,
    sources: Sources<'a>,
    tables: Tables,
    known: Positions,
}

impl SourceMap {
    /// Builds the map of a model. `inputs` are the names of the values that no node computes:
    /// inputs of the model and of its bodies. `function` represents nodes that belong to no
    /// equation.
    pub fn build(
        inputs: &[&str],
        nodes: &[MapNode<'_>],
        origins: &Origins,
        stacks: &Stacks,
        function: Option<&Frame>,
        sources: Sources<'_>,
    ) -> Self {
        let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
        let tables = Tables { version: VERSION, inputs, ..Tables::default() };
        let known = Positions::default();
        let mut builder = Builder { origins, stacks, function, sources, tables, known };
        let nodes = nodes.iter().map(|node| builder.node(node)).collect();
        Self::from_tables(Tables { nodes, ..builder.tables })
    }
}

impl Builder<'_> {
    fn node(&mut self, node: &MapNode<'_>) -> NodeEntry {
        let outputs = match node.outputs[..] {
            [only] if only == default_output(&node.name, 0) => Vec::new(),
            _ => node.outputs.iter().map(|name| (*name).to_owned()).collect(),
        };
        let inputs = node.inputs.iter().filter_map(|i| u32::try_from(*i).ok()).collect();
        NodeEntry(node.name.clone().into_owned(), self.origin(node.origin), inputs, outputs)
    }

    fn origin(&mut self, id: OriginId) -> u32 {
        if let Some(known) = self.known.origins.get(&id) {
            return *known;
        }
        let origin = self.origins.get(id);
        let also: Vec<u32> = origin.also.iter().map(|other| self.origin(*other)).collect();
        let call = match (origin.call, self.function) {
            (Some(call), _) => self.call(call),
            (None, Some(function)) => {
                let stack = self.link(function, -1);
                self.call_entry(CallEntry(stack, -1, -1))
            }
            (None, None) => -1,
        };
        let scope = self.origins.naming_scope(id);
        let path = || self.origins.scope_path(scope).to_owned();
        let scope = position(&mut self.known.scopes, &mut self.tables.scopes, scope, path);
        let emitter = self.emitter(&origin.emitter);
        let idle = also[origin.computed..].to_vec();
        let entry = || OriginEntry(call, scope, emitter, also);
        let position = position(&mut self.known.origins, &mut self.tables.origins, id, entry);
        if !idle.is_empty() {
            self.tables.idle.push(IdleEntry(position, idle));
        }
        position
    }

    fn call(&mut self, id: CallId) -> i64 {
        if let Some(known) = self.known.calls.get(&id) {
            return *known;
        }
        let call = self.origins.get_call(id);
        let (caller, emitter) = match call.caller {
            Some((caller, emitter)) => (self.call(caller), i64::from(self.emitter(&emitter))),
            None => (-1, -1),
        };
        let stack = call.stack.map_or(-1, |stack| self.stack(stack));
        let position = self.call_entry(CallEntry(stack, caller, emitter));
        self.known.calls.insert(id, position);
        let others = self.origins.calls_beside(id).iter();
        let others = others.filter_map(|other| self.origins.get(*other).call);
        let others = others.filter_map(|other| u32::try_from(self.call(other)).ok());
        let others: Vec<u32> = others.collect();
        if let (false, Ok(first)) = (others.is_empty(), u32::try_from(position)) {
            self.tables.callers.push(CallersEntry(first, others));
        }
        position
    }

    fn call_entry(&mut self, entry: CallEntry) -> i64 {
        position(&mut self.known.call_entries, &mut self.tables.calls, entry, || entry).into()
    }

    /// Adds a stack. Stacks share their tails, so each link is visited once.
    fn stack(&mut self, id: StackId) -> i64 {
        let (mut fresh, mut caller, mut next) = (Vec::new(), -1, self.stacks.link(id));
        while let Some(link) = next {
            if let Some(known) = self.known.links.get(&link) {
                caller = *known;
                break;
            }
            let Some((frame, outer)) = self.stacks.follow(link) else { break };
            fresh.push((link, frame));
            next = outer;
        }
        for (link, frame) in fresh.into_iter().rev() {
            caller = self.link(frame, caller);
            self.known.links.insert(link, caller);
        }
        caller
    }

    fn link(&mut self, frame: &Frame, caller: i64) -> i64 {
        let (known, tables) = (&mut self.known, &mut self.tables);
        let function = || frame.function.to_string();
        let function =
            position(&mut known.functions, &mut tables.functions, frame.function.clone(), function);
        let Span { line, column, end_line, end_column } = frame.span;
        let file = self.file(frame);
        let kind = frame.kind as u8;
        let entry = FrameEntry(file, function, line, column, end_line, end_column, kind);
        let frame = position(&mut self.known.frames, &mut self.tables.frames, entry, || entry);
        let entry = StackEntry(frame, caller);
        position(&mut self.known.stacks, &mut self.tables.stacks, entry, || entry).into()
    }

    fn file(&mut self, frame: &Frame) -> u32 {
        if let Some(known) = self.known.files.get(&frame.file) {
            return *known;
        }
        let own = frame.kind == FrameKind::User;
        let edited = own && self.sources.edited.iter().any(|path| **path == *frame.path);
        let read = match frame.kind {
            FrameKind::User => self.sources.text.filter(|_| !edited),
            FrameKind::Library => self.sources.library,
            FrameKind::Jax | FrameKind::Converter => None,
        };
        let text = read.and_then(|read| read(&frame.path));
        let digest = text.as_deref().map(|text| super::text::digest(text.as_bytes()));
        // Installed packages can be looked up by version, unlike the user's own files.
        let text = text.filter(|_| own && self.sources.embed);
        let entry = || FileEntry(frame.file.to_string(), digest, text);
        let file = Arc::clone(&frame.file);
        let position = position(&mut self.known.files, &mut self.tables.files, file, entry);
        if edited {
            self.tables.edited.push(position);
        }
        position
    }

    fn emitter(&mut self, emitter: &Emitter) -> u32 {
        let Emitter { name, stage, at } = *emitter;
        let (file, line) = (at.file(), at.line());
        let entry =
            || EmitterEntry(name.to_owned(), stage.as_str().to_owned(), file.to_owned(), line);
        let key = (name, stage, file, line);
        position(&mut self.known.emitters, &mut self.tables.emitters, key, entry)
    }
}
