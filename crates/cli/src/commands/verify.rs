//! `jax2onnx verify`: declared here for help and completions, implemented in Python.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueHint};

use crate::link::Page;

/// Compares a model with a function or a reference model, value by value.
///
/// Each value is computed from the reference's operands, so the first value that differs is where
/// an error is introduced. Use it for models that were quantised, converted to another precision or
/// optimised. Values are matched by the operations that compute them, or else by name.
///
/// With --dump, the values are those that a device computed. Each of them is compared with what
/// onnxruntime computes on the CPU from the device's own operands, and with JAX's values, or with
/// those of the CPU if no function is given.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("compared").args(["reference", "function", "dump"])
    .required(true).multiple(true))]
pub struct Verify {
    /// The model to check.
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// The reference model.
    #[arg(long, value_name = "MODEL", value_hint = ValueHint::FilePath,
          conflicts_with_all = ["function", "dump"])]
    pub reference: Option<PathBuf>,
    /// The function that the model was exported from, as in `export`.
    #[arg(long, value_name = "FILE.py:FUNCTION")]
    pub function: Option<String>,
    /// Values from a device: what a recorder wrote when it ran this model. `jax2onnx probe` makes
    /// such models and prints recorders.
    #[arg(long, value_name = "FILE.safetensors", value_hint = ValueHint::FilePath,
          conflicts_with = "inputs")]
    pub dump: Option<PathBuf>,
    /// The inputs: arrays with the names of the reference's inputs, or in the same order. Without
    /// this option, inputs are random and symbolic dimensions are 2.
    #[arg(long, value_name = "FILE.npz", value_hint = ValueHint::FilePath)]
    pub inputs: Option<PathBuf>,
    /// The relative tolerance for floats. Default: depends on the element type.
    #[arg(long)]
    pub rtol: Option<f64>,
    /// The absolute tolerance for floats. Default: depends on the element type.
    #[arg(long)]
    pub atol: Option<f64>,
    /// Also print how much each line and each module adds to the error.
    #[arg(long)]
    pub errors: bool,
    /// Print a link into this page, which `view` wrote for the model.
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    pub page: Option<String>,
    /// Print JSON, the input of `view --errors`.
    #[arg(long = "json")]
    pub as_json: bool,
}

const EXAMPLES: &str = "\
Examples:
  jax2onnx verify int8.onnx --reference model.onnx --inputs x.npz --errors
  jax2onnx verify optimized.onnx --reference model.onnx --json
  jax2onnx verify model.onnx --function model.py:predict --inputs x.npz
  jax2onnx verify model.probe.onnx --dump run.safetensors --function model.py:f";

impl Verify {
    /// Returns the address of the page.
    pub fn page_address(&self) -> Option<String> {
        self.page.as_deref().map(|page| Page::new(page).address().to_owned())
    }
}
