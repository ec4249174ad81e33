//! Removes metadata from a model file, and nothing else.
//!
//! The file is walked once to find the bytes to remove, then copied without them. All other bytes
//! are preserved, including unknown fields, and weights are copied without being loaded.

use std::io::{self, Read, Seek};
use std::path::Path;

use crate::Result;
use crate::edits::{Edit, edit_file, entry, put_header};
use crate::message::Message;
use crate::wire::{DEEPEST, Field, Payload, Wire, too_deep};

/// The amount of metadata removed from a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stripped {
    /// The number of metadata entries removed.
    pub entries: usize,
    /// The difference between the old and the new size of the file, in bytes.
    pub bytes: u64,
}

/// Writes the model file at `path` to `out` without the metadata entries whose keys `drop` accepts.
///
/// Entries are removed from the model and from its graphs, nodes, values, tensors and functions, at
/// any depth. The entries `add` are added to the model itself, in place of the first entry that was
/// removed from it.
///
/// `out` may be `path`: it is replaced when the new file is complete.
pub fn strip_file(
    path: &Path,
    out: &Path,
    drop: &dyn Fn(&str) -> bool,
    add: &[(&str, &str)],
) -> Result<Stripped> {
    let (edits, entries) = edit_file(path, out, |file, len| find_cuts(file, len, drop, add))?;
    let kept: u64 = edits.iter().map(|edit| edit.with.len() as u64).sum();
    let gone: u64 = edits.iter().map(|edit| edit.end - edit.start).sum();
    Ok(Stripped { entries, bytes: gone.saturating_sub(kept) })
}

/// Returns the type of message in the field `number`, if it may contain metadata.
fn inner(message: Message, number: u64) -> Option<Message> {
    let ends = |inner: &Message| matches!(inner, Message::Type | Message::ExternalData);
    message.field(number).filter(|inner| !ends(inner))
}

/// The largest length of a key that is read. None of our keys is longer.
const LONGEST_KEY: u64 = 1 << 10;

struct Cuts<'a, R> {
    wire: Wire<R>,
    drop: &'a dyn Fn(&str) -> bool,
    /// The encoded entries that are still to be added to the model.
    add: Vec<u8>,
    edits: Vec<Edit>,
    entries: usize,
}

/// Returns the edits of a file, in order, and the number of entries that they remove.
fn find_cuts<R: Read + Seek>(
    source: R,
    len: u64,
    drop: &dyn Fn(&str) -> bool,
    add: &[(&str, &str)],
) -> io::Result<(Vec<Edit>, usize)> {
    let add = add.iter().flat_map(|(key, value)| entry(key, value)).collect();
    let mut cuts = Cuts { wire: Wire::new(source), drop, add, edits: Vec::new(), entries: 0 };
    cuts.message(Message::Model, len, 0)?;
    // A message's length precedes its contents, but its edit is recorded after theirs.
    cuts.edits.sort_unstable_by_key(|edit| edit.start);
    if !cuts.add.is_empty() {
        let with = std::mem::take(&mut cuts.add);
        cuts.edits.push(Edit { start: len, end: len, with });
    }
    Ok((cuts.edits, cuts.entries))
}

