//! Where a node came from, as far as the model records it.

use provenance::{
    ALSO_FROM, CALLSITE, JAX_TRACEBACK, MapFrame, OR_CALLED_FROM, PLUGIN, Source, SourceMap, Span,
};

use super::Index;
use super::open::property;

/// How many sources of a node are listed.
const MOST: usize = 256;

/// A frame of the user's call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'m> {
    /// The file, or an empty string if only the function is known.
    pub(crate) file: &'m str,
    /// The function's qualified name.
    pub(crate) function: &'m str,
    /// The expression; both columns are 0 if only the line is known.
    pub(crate) span: Span,
    /// Whether it is the user's own code.
    pub(crate) is_user: bool,
    /// Whether it is JAX's own code.
    pub(crate) is_jax: bool,
}

/// One source of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin<'m> {
    /// The user's line that it is shown as.
    pub(crate) site: Option<Frame<'m>>,
    /// The module instance, levels separated by `/`; empty for the model itself.
    pub(crate) scope: &'m str,
    /// The rule or rewrite that emitted the node, or an empty string if it is unknown.
    pub(crate) rule: String,
    /// All frames, innermost first. In an ONNX function, they continue with its first call.
    pub(crate) stack: Vec<Frame<'m>>,
    /// The frames of the other calls of the ONNX functions that contain it.
    pub(crate) callers: Vec<Vec<Frame<'m>>>,
}

impl Frame<'_> {
    /// `file:line`, or `function:line` if the file is unknown.
    pub(crate) fn place(&self) -> String {
        let whose = if self.file.is_empty() { self.function } else { self.file };
        format!("{whose}:{}", self.span.line)
    }

    /// Whether the columns are known.
    pub(crate) fn has_columns(&self) -> bool {
        self.span.end_column > 0
    }
}

impl<'m> Index<'m> {
    /// The sources of a node, its own first; empty if nothing is known.
    pub(crate) fn origins(&self, node: usize) -> Vec<Origin<'m>> {
        if let Some(map) = &self.model.map {
            let exported = self.exported(node);
            let found = origins_of(map, &exported);
            if !found.is_empty() {
                return found;
            }
        }
        self.of_metadata(node)
    }

    /// The sources of a node in the source map, by its position there.
    pub(crate) fn exported_origins(&self, node: usize) -> Vec<Origin<'m>> {
        self.model.map.as_ref().map(|map| origins_of(map, &[node])).unwrap_or_default()
    }

    /// The sources of the node that was named `name` when the model was exported.
    pub(crate) fn origins_of_name(&self, name: &str) -> Vec<Origin<'m>> {
        let Some(map) = &self.model.map else { return Vec::new() };
        map.find(name).map(|node| origins_of(map, &[node])).unwrap_or_default()
    }

    /// The first source of a node.
    pub(crate) fn origin(&self, node: usize) -> Option<Origin<'m>> {
        let map = self.model.map.as_ref();
        let own = map.and_then(|map| map.own_source(*self.exported(node).first()?));
        let own = own.as_ref().map(origin_of_map);
        own.or_else(|| self.of_metadata(node).into_iter().next())
    }

    /// The module instance that a node belongs to: by its origin, or else by its name.
    pub(crate) fn scope(&self, node: usize) -> &'m str {
        let known = self.origin(node).filter(|origin| !origin.scope.is_empty());
        known.map_or_else(|| scope_of_name(&self.nodes[node].proto.name), |origin| origin.scope)
    }

    fn of_metadata(&self, node: usize) -> Vec<Origin<'m>> {
        let proto = self.nodes[node].proto;
        let props = &proto.metadata_props;
        let scope = scope_of_name(&proto.name);
        let rule = property(props, PLUGIN).unwrap_or_default().to_owned();
        let site = property(props, CALLSITE).and_then(frame_of_call_site);
        let stacks = property(props, JAX_TRACEBACK).unwrap_or_default();
        let mut stack: Vec<Frame<'m>> = Vec::new();
        let mut others: Vec<(bool, Vec<Frame<'m>>)> = Vec::new();
        for line in stacks.lines() {
            if line == ALSO_FROM || line == OR_CALLED_FROM {
                others.push((line == OR_CALLED_FROM, Vec::new()));
            } else {
                let open = others.last_mut().map_or(&mut stack, |(_, stack)| stack);
                open.extend(frame_of_traceback(line));
            }
        }
        if site.is_none() && rule.is_empty() && stack.is_empty() {
            return Vec::new();
        }
        // The call site says which frame is the user's, and the frame has the file.
        let same = |frame: &&Frame<'m>| {
            let place = |frame: &Frame<'m>| (frame.function, frame.span.line);
            site.as_ref().is_some_and(|site| place(site) == place(frame))
        };
        let site = stack.iter().find(same).cloned().or(site);
        if let Some(file) = site.as_ref().map(|site| site.file) {
            let others = others.iter_mut().filter(|(is_caller, _)| *is_caller);
            let callers = others.flat_map(|(_, stack)| stack);
            stack.iter_mut().chain(callers).for_each(|frame| frame.is_user = frame.file == file);
        }
        let site = site.map(|site| Frame { is_user: true, ..site });
        let (callers, merged): (Vec<_>, Vec<_>) = others.into_iter().partition(|other| other.0);
        let callers = callers.into_iter().map(|(_, stack)| stack).collect();
        let own = Origin { site, scope, rule, stack, callers };
        let merged = merged.into_iter().map(|(_, stack)| {
            let site = stack.iter().find(|frame| !frame.is_jax).cloned();
            Origin { site, scope, rule: String::new(), stack, callers: Vec::new() }
        });
        std::iter::once(own).chain(merged).collect()
    }
}

