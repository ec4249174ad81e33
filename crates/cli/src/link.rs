//! Links into a page that `view` wrote.

use std::fmt::Write;
use std::path::Path;

/// The address of a page.
#[derive(Clone, Debug)]
pub(crate) struct Page(String);

impl Page {
    /// Creates the address of a file, or of a URL that contains `://`.
    pub(crate) fn new(given: &str) -> Self {
        if given.contains("://") {
            return Self(given.split('#').next().unwrap_or_default().to_owned());
        }
        let path = std::path::absolute(given).unwrap_or_else(|_| Path::new(given).to_owned());
        let path = path.to_string_lossy().replace('\\', "/");
        let slash = if path.starts_with('/') { "" } else { "/" };
        Self(format!("file://{slash}{}", encoded(&path)))
    }

    /// Returns the address of the page itself.
    pub(crate) fn address(&self) -> &str {
        &self.0
    }

    /// Returns the link to a node.
    pub(crate) fn node(&self, name: &str) -> String {
        format!("{}#node={}", self.0, encoded(name))
    }

    /// Returns the link to a line.
    pub(crate) fn line(&self, file: &str, line: u32) -> String {
        format!("{}#{}:{line}", self.0, encoded(file))
    }
}

/// Percent-encodes characters with a meaning in URLs, and characters at which terminals end links.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/:@,".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_nodes_and_lines() {
        let page = Page::new("https://example.org/m.html#old");
        assert_eq!(page.line("a/b.py", 7), "https://example.org/m.html#a/b.py:7");
        assert_eq!(page.line("In [7]", 2), "https://example.org/m.html#In%20%5B7%5D:2");
        let odd = page.node("/é&\u{1b}/bq,bk->b/Mul");
        assert_eq!(odd, "https://example.org/m.html#node=/%C3%A9%26%1B/bq,bk-%3Eb/Mul");
        let file = Page::new("m.html").node("x");
        assert!(file.starts_with("file:///") && file.ends_with("/m.html#node=x"), "{file}");
    }
}
