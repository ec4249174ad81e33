//! The standalone binary, for people who deploy models without Python.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cli::run(std::env::args_os().skip(1).collect()))
}
