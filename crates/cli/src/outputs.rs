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
        Some((what, _)) => {
            let why = format!("`{argument}` would overwrite {what}; choose another file");
            Err(Failure::file(output, why))
        }
    }
}

/// Returns the data files that the model at `path` refers to.
pub(crate) fn weights(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let found = onnx_file::external_locations(path).map_err(Failure::model(path))?;
    Ok(found.iter().map(|location| path.with_file_name(location)).collect())
}

/// Fails if the model at `path` has weights in a separate file that is not beside `out` as well.
pub(crate) fn check_data_files(path: &Path, out: &Path) -> Result<(), Failure> {
    let locations = onnx_file::external_locations(path).map_err(Failure::model(path))?;
    let (from, to) = (folder(path), folder(out));
    let same = |a: &Path, b: &Path| matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b);
    if locations.is_empty() || same(from, to) {
        return Ok(());
    }
    for location in &locations {
        let length = |folder: &Path| fs::metadata(folder.join(location)).map(|m| m.len()).ok();
        if length(to).is_none() || length(to) != length(from) {
            let to = to.display();
            let why = format!(
                "the model's weights are in `{location}` beside it; \
                copy that file to `{to}` first, or write the result to the model's folder"
            );
            return Err(Failure::file(path, why));
        }
    }
    Ok(())
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
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
