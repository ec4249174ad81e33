//! Suggestions for a name that does not exist.

use std::fmt::Display;

use strsim::generic_levenshtein;

/// The number of names suggested.
const SUGGESTED: usize = 3;

/// The number of characters compared. They are taken from the end, because long names start alike.
const COMPARED: usize = 64;

/// The maximum number of names compared.
const NAMES: usize = 50_000;

/// Returns the names most similar to `wanted`, best first; none if all of them differ too much.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = end(wanted);
    let limit = wanted.len().div_ceil(2);
    let mut best: Vec<(usize, &str)> = Vec::new();
    for name in names.take(NAMES) {
        let worst = if best.len() < SUGGESTED { limit } else { best[SUGGESTED - 1].0 };
        let other = end(name);
        // The difference in length is a lower bound of the distance.
        if other.len().abs_diff(wanted.len()) >= worst.max(1) || best.iter().any(|b| b.1 == name) {
            continue;
        }
        let distance = generic_levenshtein(&wanted, &other);
        if distance < worst {
            let at = best.partition_point(|(known, _)| *known <= distance);
            best.insert(at, (distance, name));
            best.truncate(SUGGESTED);
        }
    }
    best.into_iter().map(|(_, name)| name).collect()
}

/// Formats similar names as the end of a sentence; empty if there are none.
pub(crate) fn similar(names: impl IntoIterator<Item = impl Display>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { String::new() } else { format!("; similar names: {}", names.join(", ")) }
}

/// Returns the last characters of a name in lower case.
fn end(name: &str) -> Vec<char> {
    let mut chars: Vec<char> =
        name.chars().rev().take(COMPARED).map(|c| c.to_ascii_lowercase()).collect();
    chars.reverse();
    chars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_suggested() {
        let names = ["/blocks.0/q/Gemm", "/blocks.1/q/Gemm", "/head/Softmax", "x"];
        assert_eq!(nearest("/blocks.0/q/gem", names.into_iter()), names[..2]);
        assert_eq!(nearest("/haed/Softmax", names.into_iter()), ["/head/Softmax"]);
        assert!(nearest("something else", names.into_iter()).is_empty());
        assert!(nearest("", names.into_iter()).is_empty());
    }
}
