//! Finds the files that a model on disk refers to, without loading it.

use std::collections::BTreeSet;
use std::io::{self, Read, Seek};
use std::path::Path;

use crate::message::Message;
use crate::read::open_regular;
use crate::wire::{DEEPEST, Payload, Wire, damaged, too_deep};
use crate::{Error, Result};

/// Returns the locations of all external data of the model file at `path`, as the file spells them.
/// This takes little memory, however large the file is.
pub fn external_locations(path: &Path) -> Result<BTreeSet<String>> {
    let scan = || {
        let file = open_regular(path)?;
        let len = file.metadata()?.len();
        let mut scanner = Scanner { wire: Wire::new(file), found: BTreeSet::new() };
        scanner.message(Message::Model, len, 0)?;
        Ok(scanner.found)
    };
    scan().map_err(Error::at(path))
}

/// Returns the type of message in the field `number`, if it may contain a location.
fn inner(message: Message, number: u64) -> Option<Message> {
    message.field(number).filter(|inner| !matches!(inner, Message::Value | Message::Entry))
}

/// The largest accepted length of a location, longer than any path that an operating system
/// accepts.
const LONGEST: u64 = 1 << 16;

struct Scanner<R> {
    wire: Wire<R>,
    found: BTreeSet<String>,
}

impl<R: Read + Seek> Scanner<R> {
    fn message(&mut self, kind: Message, end: u64, depth: u32) -> io::Result<()> {
        if depth > DEEPEST {
            return Err(too_deep());
        }
        let mut key = String::new();
        let mut value = None;
        while let Some(field) = self.wire.field(end)? {
            match (field.payload, inner(kind, field.number)) {
                (Payload::Bytes(len), Some(inner)) => {
                    self.message(inner, self.wire.at() + len, depth + 1)?;
                }
                (Payload::Bytes(len), None) => match (kind, field.number) {
                    (Message::ExternalData, 1) => key = self.text(len)?,
                    (Message::ExternalData, 2) => value = Some(self.text(len)?),
                    _ => self.wire.skip(len)?,
                },
                (payload, _) => self.wire.skip(payload.len())?,
            }
        }
        self.found.extend(value.filter(|_| key == "location"));
        Ok(())
    }

    fn text(&mut self, len: u64) -> io::Result<String> {
        if len > LONGEST { Err(damaged()) } else { self.wire.text(len) }
    }
}
