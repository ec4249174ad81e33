//! Runtime messages: the nodes they name, and their meaning.

mod forms;
mod meaning;
pub(crate) mod pattern;
mod severity;
mod wrapped;

pub(crate) use forms::{Mention, Runtime, mentions, paragraph, quoted};
pub(crate) use meaning::{Meaning, NAMED, meaning};
pub(crate) use severity::{Severity, guessed, severity};
pub(crate) use wrapped::{unfolded, unwrapped};

use std::borrow::Cow;

/// The maximum number of characters quoted of a name.
const NAME: usize = 120;

/// Shortens a name for display.
pub(crate) fn cut(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(NAME) {
        Some((end, _)) => Cow::Owned(format!("{}…", &name[..end])),
        None => Cow::Borrowed(name),
    }
}

/// Strips the colour codes that runtimes write to terminals.
pub(crate) fn without_colors(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut parts = text.split("\x1b[");
    clean.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(part.len());
        // The sequence ends with a letter.
        clean.push_str(part[end..].strip_prefix(|c: char| c.is_ascii_alphabetic()).unwrap_or(part));
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_dropped() {
        assert_eq!(without_colors("a\x1b[1;31mb\x1b[mc\x1b["), "abc");
    }
}
