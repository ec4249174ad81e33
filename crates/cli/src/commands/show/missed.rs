//! The operators that were nearly recognised, as the model remembers them.

use provenance::MISSED;
use serde_json::{Value, json};

use crate::failure::{Failure, Status};
use crate::model::Model;
use crate::terminal::Terminal;

/// Shows them.
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
            text.line("no operator was nearly recognised, or the model was exported without `--stacktrace`");
        }
        terminal.show(&text)?;
    }
    Ok(Status::Yes)
}

/// `OP at FILE:LINE stays elementary: REASON` in its parts.
fn entry(line: &str) -> Value {
    let (what, reason) = line.split_once(" stays elementary: ").unwrap_or((line, ""));
    let (op, place) = what.split_once(" at ").unwrap_or((what, ""));
    json!({ "op": op, "callsite": place, "reason": reason })
}
