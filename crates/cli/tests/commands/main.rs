//! The commands as people call them, on real models and profiles.

mod diff;
mod profile;
mod strip;
mod view;

use std::path::{Path, PathBuf};

use cli::{Terminal, run_on};

/// What a command said and how it ended.
struct Said {
    status: u8,
    output: String,
    errors: String,
}

/// Runs a command line, words separated by blanks, on a terminal of 100 characters.
fn run(line: &str) -> Said {
    run_words(&line.split_whitespace().collect::<Vec<_>>())
}

fn run_words(words: &[&str]) -> Said {
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let mut terminal = Terminal {
        input: None,
        output: &mut output,
        errors: &mut errors,
        colors: false,
        width: 100,
    };
    let status = run_on(words.iter().map(Into::into).collect(), &mut terminal);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { status, output: text(output), errors: text(errors) }
}

/// The output of a command that works and has nothing to remark.
fn output(line: &str) -> String {
    let Said { status, output, errors } = run(line);
    assert_eq!((status, errors.as_str()), (0, ""), "{line}");
    output
}

/// The errors of a command that does not work.
fn trouble(line: &str) -> String {
    let Said { status, output, errors } = run(line);
    assert_eq!((status, output.as_str()), (2, ""), "{line}: {errors}");
    errors
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

/// A file of `tests/data`.
fn data(name: &str) -> PathBuf {
    Path::new("tests/data").join(name)
}
