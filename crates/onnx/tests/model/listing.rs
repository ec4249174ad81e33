use insta::assert_snapshot;
use onnx::{EncodeOptions, Listing, encode, read};

use crate::sample::sample;

fn listing() -> Listing {
    let bytes = encode(&sample().graph, &EncodeOptions::new(23)).unwrap().to_bytes().unwrap();
    let mut model = read(bytes).unwrap();
    let graph = model.graph.as_mut().unwrap();
    let mut spare = graph.input[0].clone();
    spare.name = "spare".into();
    graph.input.push(spare);
    let entry = onnx::proto::StringStringEntryProto { key: "k".into(), value: "v".into() };
    graph.node[0].metadata_props.push(entry);
    Listing::new(&model)
}

#[test]
fn a_model_is_listed_line_by_line() {
    assert_snapshot!(listing().text(true));
    let without = listing().text(false);
    assert!(listing().text(true).lines().count() > without.lines().count());
}

#[test]
fn inputs_that_nothing_reads_are_known() {
    assert_eq!(listing().unused_inputs(), ["spare"]);
}

#[test]
fn constants_and_nodes_are_listed() {
    let listing = listing();
    assert_snapshot!("constants", listing.constants().collect::<Vec<_>>().join("\n"));
    let node = |n: &onnx::ListedNode| format!("{:?}", n.results().collect::<Vec<_>>());
    assert_snapshot!("nodes", listing.nodes().map(node).collect::<Vec<_>>().join("\n"));
}