/// The sources of nodes in the source map, without repetition: the nodes of one expression share
/// one.
fn origins_of<'m>(map: &'m SourceMap, nodes: &[usize]) -> Vec<Origin<'m>> {
    let mut found: Vec<Origin<'m>> = Vec::new();
    for source in nodes.iter().flat_map(|node| map.sources(*node)).take(MOST) {
        let origin = origin_of_map(&source);
        if !found.iter().any(|o| (&o.stack, o.scope) == (&origin.stack, origin.scope)) {
            found.push(origin);
        }
    }
    found
}

fn origin_of_map<'m>(source: &Source<'m>) -> Origin<'m> {
    Origin {
        site: source.site.as_ref().map(frame_of_map),
        scope: source.scope,
        rule: source.rule.clone(),
        stack: source.stack.iter().map(frame_of_map).collect(),
        callers: source.callers.iter().map(|s| s.iter().map(frame_of_map).collect()).collect(),
    }
}

fn frame_of_map<'m>(frame: &MapFrame<'m>) -> Frame<'m> {
    let MapFrame { file, function, span, is_user, is_jax } = *frame;
    Frame { file, function, span, is_user, is_jax }
}

/// `Block.__call__:41`
fn frame_of_call_site(text: &str) -> Option<Frame<'_>> {
    let (function, line) = text.rsplit_once(':')?;
    Some(frame("", function, line.parse().ok()?, true))
}

/// `model.py:41 (Block.__call__)`
fn frame_of_traceback(text: &str) -> Option<Frame<'_>> {
    let (place, function) = text.strip_suffix(')')?.split_once(" (")?;
    let (file, line) = place.rsplit_once(':')?;
    Some(frame(file, function, line.parse().ok()?, false))
}

fn frame<'m>(file: &'m str, function: &'m str, line: u32, is_user: bool) -> Frame<'m> {
    let span = Span { line, column: 0, end_line: line, end_column: 0 };
    Frame { file, function, span, is_user, is_jax: file.starts_with("jax/") }
}

/// `/blocks.3/q/MatMul` → `blocks.3/q`
fn scope_of_name(name: &str) -> &str {
    let path = name.strip_prefix('/').unwrap_or_default();
    let whole = path.strip_suffix('/').unwrap_or(path);
    let own = match whole.rsplit_once('/') {
        // onnxruntime appends the name of a fusion to a node's name: `/q/Mul_4/QuickGeluFusion/`.
        Some((own, last)) if last.ends_with("Fusion") => own,
        _ => whole,
    };
    own.rsplit_once('/').map_or("", |(scope, _)| scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_contain_modules() {
        for (name, scope) in [
            ("/blocks.3/q/MatMul", "blocks.3/q"),
            ("/MatMul", ""),
            ("a/b", ""),
            ("/Mul_4/QuickGeluFusion/", ""),
            ("/q/MatMul/MatMulAddFusion", "q"),
            ("", ""),
            ("//", ""),
        ] {
            assert_eq!(scope_of_name(name), scope, "{name}");
        }
    }
}
