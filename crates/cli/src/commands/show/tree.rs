//! Nodes as a tree, nested by module and by subgraph.

use rustc_hash::FxHashMap;

use super::row;
use crate::model::{BodyKind, FrameChoice, Index, Nesting};

/// The maximum number of module levels shown. Deeper levels are collapsed into one.
const LEVELS: usize = 32;

/// A module, with its nodes and submodules in order of first appearance.
#[derive(Default)]
struct Module {
    name: String,
    items: Vec<Item>,
    known: FxHashMap<String, usize>,
}

enum Item {
    Module(usize),
    Node(usize),
}

struct Tree<'a, 'm> {
    index: &'a Index<'m>,
    nesting: &'a Nesting<'m>,
    choice: &'a FrameChoice,
    rows: Vec<Vec<String>>,
}

pub(super) fn rows(index: &Index<'_>, choice: &FrameChoice) -> Vec<Vec<String>> {
    let nesting = Nesting::new(index);
    let mut tree = Tree { index, nesting: &nesting, choice, rows: Vec::new() };
    for (position, body) in index.bodies.iter().enumerate() {
        match body.kind {
            BodyKind::Main => tree.body(position, "", 0),
            BodyKind::Function(function) => {
                let name = format!("{}.{}", function.domain, function.name);
                tree.rows.push(vec![format!("function {}", name.trim_start_matches('.'))]);
                tree.body(position, "", 1);
            }
            BodyKind::Inner(..) => {}
        }
    }
    tree.rows
}

impl Tree<'_, '_> {
    /// Adds the nodes of a body, grouped by the modules below `outer`.
    fn body(&mut self, body: usize, outer: &str, depth: usize) {
        let mut modules = vec![Module::default()];
        for &node in &self.nesting.members[body] {
            let scope = self.index.scope(node);
            let scope = match scope.strip_prefix(outer) {
                Some(rest) if rest.starts_with('/') => &rest[1..],
                Some(rest) if rest.is_empty() || outer.is_empty() => rest,
                _ => &scope,
            };
            let mut at = 0;
            for name in scope.splitn(LEVELS, '/').filter(|name| !name.is_empty()) {
                at = enter(&mut modules, at, name);
            }
            modules[at].items.push(Item::Node(node));
        }
        self.module(&modules, 0, depth);
    }

    fn module(&mut self, modules: &[Module], at: usize, depth: usize) {
        for item in &modules[at].items {
            match *item {
                Item::Module(inner) => {
                    self.rows.push(vec![format!("{}{}/", "  ".repeat(depth), modules[inner].name)]);
                    self.module(modules, inner, depth + 1);
                }
                Item::Node(node) => self.node(node, depth),
            }
        }
    }

    fn node(&mut self, node: usize, depth: usize) {
        let name = label(&self.index.nodes[node].proto.name);
        let label = format!("{}{name}", "  ".repeat(depth));
        self.rows.push(row(self.index, node, label, self.choice));
        for &(attribute, body) in self.nesting.inside(node) {
            self.rows.push(vec![format!("{}{attribute}:", "  ".repeat(depth + 1))]);
            let scope = self.index.scope(node);
            self.body(body, &scope, depth + 2);
        }
    }
}

fn enter(modules: &mut Vec<Module>, at: usize, name: &str) -> usize {
    if let Some(known) = modules[at].known.get(name) {
        return *known;
    }
    let new = modules.len();
    modules.push(Module { name: name.to_owned(), ..Module::default() });
    modules[at].known.insert(name.to_owned(), new);
    modules[at].items.push(Item::Module(new));
    new
}

/// Returns the last component of a name that begins with `/`; other names are shown in full.
fn label(name: &str) -> &str {
    let last = name.strip_prefix('/').and_then(|path| path.rsplit('/').next());
    match last.unwrap_or(name) {
        "" if name.is_empty() => "(no name)",
        "" => name,
        last => last,
    }
}

#[cfg(test)]
mod tests {
    use onnx_file::proto::{AttributeProto, GraphProto, ModelProto, NodeProto};

    use super::*;
    use crate::model::Model;

    #[test]
    fn modules_inside_a_node_are_relative_to_it() {
        let node = |name: &str| NodeProto { name: name.to_owned(), ..NodeProto::default() };
        let graph = |names: &[&str]| GraphProto {
            node: names.iter().map(|name| node(name)).collect(),
            ..GraphProto::default()
        };
        let inner = graph(&["/b/up/Add", "/bx/Mul", "/b/Neg", "/Sub"]);
        let mut main = graph(&["/b/Loop", "plain", "", "/a/b/c/Add"]);
        main.node[0].attribute.push(AttributeProto {
            name: "body".to_owned(),
            g: Some(Box::new(inner)),
            ..AttributeProto::default()
        });
        let proto = ModelProto { graph: Some(main), ..ModelProto::default() };
        let model = Model { path: None, proto, map: None, map_path: None, remarks: vec![] };
        let rows = rows(&Index::new(&model), &FrameChoice::default());
        let labels: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(
            labels,
            [
                "b/",
                "  Loop",
                "    body:",
                "      up/",
                "        Add",
                "      bx/",
                "        Mul",
                "      Neg",
                "      Sub",
                "plain",
                "(no name)",
                "a/",
                "  b/",
                "    c/",
                "      Add",
            ]
        );
    }

    #[test]
    fn labels_are_last_components() {
        let labels = ["", "/", "/a/b", "a/b", "/a/"].map(label);
        assert_eq!(labels, ["(no name)", "/", "b", "a/b", "/a/"]);
    }
}
