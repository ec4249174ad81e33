//! Origins of nodes, as recorded in the model.

use std::borrow::Cow;

use provenance::{
    ALSO_FROM, CALLSITE, JAX_TRACEBACK, OR_CALLED_FROM, OtherCall, PLUGIN, Source, Span,
};

use super::open::property;
use super::{Chain, Frame, Index, Lookup, torch};

/// The maximum number of sources listed per node.
const MOST: usize = 256;

/// The maximum number of alternative lines shown in a location.
const PLACES: usize = 2;

/// One source of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin<'m> {
    /// The user's line that represents the source.
    pub(crate) site: Option<Frame<'m>>,
    /// The module instance, levels separated by `/`; empty for the model itself.
    pub(crate) scope: Cow<'m, str>,
    /// The rule or rewrite that emitted the node, or an empty string if it is unknown.
    pub(crate) rule: String,
    /// All frames, innermost first. In an ONNX function, they continue with a call to it.
    pub(crate) stack: Vec<Frame<'m>>,
    /// The alternatives: the origins for other calls to the ONNX functions that contain the node,
    /// or for other lines that it may come from. It is unknown which one applies.
    pub(crate) others: Vec<Origin<'m>>,
    /// `true` if the operation had no effect, so that the node does not compute it.
    pub(crate) is_idle: bool,
}

impl<'m> Origin<'m> {
    /// Returns this origin and its alternatives.
    pub(crate) fn possible(&self) -> impl Iterator<Item = &Origin<'m>> {
        std::iter::once(self).chain(&self.others)
    }

    /// Returns the distinct lines of this origin and its alternatives.
    pub(crate) fn sites(&self) -> Vec<&Frame<'m>> {
        let mut sites: Vec<&Frame<'m>> = Vec::new();
        for site in self.possible().filter_map(|origin| origin.site.as_ref()) {
            if !sites.iter().any(|known| known.place() == site.place()) {
                sites.push(site);
            }
        }
        sites
    }

    /// Returns the innermost frame outside of JAX.
    fn innermost(&self) -> Option<&Frame<'m>> {
        self.stack.iter().find(|frame| !frame.is_jax)
    }

    /// Returns `true` if the alternatives are other calls to the same line.
    pub(crate) fn has_other_calls(&self) -> bool {
        self.others.iter().all(|other| other.innermost() == self.innermost())
    }

    /// Formats the line, `model.py:11`, and the alternatives.
    pub(crate) fn place(&self) -> Option<String> {
        let sites = self.sites();
        let (first, others) = sites.split_first()?;
        let mut text = first.place();
        for (i, other) in others.iter().enumerate() {
            if i == PLACES {
                text.push_str(&format!(" or {} more", others.len() - i));
                break;
            }
            let is_near = (other.file, other.function) == (first.file, first.function);
            let place = if is_near { other.span.line.to_string() } else { other.place() };
            text.push_str(&format!(" or {place}"));
        }
        Some(text)
    }
}

