//! `jax2onnx completions` and `jax2onnx man`: shell completion scripts and manual pages.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Cli;
use crate::failure::{Failure, Status};
use crate::terminal::Terminal;

/// Prints shell completions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(jax2onnx completions bash)
  jax2onnx completions fish > ~/.config/fish/completions/jax2onnx.fish")]
pub(crate) struct Completions {
    /// The shell to generate completions for.
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "jax2onnx", &mut script);
        terminal.output.write_all(&script).map_err(Failure::Output)?;
        Ok(Status::Yes)
    }
}

/// Prints the manual page in roff format.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jax2onnx man | man -l -
  jax2onnx man show | man -l -")]
pub(crate) struct Man {
    /// Print the page of this command instead.
    command: Option<String>,
}

impl Man {
    pub(crate) fn run(&self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        let mut all = Cli::command();
        all.build();
        let page = match &self.command {
            None => all,
            Some(name) => {
                let unknown = || Failure::Request(format!("there is no command `{name}`"));
                let found = all.find_subcommand(name).ok_or_else(unknown)?.clone();
                // One page per command, with a conventional name: `git-log`, `cargo-build`.
                found.display_name(format!("jax2onnx-{name}"))
            }
        };
        clap_mangen::Man::new(page).render(&mut terminal.output).map_err(Failure::Output)?;
        Ok(Status::Yes)
    }
}
