//! The wire format of `TensorProto`, implemented by hand because derived code cannot reorder
//! elements while it writes them.

use std::io;

use prost::bytes::{Buf, BufMut, Bytes};
use prost::encoding::{
    self, DecodeContext, WireType, bytes, double, float, int32, int64, message, string, uint64,
};
use prost::{DecodeError, Message};
use tensor::{MemoryLocation, Tensor};

use crate::proto::TensorProto;

/// The number of the field that contains the raw contents.
pub(crate) const RAW_DATA: u32 = 9;

/// The names of the fields, by number.
#[rustfmt::skip]
const FIELDS: [&str; 17] = [
    "", "dims", "data_type", "segment", "float_data", "int32_data", "string_data", "int64_data",
    "name", "raw_data", "double_data", "uint64_data", "doc_string", "external_data",
    "data_location", "", "metadata_props",
];

/// The contents of a tensor.
#[derive(Clone, Debug)]
pub(crate) enum Contents {
    Bytes(Bytes),
    Deferred(Tensor),
}

impl Contents {
    pub(crate) fn len(&self) -> usize {
        match self {
            Contents::Bytes(bytes) => bytes.len(),
            Contents::Deferred(tensor) => tensor.byte_len(),
        }
    }

    /// Returns the location of the elements in memory.
    pub(crate) fn place(&self) -> MemoryLocation {
        match self {
            Contents::Bytes(bytes) => MemoryLocation::of_bytes(bytes),
            Contents::Deferred(tensor) => tensor.place(),
        }
    }

    /// Returns `true` if both are equal bytes. Deferred elements are never equal, because comparing
    /// them would mean reordering them first.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Contents::Bytes(one), Contents::Bytes(other)) => one == other,
            _ => false,
        }
    }

    pub(crate) fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        match self {
            Contents::Bytes(bytes) => out.write_all(bytes),
            Contents::Deferred(tensor) => tensor.chunks(|chunk| out.write_all(chunk)),
        }
    }
}

impl TensorProto {
    /// Returns the number of bytes that the contents take in the encoded message.
    pub(crate) fn contents_len(&self) -> Option<usize> {
        let deferred = || self.deferred.as_ref().map(Tensor::byte_len);
        self.raw_data.as_ref().map(Bytes::len).or_else(deferred)
    }

    /// Returns the contents, if they take at least `least` bytes.
    pub(crate) fn contents_from(&self, least: usize) -> Option<Contents> {
        self.contents_len().filter(|len| *len >= least)?;
        let deferred = || self.deferred.clone().map(Contents::Deferred);
        self.raw_data.clone().map(Contents::Bytes).or_else(deferred)
    }

    /// Removes and returns the contents, if they take at least `least` bytes.
    pub(crate) fn take_contents(&mut self, least: usize) -> Option<Contents> {
        let contents = self.contents_from(least)?;
        (self.raw_data, self.deferred) = (None, None);
        Some(contents)
    }

    /// Encodes the fields before the contents.
    pub(crate) fn encode_before(&self, buf: &mut impl BufMut) {
        int64::encode_repeated(1, &self.dims, buf);
        if self.data_type != 0 {
            int32::encode(2, &self.data_type, buf);
        }
        if let Some(segment) = &self.segment {
            message::encode(3, segment, buf);
        }
        float::encode_packed(4, &self.float_data, buf);
        int32::encode_packed(5, &self.int32_data, buf);
        bytes::encode_repeated(6, &self.string_data, buf);
        int64::encode_packed(7, &self.int64_data, buf);
        if !self.name.is_empty() {
            string::encode(8, &self.name, buf);
        }
    }

    /// Encodes the fields after the contents.
    pub(crate) fn encode_after(&self, buf: &mut impl BufMut) {
        double::encode_packed(10, &self.double_data, buf);
        uint64::encode_packed(11, &self.uint64_data, buf);
        if !self.doc_string.is_empty() {
            string::encode(12, &self.doc_string, buf);
        }
        message::encode_repeated(13, &self.external_data, buf);
        if self.data_location != 0 {
            int32::encode(14, &self.data_location, buf);
        }
        message::encode_repeated(16, &self.metadata_props, buf);
    }
}

