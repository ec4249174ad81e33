//! Message patterns with blanks: `running {op} node. Name:'{name}'`.

/// The maximum length of a name or number that a blank matches.
const LONGEST: usize = 4096;

/// The maximum number of attempts to match a pattern, so that hostile text cannot stall the search.
const ATTEMPTS: usize = 20_000;

/// The blanks of a pattern with the text that fills them.
pub(crate) type Captures<'p, 't> = Vec<(&'p str, &'t str)>;

/// Finds the pattern in `text` at or after `from`. Returns its start, its end and its blanks. A
/// blank extends to the next occurrence of the text that follows it, within one line. At the end of
/// a pattern, it extends to the end of the line.
pub(crate) fn find<'p, 't>(
    pattern: &'p str,
    text: &'t str,
    mut from: usize,
) -> Option<(usize, usize, Captures<'p, 't>)> {
    let (first, rest) = split(pattern);
    for _ in 0..ATTEMPTS {
        let at = from + text.get(from..)?.find(first)?;
        match fill(rest, text, at + first.len()) {
            Some((end, captures)) => return Some((at, end, captures)),
            None => from = at + first.len(),
        }
    }
    None
}

/// Returns the text before the first blank, and the rest of the pattern.
fn split(pattern: &str) -> (&str, &str) {
    pattern.split_at(pattern.find('{').unwrap_or(pattern.len()))
}

/// Matches `pattern`, which starts with a blank or is empty, with the text at `at`. Returns the end
/// of the match.
fn fill<'p, 't>(
    mut pattern: &'p str,
    text: &'t str,
    mut at: usize,
) -> Option<(usize, Captures<'p, 't>)> {
    let mut captures = Vec::new();
    while let Some(rest) = pattern.strip_prefix('{') {
        let (key, rest) = rest.split_once('}')?;
        let (literal, next) = split(rest);
        let line = prefix(&text[at..], LONGEST).split('\n').next().unwrap_or_default();
        let len = if literal.is_empty() { line.len() } else { line.find(literal)? };
        captures.push((key, &line[..len]));
        at += len + literal.len();
        pattern = next;
    }
    Some((at, captures))
}

/// Returns at most the first `len` bytes of `text`.
pub(crate) fn prefix(text: &str, len: usize) -> &str {
    let fits = (0..=len.min(text.len())).rev().find_map(|end| text.get(..end));
    fits.unwrap_or_default()
}

/// Returns at most the last `len` bytes of `text`.
pub(crate) fn suffix(text: &str, len: usize) -> &str {
    let fits = (text.len().saturating_sub(len)..=text.len()).find_map(|start| text.get(start..));
    fits.unwrap_or_default()
}

/// Fills in the blanks of a template.
pub(crate) fn render(template: &str, captures: &Captures<'_, '_>) -> String {
    let mut text = template.to_owned();
    for (key, value) in captures {
        // A value may contain the name of another blank, which must not be filled in.
        text = text.replace(&format!("{{{key}}}"), &value.replace('{', "\u{0}"));
    }
    text.replace('\u{0}', "{")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_extend_to_the_text_after_them() {
        let text = "x Node (a (b)) Op (Add) [E] why\nmore";
        let (at, end, captures) = find("Node ({name}) Op ({op}) [E] {rest}", text, 0).unwrap();
        assert_eq!((at, &text[end..]), (2, "\nmore"));
        assert_eq!(captures, [("name", "a (b)"), ("op", "Add"), ("rest", "why")]);
        assert_eq!(find("Node ({name}) Op", text, 3), None);
        assert_eq!(find("Node ({name}\nmore", text, 0), None, "a blank stays on its line");
    }

    #[test]
    fn later_occurrences_are_tried() {
        let (_, _, captures) = find("'{a}'!", "'x' 'y'!", 0).unwrap();
        assert_eq!(captures, [("a", "x' 'y")]);
        let (_, _, captures) = find("in ({a})", "in (x\nin (y)", 0).unwrap();
        assert_eq!(captures, [("a", "y")]);
    }

    #[test]
    fn values_are_not_templates() {
        let captures = vec![("a", "{b}"), ("b", "1")];
        assert_eq!(render("{a} {b} {c}", &captures), "{b} 1 {c}");
    }
}
