//! Which files a model on disk refers to, found without loading it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;

use crate::{Error, Result};

/// The locations of all external data of the model file at `path`, as they are written there.
/// Takes little memory however large the file is.
pub fn external_locations(path: &Path) -> Result<BTreeSet<String>> {
    let scan = || {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let mut scanner = Scanner { file: BufReader::new(file), at: 0, found: BTreeSet::new() };
        scanner.message(Kind::Model, len, 0)?;
        Ok(scanner.found)
    };
    scan().map_err(|source| Error::Io { path: path.to_owned(), source })
}

/// The messages on the way to a tensor's location.
#[derive(Clone, Copy)]
enum Kind {
    Model,
    Training,
    Graph,
    Function,
    Node,
    Attribute,
    Sparse,
    Tensor,
    ExternalData,
}

impl Kind {
    /// What the field `tag` holds, if there may be a location in it.
    fn field(self, tag: u64) -> Option<Kind> {
        Some(match (self, tag) {
            (Kind::Model, 7) | (Kind::Training, 1 | 2) | (Kind::Attribute, 6 | 11) => Kind::Graph,
            (Kind::Model, 20) => Kind::Training,
            (Kind::Model, 25) => Kind::Function,
            (Kind::Graph, 1) | (Kind::Function, 7) => Kind::Node,
            (Kind::Graph, 5) | (Kind::Attribute, 5 | 10) | (Kind::Sparse, 1 | 2) => Kind::Tensor,
            (Kind::Graph, 15) | (Kind::Attribute, 22 | 23) => Kind::Sparse,
            (Kind::Node, 5) | (Kind::Function, 11) => Kind::Attribute,
            (Kind::Tensor, 13) => Kind::ExternalData,
            _ => return None,
        })
    }
}

/// As protobuf's own readers have it.
const DEEPEST: u32 = 100;
/// Longer than any path that a system can open.
const LONGEST: u64 = 1 << 16;

struct Scanner<R> {
    file: BufReader<R>,
    at: u64,
    found: BTreeSet<String>,
}

impl<R: Read + Seek> Scanner<R> {
    fn message(&mut self, kind: Kind, end: u64, depth: u32) -> io::Result<()> {
        let mut key = String::new();
        let mut value = None;
        while self.at < end {
            let tag = self.varint()?;
            let len = match tag & 7 {
                0 => self.varint().map(|_| 0)?,
                1 => 8,
                2 => self.varint()?,
                5 => 4,
                _ => return Err(damaged()),
            };
            if len > end.saturating_sub(self.at) || depth > DEEPEST {
                return Err(damaged());
            }
            match (kind, tag >> 3) {
                (Kind::ExternalData, 1) => key = self.text(len)?,
                (Kind::ExternalData, 2) => value = Some(self.text(len)?),
                (_, field) => match kind.field(field).filter(|_| tag & 7 == 2) {
                    Some(inner) => self.message(inner, self.at + len, depth + 1)?,
                    None => self.skip(len)?,
                },
            }
        }
        self.found.extend(value.filter(|_| key == "location"));
        if self.at == end { Ok(()) } else { Err(damaged()) }
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

    fn skip(&mut self, len: u64) -> io::Result<()> {
        self.file.seek_relative(i64::try_from(len).map_err(|_| damaged())?)?;
        self.at += len;
        Ok(())
    }

    fn text(&mut self, len: u64) -> io::Result<String> {
        if len > LONGEST {
            return Err(damaged());
        }
        let mut text = String::new();
        let read = self.file.by_ref().take(len).read_to_string(&mut text)?;
        self.at += len;
        if read as u64 == len { Ok(text) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not an ONNX model, or a damaged one")
}
