//! Origins of nodes, and the operations that merge them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::{FrameKind, StackId, Stacks, id};

id! {
    /// An equation's context: its stack and the equations that enclose it.
    pub CallId
}
id! {
    /// A module path such as `blocks.3/attn/q`.
    pub ScopeId
}
id! {
    /// Identifies the origin of a node.
    pub OriginId
}

/// An equation and the equations it is nested in, innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The equation's own stack, up to the enclosing equation.
    pub stack: Option<StackId>,
    /// The enclosing equation, and the emitter that was lowering it.
    pub caller: Option<(CallId, Emitter)>,
}

/// A stage of the conversion that emits nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// A lowering rule, named after its primitive.
    Lower,
    /// A rewrite of the optimiser.
    Rewrite,
    /// Adaptation to the target runtime.
    Legalize,
    /// A lowering rule that the user wrote, named after its function.
    Custom,
}

impl Stage {
    /// Returns the stage's name in source maps.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Lower => "lower",
            Stage::Rewrite => "rewrite",
            Stage::Legalize => "legalize",
            Stage::Custom => "custom",
        }
    }
}

/// The primitive of an equation that calls an ONNX function, and the name of its lowering rule.
pub const FUNCTION_CALL: &str = "onnx_function";

/// The location of the statement that emitted a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// A statement of this project.
    Native(&'static Location<'static>),
    /// A statement of the user: the file as displayed, and the line.
    Custom(&'static str, u32),
    /// A row of a table in this file. The line is always 1, so that edits to other rows do not
    /// change the location.
    Row(&'static str),
}

impl Site {
    /// Returns the file.
    pub fn file(&self) -> &'static str {
        match self {
            Site::Native(at) => at.file(),
            Site::Custom(file, _) | Site::Row(file) => file,
        }
    }

    /// Returns the line, counted from 1.
    pub fn line(&self) -> u32 {
        match self {
            Site::Native(at) => at.line(),
            Site::Custom(_, line) => *line,
            Site::Row(_) => 1,
        }
    }
}

impl From<&'static Location<'static>> for Site {
    fn from(at: &'static Location<'static>) -> Self {
        Site::Native(at)
    }
}

/// The code that emitted a node: `sin.lower` and the line in its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitter {
    /// The name of the rule or rewrite.
    pub name: &'static str,
    /// The stage that the rule belongs to.
    pub stage: Stage,
    /// The file and line of the statement that emitted the node.
    pub at: Site,
}

/// Hashes only the line. It distinguishes the statements that emit nodes for one equation, and
/// hashes faster than names and paths.
impl Hash for Emitter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at.line().hash(state);
    }
}

impl Emitter {
    /// Returns the displayed name: `sin.lower`, or the name of the user's function.
    pub fn function(&self) -> String {
        self.stage.of(self.name)
    }
}

impl Stage {
    /// Returns the displayed name of the rule `name` in this stage.
    pub fn of(self, name: &str) -> String {
        function(name, self.as_str())
    }
}

/// Returns the displayed name of the rule `name` in a stage.
pub(crate) fn function(name: &str, stage: &str) -> String {
    if stage == Stage::Custom.as_str() { name.to_owned() } else { format!("{name}.{stage}") }
}

/// Writes the function and the line: `sin.lower:12`.
impl fmt::Display for Emitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.function(), self.at.line())
    }
}

/// The origin of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The equation that the node computes; `None` at the model's boundary.
    pub call: Option<CallId>,
    /// The module that the node belongs to.
    pub scope: ScopeId,
    /// The code that emitted the node.
    pub emitter: Emitter,
    /// Other origins that were merged into this one, deduplicated and flattened.
    pub also: Arc<[OriginId]>,
    /// The number of these whose operations the node computes. Those of the others had no effect.
    pub computed: usize,
}

/// The fate of the operation of a removed node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Merged {
    /// Another node computes it.
    Yes,
    /// It had no effect.
    No,
}

type FxIndexSet<T> = IndexSet<T, FxBuildHasher>;

/// All origins of one conversion.
#[derive(Debug)]
pub struct Origins {
    calls: FxIndexSet<Call>,
    scopes: FxIndexSet<Arc<str>>,
    origins: FxIndexSet<Origin>,
    none: Arc<[OriginId]>,
    /// The most recently requested scope: its parent, its path relative to the parent, and its id.
    latest: Option<(ScopeId, String, ScopeId)>,
    /// The other calls to each function, by its first call.
    callers: FxHashMap<CallId, Vec<OriginId>>,
    /// Scopes made of functions, for origins that belong to no module.
    functions: FxHashMap<OriginId, ScopeId>,
}

