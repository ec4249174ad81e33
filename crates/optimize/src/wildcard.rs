//! Wildcard patterns for names: `*` matches any text, and `?` matches any character.

/// Returns one pattern and its value per line, such as `blocks.*=int4:32`, or `None` if the list is
/// empty.
pub(crate) fn to_text<T>(entries: &[(String, T)], show: impl Fn(&T) -> String) -> Option<String> {
    let line = |(pattern, what): &(String, T)| format!("{pattern}={}", show(what));
    let lines: Vec<String> = entries.iter().map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Parses the text that [`to_text`] writes.
pub(crate) fn parse<T>(text: &str, read: impl Fn(&str) -> Option<T>) -> Option<Vec<(String, T)>> {
    let entry = |line: &str| {
        let (pattern, what) = line.rsplit_once('=')?;
        Some((pattern.to_owned(), read(what)?))
    };
    text.lines().map(entry).collect()
}

/// Returns `true` if `pattern` matches the whole of `name`.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // The last `*`, and the position in the name up to which it matches so far.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_match_any_text() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "blocks.0.q"),
            ("blocks.*.q", "blocks.0.q"),
            ("blocks.*.q", "blocks.0.q.q"),
            ("*.kernel", "a.b.kernel"),
            ("b?.q*", "b1.q"),
            ("*a*b*", "xxaxxbab"),
            ("*a", "a"),
            ("a*b*", "ab"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "a"), ("blocks.*.q", "blocks.0.k"), ("b?.q", "b.q"), ("a*b", "abc"), ("a", "ab")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
