//! Decoding and checking of Python source text.

/// Decodes a source file. Python reads encodings other than UTF-8 if a comment names them (PEP
/// 263). Text that is not UTF-8 is decoded as Latin-1, which has a character for every byte, so
/// lines can be shown and the columns of common encodings are right.
pub fn source_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| error.as_bytes().iter().copied().map(char::from).collect())
}

/// Returns the message for a file whose text differs from the one that Python loaded.
pub fn edited_since_loaded(file: &str) -> String {
    format!(
        "`{file}` was edited after Python had loaded it and before the export, so its lines are not \
         those that ran; export again in a new process"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_encodings_are_read() {
        assert_eq!(source_text("a = 'ü'".into()), "a = 'ü'");
        assert_eq!(source_text(b"a = '\xfc'".to_vec()), "a = 'ü'");
    }

    #[test]
    fn an_edited_file_is_named() {
        assert!(
            edited_since_loaded("m.py").starts_with("`m.py` was edited after Python had loaded it")
        );
    }
}
