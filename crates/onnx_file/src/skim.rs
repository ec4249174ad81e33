//! Reads a model without its weights.
//!
//! The file is walked once. Bulk data is skipped by seeking; everything else is copied into a small
//! message and decoded as usual. Only a small part of a large model is read, and memory is bounded
//! even if the file is malformed.

use std::io::{self, Cursor, Read, Seek};
use std::mem::size_of;
use std::path::Path;

use prost::Message as _;
use prost::bytes::Bytes;

use crate::message::Message;
use crate::proto::{
    AttributeProto, DataLocation, FunctionProto, GraphProto, ModelProto, NodeProto,
    SparseTensorProto, StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto,
    TrainingInfoProto, TypeProto, ValueInfoProto,
};
use crate::read::{complete, open_regular};
use crate::wire::{DEEPEST, Field, Payload, TooDeep, Wire, damaged, put_varint, too_deep};
use crate::{Error, Result};

/// The largest number of bytes of data that a tensor or an attribute retains.
pub const KEPT: usize = 4096;

/// The largest number of bytes of memory that a model may take without its weights.
const LARGEST: u64 = 1 << 29;

/// The number of bytes of memory allowed per byte of a file, beyond [`ALLOWANCE`]. Real models stay
/// below it, since they contain hardly any empty messages.
const GROWTH: u64 = 8;

/// The number of bytes of memory allowed for any file: about 100,000 nodes.
const ALLOWANCE: u64 = 64 << 20;

/// The number of bytes of memory that a field takes besides its contents. An empty string or
/// dimension takes two bytes in the file.
const FIELD: u64 = 64;

/// Reads the model file at `path`. Tensors and attributes of more than [`KEPT`] bytes lose their
/// data. External data is not read.
pub fn skim_file(path: &Path) -> Result<ModelProto> {
    skim_path(path, false)
}

/// Reads the model file at `path` as [`skim_file`] does, and records where the skipped data of
/// tensors is.
///
/// It is recorded as for external data, with an empty location for this file. The additional entry
/// `field` is the number of the field that contains the data.
pub fn skim_located(path: &Path) -> Result<ModelProto> {
    skim_path(path, true)
}

fn skim_path(path: &Path, locate: bool) -> Result<ModelProto> {
    let failed = Error::at(path);
    let file = open_regular(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Error::Read(error.to_string()),
        _ => failed(error),
    })?;
    let len = file.metadata().map_err(&failed)?.len();
    skim_from(file, len, locate).map_err(|error| match error {
        Error::Io { source, .. } => failed(source),
        other => other,
    })
}

/// Reads a model from memory, as [`skim_file`] reads it from a file.
pub fn skim(bytes: &[u8]) -> Result<ModelProto> {
    skim_from(Cursor::new(bytes), bytes.len() as u64, false)
}

fn skim_from<R: Read + Seek>(source: R, len: u64, locate: bool) -> Result<ModelProto> {
    if len == 0 {
        return Err(Error::Read("it is empty".to_owned()));
    }
    let budget = LARGEST.min(len.saturating_mul(GROWTH).saturating_add(ALLOWANCE));
    let mut skimmer = Skimmer { wire: Wire::new(source), budget, locate };
    let mut thin = Vec::new();
    skimmer.message(Message::Model, len, 0, &mut thin).map_err(|error| match error.kind() {
        _ if matches!(error.get_ref(), Some(inner) if inner.is::<TooDeep>()) => {
            Error::TooDeep { origin: None }
        }
        io::ErrorKind::InvalidData => Error::Read("its structure is broken".to_owned()),
        io::ErrorKind::UnexpectedEof => Error::Read("it is truncated".to_owned()),
        io::ErrorKind::OutOfMemory => {
            let mebibytes = budget >> 20;
            Error::Read(format!(
                "without its weights, it takes more than {mebibytes} MiB of memory, the limit for \
                 a file of this size"
            ))
        }
        _ => Error::Io { path: Default::default(), source: error },
    })?;
    let model = ModelProto::decode(Bytes::from(thin));
    complete(model.map_err(|error| Error::Read(error.to_string()))?)
}

/// The treatment of messages while skimming.
impl Message {
    /// Returns the type of message in the field `number`, if it may contain bulk data or is large
    /// once decoded.
    fn skimmed(self, number: u64) -> Option<Message> {
        self.field(number).filter(|inner| !matches!(inner, Message::Entry | Message::ExternalData))
    }

    /// Returns `true` if the field `number` is bulk data.
    fn is_bulk(self, number: u64) -> bool {
        match self {
            Message::Tensor => matches!(number, 4..=7 | 9..=11),
            Message::Attribute => matches!(number, 4 | 7..=9),
            _ => false,
        }
    }

