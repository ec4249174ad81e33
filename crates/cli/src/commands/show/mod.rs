//! `jax2onnx show`: a readable summary of a model.

mod groups;
mod head;
pub(crate) mod json;
mod missed;
pub(crate) mod node;
mod tree;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use provenance::SourceMap;

use crate::excerpt::Excerpts;
use crate::failure::{Failure, Status};
use crate::model::{FrameChoice, FrameOptions, Frames, Index, Model};
use crate::style::Style;
use crate::table::{Column, table};
use crate::terminal::Terminal;

/// Shows a model's inputs, outputs, parameters and nodes.
///
/// Each node has its type, its line of Python and the rule that emitted it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jax2onnx show model.onnx                       nodes as a tree by module
  jax2onnx show model.onnx --by line             nodes by line of Python
  jax2onnx show model.onnx --by line --frames all  also the lines of libraries
  jax2onnx show model.onnx --node /attn/Softmax  one node and its whole stack
  jax2onnx show model.onnx --missed              operators nearly recognised
  jax2onnx show model.onnx --text                ONNX text syntax
  jax2onnx show model.onnx --json | jq '.nodes[].op'")]
pub(crate) struct Show {
    /// The model file. Its weights are not loaded.
    model: PathBuf,
    /// Group the nodes by module, line, operator or rule.
    #[arg(long, value_enum, default_value_t = By::Module)]
    by: By,
    /// Show only this node with its whole stack. Give its name or the name of a result.
    #[arg(long, value_name = "NAME", conflicts_with = "by")]
    node: Option<String>,
    #[command(flatten)]
    frames: FrameOptions,
    /// Also list the parameters and other constants.
    #[arg(long)]
    parameters: bool,
    /// Show only the operators that were nearly recognised and remain decomposed, with lines and
    /// reasons.
    #[arg(long, conflicts_with_all = ["by", "node", "parameters"])]
    missed: bool,
    /// Print JSON.
    #[arg(long, conflicts_with_all = ["by", "parameters"])]
    json: bool,
    /// Print ONNX text syntax, without large tensors.
    #[arg(long, conflicts_with_all = ["by", "node", "parameters", "json", "missed"])]
    text: bool,
    /// The source map, if it is neither in the model nor beside it.
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
}

/// The grouping of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// The module instance, as a tree.
    Module,
    /// The line of the user's code.
    Line,
    /// The operator.
    Op,
    /// The rule that emitted the nodes.
    Rule,
}

/// The columns of a node's row.
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
        // The others print no lines, or report themselves that there are none.
        let prints_lines = !self.text && !self.missed && !self.json;
        let notes = if prints_lines { model.notes() } else { model.remarks.clone() };
        terminal.remarks(&notes)?;
        for file in model.map.iter().flat_map(SourceMap::edited) {
            terminal.remark(&provenance::edited_since_loaded(file))?;
        }
        if prints_lines && self.node.is_none() {
            terminal.remarks(&Excerpts::new(&model).changed())?;
        }
        self.show(&model, terminal)
    }

    /// Prints a loaded model.
    pub(crate) fn show(
        &self,
        model: &Model,
        terminal: &mut Terminal<'_>,
    ) -> Result<Status, Failure> {
        if self.missed {
            return missed::show(model, self.json, terminal);
        }
        if self.text {
            let mut text = terminal.text();
            text.lines(&onnx_file::print_model(&model.proto));
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
                By::Module => tree::rows(&index, &self.frames.choice(Frames::User, &index)?),
                By::Line => groups::lines(&index, &self.frames.choice(Frames::Library, &index)?),
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

/// Returns the row of a node: its label, then the other columns. The chosen frames of libraries
/// follow the user's line.
fn row(index: &Index<'_>, node: usize, label: String, choice: &FrameChoice) -> Vec<String> {
    let origin = index.origin(node).unwrap_or_default();
    let op = index.nodes[node].op();
    let mut site = origin.place().unwrap_or_default();
    for frame in choice.below(&origin) {
        site.push_str(&format!(" → {}", frame.place()));
    }
    vec![label, op, index.results(&index.nodes[node]), site, origin.rule]
}
