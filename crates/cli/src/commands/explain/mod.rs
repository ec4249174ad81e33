//! `jax2onnx explain`: traces a runtime's message back to a line of Python.

mod candidates;
mod findings;
mod input;
mod refine;
mod report;

use std::path::PathBuf;

use clap::Args;

use crate::failure::{Failure, Status};
use crate::link::Page;
use crate::log::without_colors;
use crate::model::{FrameOptions, Frames, Index, Model};
use crate::terminal::Terminal;

pub(crate) use findings::explain;
pub(crate) use report::write;

/// Finds the line of Python behind a runtime error.
///
/// Takes an error message or a log from onnxruntime, TensorRT or OpenVINO, or the name of a node or
/// value. Finds the nodes it mentions, even if the runtime renamed, inlined or fused them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  python serve.py 2>&1 | jax2onnx explain model.onnx
  jax2onnx explain model.onnx serve.log
  jax2onnx explain model.onnx \"… while running Add node. Name:'/Add' …\"
  jax2onnx explain model.onnx /blocks.0/attn/q/MatMul/MatMulAddFusion")]
pub(crate) struct Explain {
    /// The model file, as exported or as optimised by the runtime. Its weights are not loaded.
    model: PathBuf,
    /// A log file, a message, or the name of a node or value. Default: standard input.
    #[arg(allow_hyphen_values = true)]
    log: Option<String>,
    /// Print links into this page, which `view` wrote for the model.
    #[arg(long, value_name = "FILE.html")]
    page: Option<String>,
    #[command(flatten)]
    frames: FrameOptions,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The source map, if it is neither in the model nor beside it.
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
}

impl Explain {
    pub(crate) fn run(&self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        let model = Model::open(&self.model, self.map.as_deref())?;
        terminal.remarks(&model.remarks)?;
        let index = Index::new(&model);
        let log = input::read(self.log.as_deref(), &index, terminal)?;
        let log = without_colors(&log);
        let explanation = explain(&index, &log);
        let page = self.page.as_deref().map(Page::new);
        if self.json {
            terminal.show_json(&report::json(&index, &explanation, page.as_ref()))?;
        } else {
            let mut text = terminal.text();
            let choice = self.frames.choice(Frames::All, &index)?;
            write(&mut text, &index, &explanation, page.as_ref(), &choice);
            terminal.show(&text)?;
        }
        Ok(if explanation.findings.is_empty() { Status::No } else { Status::Yes })
    }
}
