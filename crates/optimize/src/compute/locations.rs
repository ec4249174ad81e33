//! Locations in the user's program: finds the pattern that applies to a node.

use onnx::{Graph, NodeId};
use provenance::{Origin, OriginId, Origins, Stacks};
use rustc_hash::FxHashMap;

use crate::wildcard::matches;

/// The source locations of nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program<'a> {
    /// The interned origins.
    pub origins: &'a Origins,
    /// The call stacks, which must be resolved for patterns of lines to match.
    pub stacks: &'a Stacks,
}

/// A matcher that finds the first pattern for each node.
pub(super) struct Locations<'a> {
    program: Program<'a>,
    patterns: Vec<&'a str>,
    known: FxHashMap<OriginId, Option<usize>>,
}

impl<'a> Locations<'a> {
    pub(super) fn new(program: Program<'a>, patterns: Vec<&'a str>) -> Self {
        Self { program, patterns, known: FxHashMap::default() }
    }

    /// Returns the first pattern that matches a location of `id` or a parameter that it reads.
    pub(super) fn find(&mut self, graph: &Graph, id: NodeId) -> Option<usize> {
        let node = graph.node(id);
        let read = node.inputs.iter().flatten().filter(|v| graph.tensor(**v).is_some());
        let read = read.map(|value| graph.value(*value).name.as_str());
        let first = |name: &str| self.patterns.iter().position(|pattern| matches(pattern, name));
        let placed = *self.known.entry(node.origin).or_insert_with(|| {
            names_of(self.program, node.origin).iter().filter_map(|name| first(name)).min()
        });
        // Takes the earliest of all patterns.
        read.filter_map(first).chain(placed).min()
    }
}

/// Returns all names of the locations that a node comes from.
fn names_of(program: Program<'_>, origin: OriginId) -> Vec<String> {
    let origins = program.origins;
    let whole = origins.get(origin);
    let also = whole.also.iter().copied().chain(origins.other_callers(whole));
    // The empty name lets `*` match nodes without a location.
    let mut names = vec![String::new()];
    for source in std::iter::once(whole).chain(also.map(|id| origins.get(id))) {
        names.extend(modules(origins.scope_path(source.scope)));
        names.extend(lines(program, source));
    }
    names
}

/// Returns a module and all modules that contain it.
fn modules(path: &str) -> impl Iterator<Item = String> + '_ {
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.filter(|end| *end > 0).map(|end| path[..end].to_owned())
}

/// Returns all spellings of the line that an origin refers to.
fn lines(program: Program<'_>, origin: &Origin) -> Vec<String> {
    let Some(frame) = program.origins.call_site(origin, program.stacks) else { return Vec::new() };
    let (line, function) = (frame.span.line, &frame.function);
    let name = frame.file.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut found = vec![function.to_string()];
    for file in [&*frame.file, name] {
        found.push(format!("{file}:{line}"));
        found.push(format!("{file}:{line} in {function}"));
    }
    found
}

/// Returns examples of modules and lines that nodes come from, for a message.
pub(super) fn examples(graph: &Graph, program: Program<'_>) -> Vec<String> {
    const LISTED: usize = 3;
    let (mut scopes, mut sites): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for id in graph.all_nodes() {
        let origin = program.origins.get(graph.node(id).origin);
        let scope = program.origins.scope_path(origin.scope).to_owned();
        let site = lines(program, origin).into_iter().nth(1);
        for (list, one) in [(&mut scopes, Some(scope)), (&mut sites, site)] {
            if let Some(one) = one.filter(|one| !one.is_empty() && !list.contains(one))
                && list.len() < LISTED
            {
                list.push(one);
            }
        }
    }
    scopes.into_iter().chain(sites).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_part_of_the_enclosing_modules() {
        let all: Vec<String> = modules("blocks.0/attn/q").collect();
        assert_eq!(all, ["blocks.0", "blocks.0/attn", "blocks.0/attn/q"]);
        assert_eq!(modules("").count(), 0);
    }
}
