//! The severity of a log line.

use super::pattern::prefix;

/// The severity of a message, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Error,
    Warning,
    Info,
}

impl Severity {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }
}

/// The maximum distance in bytes of the level from the start of an entry.
const HEAD: usize = 160;

/// The number of bytes examined per entry. An entry may be a whole log, and every name in it
/// triggers an examination.
const LOOKED_AT: usize = 2048;

/// Level markers of runtimes and loggers.
#[rustfmt::skip]
const MARKS: &[(&str, Severity)] = &[
    ("[E:", Severity::Error), ("[F:", Severity::Error), ("[W:", Severity::Warning),
    ("[I:", Severity::Info), ("[V:", Severity::Info),
    ("[E]", Severity::Error), ("[F]", Severity::Error), ("[W]", Severity::Warning),
    ("[I]", Severity::Info), ("[V]", Severity::Info),
];

/// Level names, matched as whole words regardless of case.
#[rustfmt::skip]
const LEVELS: &[(&str, Severity)] = &[
    ("error", Severity::Error), ("fatal", Severity::Error), ("critical", Severity::Error),
    ("warning", Severity::Warning), ("warn", Severity::Warning),
    ("info", Severity::Info), ("debug", Severity::Info), ("trace", Severity::Info),
    ("verbose", Severity::Info), ("notice", Severity::Info),
];

/// Returns the level of a message in its log, if it has one.
pub(crate) fn severity(said: &str) -> Option<Severity> {
    let said = prefix(said, LOOKED_AT);
    // A runtime error is an error, regardless of its log level.
    if said.contains("[ONNXRuntimeError]") || said.contains("Non-zero status code") {
        return Some(Severity::Error);
    }
    let head = prefix(said.lines().next().unwrap_or_default(), HEAD);
    let marks = MARKS.iter().filter_map(|(mark, severity)| Some((head.find(mark)?, *severity)));
    let start = head.as_ptr() as usize;
    let words = head.split(|c: char| !c.is_alphanumeric() && c != '_').filter_map(|word| {
        let (_, severity) = LEVELS.iter().find(|(level, _)| word.eq_ignore_ascii_case(level))?;
        Some((word.as_ptr() as usize - start, *severity))
    });
    marks.chain(words).min_by_key(|(at, _)| *at).map(|(_, severity)| severity)
}

/// Guesses the severity of a line without a level from its words.
pub(crate) fn guessed(line: &str) -> Severity {
    let line = line.to_ascii_lowercase();
    let bad = ["error", "fail", "exception", "invalid", "cannot", "could not", "unsupported"];
    if bad.iter().any(|word| line.contains(word)) { Severity::Error } else { Severity::Info }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_loggers_write_them() {
        for (line, expected) in [
            ("2026-11-15 10:00:00.1 [W:onnxruntime:, graph.cc:1 Clean] Error merging", "warning"),
            ("[11/15/2026-10:00:00] [TRT] [V] Layer(x)", "info"),
            ("INFO:root:loaded /a/Add", "info"),
            ("info: [E:onnxruntime:, x.cc] later", "info"),
            ("2026-11-15 ERROR serve: while running", "error"),
            ("INFO: [ONNXRuntimeError] : 1 : FAIL : x", "error"),
            ("level=debug msg=\"error in /a/Add\"", "info"),
        ] {
            assert_eq!(severity(line).map(Severity::name), Some(expected), "{line}");
        }
        assert_eq!(severity("running Information_error_2"), None);
        assert_eq!(guessed("cannot place /a").name(), "error");
        assert_eq!(guessed("placed /a on cpu").name(), "info");
    }
}
