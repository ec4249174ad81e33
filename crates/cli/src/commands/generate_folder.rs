//! `jax2onnx generate-folder`: declared here for help and completions, implemented in Python.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::conversion::{Conversion, Provenance};

/// Exports a published language model for onnxruntime-genai.
///
/// CHECKPOINT is a folder in the usual layout: config.json, one or more safetensors files, and the
/// files of a tokenizer. Its family is one of Gemma 2 and 3, GPT-OSS, Llama, Mistral, Phi 3, Qwen 2
/// and 3. The weights are read while the model is written, one at a time.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct GenerateFolder {
    /// The folder of the checkpoint.
    #[arg(value_hint = ValueHint::DirPath)]
    pub checkpoint: PathBuf,
    /// The folder to write, which is replaced as a whole.
    #[arg(short, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
    /// The largest number of tokens. Default: that of the checkpoint, at most 4096.
    #[arg(long, value_name = "TOKENS")]
    pub context_length: Option<u64>,
    /// Merge a LoRA adapter in the layout of peft: a folder with adapter_config.json and
    /// adapter_model.safetensors.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub adapter: Option<PathBuf>,
    /// Compute the logits of all tokens of a prompt, to score texts. Generation needs those of the
    /// last one only.
    #[arg(long)]
    pub all_logits: bool,
    /// The recorded lines.
    #[command(flatten)]
    pub provenance: Provenance,
    /// The options of the conversion.
    #[command(flatten)]
    pub conversion: Conversion,
    /// Print nothing on success.
    #[arg(short, long)]
    pub quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  jax2onnx generate-folder Llama-3.2-1B -o llama --weights int4
  jax2onnx generate-folder Qwen3-0.6B -o qwen --context-length 2048 --stacktrace
  jax2onnx generate-folder gemma-3-1b-it -o gemma --adapter my-lora";
