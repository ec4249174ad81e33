//! The command line as a library: the wheel's `jax2onnx` and the standalone binary both call
//! [`run`].

mod commands;
mod diff;
mod excerpt;
mod explain_error;
mod failure;
#[doc(hidden)]
pub mod fuzz;
mod json;
mod limits;
mod link;
mod listing;
mod log;
mod model;
mod nearest;
mod outputs;
mod page;
mod profile;
mod style;
mod table;
mod terminal;
mod view;

use std::ffi::OsString;
use std::io::{self, Write};

use clap::Parser;

pub use commands::{Conversion, Doctor, Export, GenerateFolder, PythonReport, Reduce, Verify};
pub use diff::common_subsequence;
pub use excerpt::{python_file, set_cells, set_package_folders};
pub use explain_error::{explain_bytes, explain_file};
pub use listing::{ListedNode, Listing, PathError};
pub use model::{Fused, Lookup, OptimizedNode, before_inlining, source_map_of};
pub use terminal::Terminal;

use commands::Command;
pub use failure::without_number;
use failure::{Failure, Status};

/// A hash map in order of first insertion.
type FxIndexMap<K, V> = indexmap::IndexMap<K, V, rustc_hash::FxBuildHasher>;

/// A hash set in order of first insertion.
type FxIndexSet<T> = indexmap::IndexSet<T, rustc_hash::FxBuildHasher>;

/// Exports JAX functions to ONNX, and traces ONNX nodes back to lines of Python.
///
/// Commands that show, explain or compare models read any ONNX file. To trace nodes to their source,
/// they use the source map in the model, a map file beside it, or the metadata of its nodes.
#[derive(Debug, Parser)]
#[command(name = "jax2onnx", version, after_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_STATUS: &str = "\
Examples:
  jax2onnx export model.py:predict --input 'f32[B,3]' --provenance sourcemap
  jax2onnx show predict.onnx                            where each node came from
  python serve.py 2>&1 | jax2onnx explain predict.onnx  the line behind an error
  jax2onnx view predict.onnx --open                     source and graph
  jax2onnx help show                                    more about a command

Exit status:
  0  success
  1  the answer is no: nothing was found, or the models differ
  2  an error: wrong usage, or a file that cannot be read or written

Colours are used only on terminals, and never if NO_COLOR is set.";

/// Runs a command line without the program's name. Returns the exit status.
pub fn run(arguments: Vec<OsString>) -> u8 {
    let (mut input, mut output, mut errors) = (io::stdin(), io::stdout(), io::stderr());
    run_on(arguments, &mut Terminal::of_process(&mut input, &mut output, &mut errors))
}

/// Runs `jax2onnx doctor` in Python. Returns the exit status.
pub fn run_doctor(doctor: &Doctor, python: &PythonReport) -> u8 {
    let (mut input, mut output, mut errors) = (io::stdin(), io::stdout(), io::stderr());
    let mut terminal = Terminal::of_process(&mut input, &mut output, &mut errors);
    finish(doctor.run(Some(python), &mut terminal), &mut terminal)
}

/// A command that needs Python. Without Python, [`run`] does what it can or fails.
#[derive(Debug)]
pub enum PythonCommand {
    /// `jax2onnx doctor`
    Doctor(Doctor),
    /// `jax2onnx export`
    Export(Box<Export>),
    /// `jax2onnx generate-folder`
    GenerateFolder(GenerateFolder),
    /// `jax2onnx reduce`
    Reduce(Reduce),
    /// `jax2onnx verify`
    Verify(Verify),
}

/// Returns the Python command of a command line without the program's name, if it is one.
pub fn python_command(arguments: &[OsString]) -> Option<PythonCommand> {
    let arguments = std::iter::once("jax2onnx".into()).chain(arguments.iter().cloned());
    match Cli::try_parse_from(arguments).ok()?.command {
        Command::Doctor(doctor) => Some(PythonCommand::Doctor(doctor)),
        Command::Export(export) => Some(PythonCommand::Export(export)),
        Command::GenerateFolder(command) => Some(PythonCommand::GenerateFolder(command)),
        Command::Reduce(reduce) => Some(PythonCommand::Reduce(reduce)),
        Command::Verify(verify) => Some(PythonCommand::Verify(verify)),
        _ => None,
    }
}

/// Runs a command line on the given terminal.
pub fn run_on(arguments: Vec<OsString>, terminal: &mut Terminal<'_>) -> u8 {
    let arguments = std::iter::once("jax2onnx".into()).chain(arguments);
    let result = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli.command.run(terminal),
        Err(error) => {
            let text = error.render();
            let text = if terminal.colors { text.ansi().to_string() } else { text.to_string() };
            // To clap, help and version are errors too.
            let (status, to) = if error.use_stderr() {
                (Status::Trouble, &mut terminal.errors)
            } else {
                (Status::Yes, &mut terminal.output)
            };
            to.write_all(text.as_bytes()).map(|()| status).map_err(Failure::Output)
        }
    };
    finish(result, terminal)
}

/// Reports a failure, and returns the exit status.
fn finish(result: Result<Status, Failure>, terminal: &mut Terminal<'_>) -> u8 {
    let flushed = |status| terminal.output.flush().map(|()| status).map_err(Failure::Output);
    let status = result.and_then(flushed).unwrap_or_else(|failure| match failure {
        // A reader that has seen enough, such as `head`, is not a failure.
        Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Status::Yes,
        failure => {
            let text = failure.to_string();
            let text = style::harmless(&text);
            // If even this cannot be written, the message is lost.
            let _ = writeln!(terminal.errors, "error: {text}");
            failure.status()
        }
    });
    status as u8
}
