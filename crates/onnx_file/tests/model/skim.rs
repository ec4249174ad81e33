use onnx_file::proto::ModelProto;
use onnx_file::{EncodeOptions, KEPT, encode, read, skim};
use prost::Message;
use prost::bytes::Bytes;

use crate::sample::sample;

fn model() -> ModelProto {
    let bytes = encode(&sample().graph, &EncodeOptions::new(23)).unwrap().to_bytes().unwrap();
    read(bytes).unwrap()
}

/// The sample has subgraphs, functions, attributes, types and small tensors.
#[test]
fn everything_but_bulk_data_is_kept() {
    let mut model = model();
    model.doc_string = "x".repeat(KEPT + 1);
    let graph = model.graph.as_mut().unwrap();
    graph.initializer[0].raw_data = Some(Bytes::from(vec![7; KEPT]));
    assert!(skim(&model.encode_to_vec()).unwrap() == model);
    let graph = model.graph.as_mut().unwrap();
    assert!(graph.node.iter().any(|node| node.attribute.iter().any(|a| a.g.is_some())));
    graph.initializer[0].raw_data = Some(Bytes::from(vec![7; KEPT + 1]));
    graph.node[0].attribute.push(onnx_file::proto::AttributeProto {
        name: "blob".into(),
        s: Some(Bytes::from(vec![b'x'; KEPT + 1])),
        r#type: 3,
        ..Default::default()
    });
    let skimmed = skim(&model.encode_to_vec()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.initializer[0].raw_data = None;
    graph.node[0].attribute.last_mut().unwrap().s = None;
    assert!(skimmed == model);
}

/// Data may be split into many small fields, and a part of it would look complete.
#[test]
fn data_is_kept_as_a_whole_or_not_at_all() {
    let mut model = model();
    let tensor = &mut model.graph.as_mut().unwrap().initializer[0];
    tensor.raw_data = None;
    tensor.string_data = vec![Bytes::from_static(b"word"); KEPT];
    let skimmed = skim(&model.encode_to_vec()).unwrap();
    assert!(skimmed.graph.unwrap().initializer[0].string_data.is_empty());
}

#[test]
fn the_distribution_over_devices_is_dropped() {
    let plain = model();
    let mut placed = plain.clone();
    placed.configuration = vec![Bytes::from_static(b"\x0a\x03gpu")];
    placed.graph.as_mut().unwrap().node[0].device_configurations = placed.configuration.clone();
    assert!(read(placed.encode_to_vec()).unwrap() == placed);
    assert!(skim(&placed.encode_to_vec()).unwrap() == skim(&plain.encode_to_vec()).unwrap());
}
