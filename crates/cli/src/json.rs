//! JSON that is safe to print on a terminal.

use std::io::{self, Write};

use serde::Serialize;

use crate::style::is_harmful;

/// Writes a value and a newline. Returns `false` if that takes more than `most` bytes, in which
/// case the output is incomplete.
pub(crate) fn write_json(
    value: &impl Serialize,
    output: &mut impl Write,
    most: u64,
) -> io::Result<bool> {
    let mut harmless = Harmless { output, left: most, is_exceeded: false };
    let written = serde_json::to_writer_pretty(&mut harmless, value).map_err(io::Error::from);
    match written.and_then(|()| harmless.write_all(b"\n")) {
        Err(_) if harmless.is_exceeded => Ok(false),
        written => written.map(|()| true),
    }
}

/// A writer of JSON that accepts a limited number of bytes. It escapes characters which control a
/// terminal or reorder its text. Such characters occur only inside of strings, except for newlines.
struct Harmless<W> {
    output: W,
    left: u64,
    is_exceeded: bool,
}

impl<W: Write> Harmless<W> {
    fn put(&mut self, text: &str) -> io::Result<()> {
        let Some(left) = self.left.checked_sub(text.len() as u64) else {
            self.is_exceeded = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.left = left;
        self.output.write_all(text.as_bytes())
    }
}

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // serde_json passes on whole characters.
        let mut rest = str::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        while let Some(at) = rest.find(|c| c != '\n' && is_harmful(c)) {
            let (before, after) = rest.split_at(at);
            self.put(before)?;
            let mut characters = after.chars();
            if let Some(c) = characters.next() {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    self.put(&format!("\\u{unit:04x}"))?;
                }
            }
            rest = characters.as_str();
        }
        self.put(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
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

    #[test]
    fn tags_outside_the_basic_plane_keep_their_value() {
        let value = json!("flag\u{e0067}\u{e007f}\u{1d173}");
        let (_, text) = written(&value, 1000);
        assert!(text.is_ascii());
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
