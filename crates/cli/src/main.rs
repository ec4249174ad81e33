//! The plain binary, for people who deploy models without Python.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A name that is no UTF-8 cannot be shown; it is refused by the file system soon enough.
    let arguments = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned());
    ExitCode::from(cli::run(arguments.collect()))
}