impl Default for Origins {
    fn default() -> Self {
        let mut scopes = FxIndexSet::default();
        scopes.insert("".into());
        Self {
            calls: FxIndexSet::default(),
            scopes,
            origins: FxIndexSet::default(),
            none: Arc::new([]),
            latest: None,
            callers: FxHashMap::default(),
            functions: FxHashMap::default(),
        }
    }
}

impl Origins {
    /// The scope of the model itself.
    pub const ROOT: ScopeId = ScopeId(0);

    /// Reserves capacity for the origins of a program with this many equations.
    pub fn reserve(&mut self, equations: usize) {
        self.calls.reserve(equations);
        self.origins.reserve(3 * equations);
    }

    /// Interns the context of an equation.
    pub fn call(&mut self, call: Call) -> CallId {
        CallId::from_index(self.calls.insert_full(call).0)
    }

    /// Interns the scope `path` inside `parent`.
    pub fn scope(&mut self, parent: ScopeId, path: &str) -> ScopeId {
        if path.is_empty() {
            return parent;
        }
        // Most equations are in the same scope as their predecessor.
        if let Some((outer, inner, known)) = &self.latest
            && *outer == parent
            && inner == path
        {
            return *known;
        }
        let outer = &self.scopes[parent.index()];
        let full = if outer.is_empty() { path.into() } else { format!("{outer}/{path}").into() };
        let scope = ScopeId::from_index(self.scopes.insert_full(full).0);
        self.latest = Some((parent, path.to_owned(), scope));
        scope
    }

    /// Interns the origin of a freshly lowered node.
    pub fn origin(&mut self, call: Option<CallId>, scope: ScopeId, emitter: Emitter) -> OriginId {
        let also = Arc::clone(&self.none);
        self.intern(Origin { call, scope, emitter, also, computed: 0 })
    }

    fn intern(&mut self, origin: Origin) -> OriginId {
        OriginId::from_index(self.origins.insert_full(origin).0)
    }

    /// Returns the origin of a node that `emitter` emits in place of one with the origin `replaced`.
    pub fn renew(&mut self, replaced: OriginId, emitter: Emitter) -> OriginId {
        let origin = Origin { emitter, ..self.get(replaced).clone() };
        self.intern(origin)
    }

    /// Returns the origin `primary` with the sources of `others`, which the same node represents.
    pub fn absorb(&mut self, primary: OriginId, others: &[(OriginId, Merged)]) -> OriginId {
        let kept = self.get(primary);
        let (mut computed, mut idle) = (Vec::new(), Vec::new());
        let mut add = |own: Option<OriginId>, origin: &Origin, merged: Merged| {
            let (parts, rest) = origin.also.split_at(origin.computed);
            let into = if merged == Merged::Yes { &mut computed } else { &mut idle };
            into.extend(own);
            into.extend_from_slice(parts);
            idle.extend_from_slice(rest);
        };
        add(None, kept, Merged::Yes);
        for &(other, merged) in others {
            add(Some(other), self.get(other), merged);
        }
        let source = |id: &OriginId| (self.get(*id).call, self.get(*id).scope);
        let most = 1 + computed.len() + idle.len();
        let mut seen = FxHashSet::with_capacity_and_hasher(most, FxBuildHasher);
        seen.insert((kept.call, kept.scope));
        computed.retain(|id| seen.insert(source(id)));
        idle.retain(|id| seen.insert(source(id)));
        let number = computed.len();
        computed.append(&mut idle);
        let origin = Origin { also: computed.into(), computed: number, ..kept.clone() };
        self.intern(origin)
    }

    /// Records that another node calls the function that `first` calls.
    pub fn called_again(&mut self, first: CallId, by: OriginId) {
        self.callers.entry(first).or_default().push(by);
    }

    /// Keeps one call to each function per distinct call stack. Stacks must be resolved.
    pub fn merge_callers(&mut self, stacks: &Stacks) {
        let mut callers = std::mem::take(&mut self.callers);
        for (first, others) in &mut callers {
            let lines = |call: Option<CallId>| -> Vec<_> {
                let chain = call.into_iter().flat_map(|call| self.chain(call));
                chain.map(|(stack, _)| stack.and_then(|stack| stacks.link(stack))).collect()
            };
            let mut seen = FxHashSet::from_iter([lines(Some(*first))]);
            others.retain(|other| seen.insert(lines(self.get(*other).call)));
        }
        self.callers = callers;
    }

    /// Returns the other calls to the function whose first call is `first`.
    pub(crate) fn calls_beside(&self, first: CallId) -> &[OriginId] {
        self.callers.get(&first).map_or(&[], Vec::as_slice)
    }

