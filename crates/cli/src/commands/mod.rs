//! Subcommands, one file each.

mod completions;
mod conversion;
mod convert;
mod diff;
mod doctor;
pub(crate) mod explain;
mod export;
mod generate_folder;
mod node_data;
mod probe;
mod profile;
mod reduce;
pub(crate) mod show;
mod strip;
mod verify;
mod view;

use clap::Subcommand;

pub use conversion::Conversion;
use conversion::needs_python;
pub use doctor::{Doctor, PythonReport};
pub use export::Export;
pub use generate_folder::GenerateFolder;
pub use reduce::Reduce;
pub use verify::Verify;

use crate::failure::{Failure, Status};
use crate::terminal::Terminal;

/// A subcommand.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Export(Box<Export>),
    GenerateFolder(GenerateFolder),
    Verify(Verify),
    Reduce(Reduce),
    Convert(convert::Convert),
    Show(show::Show),
    Explain(explain::Explain),
    Profile(profile::Profile),
    View(view::View),
    Strip(strip::Strip),
    Diff(diff::Diff),
    Probe(probe::Probe),
    NodeData(node_data::NodeData),
    Doctor(Doctor),
    Completions(completions::Completions),
    Man(completions::Man),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        match self {
            Command::Export(command) => Err(needs_python("export", &command.function, "JAX")),
            Command::GenerateFolder(command) => {
                Err(needs_python("export", &command.checkpoint.display(), "JAX"))
            }
            Command::Verify(command) => {
                Err(needs_python("run", &command.model.display(), "onnxruntime"))
            }
            Command::Reduce(command) => Err(needs_python("reduce", &command.program, "JAX")),
            Command::Convert(command) => command.run(terminal),
            Command::Show(command) => command.run(terminal),
            Command::Explain(command) => command.run(terminal),
            Command::Profile(command) => command.run(terminal),
            Command::View(command) => command.run(terminal),
            Command::Strip(command) => command.run(terminal),
            Command::Diff(command) => command.run(terminal),
            Command::Probe(command) => command.run(terminal),
            Command::NodeData(command) => command.run(terminal),
            Command::Doctor(command) => command.run(None, terminal),
            Command::Completions(command) => command.run(terminal),
            Command::Man(command) => command.run(terminal),
        }
    }
}
