//! Names like a name that does not exist.

/// How many names are suggested.
const SUGGESTED: usize = 3;

/// Longer names are compared by their ends only: they begin alike.
const COMPARED: usize = 64;

/// How many names are compared.
const NAMES: usize = 50_000;

/// The names most like `wanted`, best first; none if all are quite different.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = end(wanted);
    let furthest = wanted.len().div_ceil(2);
    let mut best: Vec<(usize, &str)> = Vec::new();
    for name in names.take(NAMES) {
        let worst = if best.len() < SUGGESTED { furthest } else { best[SUGGESTED - 1].0 };
        let other = end(name);
        if other.len().abs_diff(wanted.len()) >= worst.max(1) || best.iter().any(|b| b.1 == name) {
            continue;
        }
        let away = distance(&wanted, &other);
        if away < worst {
            let at = best.partition_point(|(known, _)| *known <= away);
            best.insert(at, (away, name));
            best.truncate(SUGGESTED);
        }
    }
    best.into_iter().map(|(_, name)| name).collect()
}

/// The last characters of a name, in lower case.
fn end(name: &str) -> Vec<char> {
    let mut chars: Vec<char> =
        name.chars().rev().take(COMPARED).map(|c| c.to_ascii_lowercase()).collect();
    chars.reverse();
    chars
}

/// How many insertions, deletions and replacements make `a` into `b`.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_names_are_suggested() {
        let names = ["/blocks.0/q/Gemm", "/blocks.1/q/Gemm", "/head/Softmax", "x"];
        assert_eq!(nearest("/blocks.0/q/gem", names.into_iter()), names[..2]);
        assert_eq!(nearest("/haed/Softmax", names.into_iter()), ["/head/Softmax"]);
        assert!(nearest("something else", names.into_iter()).is_empty());
        assert!(nearest("", names.into_iter()).is_empty());
    }

    #[test]
    fn distances_count_edits() {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        for (a, b, away) in [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(distance(&chars(a), &chars(b)), away, "{a} {b}");
        }
    }
}
