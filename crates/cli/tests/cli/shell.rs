//! Command lines as typed: words separated by spaces, on a terminal 100 characters wide.

use std::path::{Path, PathBuf};

use crate::{Run, run_with};

/// Runs a command line.
pub(crate) fn run(line: &str) -> Run {
    run_with(&line.split_whitespace().collect::<Vec<_>>(), None, false, 100)
}

/// Returns the output of a command that must succeed without notes.
pub(crate) fn output(line: &str) -> String {
    let Run { status, output, errors } = run(line);
    assert_eq!((status, errors.as_str()), (0, ""), "{line}");
    output
}

/// Returns the errors of a command that must fail.
pub(crate) fn trouble(line: &str) -> String {
    let Run { status, output, errors } = run(line);
    assert_eq!((status, output.as_str()), (2, ""), "{line}: {errors}");
    errors
}

/// Creates a temporary folder.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns the path of a file in a folder.
pub(crate) fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

/// Returns the path of a model with a profile, or of one of its companion files.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new("tests/profiled").join(name)
}
