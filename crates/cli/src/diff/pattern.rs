//! Names that differ in the numbers of layers only.

use rustc_hash::FxHashSet;

/// Whether a parameter is a constant of the program rather than one of the model's own: the
/// exporter names these after their values.
pub(super) fn is_constant(name: &str) -> bool {
    name.starts_with("const/")
}

/// `blocks.3/attn` → `blocks.*/attn`: what repeats in each layer looks the same.
pub(super) fn pattern(path: &str) -> String {
    let mut text = String::new();
    let mut digits = false;
    let mut before = ' ';
    for c in path.chars() {
        // Numbers that are whole parts of a path count something; others belong to a name.
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

/// One name for all of `names`, which are alike.
pub(super) fn common(names: &[&str]) -> String {
    match names.split_first() {
        Some((first, rest)) if rest.iter().all(|name| name == first) => (*first).to_owned(),
        Some((first, _)) => pattern(first),
        None => String::new(),
    }
}

/// All modules that a list of modules stands in, themselves included.
pub(super) fn ancestors(scopes: &[String]) -> FxHashSet<&str> {
    scopes.iter().flat_map(|scope| outermost(scope)).collect()
}

/// A module and those around it, the outermost first.
pub(super) fn outermost(scope: &str) -> impl Iterator<Item = &str> {
    let ends = scope.match_indices('/').map(|(at, _)| at).chain([scope.len()]);
    ends.filter(|end| *end > 0).map(|end| &scope[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_layers_become_stars() {
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
    fn modules_stand_in_modules() {
        assert_eq!(outermost("a/b/c").collect::<Vec<_>>(), ["a", "a/b", "a/b/c"]);
        assert_eq!(outermost("").count(), 0);
    }
}
