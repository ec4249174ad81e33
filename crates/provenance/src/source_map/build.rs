//! Builds the map from a conversion's tables, restricted to entries that nodes refer to.

use std::borrow::Cow;
use std::hash::Hash;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::{
    CallEntry, CallersEntry, EmitterEntry, FileEntry, FrameEntry, IdleEntry, NodeEntry,
    OriginEntry, SourceMap, StackEntry, Tables, VERSION, default_output,
};
use crate::stack::LinkId;
use crate::{CallId, Emitter, Frame, FrameKind, OriginId, Origins, ScopeId, StackId, Stacks};

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

/// A table that gives each distinct entry a position.
struct Interner<T>(IndexSet<T, FxBuildHasher>);

impl<T: Hash + Eq> Interner<T> {
    fn new() -> Self {
        Self(IndexSet::default())
    }

    fn add(&mut self, entry: T) -> u32 {
        u32::try_from(self.0.insert_full(entry).0).unwrap_or(u32::MAX)
    }

    fn finish(self) -> Vec<T> {
        self.0.into_iter().collect()
    }
}

struct Builder<'a> {
    origins: &'a Origins,
    stacks: &'a Stacks,
    function: Option<&'a Frame>,
    sources: Sources<'a>,
    files: Interner<FileEntry>,
    file_positions: FxHashMap<String, u32>,
    edited: Vec<u32>,
    functions: Interner<String>,
    frames: Interner<FrameEntry>,
    links: Interner<StackEntry>,
    scopes: Interner<String>,
    emitters: Interner<EmitterEntry>,
    calls: Interner<CallEntry>,
    callers: Vec<CallersEntry>,
    idle: Vec<IdleEntry>,
    known_links: FxHashMap<LinkId, i64>,
    known_scopes: FxHashMap<ScopeId, u32>,
    known_emitters: FxHashMap<Emitter, u32>,
    known_calls: FxHashMap<CallId, i64>,
    known_origins: FxHashMap<OriginId, u32>,
    entries: Vec<OriginEntry>,
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
        let mut builder = Builder {
            origins,
            stacks,
            function,
            sources,
            files: Interner::new(),
            file_positions: FxHashMap::default(),
            edited: Vec::new(),
            functions: Interner::new(),
            frames: Interner::new(),
            links: Interner::new(),
            scopes: Interner::new(),
            emitters: Interner::new(),
            calls: Interner::new(),
            callers: Vec::new(),
            idle: Vec::new(),
            known_links: FxHashMap::default(),
            known_scopes: FxHashMap::default(),
            known_emitters: FxHashMap::default(),
            known_calls: FxHashMap::default(),
            known_origins: FxHashMap::default(),
            entries: Vec::new(),
        };
        let nodes = nodes.iter().map(|node| builder.node(node)).collect();
        let tables = Tables {
            version: VERSION,
            files: builder.files.finish(),
            edited: builder.edited,
            functions: builder.functions.finish(),
            frames: builder.frames.finish(),
            stacks: builder.links.finish(),
            scopes: builder.scopes.finish(),
            emitters: builder.emitters.finish(),
            calls: builder.calls.finish(),
            callers: builder.callers,
            origins: builder.entries,
            idle: builder.idle,
            inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
            nodes,
        };
        Self::from_tables(tables)
    }
}