impl Message for TensorProto {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        self.encode_before(buf);
        match (&self.raw_data, &self.deferred) {
            (Some(data), _) => bytes::encode(RAW_DATA, data, buf),
            (None, Some(tensor)) => {
                encoding::encode_key(RAW_DATA, WireType::LengthDelimited, buf);
                encoding::encode_varint(tensor.byte_len() as u64, buf);
                // Contents whose computation may fail are streamed instead. If they are encoded
                // here and fail, the message is truncated, and no reader accepts it as complete.
                let put = |chunk: &[u8]| {
                    buf.put_slice(chunk);
                    Ok(())
                };
                if tensor.chunks(put).is_err() {
                    return;
                }
            }
            (None, None) => {}
        }
        self.encode_after(buf);
    }

    fn encoded_len(&self) -> usize {
        let key = encoding::key_len;
        let int = |tag, value: i32| {
            if value == 0 { 0 } else { int32::encoded_len(tag, &value) }
        };
        let string = |tag, value: &String| {
            if value.is_empty() { 0 } else { string::encoded_len(tag, value) }
        };
        let contents = |len| key(RAW_DATA) + encoding::encoded_len_varint(len as u64) + len;
        int64::encoded_len_repeated(1, &self.dims)
            + int(2, self.data_type)
            + self.segment.as_ref().map_or(0, |s| message::encoded_len(3, s))
            + float::encoded_len_packed(4, &self.float_data)
            + int32::encoded_len_packed(5, &self.int32_data)
            + bytes::encoded_len_repeated(6, &self.string_data)
            + int64::encoded_len_packed(7, &self.int64_data)
            + string(8, &self.name)
            + self.contents_len().map_or(0, contents)
            + double::encoded_len_packed(10, &self.double_data)
            + uint64::encoded_len_packed(11, &self.uint64_data)
            + string(12, &self.doc_string)
            + message::encoded_len_repeated(13, &self.external_data)
            + int(14, self.data_location)
            + message::encoded_len_repeated(16, &self.metadata_props)
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        let merged = match tag {
            1 => int64::merge_repeated(wire, &mut self.dims, buf, ctx),
            2 => int32::merge(wire, &mut self.data_type, buf, ctx),
            3 => message::merge(wire, self.segment.get_or_insert_default(), buf, ctx),
            4 => float::merge_repeated(wire, &mut self.float_data, buf, ctx),
            5 => int32::merge_repeated(wire, &mut self.int32_data, buf, ctx),
            6 => bytes::merge_repeated(wire, &mut self.string_data, buf, ctx),
            7 => int64::merge_repeated(wire, &mut self.int64_data, buf, ctx),
            8 => string::merge(wire, &mut self.name, buf, ctx),
            RAW_DATA => bytes::merge(wire, self.raw_data.get_or_insert_default(), buf, ctx),
            10 => double::merge_repeated(wire, &mut self.double_data, buf, ctx),
            11 => uint64::merge_repeated(wire, &mut self.uint64_data, buf, ctx),
            12 => string::merge(wire, &mut self.doc_string, buf, ctx),
            13 => message::merge_repeated(wire, &mut self.external_data, buf, ctx),
            14 => int32::merge(wire, &mut self.data_location, buf, ctx),
            16 => message::merge_repeated(wire, &mut self.metadata_props, buf, ctx),
            _ => return encoding::skip_field(wire, tag, buf, ctx),
        };
        merged.map_err(|mut error| {
            error.push("TensorProto", FIELDS.get(tag as usize).copied().unwrap_or_default());
            error
        })
    }

    fn clear(&mut self) {
        *self = TensorProto::default();
    }
}
