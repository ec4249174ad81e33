//! Handwritten protobuf messages.

/// Encodes a field that holds bytes.
pub(crate) fn field(number: u64, contents: &[u8]) -> Vec<u8> {
    let mut bytes = varint(number << 3 | 2);
    bytes.extend(varint(contents.len() as u64));
    bytes.extend_from_slice(contents);
    bytes
}

/// Encodes a field that holds a number.
pub(crate) fn number(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
    bytes
}

/// Encodes a model with this graph.
pub(crate) fn model(graph: &[u8]) -> Vec<u8> {
    let opset = field(8, &number(2, 23));
    [number(1, 10), opset, field(7, graph)].concat()
}

/// Encodes a node with these fields.
pub(crate) fn node(name: &str, inputs: &[&str], outputs: &[&str], op: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    inputs.iter().for_each(|input| bytes.extend(field(1, input.as_bytes())));
    outputs.iter().for_each(|output| bytes.extend(field(2, output.as_bytes())));
    bytes.extend(field(3, name.as_bytes()));
    bytes.extend(field(4, op.as_bytes()));
    field(1, &bytes)
}
