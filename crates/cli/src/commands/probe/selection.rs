//! Nodes chosen by line, module or name.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::commands::show::node;
use crate::failure::Failure;
use crate::model::{Frame, Index, Model, Origin, named_file};
use crate::nearest::{nearest, similar};

/// A file and an inclusive range of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineRange {
    file: String,
    first: u32,
    last: u32,
}

impl FromStr for LineRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write FILE:LINE or FILE:FIRST-LAST".to_owned();
        let (file, lines) =
            text.rsplit_once(':').filter(|(file, _)| !file.is_empty()).ok_or_else(wrong)?;
        let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        if first == 0 {
            return Err("the first line of a file is 1".to_owned());
        }
        if last < first {
            return Err(format!("line {first} is after line {last}; write {file}:{last}-{first}"));
        }
        Ok(Self { file: file.to_owned(), first, last })
    }
}

impl LineRange {
    fn contains(&self, file: &str, frame: &Frame<'_>) -> bool {
        frame.file == file && (self.first..=self.last).contains(&frame.span.line)
    }
}

/// The requested lines, modules and nodes.
pub(super) struct Selection<'a> {
    pub(super) lines: &'a [LineRange],
    pub(super) modules: &'a [String],
    pub(super) nodes: &'a [String],
}

impl Selection<'_> {
    /// Returns `true` if nothing is requested.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.modules.is_empty() && self.nodes.is_empty()
    }

    /// Returns the chosen nodes, in the order of the model. Fails for a request without any node.
    pub(super) fn nodes(&self, index: &Index<'_>) -> Result<Vec<usize>, Failure> {
        let mut chosen = vec![false; index.nodes.len()];
        for name in self.nodes {
            chosen[node::find(index, name)?] = true;
        }
        if !self.lines.is_empty() || !self.modules.is_empty() {
            let origins: Vec<Vec<Origin<'_>>> =
                (0..index.nodes.len()).map(|node| index.origins(node)).collect();
            for line in self.lines {
                mark(&mut chosen, of_line(&origins, line)?);
            }
            for module in self.modules {
                mark(&mut chosen, of_module(index, &origins, module)?);
            }
        }
        Ok((0..chosen.len()).filter(|node| chosen[*node]).collect())
    }
}

fn mark(chosen: &mut [bool], nodes: Vec<usize>) {
    nodes.into_iter().for_each(|node| chosen[node] = true);
}

/// Returns the nodes that a line is the call site of, or else those with the line in their stacks.
fn of_line(origins: &[Vec<Origin<'_>>], line: &LineRange) -> Result<Vec<usize>, Failure> {
    let all = || origins.iter().flatten().flat_map(Origin::possible);
    let frames = all().flat_map(|origin| origin.stack.iter().chain(&origin.site));
    let files: BTreeSet<&str> = frames.map(|frame| frame.file).collect();
    let files: Vec<&str> = files.into_iter().filter(|file| !file.is_empty()).collect();
    let Some(file) = named_file(&files, &line.file) else {
        return Err(Failure::Absent(if files.is_empty() {
            Model::unrecorded()
        } else {
            let like = nearest(&line.file, files.iter().copied()).join(", ");
            let like =
                if like.is_empty() { String::new() } else { format!("; similar names: {like}") };
            format!("no node comes from `{}`{like}", line.file)
        }));
    };
    let with = |is_in: &dyn Fn(&Origin<'_>) -> bool| -> Vec<usize> {
        let any = |node: &usize| origins[*node].iter().flat_map(Origin::possible).any(is_in);
        (0..origins.len()).filter(any).collect()
    };
    let mut found =
        with(&|origin| origin.site.as_ref().is_some_and(|site| line.contains(file, site)));
    if found.is_empty() {
        found = with(&|origin| origin.stack.iter().any(|frame| line.contains(file, frame)));
    }
    if found.is_empty() {
        let sites = all().filter_map(|origin| origin.site.as_ref());
        let lines = sites.filter(|site| site.file == file).map(|site| site.span.line);
        let by_distance: BTreeSet<_> =
            lines.map(|known| (known.abs_diff(line.first), known)).collect();
        let near: BTreeSet<u32> = by_distance.into_iter().take(3).map(|(_, line)| line).collect();
        let near = near.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let near = if near.is_empty() { String::new() } else { format!("; nearest lines: {near}") };
        let LineRange { first, last, .. } = line;
        let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
        return Err(Failure::Absent(format!("no node comes from {file}:{range}{near}")));
    }
    Ok(found)
}

/// Returns the nodes of a module and of the modules inside it.
fn of_module(
    index: &Index<'_>,
    origins: &[Vec<Origin<'_>>],
    module: &str,
) -> Result<Vec<usize>, Failure> {
    let wanted = module.trim_matches('/');
    let inside = |scope: &str| {
        scope.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_in = |node: &usize| {
        let mut own = origins[*node].iter().flat_map(Origin::possible);
        own.any(|origin| inside(&origin.scope)) || inside(&index.scope(*node))
    };
    let found: Vec<usize> = (0..index.nodes.len()).filter(is_in).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let scopes: Vec<_> = (0..index.nodes.len()).map(|node| index.scope(node)).collect();
    let like =
        nearest(wanted, scopes.iter().map(AsRef::as_ref).filter(|scope: &&str| !scope.is_empty()));
    let like = similar(like);
    Err(Failure::Absent(format!("the model has no module `{wanted}`{like}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbers_or_ranges() {
        let range = |file: &str, first, last| LineRange { file: file.to_owned(), first, last };
        assert_eq!("a/b.py:7".parse(), Ok(range("a/b.py", 7, 7)));
        assert_eq!("In [7]:3-5".parse(), Ok(range("In [7]", 3, 5)));
        for wrong in ["b.py", ":7", "b.py:x", "b.py:1-", "b.py:-1", "b.py:7-3"] {
            assert!(wrong.parse::<LineRange>().is_err(), "{wrong}");
        }
    }
}
