//! `jax2onnx show`: a model as a person wants to read it.

mod groups;
mod head;
pub(crate) mod json;
mod node;
mod tree;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::failure::{Failure, Status};
use crate::model::{Index, Model};
use crate::style::Style;
use crate::table::{Column, table};
use crate::terminal::Terminal;

/// A model as a person wants to read it: inputs, outputs, parameters, and its nodes, each with its
/// type, its line of Python and the rule that emitted it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jax2onnx show model.onnx                               nodes as a tree by module
  jax2onnx show model.onnx --by line                     nodes by the line they came from
  jax2onnx show model.onnx --node /blocks.0/attn/MatMul  one node with its whole stack
  jax2onnx show model.onnx --json | jq '.nodes[].op'
  jax2onnx show model.onnx --text                        ONNX text syntax")]
pub(crate) struct Show {
    /// The model file. Its weights are not loaded.
    model: PathBuf,
    /// How nodes are grouped.
    #[arg(long, value_enum, default_value_t = By::Module)]
    by: By,
    /// Only this node, by its name or that of a result, with its whole stack.
    #[arg(long, value_name = "NAME", conflicts_with = "by")]
    node: Option<String>,
    /// List the parameters and other constants, too.
    #[arg(long)]
    parameters: bool,
    /// Print JSON.
    #[arg(long, conflicts_with_all = ["by", "parameters"])]
    json: bool,
    /// Print ONNX text syntax; what is too large to show is left out.
    #[arg(long, conflicts_with_all = ["by", "node", "parameters", "json"])]
    text: bool,
    /// The source map, if it is neither in the model nor beside it.
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
}

/// What nodes have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// The module instance, as a tree.
    Module,
    /// The line of the user's code.
    Line,
    /// The operator.
    Op,
    /// The rule that emitted them.
    Rule,
}

/// What is said about a node on one line.
const COLUMNS: [Column<'static>; 5] = [
    ("node", Style::Plain),
    ("op", Style::Plain),
    ("result", Style::Plain),
    ("call site", Style::Cyan),
    ("rule", Style::Dim),
];

impl Show {
    pub(crate) fn run(&self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        let model = Model::open(&self.model, self.map.as_deref())?;
        for remark in &model.remarks {
            terminal.remark(remark)?;
        }
        self.show(&model, terminal)
    }

    /// Shows a model that was read.
    pub(crate) fn show(
        &self,
        model: &Model,
        terminal: &mut Terminal<'_>,
    ) -> Result<Status, Failure> {
        if self.text {
            let mut text = terminal.text();
            text.lines(&onnx::text::print_model(&model.proto));
            terminal.show(&text)?;
            return Ok(Status::Yes);
        }
        let index = Index::new(model);
        let node = self.node.as_ref().map(|name| node::find(&index, name)).transpose()?;
        if self.json {
            match node {
                Some(node) => terminal.show_json(&json::node(&index, node))?,
                None => terminal.show_json(&json::model(&index))?,
            }
            return Ok(Status::Yes);
        }
        let mut text = terminal.text();
        if let Some(node) = node {
            node::describe(&mut text, &index, node);
        } else {
            head::write(&mut text, &index, self.parameters);
            let rows = match self.by {
                By::Module => tree::rows(&index),
                by => groups::rows(&index, by),
            };
            if !rows.is_empty() {
                table(&mut text, &COLUMNS, &rows, terminal.width);
            }
        }
        terminal.show(&text)?;
        Ok(Status::Yes)
    }
}

/// The line of a node: its label, then the other columns.
fn row(index: &Index<'_>, node: usize, label: String) -> Vec<String> {
    let origin = index.origin(node).unwrap_or_default();
    let op = index.nodes[node].op();
    let site = origin.site.map(|site| site.place()).unwrap_or_default();
    vec![label, op, index.results(&index.nodes[node]), site, origin.rule]
}