    /// Returns the other callers of the functions that contain `origin`, innermost function first.
    pub fn other_callers(&self, origin: &Origin) -> impl Iterator<Item = OriginId> {
        let caller = |call: CallId| self.get_call(call).caller.map(|(caller, _)| caller);
        let calls = std::iter::successors(origin.call.and_then(caller), move |call| caller(*call));
        calls.filter_map(|call| self.callers.get(&call)).flatten().copied()
    }

    /// Gives origins without a module a scope made of the functions on their stacks, below the
    /// converted function. Stacks must be resolved.
    pub fn scope_by_functions(&mut self, stacks: &Stacks) {
        for at in 0..self.origins.len() {
            let origin = &self.origins[at];
            if origin.scope != Self::ROOT {
                continue;
            }
            let path = self.functions_of(origin, stacks).join("/");
            let scope = self.scope(Self::ROOT, &path);
            self.functions.insert(OriginId::from_index(at), scope);
        }
    }

    /// Returns the functions that an equation is in, from the outside in, without the converted
    /// function and without JAX's.
    fn functions_of(&self, origin: &Origin, stacks: &Stacks) -> Vec<String> {
        let frames = self.frames(origin, stacks);
        let ours = frames.filter(|f| matches!(f.kind, FrameKind::User | FrameKind::Library));
        let functions: Vec<Option<String>> =
            ours.map(|frame| plain_name(&frame.function)).collect();
        let mut path: Vec<String> = Vec::new();
        for name in functions.into_iter().rev().skip(1).flatten() {
            if path.last() != Some(&name) && path.len() < LEVELS {
                path.push(name);
            }
        }
        path
    }

    /// Returns the scope that an origin's node is named after.
    pub fn naming_scope(&self, id: OriginId) -> ScopeId {
        self.functions.get(&id).copied().unwrap_or_else(|| self.get(id).scope)
    }

    /// Returns the origin with this id.
    pub fn get(&self, id: OriginId) -> &Origin {
        &self.origins[id.index()]
    }

    /// Returns the call with this id.
    pub(crate) fn get_call(&self, id: CallId) -> Call {
        self.calls[id.index()]
    }

    /// Returns the path of a scope, with levels separated by `/`; empty for the model itself.
    pub fn scope_path(&self, id: ScopeId) -> &str {
        &self.scopes[id.index()]
    }

    /// Returns the equations of `call`, innermost first. Each comes with the emitter that was
    /// lowering it when it descended into the previous one (`None` for the first).
    pub fn chain(&self, call: CallId) -> impl Iterator<Item = (Option<StackId>, Option<Emitter>)> {
        let mut next = Some((call, None));
        std::iter::from_fn(move || {
            let (id, emitter) = next?;
            let call = &self.calls[id.index()];
            next = call.caller.map(|(id, emitter)| (id, Some(emitter)));
            Some((call.stack, emitter))
        })
    }
}

/// The largest number of functions in a scope.
const LEVELS: usize = 8;

