//! Input and output streams of a command.

use std::io::{BufWriter, IsTerminal, Read, Stderr, Stdin, Stdout, Write};

use crate::failure::Failure;
use crate::json::write_json;
use crate::limits::JSON_BYTES;
use crate::style::Text;

/// The streams of a command, and the style of its output.
pub struct Terminal<'a> {
    /// Standard input, unless it is a terminal.
    pub input: Option<&'a mut dyn Read>,
    /// The stream for results.
    pub output: &'a mut dyn Write,
    /// The stream for errors and notes.
    pub errors: &'a mut dyn Write,
    /// Enables colours.
    pub colors: bool,
    /// The number of characters that fit on a line.
    pub width: usize,
}

impl<'a> Terminal<'a> {
    /// Uses the process's own streams.
    pub(crate) fn of_process(
        input: &'a mut Stdin,
        output: &'a mut Stdout,
        errors: &'a mut Stderr,
    ) -> Self {
        let is_terminal = output.is_terminal();
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let colors = is_terminal
            && !set("NO_COLOR")
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let size = terminal_size::terminal_size_of(&*output);
        let width = size.map_or(usize::MAX, |(width, _)| usize::from(width.0.max(40)));
        let input = if input.is_terminal() { None } else { Some(input as &mut dyn Read) };
        Self { input, output, errors, colors, width }
    }

    /// Returns an empty text in this terminal's style.
    pub(crate) fn text(&self) -> Text {
        Text::new(self.colors)
    }

    /// Writes a text to standard output.
    pub(crate) fn show(&mut self, text: &Text) -> Result<(), Failure> {
        self.output.write_all(text.as_str().as_bytes()).map_err(Failure::Output)
    }

    /// Writes a value as JSON, followed by a newline.
    pub(crate) fn show_json(&mut self, value: &impl serde::Serialize) -> Result<(), Failure> {
        let mut output = BufWriter::new(&mut *self.output);
        let complete = write_json(value, &mut output, JSON_BYTES).map_err(Failure::Output)?;
        output.flush().map_err(Failure::Output)?;
        if complete {
            return Ok(());
        }
        let most = JSON_BYTES >> 20;
        Err(Failure::Request(format!(
            "the JSON is longer than {most} MiB and was truncated; request less, for example with \
             `show --node NAME --json`"
        )))
    }

    /// Writes notes to standard error.
    pub(crate) fn remarks<'r>(
        &mut self,
        remarks: impl IntoIterator<Item = &'r String>,
    ) -> Result<(), Failure> {
        remarks.into_iter().try_for_each(|remark| self.remark(remark))
    }

    /// Writes a note to standard error.
    pub(crate) fn remark(&mut self, remark: &str) -> Result<(), Failure> {
        let remark = crate::style::harmless(remark);
        writeln!(self.errors, "note: {remark}").map_err(Failure::Output)
    }
}