impl<R: Read + Seek> Cuts<'_, R> {
    /// Records the edits of a message and returns the number of bytes by which it shrinks.
    fn message(&mut self, kind: Message, end: u64, depth: u32) -> io::Result<u64> {
        if depth > DEEPEST {
            return Err(too_deep());
        }
        let mut shorter = 0;
        loop {
            let start = self.wire.at();
            let Some(field) = self.wire.field(end)? else { return Ok(shorter) };
            match (field.payload, inner(kind, field.number)) {
                (Payload::Bytes(len), Some(Message::Entry)) => {
                    let end = self.wire.at() + len;
                    if self.is_dropped(end)? {
                        let with = match kind {
                            Message::Model => std::mem::take(&mut self.add),
                            _ => Vec::new(),
                        };
                        self.edits.push(Edit { start, end, with });
                        self.entries += 1;
                        shorter += end - start;
                    }
                }
                (Payload::Bytes(len), Some(inner)) => {
                    shorter += self.nested(inner, &field, start, len, depth)?;
                }
                (payload, _) => self.wire.skip(payload.len())?,
            }
        }
    }

    /// Records the edits of a nested message, including that of its length, and returns the number
    /// of bytes by which it shrinks.
    fn nested(
        &mut self,
        kind: Message,
        field: &Field,
        start: u64,
        len: u64,
        depth: u32,
    ) -> io::Result<u64> {
        let content = self.wire.at();
        let shorter = self.message(kind, content + len, depth + 1)?;
        if shorter == 0 {
            return Ok(0);
        }
        let mut with = Vec::new();
        put_header(field.tag, len - shorter, &mut with);
        let saved = (content - start).saturating_sub(with.len() as u64);
        self.edits.push(Edit { start, end: content, with });
        Ok(shorter + saved)
    }

    /// Returns `true` if the entry that ends at `end` is to be removed.
    fn is_dropped(&mut self, end: u64) -> io::Result<bool> {
        let mut key = Vec::new();
        while let Some(field) = self.wire.field(end)? {
            match (field.number, field.payload) {
                (1, Payload::Bytes(len)) if len <= LONGEST_KEY => {
                    key.clear();
                    self.wire.copy(len, &mut key)?;
                }
                (_, payload) => self.wire.skip(payload.len())?,
            }
        }
        Ok(std::str::from_utf8(&key).is_ok_and(|key| (self.drop)(key)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use prost::Message;
    use prost::bytes::Bytes;

    use super::*;
    use crate::edits::copy_with;
    use crate::proto::*;

    fn props(keys: &[&str]) -> Vec<StringStringEntryProto> {
        let entry =
            |key: &&str| StringStringEntryProto { key: (*key).to_owned(), value: "v".repeat(300) };
        keys.iter().map(entry).collect()
    }

    /// Returns a model with metadata at every level, including a graph of a node of a function.
    fn model(keys: &[&str]) -> ModelProto {
        let value = ValueInfoProto {
            name: "v".to_owned(),
            metadata_props: props(keys),
            ..ValueInfoProto::default()
        };
        let tensor = TensorProto {
            raw_data: Some(Bytes::from(vec![7; 5000])),
            metadata_props: props(keys),
            ..TensorProto::default()
        };
        let leaf = NodeProto {
            op_type: "Sin".to_owned(),
            metadata_props: props(keys),
            ..NodeProto::default()
        };
        let body = GraphProto {
            node: vec![leaf],
            initializer: vec![tensor],
            input: vec![value.clone()],
            value_info: vec![value],
            metadata_props: props(keys),
            ..GraphProto::default()
        };
        let attribute = AttributeProto { g: Some(Box::new(body.clone())), ..Default::default() };
        let outer = NodeProto {
            op_type: "If".to_owned(),
            attribute: vec![attribute],
            metadata_props: props(keys),
            ..NodeProto::default()
        };
        let function = FunctionProto {
            name: "f".to_owned(),
            node: vec![outer.clone()],
            metadata_props: props(keys),
            ..FunctionProto::default()
        };
        ModelProto {
            ir_version: 10,
            graph: Some(GraphProto { node: vec![outer], ..body }),
            metadata_props: props(keys),
            functions: vec![function],
            ..ModelProto::default()
        }
    }

    fn stripped(bytes: &[u8], add: &[(&str, &str)]) -> Vec<u8> {
        let len = bytes.len() as u64;
        let drop = |key: &str| key.starts_with("ours.");
        let (edits, _) = find_cuts(Cursor::new(bytes), len, &drop, add).unwrap();
        let mut out = Vec::new();
        copy_with(&mut Cursor::new(bytes), len, &edits, &mut out).unwrap();
        out
    }

    #[test]
    fn entries_are_removed_at_every_level_and_the_rest_is_preserved() {
        let bytes = model(&["ours.a", "theirs", "ours.b"]).encode_to_vec();
        assert_eq!(stripped(&bytes, &[]), model(&["theirs"]).encode_to_vec());
        let none = model(&["theirs"]).encode_to_vec();
        assert_eq!(stripped(&none, &[]), none);
    }

    #[test]
    fn unknown_fields_and_overlong_numbers_are_copied() {
        // Field 1 as a varint of two bytes although one would suffice, and unknown fields.
        let odd: &[u8] = &[0x08, 0x8a, 0x00, 0xa2, 0x3f, 0x02, 0xff, 0xfe, 0xa5, 0x3f, 1, 2, 3, 4];
        let mut bytes = odd.to_vec();
        bytes.extend(model(&["ours.a"]).encode_to_vec());
        let mut expected = odd.to_vec();
        expected.extend(model(&[]).encode_to_vec());
        assert_eq!(stripped(&bytes, &[]), expected);
    }

    #[test]
    fn entries_are_added_to_the_model() {
        for keys in [&["ours.a", "theirs"][..], &["theirs"], &[]] {
            let bytes = model(keys).encode_to_vec();
            let out = ModelProto::decode(&*stripped(&bytes, &[("new", "value")])).unwrap();
            let found = out.metadata_props.iter().filter(|entry| entry.key == "new");
            assert_eq!(found.map(|entry| entry.value.as_str()).collect::<Vec<_>>(), ["value"]);
        }
    }

    #[test]
    fn damaged_files_are_errors() {
        let bytes = model(&["ours.a"]).encode_to_vec();
        for cut in [1, 10, 100, bytes.len() / 2, bytes.len() - 1] {
            let source = Cursor::new(&bytes[..cut]);
            let _ = find_cuts(source, cut as u64, &|_| true, &[]);
        }
        assert!(find_cuts(Cursor::new(&bytes), bytes.len() as u64 + 9, &|_| true, &[]).is_err());
        let mut deep = Vec::new();
        for number in [6, 5, 1].into_iter().cycle().take(150).chain([7]) {
            let mut outer = Vec::new();
            put_header(number << 3 | 2, deep.len() as u64, &mut outer);
            outer.append(&mut deep);
            deep = outer;
        }
        assert!(find_cuts(Cursor::new(&deep), deep.len() as u64, &|_| true, &[]).is_err());
    }

    #[test]
    fn the_size_that_is_saved_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (path, out) = (folder.path().join("m.onnx"), folder.path().join("stripped.onnx"));
        let bytes = model(&["ours.a", "theirs", "ours.b"]).encode_to_vec();
        std::fs::write(&path, &bytes).unwrap();
        let drop = |key: &str| key.starts_with("ours.");
        let stripped = strip_file(&path, &out, &drop, &[("new", "value")]).unwrap();
        let len = std::fs::metadata(&out).unwrap().len();
        assert_eq!(stripped.bytes, bytes.len() as u64 - len);
        // One of each in 10 places of the graph, in 7 of the function, and in the model.
        assert_eq!(stripped.entries, 2 * (10 + 7 + 1));
    }

    #[test]
    fn long_keys_are_not_ours() {
        let key = |len: usize| format!("ours.{}", "k".repeat(len - 5));
        for (len, is_dropped) in [(1024, true), (1025, false)] {
            let bytes = model(&[&key(len)]).encode_to_vec();
            let expected = if is_dropped { model(&[]).encode_to_vec() } else { bytes.clone() };
            assert!(stripped(&bytes, &[]) == expected, "{len}");
        }
    }

    /// Returns a model with graphs of nodes whose messages nest to this depth.
    fn nested(depth: usize) -> Vec<u8> {
        let fields = std::iter::once(7).chain([1, 5, 6].into_iter().cycle());
        let fields: Vec<u64> = fields.take(depth).collect();
        fields.into_iter().rev().fold(Vec::new(), |mut inner, number| {
            let mut outer = Vec::new();
            put_header(number << 3 | 2, inner.len() as u64, &mut outer);
            outer.append(&mut inner);
            outer
        })
    }

    #[test]
    fn messages_nest_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        for (depth, is_accepted) in [(100, true), (101, false)] {
            let bytes = nested(depth);
            std::fs::write(&path, &bytes).unwrap();
            let cuts = find_cuts(Cursor::new(&bytes), bytes.len() as u64, &|_| true, &[]);
            assert_eq!(cuts.is_ok(), is_accepted, "{depth}");
            assert_eq!(crate::external_locations(&path).is_ok(), is_accepted, "{depth}");
            // The model itself is incomplete.
            let is_too_deep = matches!(crate::skim(&bytes), Err(crate::Error::TooDeep { .. }));
            assert_eq!(is_too_deep, !is_accepted, "{depth}");
        }
    }
}
