//! A self-contained page that shows a model beside its source.

mod attributes;
mod comparison;
mod data;
mod editor;
mod errors;
mod parameters;
mod tables;
mod unfold;

use crate::style::is_reordering;

pub(crate) use attributes::attribute_text;
pub(crate) use comparison::Other;
pub(crate) use data::{Subject, Timed, data};
pub(crate) use editor::Editor;
pub(crate) use errors::Errors;

/// The page, with a placeholder for each of its parts.
const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// The scripts of the page. Each depends only on those before it.
const SCRIPTS: [&str; 13] = [
    include_str!("data.js"),
    include_str!("measures.js"),
    include_str!("source.js"),
    include_str!("graph.js"),
    include_str!("arcs.js"),
    include_str!("overview.js"),
    include_str!("inspector.js"),
    include_str!("parameters.js"),
    include_str!("flame.js"),
    include_str!("changes.js"),
    include_str!("links.js"),
    include_str!("help.js"),
    include_str!("page.js"),
];

/// Builds the page for `data`.
pub(crate) fn page(data: &serde_json::Value) -> String {
    let data = harmless(&data.to_string());
    let script = SCRIPTS.concat();
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + script.len() + data.len());
    let mut rest = PAGE;
    for (mark, part) in [("/*STYLE*/", STYLE), ("/*DATA*/", &data), ("/*SCRIPT*/", &script)] {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(part);
        rest = after;
    }
    page.push_str(rest);
    page
}

/// Makes JSON safe inside HTML: escapes characters that could end the element or a line of a
/// script, and makes those visible that reorder text. They occur only inside strings.
fn harmless(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c if is_reordering(c) => text.push_str(&format!("\\{}", c.escape_unicode())),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn names_cannot_escape_from_the_data() {
        let nasty = "</script><script>alert(1)</script><!-- & \u{2028}\u{2029} /*SCRIPT*/";
        let page = page(&json!({ "title": nasty }));
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(!page.contains('\u{2028}') && !page.contains("<!-- &"));
        let start = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
        let data = &page[start..start + page[start..].find("</script>").unwrap()];
        let read: Value = serde_json::from_str(data).unwrap();
        assert_eq!(read["title"], nasty);
    }

    #[test]
    fn text_cannot_be_reordered() {
        let page = page(&json!({ "title": "a\u{202e}b" }));
        assert!(page.contains(r#"{"title":"a\\u{202e}b"}"#));
    }

    #[test]
    fn the_page_is_self_contained() {
        let page = page(&json!({}));
        for mark in
            ["/*STYLE*/", "/*DATA*/", "/*SCRIPT*/", "http://", "https://", "@import", "src="]
        {
            assert!(!page.contains(mark), "{mark}");
        }
        for script in SCRIPTS {
            assert!(!script.contains("</script"));
        }
    }
}
