//! What a command writes must not be what it reads, nor another file that it writes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Fails if the file `output`, which the argument `argument` names, is one of `others`.
///
/// Files are compared by what their paths lead to: links and detours do not make two of one.
pub(crate) fn keep_apart<'p>(
    (argument, output): (&str, &Path),
    others: impl IntoIterator<Item = (&'static str, &'p Path)>,
) -> Result<(), Failure> {
    let place = resolved(output);
    match others.into_iter().find(|(_, other)| resolved(other) == place) {
        None => Ok(()),
        Some((what, _)) => Err(Failure::Request(format!(
            "{}: this is {what}, which `{argument}` would replace; give it another file",
            output.display()
        ))),
    }
}

/// The weights that lie in files beside the model at `path`.
pub(crate) fn weights(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let found = onnx::external_locations(path);
    let found = found.map_err(|error| Failure::model(path.to_owned(), error))?;
    Ok(found.iter().map(|location| path.with_file_name(location)).collect())
}

/// Where a path leads, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(found) = fs::canonicalize(&path) {
        return found;
    }
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => resolved(folder).join(name),
        _ => path,
    }
}
