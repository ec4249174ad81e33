//! Protection of files: a command must not overwrite a file that it reads, or another of its
//! outputs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Fails if `output`, the file given as `argument`, is one of `others`.
///
/// Paths are resolved first, so symbolic links and `..` cannot conceal that two paths are the same
/// file.
pub(crate) fn keep_apart<'p>(
    (argument, output): (&str, &Path),
    others: impl IntoIterator<Item = (&'static str, &'p Path)>,
) -> Result<(), Failure> {
    let place = resolved(output);
    match others.into_iter().find(|(_, other)| resolved(other) == place) {
        None => Ok(()),
        Some((what, _)) => Err(Failure::Request(format!(
            "{}: `{argument}` would overwrite {what}; choose another file",
            output.display()
        ))),
    }
}

/// Returns the data files that the model at `path` refers to.
pub(crate) fn weights(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let found = onnx_file::external_locations(path);
    let found = found.map_err(|error| Failure::model(path.to_owned(), error))?;
    Ok(found.iter().map(|location| path.with_file_name(location)).collect())
}

/// Returns the path with links resolved, as far as it exists.
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
