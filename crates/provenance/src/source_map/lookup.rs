//! From a name in a model back to the program.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{CallEntry, SourceMap, Tables, default_output};
use crate::Span;
use crate::origin::function;
use crate::renamed::before_inlining;

/// Positions of nodes, by the names of their results and by their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    values: FxHashMap<String, usize>,
    nodes: FxHashMap<String, usize>,
    inputs: FxHashSet<String>,
    /// Positions of callers, by the first call.
    callers: FxHashMap<u32, usize>,
}

/// How many frames of a stack are returned. Python itself allows a thousand.
const DEEPEST: usize = 1000;

/// How many merged sources of a node are returned.
const MOST: usize = 256;

/// A frame as recorded in the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapFrame<'a> {
    /// The file.
    pub file: &'a str,
    /// The function's qualified name.
    pub function: &'a str,
    /// The expression.
    pub span: Span,
    /// Whether it is the user's own code.
    pub is_user: bool,
    /// Whether it is JAX's own code.
    pub is_jax: bool,
}

/// One source of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    /// The frame that represents it, unless all known frames are in JAX.
    pub site: Option<MapFrame<'a>>,
    /// The module instance.
    pub scope: &'a str,
    /// The rule or rewrite that emitted the node, such as `sin.lower:12`.
    pub rule: String,
    /// All frames, innermost first. In an ONNX function, they continue with its first call.
    pub stack: Vec<MapFrame<'a>>,
    /// The frames of the other calls of the functions that contain it, innermost function first.
    pub callers: Vec<Vec<MapFrame<'a>>>,
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
        index.inputs.extend(tables.inputs.iter().cloned());
        Self { tables, index }
    }

    /// How many nodes the map lists.
    pub fn len(&self) -> usize {
        self.tables.nodes.len()
    }

    /// Whether the map lists no nodes.
    pub fn is_empty(&self) -> bool {
        self.tables.nodes.is_empty()
    }

    /// The node that computes the value `name`, or else the node named `name`. Nodes of functions
    /// are also found by the names that inlining gives them.
    pub fn find(&self, name: &str) -> Option<usize> {
        let exact = |name: &str| {
            self.index.values.get(name).or_else(|| self.index.nodes.get(name)).copied()
        };
        exact(name).or_else(|| exact(before_inlining(name)?))
    }

    /// Whether the exported model has a value named `name`: an input or a result. Runtimes name
    /// values that they recompute after the node, so the node's name counts as well.
    pub fn has_value(&self, name: &str) -> bool {
        self.find(name).is_some() || self.index.inputs.contains(name)
    }

    /// The name of a node.
    pub fn node_name(&self, node: usize) -> Option<&str> {
        self.tables.nodes.get(node).map(|entry| entry.0.as_str())
    }

    /// Whether a node calls a function.
    pub fn is_call(&self, node: usize) -> bool {
        let origin =
            self.tables.nodes.get(node).map(|entry| &self.tables.origins[entry.1 as usize]);
        origin.is_some_and(|origin| self.tables.emitters[origin.2 as usize].0 == "onnx_function")
    }

    /// The function node that `name` refers to, if it is a name given by inlining.
    pub fn find_inlined(&self, name: &str) -> Option<usize> {
        let is_exported = self.index.nodes.contains_key(name);
        self.find(before_inlining(name).filter(|_| !is_exported)?)
    }

    /// The sources of a node, its own first.
    pub fn sources(&self, node: usize) -> Vec<Source<'_>> {
        let Some(entry) = self.tables.nodes.get(node) else { return Vec::new() };
        let own = entry.1 as usize;
        let others = self.tables.origins[own].3.iter().take(MOST).map(|other| *other as usize);
        std::iter::once(own).chain(others).map(|origin| self.source(origin)).collect()
    }

    /// A node's own source.
    pub fn own_source(&self, node: usize) -> Option<Source<'_>> {
        self.tables.nodes.get(node).map(|entry| self.source(entry.1 as usize))
    }

    /// The nodes that a node of an optimised model stands for: all those between the values
    /// `inputs` and the values `outputs`, starting with those that compute the outputs.
    pub fn between(&self, inputs: &[&str], outputs: &[&str]) -> Vec<usize> {
        let position = |name: &&str| self.find(name);
        let known: FxHashSet<usize> = inputs.iter().filter_map(position).collect();
        let mut found: Vec<usize> = outputs.iter().filter_map(position).collect();
        let mut seen: FxHashSet<usize> = found.iter().copied().collect();
        // Without a known input there is no boundary, and everything upstream would count.
        if !inputs.iter().any(|name| self.has_value(name)) {
            return found;
        }
        let mut at = 0;
        while at < found.len() {
            for input in &self.tables.nodes[found[at]].2 {
                let input = *input as usize;
                if !known.contains(&input) && seen.insert(input) {
                    found.push(input);
                }
            }
            at += 1;
        }
        found
    }

    /// The digest and the text of a file, if the map has them.
    pub fn file(&self, path: &str) -> Option<(Option<&str>, Option<&str>)> {
        let entry = self.tables.files.iter().find(|entry| entry.0 == path)?;
        Some((entry.1.as_deref(), entry.2.as_deref()))
    }

    fn source(&self, origin: usize) -> Source<'_> {
        let tables = &self.tables;
        let origin = &tables.origins[origin];
        let emitter = &tables.emitters[origin.2 as usize];
        let stack = self.stack(origin.0);
        let site = stack.iter().find(|frame: &&MapFrame<'_>| frame.is_user);
        let site = site.or_else(|| stack.iter().find(|frame| !frame.is_jax)).cloned();
        let rule = format!("{}:{}", function(&emitter.0, &emitter.1), emitter.3);
        let callers = self.callers(origin.0);
        Source { site, scope: &tables.scopes[origin.1 as usize], rule, stack, callers }
    }

    /// The call at a position and those that enclose it.
    fn calls(&self, call: i64) -> impl Iterator<Item = (i64, &CallEntry)> {
        let entry = |call: i64| Some((call, self.tables.calls.get(usize::try_from(call).ok()?)?));
        std::iter::successors(entry(call), move |(_, call)| entry(call.1)).take(DEEPEST)
    }

    fn stack(&self, call: i64) -> Vec<MapFrame<'_>> {
        let mut stack = Vec::new();
        for (_, entry) in self.calls(call) {
            if stack.len() >= DEEPEST {
                break;
            }
            self.frames(entry.0, &mut stack);
        }
        stack
    }

    fn callers(&self, call: i64) -> Vec<Vec<MapFrame<'_>>> {
        let first = |(call, _): (i64, &CallEntry)| u32::try_from(call).ok();
        let functions = self.calls(call).skip(1).filter_map(first);
        let functions = functions.filter_map(|call| self.index.callers.get(&call));
        let others = functions.flat_map(|position| &self.tables.callers[*position].1).take(MOST);
        others.map(|call| self.stack(i64::from(*call))).collect()
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
