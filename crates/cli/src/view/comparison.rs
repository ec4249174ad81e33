//! The other model of a comparison: the differences, and the nodes that only it has.

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value, json};

use super::unfold::{NodeInCall, Unfolded};
use crate::diff::{By, Change, ChangeKind, Difference, Line, Side, gather};
use crate::excerpt::Excerpts;
use crate::model::Chain;

/// The other model of a comparison, and its differences.
#[derive(Debug)]
pub(crate) struct Other<'a> {
    /// The name of the other model.
    pub(crate) name: String,
    /// The model of the page.
    pub(crate) own: Side<'a>,
    pub(crate) side: Side<'a>,
    pub(crate) excerpts: Excerpts<'a>,
    pub(crate) found: Difference,
}

/// A row of the page: a position in the model, or a position that only the other model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shown {
    Own(usize),
    Other(usize),
}

/// The positions of both models in one order.
pub(super) struct Order {
    pub(super) rows: Vec<Shown>,
    /// The row of each position of the model.
    pub(super) own: Vec<usize>,
    /// The row of each position of the other model, or of the corresponding position of the model.
    pub(super) other: Vec<Option<usize>>,
}

impl Order {
    /// Creates the order of a single model.
    pub(super) fn alone(own: &Unfolded) -> Self {
        let rows: Vec<Shown> = (0..own.places.len()).map(Shown::Own).collect();
        Self { own: (0..rows.len()).collect(), rows, other: Vec::new() }
    }

    /// Merges both models. A position that only the other model has follows its predecessor there.
    pub(super) fn of_both(own: &Unfolded, other: &Unfolded, partners: &[Option<usize>]) -> Self {
        let partner = |place: &NodeInCall| {
            let chain: Option<Chain> = place.chain.iter().map(|call| partners[*call]).collect();
            own.at(partners[place.node]?, &chain?)
        };
        let mut follow: FxHashMap<Option<usize>, Vec<usize>> = FxHashMap::default();
        let mut before = None;
        let mut known = Vec::with_capacity(other.places.len());
        for (at, place) in other.places.iter().enumerate() {
            let found = partner(place);
            match found {
                Some(_) => before = found,
                None if partners[place.node].is_none() => {
                    follow.entry(before).or_default().push(at);
                }
                // The position is inside a call that the page does not unfold.
                None => {}
            }
            known.push(found);
        }
        let mut order = Self { rows: Vec::new(), own: Vec::new(), other: vec![None; known.len()] };
        let shared: FxHashSet<usize> = known.iter().flatten().copied().collect();
        let mut waiting = follow.remove(&None).unwrap_or_default();
        for place in 0..own.places.len() {
            // Removed nodes precede the nodes that replace them.
            if shared.contains(&place) {
                order.add_others(&mut waiting);
            }
            order.own.push(order.rows.len());
            order.rows.push(Shown::Own(place));
            waiting.extend(follow.remove(&Some(place)).unwrap_or_default());
        }
        order.add_others(&mut waiting);
        for (at, found) in known.into_iter().enumerate() {
            if let Some(place) = found {
                order.other[at] = Some(order.own[place]);
            }
        }
        order
    }

    fn add_others(&mut self, places: &mut Vec<usize>) {
        for at in places.drain(..) {
            self.other[at] = Some(self.rows.len());
            self.rows.push(Shown::Other(at));
        }
    }
}

impl Other<'_> {
    /// Builds the report of `diff`, and the kind of change of each row.
    pub(super) fn data(
        &self,
        order: &Order,
        own: &Unfolded,
        other: &Unfolded,
        title: &str,
    ) -> Value {
        let report = gather(&self.own, &self.side, &self.found, By::Line);
        // Rows by node.
        let mut rows: FxHashMap<Shown, Vec<usize>> = FxHashMap::default();
        for (row, shown) in order.rows.iter().enumerate() {
            let node = match shown {
                Shown::Own(at) => Shown::Own(own.places[*at].node),
                Shown::Other(at) => Shown::Other(other.places[*at].node),
            };
            rows.entry(node).or_default().push(row);
        }
        let rows = |change: &Change| -> Vec<usize> {
            let node = change.a.map(Shown::Own).or(change.b.map(Shown::Other));
            node.and_then(|node| rows.get(&node)).cloned().unwrap_or_default()
        };
        let marks: Vec<Value> = self
            .found
            .nodes
            .iter()
            .flat_map(|change| {
                let details = match change.kind {
                    ChangeKind::Changed => change.text(),
                    _ => String::new(),
                };
                let marks = rows(change).into_iter();
                marks.map(move |row| json!([row, change.kind.word(), details])).collect::<Vec<_>>()
            })
            .collect();
        let line = |line: &Line| json!([line.kind.word(), line.name, line.detail]);
        let groups: Vec<Value> = report
            .groups
            .iter()
            .map(|group| {
                let entries: Vec<Value> = group
                    .entries
                    .iter()
                    .map(|entry| {
                        let rows: Vec<usize> = entry.changes.iter().flat_map(|c| rows(c)).collect();
                        let (kind, count) = (entry.kind.word(), entry.changes.len());
                        json!([kind, entry.op, entry.details, entry.within, count, rows])
                    })
                    .collect();
                let place = group.place.as_ref();
                let source = place.and_then(|(file, line)| self.excerpts.line(file, *line));
                json!([group.title, source.map(|source| source.trim().to_owned()), entries])
            })
            .collect();
        json!({
            "names": [title, self.name],
            "summary": report.summary,
            "model": report.model,
            "modules": report.modules.iter().map(line).collect::<Vec<_>>(),
            "groups": groups,
            "parameters": report.parameters.iter().map(line).collect::<Vec<_>>(),
            "remarks": self.found.remarks,
            "marks": marks,
        })
    }
}
