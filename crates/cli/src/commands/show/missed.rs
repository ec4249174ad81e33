//! The operators that were nearly recognised, as recorded in the model.

use provenance::{CALLSITE, MISSED, PLUGIN, SOURCE_MAP, SOURCE_MAP_DIGEST};
use serde_json::{Value, json};

use crate::failure::{Failure, Status};
use crate::model::Model;
use crate::terminal::Terminal;

/// Prints the operators that were nearly recognised.
pub(super) fn show(
    model: &Model,
    as_json: bool,
    terminal: &mut Terminal<'_>,
) -> Result<Status, Failure> {
    let missed: Vec<&str> = model.property(MISSED).unwrap_or_default().lines().collect();
    if as_json {
        terminal.show_json(
            &json!({ "missed": missed.iter().map(|line| entry(line)).collect::<Vec<_>>() }),
        )?;
    } else {
        let mut text = terminal.text();
        missed.iter().for_each(|line| text.line(line));
        if missed.is_empty() {
            let known = "no operator was nearly recognised";
            text.line(&match (is_recorded(model), has_separate_map(model)) {
                (true, _) => known.to_owned(),
                (false, true) => format!(
                    "{known}, or it is not recorded: the source map is a separate file, so the \
                     model has no metadata"
                ),
                (false, false) => {
                    format!("{known}, or the model was exported without `--provenance`")
                }
            });
        }
        terminal.show(&text)?;
    }
    Ok(Status::Yes)
}

/// Returns `true` if the model was exported with metadata, which includes the missed operators. A
/// model whose map is in a separate file may have no metadata.
fn is_recorded(model: &Model) -> bool {
    let nodes = model.proto.graph.iter().flat_map(|graph| &graph.node);
    let mut keys = nodes.flat_map(|node| &node.metadata_props).map(|entry| entry.key.as_str());
    model.property(SOURCE_MAP).is_some() || keys.any(|key| key == PLUGIN || key == CALLSITE)
}

/// Returns `true` if the model was exported with a map in a separate file.
fn has_separate_map(model: &Model) -> bool {
    model.map.is_some() || model.property(SOURCE_MAP_DIGEST).is_some()
}

/// Parses `OP at FILE:LINE stays elementary: REASON`.
fn entry(line: &str) -> Value {
    let (what, reason) = line.split_once(" stays elementary: ").unwrap_or((line, ""));
    let (op, place) = what.split_once(" at ").unwrap_or((what, ""));
    json!({ "op": op, "callsite": place, "reason": reason })
}
