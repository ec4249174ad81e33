//! Division of the time by line, by module and by operator.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::{Attributed, Target, Time};
use crate::FxIndexSet;
use crate::model::{Frame, FrameChoice, Index, Origin, enclosing};

/// A line of the user's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Site<'m> {
    /// The file, or an empty string if only the function is known.
    pub(crate) file: &'m str,
    pub(crate) line: u32,
    pub(crate) function: &'m str,
}

impl<'m> Site<'m> {
    /// Returns the file, or the function if the file is unknown.
    pub(crate) fn whose(&self) -> &'m str {
        if self.file.is_empty() { self.function } else { self.file }
    }
}

impl<'m> From<&Frame<'m>> for Site<'m> {
    fn from(frame: &Frame<'m>) -> Self {
        Site { file: frame.file, line: frame.span.line, function: frame.function }
    }
}

pub(crate) type Times<K> = FxHashMap<K, Time>;
pub(crate) type Lines<'m> = Times<Site<'m>>;

/// The time of a profile, divided in three ways. Each division adds up to the total.
#[derive(Debug, Default)]
pub(crate) struct Shares<'m> {
    /// Times by line. If a node comes from several lines, or its line is ambiguous, each line gets
    /// an equal share.
    pub(crate) lines: Lines<'m>,
    /// Times of the lines of libraries below a line, by the path from that line inwards. If a node
    /// comes from several of them, each gets an equal share of the line's time.
    pub(crate) below: FxHashMap<Site<'m>, Times<Vec<Site<'m>>>>,
    /// Times by name, for nodes whose line is unknown.
    pub(crate) lost: Times<String>,
    pub(crate) modules: Times<String>,
    /// Times by operator, with the number of calls.
    pub(crate) ops: FxHashMap<String, (Time, u64)>,
    /// Times by stack, outermost first: stacks of calls, and stacks of modules.
    pub(crate) stacks: [Times<Vec<String>>; 2],
}

/// The lines of libraries below a line, and an origin with them.
type Unfolded<'o, 'm> = (Vec<Site<'m>>, &'o Origin<'m>);

/// The label for kernels that belong to no module.
pub(crate) const RUNTIME: &str = "(added by the runtime)";

/// Divides the time of `attributed` among the sources of the nodes of `index`. Lines unfold into the
/// chosen lines of libraries.
pub(crate) fn share<'m>(
    index: &Index<'m>,
    attributed: &Attributed<'_>,
    choice: &FrameChoice,
) -> Shares<'m> {
    let mut shares = Shares::default();
    // A lambda and the function around it share lines.
    let mut functions: FxHashMap<(&'m str, u32), &'m str> = FxHashMap::default();
    for (kernel, target) in attributed {
        let origins = target.origins(index);
        // Each line, with its paths into libraries and an origin for each.
        let mut sites: Vec<(Site<'m>, Vec<Unfolded<'_, 'm>>)> = Vec::new();
        for origin in origins.iter().flat_map(Origin::possible) {
            let Some(frame) = &origin.site else { continue };
            let (file, line) = (frame.file, frame.span.line);
            let function = match file {
                "" => frame.function,
                _ => functions.entry((file, line)).or_insert(frame.function),
            };
            let site = Site { file, line, function };
            let path: Vec<Site<'m>> = choice.below(origin).into_iter().map(Site::from).collect();
            match sites.iter_mut().find(|(known, _)| *known == site) {
                None => sites.push((site, vec![(path, origin)])),
                // The innermost line counts, however many lines above it are chosen.
                Some((_, paths)) if paths.iter().any(|(known, _)| known.last() == path.last()) => {}
                Some((_, paths)) => paths.push((path, origin)),
            }
        }
        if sites.is_empty() {
            *shares.lost.entry(kernel.name.clone()).or_default() += kernel.time;
            let stack = vec![RUNTIME.to_owned(), kernel.op.clone()];
            *shares.stacks[0].entry(stack).or_default() += kernel.time;
        }
        let parts = kernel.time.split(sites.len());
        for ((site, paths), time) in sites.into_iter().zip(parts) {
            *shares.lines.entry(site).or_default() += time;
            let parts = time.split(paths.len());
            for ((path, origin), time) in paths.into_iter().zip(parts) {
                if !path.is_empty() {
                    *shares.below.entry(site).or_default().entry(path).or_default() += time;
                }
                *shares.stacks[0].entry(calls(origin, &kernel.op)).or_default() += time;
            }
        }
        let scopes: FxIndexSet<Cow<'m, str>> = match target {
            Target::Unknown => [Cow::Borrowed(RUNTIME)].into_iter().collect(),
            Target::Node(node, ..) if origins.is_empty() => {
                [index.scope(*node)].into_iter().collect()
            }
            _ => origins.iter().flat_map(Origin::possible).map(|o| o.scope.clone()).collect(),
        };
        for (scope, time) in scopes.iter().zip(kernel.time.split(scopes.len())) {
            *shares.modules.entry(scope.to_string()).or_default() += time;
            let mut stack: Vec<String> =
                scope.split('/').filter(|s| !s.is_empty()).map(str::to_owned).collect();
            stack.push(kernel.op.clone());
            *shares.stacks[1].entry(stack).or_default() += time;
        }
        let op = shares.ops.entry(kernel.op.clone()).or_default();
        op.0 += kernel.time;
        op.1 += kernel.calls;
    }
    shares
}