/// Returns one origin with all others as its alternatives.
fn alternatives(origins: Vec<Origin<'_>>) -> Vec<Origin<'_>> {
    let mut origins = origins.into_iter();
    let Some(first) = origins.next() else { return Vec::new() };
    vec![Origin { others: origins.take(MOST).collect(), ..first }]
}

impl<'m> Index<'m> {
    /// Returns the sources of a node, its own first; empty if nothing is known.
    pub(crate) fn origins(&self, node: usize) -> Vec<Origin<'m>> {
        self.origins_in(node, &self.calls().chains(self, node))
    }

    /// Returns the sources of a node that a runtime calls `name`.
    pub(crate) fn origins_as(&self, node: usize, name: &str) -> Vec<Origin<'m>> {
        self.origins_in(node, &self.calls().of_name(self, node, name))
    }

    /// Returns the sources of a node that is reached through one of `chains`.
    pub(crate) fn origins_in(&self, node: usize, chains: &[Chain]) -> Vec<Origin<'m>> {
        let alone = [Chain::new()];
        let chains = if chains.is_empty() { &alone } else { chains };
        let mut found: Vec<Origin<'m>> = Vec::new();
        for (at, chain) in chains.iter().enumerate() {
            let origins = self.origins_of(node, chain);
            if at == 0 {
                found = origins;
                continue;
            }
            for (own, other) in found.iter_mut().zip(origins) {
                let is_new = own.possible().all(|own| !own.is_like(&other));
                if is_new && own.others.len() < MOST {
                    own.others.push(Origin { others: Vec::new(), ..other });
                }
            }
        }
        found
    }

    /// Returns the sources of a node that is reached through the calls `chain`.
    pub(crate) fn origins_of(&self, node: usize, chain: &[usize]) -> Vec<Origin<'m>> {
        if let (Some(map), Some(fused)) = (&self.model.map, &self.fused) {
            let named = |call: &usize| map.find(&self.nodes[*call].proto.name);
            let calls: Vec<usize> = chain.iter().map_while(named).collect();
            let (sources, is_ambiguous) = match calls.is_empty() {
                true => fused.possible_sources(node),
                false => {
                    let exported = fused.exported(node).into_iter();
                    (exported.flat_map(|exported| map.sources(exported, &calls)).collect(), false)
                }
            };
            let found = distinct(sources);
            let found = if is_ambiguous { alternatives(found) } else { found };
            if !found.is_empty() {
                return found;
            }
        }
        self.called_by(node, chain)
    }

    /// Returns the sources of a node in the source map, given its position there.
    pub(crate) fn exported_origins(&self, node: usize) -> Vec<Origin<'m>> {
        let map = self.model.map.as_ref();
        map.map(|map| distinct(map.sources(node, &[]))).unwrap_or_default()
    }

    /// Returns the sources of the node that was named `name` when the model was exported.
    pub(crate) fn origins_of_name(&self, name: &str) -> Vec<Origin<'m>> {
        let map = self.model.map.as_ref();
        map.and_then(|map| map.find(name)).map(|n| self.exported_origins(n)).unwrap_or_default()
    }

    /// Returns the first source of a node.
    pub(crate) fn origin(&self, node: usize) -> Option<Origin<'m>> {
        self.origins(node).into_iter().next()
    }

    /// Returns the module instance that a node belongs to, from its origin or else from its name.
    /// In a function, it starts with the function's name.
    pub(crate) fn scope(&self, node: usize) -> Cow<'m, str> {
        let fused = self.fused.as_ref().filter(|_| self.function_body(node).is_none());
        let own = match fused {
            Some(fused) => fused.own_source(node).map(|source| source.scope),
            None => self.fused.as_ref().and_then(|fused| fused.body_scope(node)).map(Cow::Borrowed),
        };
        let own = own.filter(|scope| !scope.is_empty());
        let proto = self.nodes[node].proto;
        own.or_else(|| torch::scope(&proto.metadata_props))
            .unwrap_or_else(|| Cow::Borrowed(scope_of_name(&proto.name)))
    }

    /// Returns the origins in a node's own metadata.
    pub(super) fn of_metadata(&self, node: usize) -> Vec<Origin<'m>> {
        let proto = self.nodes[node].proto;
        let props = &proto.metadata_props;
        let scope = Cow::Borrowed(scope_of_name(&proto.name));
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
            return torch::origin(props).into_iter().collect();
        }
        // The call site identifies the user's frame, and the frame has the file.
        let same = |frame: &&Frame<'m>| {
            let place = |frame: &Frame<'m>| (frame.function, frame.span.line);
            site.as_ref().is_some_and(|site| place(site) == place(frame))
        };
        let site = stack.iter().find(same).copied().or(site);
        if let Some(file) = site.as_ref().map(|site| site.file) {
            let others = others.iter_mut().filter(|(is_caller, _)| *is_caller);
            let callers = others.flat_map(|(_, stack)| stack);
            stack.iter_mut().chain(callers).for_each(|frame| frame.is_user = frame.file == file);
        }
        let site = site.map(|site| Frame { is_user: true, ..site });
        let (callers, merged): (Vec<_>, Vec<_>) = others.into_iter().partition(|other| other.0);
        let own = Origin { site, scope: scope.clone(), rule, stack, ..Origin::default() };
        let others = callers.into_iter().map(|(_, caller)| own.called_from(&caller)).collect();
        let merged = merged.into_iter().map(|(_, stack)| {
            let site = stack.iter().find(|frame| !frame.is_jax).copied();
            let (scope, rule) = (scope.clone(), String::new());
            Origin { site, scope, rule, stack, ..Origin::default() }
        });
        std::iter::once(Origin { others, ..own.clone() }).chain(merged).collect()
    }
}

