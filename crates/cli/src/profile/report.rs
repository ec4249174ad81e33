//! The tables of `profile`.

use super::share::{Below, Shares, Site, inclusive};
use super::{Profile, Time, slowest_first};
use crate::excerpt::Excerpts;
use crate::link::Page;
use crate::style::{Style, Text};
use crate::table::{count, cut, table};

/// Lines of libraries are shown if they take at least one part in this many of the time.
const SMALL: u64 = 200;

/// The width of a bar, in cells.
const BAR: usize = 12;

/// Writes the time by line, by module and by operator: the `top` rows of each. Below a line
/// are up to `below` lines of libraries.
pub(crate) fn report(
    text: &mut Text,
    profile: &Profile,
    shares: &Shares<'_>,
    excerpts: &Excerpts<'_>,
    (top, below): (usize, usize),
    width: usize,
) {
    let (runs, total) = (profile.runs, profile.total());
    text.styled(Style::Bold, &count(usize::try_from(runs).unwrap_or(usize::MAX), "run"));
    let mean = |time: Time| time_text(time.ns / runs);
    let wall = if profile.wall > 0 {
        format!(" of {}, {} of it in", time_text(profile.wall / runs), mean(total))
    } else {
        format!(" of {} in", mean(total))
    };
    let nodes = count(profile.kernels.len(), "node");
    let median = time_text(total.median);
    text.line(&format!("{wall} {nodes}; node medians add up to {median} per run"));
    let row = |time: Time, rest: &[String]| {
        let share = share_text(time.median, total.median);
        let bar = bar(time.median, total.median, BAR);
        [&[time_text(time.median), mean(time), share, bar][..], rest].concat()
    };

    text.line("");
    let lines = slowest_first(shares.lines.iter().map(|(site, time)| (*site, *time)));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (site, time) in lines.iter().take(top) {
        let source = excerpts.line(site.file, site.line).unwrap_or_default();
        rows.push(row(*time, &[place(site), cut(source.trim(), 60)]));
        let lines = shares.below(site);
        let slow = lines.iter().filter(|line| line.time.median * SMALL >= total.median);
        for Below { site, depth, time } in slow.take(below) {
            let source = excerpts.line(site.file, site.line).unwrap_or_default();
            let place = format!("{}→ {}", "  ".repeat(depth + 1), place(site));
            rows.push(row(*time, &[place, cut(source.trim(), 60)]));
        }
    }
    rows.extend(more(lines.iter().skip(top).map(|(_, time)| *time), &row, "line"));
    let lost: Time = shares.lost.values().copied().sum();
    if !shares.lost.is_empty() {
        rows.push(row(lost, &["(unknown line)".to_owned(), names(shares)]));
    }
    show(text, "line", rows, width);

    let modules = inclusive(&shares.modules);
    let mut known: Vec<(&str, Time)> = modules.into_iter().collect();
    known.sort_unstable_by(|a, b| {
        b.1.cmp(&a.1).then(depth(a.0).cmp(&depth(b.0))).then(a.0.cmp(b.0))
    });
    let mut chosen: Vec<(&str, Time)> = known.iter().take(top).copied().collect();
    let order: rustc_hash::FxHashMap<&str, usize> =
        known.iter().enumerate().map(|(at, (scope, _))| (*scope, at)).collect();
    // Modules form a tree, with the slowest module of each level first.
    chosen.sort_by_cached_key(|(scope, _)| {
        let ends = scope.match_indices('/').map(|(at, _)| at).chain([scope.len()]);
        ends.map(|end| order.get(&scope[..end]).copied().unwrap_or(usize::MAX)).collect::<Vec<_>>()
    });
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (scope, time) in chosen {
        let name = match scope.rsplit('/').next() {
            Some("") | None => "(the model itself)",
            Some(name) => name,
        };
        rows.push(row(time, &[format!("{}{name}", "  ".repeat(depth(scope)))]));
    }
    if known.len() > top {
        let mut row = vec![String::new(); 4];
        row.push(format!("… {}", count(known.len() - top, "more module")));
        rows.push(row);
    }
    show(text, "module", rows, width);

    let mut ops: Vec<(&String, Time, u64)> =
        shares.ops.iter().map(|(o, (n, c))| (o, *n, *c)).collect();
    ops.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (op, time, calls) in ops.iter().take(top) {
        let calls = if calls % runs == 0 {
            (calls / runs).to_string()
        } else {
            format!("{:.1}", *calls as f64 / runs as f64)
        };
        rows.push(row(*time, &[(*op).clone(), format!("× {calls}")]));
    }
    rows.extend(more(ops.iter().skip(top).map(|(_, time, _)| *time), &row, "operator"));
    show(text, "operator", rows, width);
    text.trim_lines();
}