/// A line of a library with its time, which includes that of the lines below it.
#[derive(Debug)]
pub(crate) struct Below<'m> {
    pub(crate) site: Site<'m>,
    /// The number of lines of libraries above it.
    pub(crate) depth: usize,
    pub(crate) time: Time,
}

impl<'m> Shares<'m> {
    /// Returns the lines of libraries below a line, as a tree with the slowest line of each level
    /// first.
    pub(crate) fn below(&self, site: &Site<'m>) -> Vec<Below<'m>> {
        let mut found = Vec::new();
        let paths: Vec<(&[Site<'m>], Time)> =
            self.below.get(site).into_iter().flatten().map(|(p, t)| (p.as_slice(), *t)).collect();
        add_below(&paths, 0, &mut found);
        found
    }
}

fn add_below<'m>(paths: &[(&[Site<'m>], Time)], depth: usize, into: &mut Vec<Below<'m>>) {
    let mut lines: FxHashMap<Site<'m>, Vec<(&[Site<'m>], Time)>> = FxHashMap::default();
    for (path, time) in paths {
        if let Some((first, rest)) = path.split_first() {
            lines.entry(*first).or_default().push((rest, *time));
        }
    }
    let mut lines: Vec<_> = lines
        .into_iter()
        .map(|(site, rest)| (rest.iter().map(|(_, time)| *time).sum::<Time>(), site, rest))
        .collect();
    lines.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    for (time, site, rest) in lines {
        into.push(Below { site, depth, time });
        add_below(&rest, depth + 1, into);
    }
}

/// Returns the functions on the stack of an origin, outermost first, then the operator.
fn calls(origin: &Origin<'_>, op: &str) -> Vec<String> {
    let frames = origin.stack.iter().rev().filter(|frame| !frame.is_jax);
    let mut calls: Vec<String> =
        frames.map(|f| format!("{} ({})", f.function, f.place())).collect();
    if calls.is_empty() {
        calls.extend(origin.site.as_ref().map(|f| format!("{} ({})", f.function, f.place())));
    }
    calls.push(op.to_owned());
    calls
}

/// Returns the time of each module, including its submodules.
pub(crate) fn inclusive(modules: &Times<String>) -> Times<&str> {
    let mut all: Times<&str> = FxHashMap::default();
    for (scope, &time) in modules {
        for outer in enclosing(scope) {
            *all.entry(outer).or_default() += time;
        }
        if scope.is_empty() {
            *all.entry("").or_default() += time;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_include_their_submodules() {
        let modules = [("", 1), ("a/b", 10), ("a", 100), ("ab", 1000)];
        let modules = modules.map(|(scope, ns)| (scope.to_owned(), Time { median: 0, ns }));
        let modules = modules.into_iter().collect();
        let mut all: Vec<_> = inclusive(&modules).iter().map(|(s, time)| (*s, time.ns)).collect();
        all.sort_unstable();
        assert_eq!(all, [("", 1), ("a", 110), ("a/b", 10), ("ab", 1000)]);
    }
}
