//! Explanation of a single error, for use from a program.

use std::path::Path;

use crate::commands::explain::{explain, write};
use crate::log::without_colors;
use crate::model::{FrameChoice, Frames, Index, Model};
use crate::style::Text;

/// Explains `message`, a runtime error, for the model file at `path`. Returns `None` if the message
/// mentions nothing in the model.
///
/// # Errors
/// If the model cannot be read.
pub fn explain_file(path: &Path, message: &str) -> Result<Option<String>, String> {
    let model = Model::open(path, None).map_err(|failure| failure.to_string())?;
    Ok(text(&model, message))
}

/// Like [`explain_file`], for a model in memory.
///
/// # Errors
/// If the model cannot be read.
pub fn explain_bytes(bytes: &[u8], message: &str) -> Result<Option<String>, String> {
    let model = Model::from_bytes(bytes).map_err(|error| error.to_string())?;
    Ok(text(&model, message))
}

fn text(model: &Model, message: &str) -> Option<String> {
    let index = Index::new(model);
    let explanation = explain(&index, &without_colors(message));
    if explanation.findings.is_empty() && explanation.unknown.is_empty() {
        return None;
    }
    let mut text = Text::new(false);
    let choice = FrameChoice::from(Frames::All);
    write(&mut text, &index, &explanation, None, &choice);
    Some(text.as_str().trim_end().to_owned())
}
