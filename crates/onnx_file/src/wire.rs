//! Reads protobuf's wire format from a file without loading it.

use std::io::{self, BufRead, BufReader, Read, Seek};

/// The largest nesting depth of messages, as in protobuf's own readers.
pub(crate) const DEEPEST: u32 = 100;

/// The value of a field. Values with a length are still to be read or skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// A variable-length integer, already read.
    Varint(u64),
    /// A fixed-width value of four or eight bytes.
    Fixed(u64),
    /// A string, a message or packed numbers of this many bytes.
    Bytes(u64),
}

impl Payload {
    /// Returns the number of bytes that are still to be read or skipped.
    pub(crate) fn len(self) -> u64 {
        match self {
            Payload::Varint(_) => 0,
            Payload::Fixed(len) | Payload::Bytes(len) => len,
        }
    }
}

/// The tag of a field, and its value or the length of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) number: u64,
    pub(crate) tag: u64,
    pub(crate) payload: Payload,
}

/// A reader that tracks its position, skips by seeking, and never reads beyond the requested
/// length.
pub(crate) struct Wire<R> {
    file: BufReader<R>,
    at: u64,
}

impl<R: Read + Seek> Wire<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { file: BufReader::new(source), at: 0 }
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Reads the head of the next field of a message that ends at `end`. Returns `None` at the end.
    pub(crate) fn field(&mut self, end: u64) -> io::Result<Option<Field>> {
        if self.at >= end {
            return if self.at == end { Ok(None) } else { Err(damaged()) };
        }
        let tag = self.varint()?;
        let payload = match tag & 7 {
            0 => Payload::Varint(self.varint()?),
            1 => Payload::Fixed(8),
            2 => Payload::Bytes(self.varint()?),
            5 => Payload::Fixed(4),
            _ => return Err(damaged()),
        };
        if payload.len() > end.saturating_sub(self.at) {
            return Err(damaged());
        }
        Ok(Some(Field { number: tag >> 3, tag, payload }))
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let Some(byte) = self.file.fill_buf()?.first().copied() else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            self.file.consume(1);
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(damaged())
    }

    /// Skips `len` bytes.
    pub(crate) fn skip(&mut self, len: u64) -> io::Result<()> {
        self.file.seek_relative(i64::try_from(len).map_err(|_| damaged())?)?;
        self.at += len;
        Ok(())
    }

    /// Appends `len` bytes to `into`.
    pub(crate) fn copy(&mut self, len: u64, into: &mut Vec<u8>) -> io::Result<()> {
        let read = self.file.by_ref().take(len).read_to_end(into)?;
        self.at += len;
        if read as u64 == len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Reads a text of `len` bytes.
    pub(crate) fn text(&mut self, len: u64) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.copy(len, &mut bytes)?;
        String::from_utf8(bytes).map_err(|_| damaged())
    }
}

/// Appends a variable-length integer.
pub(crate) fn put_varint(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    into.push(value.to_le_bytes()[0]);
}

/// The error for messages that nest more deeply than [`DEEPEST`].
#[derive(Debug, thiserror::Error)]
#[error("graphs are nested too deeply")]
pub(crate) struct TooDeep;

/// Returns [`TooDeep`] as an I/O error.
pub(crate) fn too_deep() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, TooDeep)
}

/// Returns the error for a file that breaks the format.
pub(crate) fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not an ONNX model, or damaged")
}