/// Returns the last part of a qualified name. Lambdas, comprehensions and modules have none.
fn plain_name(function: &str) -> Option<String> {
    let last = function.rsplit('.').next().unwrap_or(function);
    let is_name = !last.is_empty() && last.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then(|| last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_scopes_where_no_module_is() {
        let (mut origins, mut stacks) = (Origins::default(), Stacks::default());
        let frame = |kind, function: &str| Frame {
            file: "m.py".into(),
            path: "/m.py".into(),
            function: function.into(),
            span: Span::default(),
            kind,
        };
        let frames = [
            frame(FrameKind::Jax, "add"),
            frame(FrameKind::Library, "State._apply.<locals>.<lambda>"),
            frame(FrameKind::Library, "State._apply"),
            frame(FrameKind::Jax, "vmap"),
            frame(FrameKind::Library, "Env.step"),
            frame(FrameKind::User, "play"),
        ];
        let ids: Vec<_> = frames.into_iter().map(|frame| stacks.intern(frame)).collect();
        let stack = stacks.reserve();
        stacks.resolve(stack, &ids);
        let call = Some(origins.call(Call { stack: Some(stack), caller: None }));
        let free = origins.origin(call, Origins::ROOT, emitter("add"));
        let norm = origins.scope(Origins::ROOT, "norm");
        let module = origins.origin(call, norm, emitter("add"));
        origins.scope_by_functions(&stacks);
        let named = |id| origins.scope_path(origins.naming_scope(id));
        assert_eq!([named(free), named(module)], ["step/_apply", "norm"]);
        assert_eq!(origins.get(free).scope, Origins::ROOT);
    }
    use crate::{Frame, FrameKind, Span};

    fn emitter(name: &'static str) -> Emitter {
        Emitter { name, stage: Stage::Lower, at: Location::caller().into() }
    }

    #[test]
    fn scopes_nest() {
        let mut origins = Origins::default();
        let block = origins.scope(Origins::ROOT, "blocks.3");
        let q = origins.scope(block, "attn/q");
        assert_eq!(origins.scope_path(q), "blocks.3/attn/q");
        assert_eq!(origins.scope(q, ""), q);
    }

    #[test]
    fn callers_of_one_line_are_one() {
        let mut origins = Origins::default();
        let mut stacks = Stacks::default();
        let frame = |line| Frame {
            file: "m.py".into(),
            path: "/m.py".into(),
            function: "f".into(),
            span: Span { line, ..Span::default() },
            kind: FrameKind::User,
        };
        let mut call = |line, caller| {
            let stack = stacks.reserve();
            let frame = stacks.intern(frame(line));
            stacks.resolve(stack, &[frame]);
            origins.call(Call { stack: Some(stack), caller })
        };
        let e = emitter(FUNCTION_CALL);
        let [first, again, other, third] = [1, 1, 2, 2].map(|line| call(line, None));
        let body = call(9, Some((first, e)));
        let calls = [again, other, third].map(|c| origins.origin(Some(c), Origins::ROOT, e));
        calls.iter().for_each(|origin| origins.called_again(first, *origin));
        origins.merge_callers(&stacks);
        let body = origins.origin(Some(body), Origins::ROOT, e);
        let others: Vec<_> = origins.other_callers(origins.get(body)).collect();
        assert_eq!(others, [calls[1]]);
        // The first call itself is not inside the function.
        let first = origins.origin(Some(first), Origins::ROOT, e);
        assert_eq!(origins.other_callers(origins.get(first)).count(), 0);
    }

    #[test]
    fn a_rule_of_the_user_goes_by_its_own_name() {
        assert!(emitter("sin").to_string().starts_with("sin.lower:"));
        let at = Site::Custom("rules.py", 7);
        let custom = Emitter { name: "lower_sin", stage: Stage::Custom, at };
        assert_eq!(custom.to_string(), "lower_sin:7");
    }

    #[test]
    fn merging_keeps_every_source_once() {
        let mut origins = Origins::default();
        let call = |origins: &mut Origins, n: usize| {
            let stack = Some(StackId::from_index(n));
            origins.call(Call { stack, caller: None })
        };
        let e = emitter("add");
        let ids: Vec<_> = (0..3)
            .map(|n| {
                let call = call(&mut origins, n);
                origins.origin(Some(call), Origins::ROOT, e)
            })
            .collect();
        let ab = origins.absorb(ids[0], &[(ids[1], Merged::Yes)]);
        let abc = origins.absorb(ab, &[ids[2], ids[1], ids[0]].map(|id| (id, Merged::Yes)));
        let abc = origins.renew(abc, emitter("fuse"));
        assert_eq!(origins.get(abc).call, origins.get(ids[0]).call);
        assert_eq!(*origins.get(abc).also, [ids[1], ids[2]]);
        assert_eq!(origins.get(abc).emitter.name, "fuse");
        let idle = origins.absorb(ids[0], &[(ids[2], Merged::No), (ids[1], Merged::Yes)]);
        let outer = call(&mut origins, 3);
        let outer = origins.origin(Some(outer), Origins::ROOT, e);
        let outer = origins.absorb(outer, &[(idle, Merged::Yes)]);
        let outer = origins.get(outer);
        assert_eq!((&outer.also[..], outer.computed), (&[idle, ids[1], ids[2]][..], 2));
        let both = origins.absorb(idle, &[(ids[2], Merged::Yes)]);
        assert_eq!(origins.get(both).computed, 2, "computed here, and without effect there");
        let kept = origins.absorb(ids[0], &[(ids[1], Merged::Yes)]);
        assert_eq!(origins.get(kept).emitter.name, "add");
    }

    #[test]
    fn scopes_made_of_functions_are_short() {
        let (mut origins, mut stacks) = (Origins::default(), Stacks::default());
        let names = ["k", "j", "i", "h", "g", "f", "e", "d", "c", "b", "b", "a", "main"];
        let frames = names.map(|name| {
            stacks.intern(Frame {
                file: "m.py".into(),
                path: "/m.py".into(),
                function: name.into(),
                span: Span::default(),
                kind: FrameKind::User,
            })
        });
        let stack = stacks.reserve();
        stacks.resolve(stack, &frames);
        let call = origins.call(Call { stack: Some(stack), caller: None });
        let origin = origins.origin(Some(call), Origins::ROOT, emitter("add"));
        origins.scope_by_functions(&stacks);
        assert_eq!(origins.scope_path(origins.naming_scope(origin)), "a/b/c/d/e/f/g/h");
    }
}