/// Returns the file that `wanted` refers to: the same path, or one that ends with it.
pub(crate) fn named_file<'m>(files: &[&'m str], wanted: &str) -> Option<&'m str> {
    let wanted = wanted.replace('\\', "/");
    let wanted = wanted.strip_prefix("./").unwrap_or(&wanted);
    let ends = |long: &str, short: &str| {
        long.strip_suffix(short).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    let exact = files.iter().find(|known| **known == wanted);
    let mut similar = files.iter().filter(|known| ends(known, wanted) || ends(wanted, known));
    exact.or_else(|| similar.next()).copied()
}

/// Converts sources of the source map to origins without duplicates. The nodes of one expression
/// share an origin.
fn distinct<'m>(sources: Vec<Source<'m>>) -> Vec<Origin<'m>> {
    let mut found: Vec<Origin<'m>> = Vec::new();
    for source in sources.into_iter().take(MOST) {
        let origin = origin_of_map(source);
        match found.iter_mut().find(|known| known.is_like(&origin)) {
            Some(known) => known.is_idle &= origin.is_idle,
            None => found.push(origin),
        }
    }
    found
}

fn origin_of_map<'m>(source: Source<'m>) -> Origin<'m> {
    let Source { site, scope, rule, stack, others, is_idle } = source;
    let origin = Origin { site, scope, rule, stack, others: Vec::new(), is_idle };
    let other =
        |other: OtherCall<'m>| Origin { site: other.site, stack: other.stack, ..origin.clone() };
    Origin { others: others.into_iter().map(other).collect(), ..origin.clone() }
}

/// Parses `Block.__call__:41`.
fn frame_of_call_site(text: &str) -> Option<Frame<'_>> {
    let (function, line) = text.rsplit_once(':')?;
    Some(frame("", function, line.parse().ok()?, true))
}

/// Parses `model.py:41 (Block.__call__)`.
fn frame_of_traceback(text: &str) -> Option<Frame<'_>> {
    let (place, function) = text.strip_suffix(')')?.split_once(" (")?;
    let (file, line) = place.rsplit_once(':')?;
    Some(frame(file, function, line.parse().ok()?, false))
}

fn frame<'m>(file: &'m str, function: &'m str, line: u32, is_user: bool) -> Frame<'m> {
    let span = Span { line, column: 0, end_line: line, end_column: 0 };
    Frame { file, function, span, is_user, is_jax: file.starts_with("jax/") }
}

