//! The command line as a library: the wheel's `jax2onnx` and the plain binary both call [`run`].

mod show;
mod table;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Exit statuses, as documented in `--help`.
const SUCCESS: u8 = 0;
const FAILURE: u8 = 1;
const USAGE: u8 = 2;

/// ONNX models that know the Python lines they came from.
#[derive(Debug, Parser)]
#[command(name = "jax2onnx", version, about, after_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_STATUS: &str = "Exit status: 0 success, 1 the command failed, 2 wrong usage.";

#[derive(Debug, Subcommand)]
enum Command {
    /// The nodes of a model, each with its type, its line of Python and the rule that emitted it.
    ///
    /// Works on any ONNX file; call sites and rules are shown where the model carries them.
    #[command(after_help = "Example:\n  jax2onnx show model.onnx")]
    Show {
        /// The model file. Its weights are not loaded.
        model: PathBuf,
    },
}

/// Runs a command line, without the program's name, and returns the exit status.
pub fn run(arguments: Vec<String>) -> u8 {
    let arguments = std::iter::once("jax2onnx".to_owned()).chain(arguments);
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are "errors" too, which clap prints to standard output.
            let printed = error.print();
            return if error.use_stderr() || printed.is_err() { USAGE } else { SUCCESS };
        }
    };
    let result = match cli.command {
        Command::Show { model } => show::show(&model),
    };
    match result {
        Ok(text) => match io::stdout().write_all(text.as_bytes()) {
            // A reader that has seen enough, such as `head`, is no failure.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => FAILURE,
            _ => SUCCESS,
        },
        Err(error) => {
            eprintln!("error: {error}");
            FAILURE
        }
    }
}
