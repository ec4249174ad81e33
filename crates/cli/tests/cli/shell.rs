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

/// Fails to write, as a closed pipe or a full disk does.
struct Closed(std::io::ErrorKind);

impl std::io::Write for Closed {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    use std::io::ErrorKind::{BrokenPipe, StorageFull};
    for (kind, expected, error) in
        [(BrokenPipe, 0, ""), (StorageFull, 2, "error: cannot write the output: ")]
    {
        let (mut output, mut errors) = (Closed(kind), Vec::new());
        let terminal = &mut cli::Terminal {
            input: None,
            output: &mut output,
            errors: &mut errors,
            colors: false,
            width: 100,
        };
        let arguments = ["show", "tests/models/map.onnx"].map(Into::into).to_vec();
        assert_eq!(cli::run_on(arguments, terminal), expected);
        let errors = String::from_utf8(errors).unwrap();
        assert!(errors.starts_with(error) && errors.is_empty() == error.is_empty(), "{errors}");
    }
}

#[test]
fn commands_that_need_python_are_known() {
    use cli::PythonCommand;
    let command = |line: &str| {
        let words: Vec<std::ffi::OsString> = line.split(' ').map(Into::into).collect();
        cli::python_command(&words)
    };
    assert!(matches!(command("export m.py:f"), Some(PythonCommand::Export(_))));
    assert!(matches!(command("reduce m.py:f"), Some(PythonCommand::Reduce(_))));
    assert!(matches!(command("doctor"), Some(PythonCommand::Doctor(_))));
    assert!(matches!(command("generate-folder c -o f"), Some(PythonCommand::GenerateFolder(_))));
    assert!(command("show model.onnx").is_none() && command("export").is_none());
    let verify = |page: &str| match command(&format!("verify a.onnx --reference b.onnx{page}")) {
        Some(PythonCommand::Verify(verify)) => verify.page_address(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        verify(" --page https://x.org/p.html#node=a").as_deref(),
        Some("https://x.org/p.html")
    );
    assert_eq!(verify(""), None);
}
