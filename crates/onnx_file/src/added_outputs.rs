//! Turns values of a model's main graph into additional outputs, and changes nothing else.
//!
//! A graph declares inner values and outputs with the same message in different fields. So the
//! declaration moves from one field to the other, and no length changes. Weights are copied without
//! being loaded.

use std::io::{self, Read, Seek};
use std::path::Path;

use rustc_hash::FxHashSet;

use crate::Result;
use crate::edits::{Edit, edit_file, entry, put_header};
use crate::wire::{Payload, Wire};

/// The field of a model that holds its main graph.
const GRAPH: u64 = 7;

/// The fields of a graph that declare its outputs and its inner values.
const OUTPUT: u64 = 12;
const VALUE_INFO: u64 = 13;

/// The largest declaration of a value that is read.
const LARGEST: u64 = 1 << 20;

/// Writes the model file at `path` to `out` with the values `names` as additional outputs, after
/// the existing ones. The entries `metadata` are added to the model.
///
/// Returns the number of outputs that were added. Values that the main graph does not declare are
/// not added.
pub fn add_outputs(
    path: &Path,
    out: &Path,
    names: &FxHashSet<&str>,
    metadata: &[(&str, &str)],
) -> Result<usize> {
    let edited = edit_file(path, out, |file, len| find_edits(file, len, names, metadata));
    edited.map(|(_, added)| added)
}

fn find_edits<R: Read + Seek>(
    source: R,
    len: u64,
    names: &FxHashSet<&str>,
    metadata: &[(&str, &str)],
) -> io::Result<(Vec<Edit>, usize)> {
    let mut wire = Wire::new(source);
    let (mut edits, mut added) = (Vec::new(), FxHashSet::default());
    while let Some(field) = wire.field(len)? {
        match field.payload {
            Payload::Bytes(graph) if field.number == GRAPH => {
                let end = wire.at() + graph;
                let outputs = moved(&mut wire, end, names, &mut added, &mut edits)?;
                edits.push(Edit { start: end, end, with: outputs });
            }
            payload => wire.skip(payload.len())?,
        }
    }
    let with = metadata.iter().flat_map(|(key, value)| entry(key, value)).collect();
    edits.push(Edit { start: len, end: len, with });
    Ok((edits, added.len()))
}

/// Removes the declarations of values from a graph that ends at `end`. Returns them as outputs.
fn moved<R: Read + Seek>(
    wire: &mut Wire<R>,
    end: u64,
    names: &FxHashSet<&str>,
    added: &mut FxHashSet<String>,
    edits: &mut Vec<Edit>,
) -> io::Result<Vec<u8>> {
    let mut outputs = Vec::new();
    loop {
        let start = wire.at();
        let Some(field) = wire.field(end)? else { return Ok(outputs) };
        match field.payload {
            Payload::Bytes(len) if field.number == VALUE_INFO && len <= LARGEST => {
                let mut value = Vec::new();
                wire.copy(len, &mut value)?;
                let name = name(&value)?;
                if names.contains(name.as_str()) && added.insert(name) {
                    put_header(OUTPUT << 3 | 2, len, &mut outputs);
                    outputs.append(&mut value);
                    edits.push(Edit { start, end: wire.at(), with: Vec::new() });
                }
            }
            payload => wire.skip(payload.len())?,
        }
    }
}

/// Returns the name in the declaration of a value.
fn name(value: &[u8]) -> io::Result<String> {
    let mut wire = Wire::new(io::Cursor::new(value));
    let mut name = String::new();
    while let Some(field) = wire.field(value.len() as u64)? {
        match (field.number, field.payload) {
            (1, Payload::Bytes(len)) => name = wire.text(len)?,
            (_, payload) => wire.skip(payload.len())?,
        }
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use prost::Message;
    use prost::bytes::Bytes;

    use super::*;
    use crate::edits::copy_with;
    use crate::proto::*;

    fn value(name: &str) -> ValueInfoProto {
        ValueInfoProto { name: name.to_owned(), ..ValueInfoProto::default() }
    }

    fn values(names: &[&str]) -> Vec<ValueInfoProto> {
        names.iter().map(|name| value(name)).collect()
    }

    fn model(outputs: &[&str], inner: &[&str], keys: &[&str]) -> ModelProto {
        let weight =
            TensorProto { raw_data: Some(Bytes::from(vec![7; 5000])), ..TensorProto::default() };
        let graph = GraphProto {
            initializer: vec![weight],
            output: values(outputs),
            value_info: values(inner),
            ..GraphProto::default()
        };
        let entry =
            |key: &&str| StringStringEntryProto { key: (*key).to_owned(), value: "1".to_owned() };
        let metadata_props = keys.iter().map(entry).collect();
        ModelProto { ir_version: 10, graph: Some(graph), metadata_props, ..ModelProto::default() }
    }

    fn watched(bytes: &[u8], names: &[&str]) -> (Vec<u8>, usize) {
        let (names, len) = (names.iter().copied().collect(), bytes.len() as u64);
        let (edits, added) = find_edits(Cursor::new(bytes), len, &names, &[("own", "1")]).unwrap();
        let mut out = Vec::new();
        copy_with(&mut Cursor::new(bytes), len, &edits, &mut out).unwrap();
        (out, added)
    }

    #[test]
    fn declarations_move_to_the_outputs_and_the_rest_is_preserved() {
        let bytes = model(&["y"], &["a", "b", "c"], &["theirs"]).encode_to_vec();
        let (out, added) = watched(&bytes, &["c", "a", "absent"]);
        assert_eq!(added, 2);
        let expected = model(&["y", "a", "c"], &["b"], &["theirs", "own"]);
        assert_eq!(ModelProto::decode(&*out).unwrap(), expected);
    }

    #[test]
    fn a_value_that_is_declared_twice_is_added_once() {
        let bytes = model(&["y"], &["a", "a"], &[]).encode_to_vec();
        let (out, added) = watched(&bytes, &["a"]);
        assert_eq!(added, 1);
        assert_eq!(ModelProto::decode(&*out).unwrap(), model(&["y", "a"], &["a"], &["own"]));
    }

    #[test]
    fn outputs_stay_first_even_if_the_file_lists_them_last() {
        let inner = ModelProto { graph: model(&[], &["a"], &[]).graph, ..ModelProto::default() };
        let mut graph = inner.graph.unwrap().encode_to_vec();
        graph.extend(model(&["y"], &[], &[]).graph.unwrap().encode_to_vec());
        let mut bytes = Vec::new();
        put_header(GRAPH << 3 | 2, graph.len() as u64, &mut bytes);
        bytes.append(&mut graph);
        let (out, _) = watched(&bytes, &["a"]);
        let graph = ModelProto::decode(&*out).unwrap().graph.unwrap();
        assert_eq!(graph.output, values(&["y", "a"]));
    }
}