/// Returns the module in a node's name: `blocks.3/q` for `/blocks.3/q/MatMul`.
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

    fn of_line(file: &'static str, function: &'static str, line: u32) -> Origin<'static> {
        let site = frame(file, function, line, true);
        Origin { site: Some(site), stack: vec![site], ..Origin::default() }
    }

    #[test]
    fn a_place_lists_few_alternatives() {
        let with = |others: Vec<Origin<'static>>| Origin { others, ..of_line("m.py", "f", 3) };
        let place = |others| with(others).place().unwrap();
        assert_eq!(place(vec![]), "m.py:3");
        let near = |line| of_line("m.py", "f", line);
        assert_eq!(place(vec![near(3), near(5)]), "m.py:3 or 5", "each line once");
        assert_eq!(place(vec![near(5), of_line("m.py", "g", 7)]), "m.py:3 or 5 or m.py:7");
        assert_eq!(place(vec![near(5), of_line("n.py", "f", 7)]), "m.py:3 or 5 or n.py:7");
        assert_eq!(place(vec![near(5), near(6), near(7), near(8)]), "m.py:3 or 5 or 6 or 2 more");
        assert_eq!(Origin::default().place(), None);
    }

    #[test]
    fn alternatives_are_calls_if_they_share_the_innermost_line() {
        let jax = frame("jax/x.py", "bind", 1, false);
        let inner = frame("m.py", "layer", 3, true);
        let calls = |first: Frame<'static>, line| Origin {
            stack: vec![jax, first, frame("m.py", "main", line, true)],
            ..Origin::default()
        };
        let own = |others| Origin { others, ..calls(inner, 7) };
        assert!(own(vec![calls(inner, 9)]).has_other_calls());
        assert!(!own(vec![calls(frame("m.py", "layer", 4, true), 7)]).has_other_calls());
    }

    /// Returns the site, the stack and the alternatives of each origin in the metadata of a node.
    fn in_metadata(props: &[(&str, &str)]) -> Vec<(String, Vec<String>, Vec<String>)> {
        use onnx_file::proto::{GraphProto, ModelProto, NodeProto, StringStringEntryProto};
        let entry = |(key, value): &(&str, &str)| StringStringEntryProto {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        let metadata_props = props.iter().map(entry).collect();
        let node = NodeProto { name: "/up/Sin".to_owned(), metadata_props, ..Default::default() };
        let graph = Some(GraphProto { node: vec![node], ..Default::default() });
        let proto = ModelProto { graph, ..Default::default() };
        let model =
            super::super::Model { path: None, proto, map: None, map_path: None, remarks: vec![] };
        let index = Index::new(&model);
        let text = |frame: &Frame<'_>| {
            format!("{}{}", if frame.is_user { "*" } else { "" }, frame.place())
        };
        let origins = index.of_metadata(0);
        let texts = origins.iter().map(|origin| {
            let others = origin.others.iter().filter_map(|o| o.site.as_ref()).map(text);
            let site = origin.site.as_ref().map(text).unwrap_or_default();
            (site, origin.stack.iter().map(text).collect(), others.collect())
        });
        texts.collect()
    }

    #[test]
    fn full_metadata_names_merged_sources_and_other_calls() {
        let traceback = "jax/x.py:1 (bind)\nlib.py:2 (dot)\nm.py:3 (f)\nn.py:4 (main)\nalso \
                         from:\njax/x.py:1 (bind)\nm.py:5 (h)\nor called from:\nm.py:8 (main)";
        let found = in_metadata(&[(CALLSITE, "f:3"), (JAX_TRACEBACK, traceback)]);
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            found,
            [
                (
                    "*m.py:3".to_owned(),
                    texts(&["jax/x.py:1", "lib.py:2", "*m.py:3", "n.py:4"]),
                    texts(&["*m.py:3"]),
                ),
                ("m.py:5".to_owned(), texts(&["jax/x.py:1", "m.py:5"]), texts(&[])),
            ]
        );
    }

    #[test]
    fn less_metadata_is_read_as_far_as_it_goes() {
        assert_eq!(in_metadata(&[]), []);
        assert_eq!(in_metadata(&[(CALLSITE, "f:3")]), [("*f:3".to_owned(), vec![], vec![])]);
        assert_eq!(in_metadata(&[(PLUGIN, "sin.lower:1")]).len(), 1);
        let stack = in_metadata(&[(JAX_TRACEBACK, "m.py:3 (f)")]);
        assert_eq!(stack, [(String::new(), vec!["m.py:3".to_owned()], vec![])]);
    }
}
