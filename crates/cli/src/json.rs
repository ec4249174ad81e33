//! JSON that is safe to print on a terminal.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::style::is_harmful;

/// Writes a value and a newline. Returns `false` if that takes more than `most` bytes, in which
/// case the output is incomplete.
pub(crate) fn write_json(
    value: &impl Serialize,
    output: &mut impl Write,
    most: u64,
) -> io::Result<bool> {
    let mut limited = Limited { output, left: most, is_exceeded: false };
    let mut serializer = Serializer::with_formatter(&mut limited, Harmless(PrettyFormatter::new()));
    let written = value.serialize(&mut serializer).map_err(io::Error::from);
    let written = written.and_then(|()| limited.write_all(b"\n"));
    match written {
        Err(_) if limited.is_exceeded => Ok(false),
        written => written.map(|()| true),
    }
}

/// A writer that accepts a limited number of bytes.
struct Limited<W> {
    output: W,
    left: u64,
    is_exceeded: bool,
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            self.is_exceeded = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.left = left;
        self.output.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// A formatter of indented JSON that escapes characters which control a terminal or reorder its
/// text.
struct Harmless(PrettyFormatter<'static>);

impl Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_harmful) {
            let (before, after) = rest.split_at(at);
            writer.write_all(before.as_bytes())?;
            let mut characters = after.chars();
            // All of them are in the basic multilingual plane.
            if let Some(c) = characters.next() {
                write!(writer, "\\u{:04x}", u32::from(c))?;
            }
            rest = characters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(value: &Value, most: u64) -> (bool, String) {
        let mut output = Vec::new();
        let complete = write_json(value, &mut output, most).unwrap();
        (complete, String::from_utf8(output).unwrap())
    }

    #[test]
    fn text_cannot_control_a_terminal() {
        let value = json!({"a\u{9b}2J": ["\u{7f}\u{85}\u{202e}é\u{2066}\n\u{1b}", {}, [], 1.5]});
        let (complete, text) = written(&value, 1000);
        assert!(complete);
        assert!(!text.contains(|c| is_harmful(c) && c != '\n'), "{text:?}");
        assert!(text.contains("\\u009b2J") && text.contains("\\u202eé\\u2066"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn harmless_values_are_written_as_usual() {
        let value = json!({"a": [1, {"b": null}, "c\td"], "e": {}});
        let expected = format!("{}\n", serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(written(&value, 1000), (true, expected));
    }

    #[test]
    fn the_length_is_limited() {
        let value = json!(vec!["a"; 100]);
        assert!(!written(&value, 100).0);
        assert!(written(&value, 100).1.len() <= 100);
    }
}