/// Writes links to the slowest lines.
pub(crate) fn links(text: &mut Text, shares: &Shares<'_>, page: &Page, top: usize) {
    text.line("");
    for (site, _) in slowest_first(&shares.lines).iter().take(top) {
        text.line(&page.line(site.whose(), site.line));
    }
}

/// Returns a row that sums up the rows not shown, if there are any.
fn more(
    rest: impl Iterator<Item = Time>,
    row: &dyn Fn(Time, &[String]) -> Vec<String>,
    what: &str,
) -> Option<Vec<String>> {
    let rest: Vec<Time> = rest.collect();
    let text = format!("… {}", count(rest.len(), &format!("more {what}")));
    (!rest.is_empty()).then(|| row(rest.into_iter().sum(), &[text]))
}

fn show(text: &mut Text, what: &str, mut rows: Vec<Vec<String>>, width: usize) {
    for column in [0, 1, 2] {
        let widest = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        for row in &mut rows {
            row[column] = format!("{:>widest$}", row[column]);
        }
    }
    let columns = [
        ("median", Style::Plain),
        ("mean", Style::Dim),
        ("%", Style::Plain),
        ("", Style::Yellow),
        (what, Style::Cyan),
        ("", Style::Dim),
    ];
    let used = rows.iter().map(Vec::len).max().unwrap_or(5);
    table(text, &columns[..used], &rows, width);
    text.line("");
}

/// Returns the names of some nodes whose line is unknown.
fn names(shares: &Shares<'_>) -> String {
    let lost = slowest_first(&shares.lost);
    let names: Vec<&str> = lost.iter().take(3).map(|(name, _)| name.as_str()).collect();
    let more = if lost.len() > 3 { format!(" and {} more", lost.len() - 3) } else { String::new() };
    format!("{}{more}", cut(&names.join(", "), 48))
}

/// Formats a location: `model.py:41`, or the function if the file is unknown.
fn place(site: &Site<'_>) -> String {
    format!("{}:{}", site.whose(), site.line)
}

fn depth(scope: &str) -> usize {
    scope.matches('/').count()
}

/// Formats a duration with about three digits.
pub(crate) fn time_text(ns: u64) -> String {
    let us = ns as f64 / 1e3;
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        us => format!("{us:.1} µs"),
    }
}

/// Formats a share in per cent.
pub(crate) fn share_text(ns: u64, total: u64) -> String {
    format!("{:.1}", 100.0 * ns as f64 / total.max(1) as f64)
}

/// Draws a bar of at most `width` cells, in steps of an eighth.
pub(crate) fn bar(ns: u64, total: u64, width: usize) -> String {
    let eighths = u128::from(ns) * 8 * width as u128 / u128::from(total.max(1));
    let eighths = usize::try_from(eighths).unwrap_or(usize::MAX).min(8 * width);
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    format!("{}{part}", "█".repeat(eighths / 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_in_eighths() {
        assert_eq!(bar(0, 10, 4), "");
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(5, 32, 4), "▋");
        assert_eq!(bar(u64::MAX, 1, 4), "████");
    }

    #[test]
    fn times_have_three_digits() {
        let texts = [0, 950, 123_456, 1_234_567, 61_000_000_000].map(time_text);
        assert_eq!(texts, ["0.0 µs", "0.9 µs", "123.5 µs", "1.23 ms", "61.00 s"]);
    }

    #[test]
    fn units_change_at_a_thousand() {
        let texts = [999_900, 1_000_000, 999_990_000, 1_000_000_000].map(time_text);
        assert_eq!(texts, ["999.9 µs", "1.00 ms", "999.99 ms", "1.00 s"]);
    }
}
