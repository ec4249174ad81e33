//! `jax2onnx diff`: the differences between two exports.

use std::path::PathBuf;

use clap::Args;

use crate::diff::{By, Side, compare, report, value};
use crate::failure::{Failure, Status};
use crate::terminal::Terminal;

/// Shows what changed between two models, by line of Python or by module.
///
/// Nodes are matched by module, operator and order, so renumbered names and moved lines do not
/// count as changes. A change that repeats in many layers is reported once. Parameters are compared
/// by name, type and contents, without loading them into memory. Metadata is ignored.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 if the models are the same, 1 if they differ, 2 on errors.

Examples:
  jax2onnx diff before.onnx after.onnx
  jax2onnx diff before.onnx after.onnx --by module --no-weights
  jax2onnx diff before.onnx after.onnx --json | jq '.nodes[].change'")]
pub(crate) struct Diff {
    /// The old model.
    a: PathBuf,
    /// The new model.
    b: PathBuf,
    /// Group the nodes by line or by module.
    #[arg(long, value_enum, default_value_t = By::Line)]
    by: By,
    /// Do not compare the contents of parameters.
    #[arg(long)]
    no_weights: bool,
    /// Print the full comparison as JSON.
    #[arg(long)]
    json: bool,
}

impl Diff {
    pub(crate) fn run(&self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        let (a, b) = (Side::open(&self.a)?, Side::open(&self.b)?);
        let notes: Vec<String> = a.notes().into_iter().chain(b.notes()).collect();
        let remarks = [a.remarks.as_slice(), b.remarks.as_slice()].concat();
        let (a, b) = (Side::new(&a), Side::new(&b));
        let found = compare(&a, &b, !self.no_weights)?;
        // Without differences, no lines are missing.
        terminal.remarks(if found.is_empty() { &remarks } else { &notes })?;
        if self.json {
            terminal.show_json(&value(&a, &b, &found))?;
        } else if !found.is_empty() {
            let mut text = terminal.text();
            report(&mut text, &a, &b, &found, self.by);
            terminal.show(&text)?;
        }
        if !self.json {
            terminal.remarks(&found.remarks)?;
        }
        Ok(if found.is_empty() { Status::Yes } else { Status::No })
    }
}
