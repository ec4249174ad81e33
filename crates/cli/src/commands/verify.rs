//! `jax2onnx verify`: declared here for help and completions, carried out by Python.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::failure::{Failure, Status};
use crate::link::Page;

/// Compares a model with another one, value by value.
///
/// Every value is computed from the reference's operands, so the first one that differs is where a
/// mistake is made. Use it for models that were quantised, converted to another precision or
/// optimised: values are matched by what computes them, or else by name.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Verify {
    /// The model to check.
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// The model that is right.
    #[arg(long, value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub reference: PathBuf,
    /// The inputs: arrays with the names of the reference's inputs, or in their order. Without this
    /// option, they are random numbers, and symbolic dimensions are 2.
    #[arg(long, value_name = "FILE.npz", value_hint = ValueHint::FilePath)]
    pub inputs: Option<PathBuf>,
    /// The relative tolerance for floats. Default: by element type.
    #[arg(long)]
    pub rtol: Option<f64>,
    /// The absolute tolerance for floats. Default: by element type.
    #[arg(long)]
    pub atol: Option<f64>,
    /// Also print how much each line and each module adds to the error.
    #[arg(long)]
    pub errors: bool,
    /// The page that `view` wrote of the model: print a link into it.
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    pub page: Option<String>,
    /// Print JSON, which `view --errors` takes.
    #[arg(long)]
    pub json: bool,
}

const EXAMPLES: &str = "\
Examples:
  jax2onnx verify int8.onnx --reference model.onnx --inputs x.npz --errors
  jax2onnx verify optimized.onnx --reference model.onnx --json";

impl Verify {
    /// The address of the page.
    pub fn page_address(&self) -> Option<String> {
        self.page.as_deref().map(|page| Page::new(page).address().to_owned())
    }

    /// The standalone binary has no Python.
    pub(super) fn run(&self) -> Result<Status, Failure> {
        Err(Failure::Request(format!(
            "cannot run `{}`: this program comes without Python and onnxruntime\n  \
            help: run `pip install jax2onnx` and use the `jax2onnx` that it installs",
            self.model.display()
        )))
    }
}
