//! Tables with one row for each operator that they say something about.

/// The rows, sorted by the operators' names.
pub(crate) type Rows<T> = [(&'static str, T)];

/// What a table says about an operator.
pub(crate) fn find<T: Copy>(rows: &Rows<T>, op: &str) -> Option<T> {
    let at = rows.binary_search_by_key(&op, |(name, _)| name).ok()?;
    Some(rows[at].1)
}

/// Whether a table can be searched, and its operators exist.
#[cfg(test)]
pub(crate) fn check<T>(rows: &Rows<T>) {
    assert!(rows.is_sorted_by(|a, b| a.0 < b.0));
    for (name, _) in rows {
        assert!(!onnx::schema::versions(&onnx::Op::onnx(name)).is_empty(), "{name}");
    }
}
