use provenance::Origins;

use super::*;
use crate::attrs;
use crate::text::parse;

/// A graph whose nodes are labelled by scopes that stand for equations.
struct Edited {
    graph: Graph,
    origins: Origins,
}

impl Edited {
    fn new(nodes: &str) -> Self {
        let mut origins = Origins::default();
        let quoted = |label: &str| label.replacen(']', "\"]", 1);
        let nodes = nodes.split("[/").map(quoted).collect::<Vec<_>>().join("[\"/");
        let text = format!("g (float[2,3] x, bool c) => (float[2,3] y) {{ {nodes} }}");
        let graph = parse(&text, &mut origins).unwrap();
        Self { graph, origins }
    }

    fn editor(&mut self) -> Editor<'_> {
        Editor::new(&mut self.graph, &mut self.origins, Stage::Rewrite)
    }

    fn node(&self, name: &str) -> NodeId {
        let mut nodes = self.graph.all_nodes().into_iter();
        nodes.find(|id| self.graph.node(*id).name == name).unwrap()
    }

    fn result(&self, name: &str) -> ValueId {
        self.graph.node(self.node(name)).outputs[0]
    }

    /// Replaces the node `root` by the results of these operators, each applied to the one before. Returns the nodes.
    fn replace(&mut self, root: &str, operators: &[&'static str]) -> Vec<NodeId> {
        let (root, mut value) = (self.node(root), self.graph.block(Graph::MAIN).inputs[0]);
        let mut editor = self.editor();
        let mark = editor.mark();
        for op in operators {
            let attrs = if *op == "Transpose" {
                attrs! { perm: vec![0, 1] }
            } else {
                Attrs::new()
            };
            value = editor.builder("test", root).op(op, &[value], attrs).unwrap();
        }
        let fresh = editor.added_since(mark);
        editor.replace("test", root, &[value], &fresh).unwrap();
        fresh
    }

    /// Returns the scopes of the equations that a node represents: its own, others that it computes, and those that
    /// had no effect.
    fn sources(&self, node: NodeId) -> (String, Vec<String>, Vec<String>) {
        let origin = self.origins.get(self.graph.node(node).origin);
        let path = |scope| self.origins.scope_path(scope).to_string();
        let also: Vec<_> = origin.also.iter().map(|id| path(self.origins.get(*id).scope)).collect();
        let (computed, idle) = also.split_at(origin.computed);
        (path(origin.scope), computed.to_vec(), idle.to_vec())
    }
}

fn sources(own: &str, computed: &[&str], idle: &[&str]) -> (String, Vec<String>, Vec<String>) {
    let list = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
    (own.to_owned(), list(computed), list(idle))
}

#[test]
fn a_replacement_represents_everything_that_was_computed_only_for_it() {
    let mut edited = Edited::new("[/a/Neg] t = Neg (x) [/b/Abs] y = Abs (t)");
    let fresh = edited.replace("/b/Abs", &["Exp"]);
    assert_eq!(edited.sources(fresh[0]), sources("b", &["a"], &[]));
}

#[test]
fn a_movement_computes_nothing_beside_a_node_that_does() {
    let nodes = "[/a/Neg] t = Neg (x) [/b/Abs] y = Abs (t)";
    let mut edited = Edited::new(nodes);
    let fresh = edited.replace("/b/Abs", &["Transpose", "Exp"]);
    assert_eq!(edited.sources(fresh[0]), sources("b", &[], &["a"]));
    assert_eq!(edited.sources(fresh[1]), sources("b", &["a"], &[]));
    // Alone, it stands for the computation.
    let mut edited = Edited::new(nodes);
    let fresh = edited.replace("/b/Abs", &["Transpose"]);
    assert_eq!(edited.sources(fresh[0]), sources("b", &["a"], &[]));
    // A removed movement is not computed by another operator.
    let mut edited =
        Edited::new("[/a/Transpose] t = Transpose <perm = [0, 1]> (x) [/b/Abs] y = Abs (t)");
    let fresh = edited.replace("/b/Abs", &["Exp"]);
    assert_eq!(edited.sources(fresh[0]), sources("b", &[], &["a"]));
}

#[test]
fn nodes_without_effect_are_inherited_as_such() {
    let mut edited = Edited::new("[/a/Exp] t = Exp (x) [/b/Neg] u = Neg (t) [/c/Abs] y = Abs (u)");
    let (root, with) = (edited.node("/b/Neg"), edited.result("/a/Exp"));
    edited.editor().replace("test", root, &[with], &[]).unwrap();
    assert_eq!(edited.sources(edited.node("/a/Exp")), sources("a", &[], &["b"]));
}

#[test]
fn an_equation_is_represented_by_its_other_nodes() {
    for (reader, expected) in
        [("/b/Abs", sources("a", &[], &[])), ("/c/Abs", sources("a", &["b"], &[]))]
    {
        let nodes = format!("[/a/Exp] t = Exp (x) [/b/Exp] u = Exp (x) [{reader}] y = Abs (u)");
        let mut edited = Edited::new(&nodes);
        let (root, with) = (edited.node("/b/Exp"), edited.result("/a/Exp"));
        edited.editor().unite("test", root, &[with]).unwrap();
        assert_eq!(edited.sources(edited.node("/a/Exp")), expected, "{reader}");
    }
}

#[test]
fn a_block_that_never_runs_is_emptied() {
    let mut edited = Edited::new(
        "[/a/If] y = If (c) <then_branch = t () => (float[2,3] p) { q = Exp (x) p = Neg (q) },
        else_branch = e () => (float[2,3] r) { r = Abs (x) }>",
    );
    let block = edited.graph.node(edited.node("/a/If")).subgraph("then_branch").unwrap();
    edited.editor().clear_block(block);
    assert_eq!(edited.graph.nodes_of(block).count(), 0);
    assert!(edited.graph.block(block).outputs().is_empty());
    let x = edited.graph.block(Graph::MAIN).inputs[0];
    assert_eq!(edited.graph.value(x).uses().count(), 1);
}

#[test]
fn results_have_the_number_and_types_of_the_replaced_ones() {
    let mut edited = Edited::new("[/a/Exp] t = Exp (x) [/b/Neg] y = Neg (t)");
    let (root, x) = (edited.node("/b/Neg"), edited.graph.block(Graph::MAIN).inputs.clone());
    let error = edited.editor().replace("test", root, &[x[0], x[0]], &[]).unwrap_err();
    assert_eq!(error.to_string(), "replaced 1 results by 2");
    let error = edited.editor().replace("test", root, &[x[1]], &[]).unwrap_err();
    assert_eq!(error.to_string(), "replaced a value of type f32[2,3] by one of type bool[]");
}
