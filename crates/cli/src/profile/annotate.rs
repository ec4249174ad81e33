//! A source file with the time of each line in the margin.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::report::{bar, share_text, time_text};
use super::share::Shares;
use super::{Profile, Time};
use crate::excerpt::Excerpts;
use crate::failure::Failure;
use crate::model::named_file;
use crate::style::{Style, Text};

/// Writes the lines of `file` with their times.
pub(crate) fn annotate(
    text: &mut Text,
    profile: &Profile,
    shares: &Shares<'_>,
    excerpts: &Excerpts<'_>,
    file: &str,
) -> Result<(), Failure> {
    let file = find(shares, file)?;
    let source = excerpts.text(file).map_err(Failure::Request)?;
    let mut times: FxHashMap<u32, Time> = FxHashMap::default();
    for (site, time) in shares.lines.iter().filter(|(site, _)| site.file == file) {
        *times.entry(site.line).or_default() += *time;
    }
    let total = profile.total().median;
    let width = source.lines().count().to_string().len();
    for (number, line) in (1u32..).zip(source.lines()) {
        match times.get(&number) {
            Some(Time { median: ns, .. }) => {
                let ns = *ns;
                text.put(&format!("{:>9} {:>5} % ", time_text(ns), share_text(ns, total)));
                text.styled(Style::Yellow, &format!("{:<6}", bar(ns, total, 6)));
            }
            None => text.put(&" ".repeat(24)),
        }
        text.styled(Style::Dim, &format!(" {number:>width$} │ "));
        text.line(line);
    }
    Ok(())
}

/// Returns the file of the profile that `file` refers to: the same path, or one that ends with it.
fn find<'m>(shares: &Shares<'m>, file: &str) -> Result<&'m str, Failure> {
    let files: BTreeSet<&'m str> = shares.lines.keys().map(|site| site.file).collect();
    let files: Vec<&'m str> = files.into_iter().filter(|file| !file.is_empty()).collect();
    match named_file(&files, file) {
        Some(file) => Ok(file),
        None if files.is_empty() => {
            Err(Failure::Request("the model does not record which files it came from".to_owned()))
        }
        None => Err(Failure::Request(format!(
            "no time was spent in `{file}`; the profile has these files: {}",
            files.join(", ")
        ))),
    }
}
