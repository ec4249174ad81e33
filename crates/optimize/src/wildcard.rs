//! Patterns of names: `*` stands for any text, `?` for any character.

/// Whether all of `name` is what `pattern` describes.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // The last `*` and how much of the name it stands for so far.
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
    fn stars_stand_for_any_text() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "blocks.0.q"),
            ("blocks.*.q", "blocks.0.q"),
            ("blocks.*.q", "blocks.0.q.q"),
            ("*.kernel", "a.b.kernel"),
            ("b?.q*", "b1.q"),
            ("*a*b*", "xxaxxbab"),
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