    /// Returns the number of bytes that the decoded message takes, without the data that it refers
    /// to.
    fn size(self) -> usize {
        match self {
            Message::Model => size_of::<ModelProto>(),
            Message::Training => size_of::<TrainingInfoProto>(),
            Message::Graph => size_of::<GraphProto>(),
            Message::Function => size_of::<FunctionProto>(),
            Message::Node => size_of::<NodeProto>(),
            Message::Attribute => size_of::<AttributeProto>(),
            Message::Sparse => size_of::<SparseTensorProto>(),
            Message::Tensor => size_of::<TensorProto>(),
            Message::Value => size_of::<ValueInfoProto>(),
            Message::Type => size_of::<TypeProto>(),
            Message::TensorType => size_of::<TensorTypeProto>(),
            Message::Shape => size_of::<TensorShapeProto>(),
            Message::Entry | Message::ExternalData => size_of::<StringStringEntryProto>(),
        }
    }

    /// Returns `true` if the field `number` only distributes work over devices and does not affect
    /// the results of the model.
    fn is_skipped(self, number: u64) -> bool {
        matches!((self, number), (Message::Model, 26) | (Message::Node, 10))
    }

    /// Returns `true` if the field `number` is a list of dimensions.
    fn is_dims(self, number: u64) -> bool {
        matches!((self, number), (Message::Tensor, 1) | (Message::Sparse, 3))
    }
}

/// The fields of a message that contain bulk data.
enum Places {
    None,
    /// The number of the field, and the position and the length of its contents.
    One(u64, u64, u64),
    Several,
}

impl Places {
    fn add(&mut self, field: &Field, at: u64, len: u64) {
        *self = match self {
            Places::None => Places::One(field.number, at, len),
            _ => Places::Several,
        };
    }

    /// Appends the fields of a tensor that describe external data.
    fn write(&self, out: &mut Vec<u8>) {
        let &Places::One(field, offset, length) = self else { return };
        let entry = |key: &str, value: String| StringStringEntryProto { key: key.into(), value };
        let tensor = TensorProto {
            external_data: vec![
                entry("location", String::new()),
                entry("offset", offset.to_string()),
                entry("length", length.to_string()),
                entry("field", field.to_string()),
            ],
            data_location: DataLocation::External as i32,
            ..TensorProto::default()
        };
        out.extend_from_slice(&tensor.encode_to_vec());
    }
}

struct Skimmer<R> {
    wire: Wire<R>,
    budget: u64,
    locate: bool,
}

impl<R: Read + Seek> Skimmer<R> {
    /// Appends the message of `kind` that ends at `end` to `out`, without its bulk data.
    fn message(
        &mut self,
        kind: Message,
        end: u64,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        if depth > DEEPEST {
            return Err(too_deep());
        }
        self.spend(kind.size() as u64)?;
        let (mut bulk, mut dropped) = (Vec::new(), false);
        let mut places = Places::None;
        while let Some(field) = self.wire.field(end)? {
            let is_bulk = kind.is_bulk(field.number);
            if let (Payload::Bytes(len), Some(inner)) = (field.payload, kind.skimmed(field.number))
            {
                let mut body = Vec::new();
                self.message(inner, self.wire.at() + len, depth + 1, &mut body)?;
                put_varint(field.tag, out);
                put_varint(body.len() as u64, out);
                out.append(&mut body);
                continue;
            }
            let len = field.payload.len();
            if kind.is_skipped(field.number) {
                self.wire.skip(len)?;
                continue;
            }
            if is_bulk {
                places.add(&field, self.wire.at(), len);
            }
            if is_bulk && (dropped || bulk.len() as u64 + len > KEPT as u64) {
                dropped = true;
                bulk.clear();
                self.wire.skip(len)?;
                continue;
            }
            if kind.is_dims(field.number) && len > KEPT as u64 {
                return Err(damaged());
            }
            self.spend(FIELD.saturating_add(len))?;
            let into = if is_bulk { &mut bulk } else { &mut *out };
            put_varint(field.tag, into);
            match field.payload {
                Payload::Varint(value) => put_varint(value, into),
                Payload::Fixed(len) => self.wire.copy(len, into)?,
                Payload::Bytes(len) => {
                    put_varint(len, into);
                    self.wire.copy(len, into)?;
                }
            }
        }
        out.append(&mut bulk);
        if let (Message::Tensor, true, true) = (kind, self.locate, dropped) {
            places.write(out);
        }
        Ok(())
    }

    fn spend(&mut self, bytes: u64) -> io::Result<()> {
        let left = self.budget.checked_sub(bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        self.budget = left;
        Ok(())
    }
}
