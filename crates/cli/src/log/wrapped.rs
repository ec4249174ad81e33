//! Undoes line wrapping by terminals, emails and tickets.

/// The minimum width of wrapped text.
const NARROWEST: usize = 40;

/// Joins the lines of wrapped messages. Returns `None` if no line looks wrapped.
///
/// Text wraps where the next word does not fit. A line therefore continues on the next one if the
/// first word there would have made it the longest line of its block.
pub(crate) fn unwrapped(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let lengths: Vec<usize> = lines.iter().map(|line| line.trim_end().chars().count()).collect();
    let mut joined = String::with_capacity(text.len());
    let mut start = 0;
    while start < lines.len() {
        let next = (start + 1..lines.len()).find(|line| is_start(lines[*line]));
        let end = next.unwrap_or(lines.len());
        // A word longer than the width cannot be wrapped.
        let has_words = |line: &usize| lines[*line].trim().contains(' ');
        let width = (start..end).filter(has_words).map(|line| lengths[line]).max();
        let width = width.unwrap_or_default();
        for at in start..end {
            let goes_on = at + 1 < end && width >= NARROWEST && {
                // A line without words starts a message.
                let word = lines[at + 1].split_whitespace().next().unwrap_or_default();
                lengths[at] + 1 + word.chars().count() > width
            };
            if goes_on {
                joined.push_str(lines[at].trim_end());
                joined.push(' ');
            } else {
                joined.push_str(lines[at]);
                joined.push('\n');
            }
        }
        start = end;
    }
    joined.pop();
    (joined != text).then_some(joined)
}

/// Joins lines that were cut at a fixed width, even inside words. Returns `None` if no two lines
/// have the same width.
pub(crate) fn unfolded(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let lengths: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
    let mut joined = String::with_capacity(text.len());
    for (at, line) in lines.iter().enumerate() {
        joined.push_str(line);
        let width = lengths[at];
        let is_like = |other: Option<&usize>| other == Some(&width);
        let before = at.checked_sub(1).and_then(|at| lengths.get(at));
        let next = lengths.get(at + 1);
        let is_full = width >= NARROWEST
            && (is_like(before) || is_like(next))
            && next.is_some_and(|next| *next <= width);
        if !is_full {
            joined.push('\n');
        }
    }
    joined.pop();
    (joined != text).then_some(joined)
}

/// Returns `true` if a line certainly starts a new message: it is empty, or starts with a date or a
/// level.
fn is_start(line: &str) -> bool {
    let line = line.trim_start();
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    let is_date = digits >= 2 && line[digits..].starts_with(['-', '/', ':']);
    let is_level = line.strip_prefix('[').is_some_and(|rest| {
        rest.starts_with("TRT]") || rest.get(1..2).is_some_and(|mark| mark == ":" || mark == "]")
    });
    line.is_empty() || is_date || is_level || line.starts_with("Traceback (")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_are_joined_and_others_stay() {
        let wrapped = "Non-zero status code returned while running\nGemm node. Name:'/d/Gemm' \
                       Status Message:\n/src/a_long_path_to_a_file_of_the_runtime.cc:87\nwhy.\n\nnext";
        assert_eq!(
            unwrapped(wrapped).unwrap(),
            "Non-zero status code returned while running Gemm node. Name:'/d/Gemm' Status Message: \
             /src/a_long_path_to_a_file_of_the_runtime.cc:87 why.\n\nnext"
        );
        let log = "2026-11-15 10:00:00 one entry that is quite long, longer than all of the others\n\
                   2026-11-15 10:00:01 another";
        assert_eq!(unwrapped(log), None);
        assert_eq!(unwrapped("a\nb\n"), None);
        assert_eq!(unwrapped(""), None);
    }

    #[test]
    fn folded_lines_are_joined_inside_words() {
        let message = "Attempting to broadcast an axis by a dimension other than 1. ".repeat(5);
        let chars: Vec<char> = message.chars().collect();
        let lines: Vec<String> = chars.chunks(80).map(|line| line.iter().collect()).collect();
        let folded = format!("first\n{}\nlast", lines.join("\n"));
        assert_eq!(unfolded(&folded).unwrap(), format!("first\n{message}\nlast"));
        assert_eq!(unfolded("one\ntwo\n"), None);
    }

    #[test]
    fn a_line_continues_if_the_next_word_did_not_fit() {
        let line = |length: usize| format!("{} {}", "a".repeat(10), "b".repeat(length - 11));
        let joins = |first: usize, longest: usize| {
            unwrapped(&format!("{}\nword\n{}", line(first), line(longest))).is_some()
        };
        assert!(joins(36, 40), "with a space and the word, it would be too long");
        assert!(!joins(35, 40), "the word fits");
        assert!(unwrapped(&format!("{}\nword", line(39))).is_none(), "too narrow to be wrapped");
        assert!(unwrapped(&format!("{}\nword", line(40))).is_some());
    }

    #[test]
    fn messages_start_with_a_date_or_a_level() {
        for (line, expected) in [
            ("", true),
            ("   ", true),
            ("2026-11-15 10:00:00", true),
            ("26/11/15", true),
            ("10:00:00", true),
            ("7: seven", false),
            ("2026 was long", false),
            ("-5", false),
            ("[E:onnxruntime:, x.cc]", true),
            ("[W] careful", true),
            ("[TRT] careful", true),
            ("[TRTX careful", false),
            ("[12] careful", false),
            ("Traceback (most recent call last):", true),
            ("Tracebacks", false),
            ("word", false),
        ] {
            assert_eq!(is_start(line), expected, "{line}");
        }
    }
}
