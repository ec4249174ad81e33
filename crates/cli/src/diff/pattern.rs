//! Patterns for names that differ only in layer numbers.

use rustc_hash::FxHashSet;

use crate::model::enclosing;

/// Returns `true` if a parameter is a constant of the program rather than a weight. The exporter
/// names constants after their values.
pub(super) fn is_constant(name: &str) -> bool {
    name.starts_with("const/")
}

/// Replaces layer numbers by `*`: `blocks.3/attn` becomes `blocks.*/attn`.
pub(super) fn pattern(path: &str) -> String {
    let mut text = String::new();
    let mut digits = false;
    let mut before = ' ';
    for c in path.chars() {
        // A number is a counter only if it is a whole component of the path.
        if c.is_ascii_digit() && (digits || matches!(before, '.' | '/' | '_')) {
            if !digits {
                text.push('*');
            }
            digits = true;
        } else {
            digits = false;
            text.push(c);
        }
        before = c;
    }
    text
}

/// Returns a name that represents all of `names`.
pub(super) fn common(names: &[&str]) -> String {
    match names.split_first() {
        Some((first, rest)) if rest.iter().all(|name| name == first) => (*first).to_owned(),
        Some((first, _)) => pattern(first),
        None => String::new(),
    }
}

/// Returns all modules that contain one of `scopes`, including the scopes themselves.
pub(super) fn ancestors(scopes: &[String]) -> FxHashSet<&str> {
    scopes.iter().flat_map(|scope| enclosing(scope)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layer_numbers_become_stars() {
        for (path, expected) in [
            ("blocks.3/attn", "blocks.*/attn"),
            ("blocks.13.up.kernel", "blocks.*.up.kernel"),
            ("conv2d/w1", "conv2d/w1"),
            ("/Add_12", "/Add_*"),
        ] {
            assert_eq!(pattern(path), expected);
        }
    }

    #[test]
    fn one_name_stands_for_equal_names() {
        assert_eq!(common(&["blocks.3/up", "blocks.3/up"]), "blocks.3/up");
        assert_eq!(common(&["blocks.3/up", "blocks.4/up"]), "blocks.*/up");
        assert_eq!(common(&[]), "");
    }

    #[test]
    fn modules_are_inside_modules() {
        assert_eq!(enclosing("a/b/c").collect::<Vec<_>>(), ["a", "a/b", "a/b/c"]);
        assert_eq!(enclosing("").count(), 0);
    }

    #[test]
    fn constants_are_named_after_their_values() {
        assert!(is_constant("const/1.0") && !is_constant("dense.kernel"));
    }
}
