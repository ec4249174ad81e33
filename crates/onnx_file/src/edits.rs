//! Edits of a model file: byte ranges with replacements. All other bytes are copied as they are.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use crate::Result;
use crate::error::Error;
use crate::read::open_regular;
use crate::save::replace_file;
use crate::wire::{damaged, put_varint};

/// The size of the buffer for copying.
const CHUNK: usize = 1 << 20;

/// A range of bytes of a file and its replacement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) with: Vec<u8>,
}

/// Writes the model file at `path` to `out` with the edits that `find` returns for a file of that many
/// bytes, in order and without overlaps. Returns them, and the number that `find` returns with them.
///
/// `out` may be `path`: it is replaced when the new file is complete.
pub(crate) fn edit_file(
    path: &Path,
    out: &Path,
    find: impl FnOnce(&mut File, u64) -> io::Result<(Vec<Edit>, usize)>,
) -> Result<(Vec<Edit>, usize)> {
    let failed = Error::at(path);
    let mut file = open_regular(path).map_err(&failed)?;
    let len = file.metadata().map_err(&failed)?.len();
    let (edits, count) = find(&mut file, len).map_err(&failed)?;
    file.rewind().map_err(Error::at(out))?;
    let mut from = BufReader::with_capacity(CHUNK, file);
    replace_file(out, |to| {
        let mut to = BufWriter::with_capacity(CHUNK, to);
        copy_with(&mut from, len, &edits, &mut to)?;
        to.flush()
    })?;
    Ok((edits, count))
}

/// Encodes an entry of the model's metadata.
pub(crate) fn entry(key: &str, value: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for (number, text) in [(1, key), (2, value)] {
        put_header(number << 3 | 2, text.len() as u64, &mut body);
        body.extend_from_slice(text.as_bytes());
    }
    let mut entry = Vec::new();
    put_header(14 << 3 | 2, body.len() as u64, &mut entry);
    entry.append(&mut body);
    entry
}

/// Appends the tag and the length of a field.
pub(crate) fn put_header(tag: u64, len: u64, into: &mut Vec<u8>) {
    put_varint(tag, into);
    put_varint(len, into);
}

/// Copies `len` bytes and applies `edits`, which are in order and do not overlap.
pub(crate) fn copy_with<R: Read + Seek>(
    from: &mut R,
    len: u64,
    edits: &[Edit],
    to: &mut impl Write,
) -> io::Result<()> {
    let mut at = 0;
    for edit in edits {
        copy(from, edit.start - at, to)?;
        to.write_all(&edit.with)?;
        from.seek_relative(i64::try_from(edit.end - edit.start).map_err(|_| damaged())?)?;
        at = edit.end;
    }
    copy(from, len - at, to)
}

fn copy(from: &mut impl Read, len: u64, to: &mut impl Write) -> io::Result<()> {
    let copied = io::copy(&mut from.take(len), to)?;
    if copied == len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
