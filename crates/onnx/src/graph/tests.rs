use provenance::{Origins, Stage};

use super::*;
use crate::text::parse;
use crate::{Editor, verify};

fn graph(text: &str) -> Graph {
    parse(text, &mut Origins::default()).unwrap()
}

#[test]
fn a_mask_of_padding_is_a_matrix_of_integers() {
    for (input, is_mask) in [
        ("int64[B,T] attention_mask", true),
        ("int64[B,T] mask", false),
        ("float[B,T] attention_mask", false),
        ("int64[T] attention_mask", false),
        ("int64[B,1,T] attention_mask", false),
    ] {
        let mut graph =
            graph(&format!("g ({input}, int64[B,T] x) => (int64[B,T] y) {{ y = Neg (x) }}"));
        assert_eq!(graph.mask_of_padding(), None);
        graph.assumptions = std::iter::once(Assumption::PaddedPrompts).collect();
        assert_eq!(graph.mask_of_padding().is_some(), is_mask, "{input}");
    }
}

#[test]
fn only_vectors_and_scalars_are_shapes() {
    let mut graph = Graph::new("g");
    let mut content = |shape: &[usize]| {
        let bytes = vec![0; 8 * shape.iter().product::<usize>()];
        let tensor = Tensor::new(DType::I64, shape, std::sync::Arc::new(bytes)).unwrap();
        let value = graph.add_constant(tensor);
        graph.content(value).map(|dims| dims.len())
    };
    assert_eq!([content(&[]), content(&[2]), content(&[1, 2])], [Some(1), Some(2), None]);
}

#[test]
fn small_constants_are_shared() {
    let mut graph = Graph::new("g");
    let [a, b] = [0; 2].map(|_| graph.intern_constant(Tensor::i64s(&[7; 8])));
    assert_eq!(a, b);
    let [a, b] = [0; 2].map(|_| graph.intern_constant(Tensor::i64s(&[7; 9])));
    assert_ne!(a, b);
    let shared = graph.intern_constant(Tensor::i64s(&[1]));
    graph.set_name(shared, "parameter".to_owned());
    assert_ne!(graph.intern_constant(Tensor::i64s(&[1])), shared);
}

#[test]
fn only_constants_are_replaced_by_constants() {
    let mut graph = graph(
        "g (float x) => (float y) {
            one = Constant <value_float = 1.0> () two = Constant <value_float = 2.0> ()
            t = Add (x, one) y = Add (t, two) }",
    );
    let node = graph.nodes_of(Graph::MAIN).next().unwrap();
    let [x, one] = [0, 1].map(|i| graph.node(node).input(i).unwrap());
    let two = graph.node(graph.nodes_of(Graph::MAIN).nth(1).unwrap()).input(1).unwrap();
    graph.set_constant(node, 0, two);
    graph.set_constant(node, 1, x);
    assert_eq!(graph.node(node).inputs, [Some(x), Some(one)]);
    graph.set_constant(node, 1, two);
    assert_eq!(graph.node(node).inputs, [Some(x), Some(two)]);
    verify(&graph, None).unwrap();
}

#[test]
fn replacements_are_known_if_they_are_recorded() {
    for is_recorded in [false, true] {
        let mut graph =
            graph("g (float x) => (float y) { t = Neg (x) u = Abs (t) v = Exp (u) y = Neg (v) }");
        if is_recorded {
            graph.remember_replacements();
        }
        let nodes: Vec<NodeId> = graph.nodes_of(Graph::MAIN).collect();
        let [t, u, v] = [0, 1, 2].map(|i| graph.node(nodes[i]).outputs[0]);
        let mut origins = Origins::default();
        let mut editor = Editor::new(&mut graph, &mut origins, Stage::Rewrite);
        editor.replace_uses(v, u);
        editor.replace_uses(u, t);
        drop(editor);
        assert_eq!(graph.replacement(v), if is_recorded { t } else { v });
        assert_eq!(graph.replacement(t), t);
    }
}

#[test]
fn a_node_is_listed_in_its_own_block() {
    let mut graph = graph(
        "g (bool c, float x) => (float y) {
            y = If (c) <then_branch = t () => (float p) { p = Neg (x) },
            else_branch = e () => (float q) { q = Abs (x) }> }",
    );
    let inner = graph.all_nodes()[1];
    graph.nodes[inner.index()].as_mut().unwrap().block = Graph::MAIN;
    let error = verify(&graph, None).unwrap_err().to_string();
    assert!(error.contains("is listed in a block that it does not belong to"), "{error}");
}
