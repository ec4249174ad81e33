//! Tables of text.

use crate::style::{Style, Text, on_one_line};

/// The minimum width of a column.
const NARROWEST: usize = 8;

/// A column: its title and the style of its cells.
pub(crate) type Column<'a> = (&'a str, Style);

/// Writes rows of cells, padded to the widest cell of each column except the last. If the rows do
/// not fit into `width`, cells are shortened, starting with the widest columns.
pub(crate) fn table(text: &mut Text, columns: &[Column<'_>], rows: &[Vec<String>], width: usize) {
    let mut widths: Vec<usize> = columns.iter().map(|(title, _)| length(title)).collect();
    for row in rows {
        // A row with a single cell is a heading.
        for (known, cell) in widths.iter_mut().zip(row).filter(|_| row.len() > 1) {
            *known = (*known).max(length(cell));
        }
    }
    fit(&mut widths, width);
    let line = |text: &mut Text, cells: &mut dyn Iterator<Item = (&str, Style)>| {
        for ((cell, style), &width) in cells.zip(&widths) {
            let cell = cut(cell, width);
            text.styled(style, &cell);
            text.put(&" ".repeat(width.saturating_sub(length(&cell)) + 2));
        }
        text.trim_end();
        text.line("");
    };
    line(text, &mut columns.iter().map(|(title, _)| (*title, Style::Bold)));
    let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    line(text, &mut rules.iter().map(|rule| (rule.as_str(), Style::Dim)));
    for row in rows {
        match &row[..] {
            [heading] => {
                text.styled_line(Style::Bold, &cut(heading, width));
            }
            cells => {
                let styles = columns.iter().map(|(_, style)| *style);
                line(text, &mut cells.iter().map(String::as_str).zip(styles));
            }
        }
    }
}

/// Returns the number of characters of a cell as displayed.
pub(crate) fn length(text: &str) -> usize {
    on_one_line(text).chars().count()
}

/// Returns the text, shortened with an ellipsis if it does not fit.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let text = on_one_line(text);
    if length(&text) <= width {
        return text.into_owned();
    }
    // The line number is more useful than the end of the file name.
    let end = match text.rsplit_once(':') {
        Some((_, line)) if line.starts_with(|c: char| c.is_ascii_digit()) => format!(":{line}"),
        _ => String::new(),
    };
    let end = if length(&end) + 3 <= width { end } else { String::new() };
    let mut kept: String = text.chars().take(width.saturating_sub(length(&end) + 1)).collect();
    kept.push('…');
    kept + &end
}

/// Formats a count with its noun: `1 node`, `2 nodes`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Formats a number with at most three digits and an SI prefix.
pub(crate) fn scaled(n: u64, unit: &str) -> String {
    let (mut scale, mut prefix) = (1, "");
    for next in ["k", "M", "G", "T", "P", "E"] {
        if n / scale < 1000 {
            break;
        }
        (scale, prefix) = (scale.saturating_mul(1000), next);
    }
    let (whole, tenth) = (n / scale, n % scale / (scale / 10).max(1));
    let number =
        if whole < 10 && scale > 1 { format!("{whole}.{tenth}") } else { whole.to_string() };
    let space = if prefix.is_empty() && unit.is_empty() { "" } else { " " };
    format!("{number}{space}{prefix}{unit}")
}

fn fit(widths: &mut [usize], width: usize) {
    let gaps = 2 * widths.len().saturating_sub(1);
    let mut total: usize = widths.iter().sum::<usize>() + gaps;
    while total > width {
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > NARROWEST) else {
            return;
        };
        // Shrinks in small steps, so that no column gives up all its space before the others give
        // any.
        let less = (total - width).min((*widest - NARROWEST).div_ceil(8));
        *widest -= less;
        total -= less;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: usize) -> String {
        let rows = [
            vec!["/blocks.0/attention/q/Gemm".to_owned(), "Gemm".to_owned(), "f32[B,8]".to_owned()],
            vec!["/Add".to_owned(), String::new(), String::new()],
        ];
        let mut text = Text::new(false);
        let columns = [("node", Style::Bold), ("op", Style::Plain), ("result", Style::Dim)];
        table(&mut text, &columns, &rows, width);
        text.as_str().to_owned()
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        insta::assert_snapshot!(shown(usize::MAX));
    }

    #[test]
    fn long_cells_are_cut_to_fit() {
        insta::assert_snapshot!(shown(36));
        assert!(shown(36).lines().all(|line| length(line) <= 36));
        assert_eq!(cut("tests/models/nnx/gpt.py:41", 12), "tests/mo…:41");
        assert_eq!(cut("tests/models/nnx/gpt.py:41 or 42", 12), "te…:41 or 42");
        assert_eq!(cut("a long sentence: 41", 8), "a long …");
        // Some text remains, however narrow the terminal is.
        assert!(shown(1).contains("/blocks…"));
    }

    #[test]
    fn amounts_are_short() {
        for (n, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1234, "1.2 kB"),
            (45_600_000, "45 MB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(scaled(n, "B"), expected);
        }
        assert_eq!(scaled(12, ""), "12");
    }

    #[test]
    fn prefixes_begin_at_a_thousand() {
        let texts = [999, 1000, 9999, 10_000, 999_999, 1_000_000].map(|n| scaled(n, "B"));
        assert_eq!(texts, ["999 B", "1.0 kB", "9.9 kB", "10 kB", "999 kB", "1.0 MB"]);
    }
}