impl Builder<'_> {
    fn node(&mut self, node: &MapNode<'_>) -> NodeEntry {
        let usual = |(i, name): (usize, &&str)| default_output(&node.name, i) == **name;
        let outputs = if node.outputs.iter().enumerate().all(usual) && node.outputs.len() == 1 {
            Vec::new()
        } else {
            node.outputs.iter().map(|name| (*name).to_owned()).collect()
        };
        let inputs = node.inputs.iter().filter_map(|i| u32::try_from(*i).ok()).collect();
        NodeEntry(node.name.clone().into_owned(), self.origin(node.origin), inputs, outputs)
    }

    fn origin(&mut self, id: OriginId) -> u32 {
        if let Some(known) = self.known_origins.get(&id) {
            return *known;
        }
        let origin = self.origins.get(id);
        let also: Vec<u32> = origin.also.iter().map(|other| self.origin(*other)).collect();
        let call = match (origin.call, self.function) {
            (Some(call), _) => self.call(call),
            (None, Some(function)) => {
                let stack = self.link(function, -1);
                i64::from(self.calls.add(CallEntry(stack, -1, -1)))
            }
            (None, None) => -1,
        };
        let scope = self.origins.naming_scope(id);
        let path = || self.scopes.add(self.origins.scope_path(scope).to_owned());
        let scope = *self.known_scopes.entry(scope).or_insert_with(path);
        let emitter = self.emitter(&origin.emitter);
        let position = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        if let idle @ [_, ..] = &also[origin.computed..] {
            self.idle.push(IdleEntry(position, idle.to_vec()));
        }
        self.entries.push(OriginEntry(call, scope, emitter, also));
        self.known_origins.insert(id, position);
        position
    }

    fn call(&mut self, id: CallId) -> i64 {
        if let Some(known) = self.known_calls.get(&id) {
            return *known;
        }
        let call = self.origins.get_call(id);
        let (caller, emitter) = match call.caller {
            Some((caller, emitter)) => (self.call(caller), i64::from(self.emitter(&emitter))),
            None => (-1, -1),
        };
        let stack = call.stack.map_or(-1, |stack| self.stack(stack));
        let position = i64::from(self.calls.add(CallEntry(stack, caller, emitter)));
        self.known_calls.insert(id, position);
        let others = self.origins.calls_beside(id).iter();
        let others = others.filter_map(|other| self.origins.get(*other).call);
        let others = others.filter_map(|other| u32::try_from(self.call(other)).ok());
        let others: Vec<u32> = others.collect();
        if let (false, Ok(first)) = (others.is_empty(), u32::try_from(position)) {
            self.callers.push(CallersEntry(first, others));
        }
        position
    }

    /// Adds a stack. Stacks share their tails, so each link is visited once.
    fn stack(&mut self, id: StackId) -> i64 {
        let (mut fresh, mut caller, mut next) = (Vec::new(), -1, self.stacks.link(id));
        while let Some(link) = next {
            if let Some(known) = self.known_links.get(&link) {
                caller = *known;
                break;
            }
            let Some((frame, outer)) = self.stacks.follow(link) else { break };
            fresh.push((link, frame));
            next = outer;
        }
        for (link, frame) in fresh.into_iter().rev() {
            caller = self.link(frame, caller);
            self.known_links.insert(link, caller);
        }
        caller
    }

    fn link(&mut self, frame: &Frame, caller: i64) -> i64 {
        let span = frame.span;
        let entry = FrameEntry(
            self.file(frame),
            self.functions.add(frame.function.to_string()),
            span.line,
            span.column,
            span.end_line,
            span.end_column,
            frame.kind as u8,
        );
        let frame = self.frames.add(entry);
        i64::from(self.links.add(StackEntry(frame, caller)))
    }

    fn file(&mut self, frame: &Frame) -> u32 {
        if let Some(known) = self.file_positions.get(&*frame.file) {
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
        let position = self.files.add(FileEntry(frame.file.to_string(), digest, text));
        self.file_positions.insert(frame.file.to_string(), position);
        if edited {
            self.edited.push(position);
        }
        position
    }

    fn emitter(&mut self, emitter: &Emitter) -> u32 {
        let entry = || {
            self.emitters.add(EmitterEntry(
                emitter.name.to_owned(),
                emitter.stage.as_str().to_owned(),
                emitter.at.file().to_owned(),
                emitter.at.line(),
            ))
        };
        *self.known_emitters.entry(*emitter).or_insert_with(entry)
    }
}
