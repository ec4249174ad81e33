//! Nodes grouped by line, operator or rule.

use rustc_hash::FxHashMap;

use super::{By, row};
use crate::excerpt::Excerpts;
use crate::model::Index;

pub(super) fn rows(index: &Index<'_>, by: By) -> Vec<Vec<String>> {
    let excerpts = Excerpts::new(index.model);
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    let mut known: FxHashMap<String, usize> = FxHashMap::default();
    for position in 0..index.nodes.len() {
        let key = key(index, position, by);
        let at = *known.entry(key.clone()).or_insert_with(|| {
            groups.push((heading(index, &excerpts, position, by, key), Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(position);
    }
    if by != By::Line {
        // Lines are in program order. Other groups are most useful when sorted by size.
        groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    }
    let mut rows = Vec::new();
    for (heading, nodes) in groups {
        rows.push(vec![format!("{heading} · {}", nodes.len())]);
        for node in nodes {
            let name = &index.nodes[node].proto.name;
            rows.push(row(index, node, format!("  {name}")));
        }
    }
    rows
}

fn key(index: &Index<'_>, node: usize, by: By) -> String {
    let origin = || index.origin(node).unwrap_or_default();
    match by {
        By::Op => index.nodes[node].op(),
        By::Line => origin().place().unwrap_or_default(),
        // A rule's line is too fine-grained here.
        By::Rule => origin().rule.rsplit_once(':').map_or("", |(rule, _)| rule).to_owned(),
        By::Module => index.scope(node).into_owned(),
    }
}

fn heading(index: &Index<'_>, excerpts: &Excerpts<'_>, node: usize, by: By, key: String) -> String {
    if key.is_empty() {
        return "(unknown)".to_owned();
    }
    let site = index.origin(node).and_then(|origin| origin.site);
    match site.filter(|_| by == By::Line) {
        Some(site) => match excerpts.line(site.file, site.span.line) {
            Some(line) => format!("{key} in {}: {}", site.function, line.trim()),
            None => format!("{key} in {}", site.function),
        },
        None => key,
    }
}
