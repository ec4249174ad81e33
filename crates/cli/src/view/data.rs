//! The data of the page, as JSON.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::attributes::attributes_text;
use super::comparison::{Order, Other, Shown};
use super::editor::Editor;
use super::errors::Errors;
use super::parameters::parameters;
use super::tables::Tables;
use super::unfold::Unfolded;
use crate::excerpt::Excerpts;
use crate::model::{FrameChoice, Index, Makers, Origin, opset_text, type_text};
use crate::profile::{Attributed, Profile, Shares, Time};
use crate::table::count;

/// A profile of the model.
pub(crate) struct Timed<'a> {
    pub(crate) profile: &'a Profile,
    /// The attribution of the times to nodes.
    pub(crate) attributed: Attributed<'a>,
    pub(crate) shares: Shares<'a>,
}

/// The subject of a page.
pub(crate) struct Subject<'a> {
    /// The name of the model.
    pub(crate) title: &'a str,
    pub(crate) index: &'a Index<'a>,
    pub(crate) excerpts: &'a Excerpts<'a>,
    /// The links to an editor.
    pub(crate) editor: &'a Editor,
    /// The lines of libraries that the page shows.
    pub(crate) choice: FrameChoice,
    pub(crate) timed: Option<Timed<'a>>,
    /// The contributions of lines to the model's error.
    pub(crate) errors: Option<Errors>,
    /// The model to compare with.
    pub(crate) other: Option<Other<'a>>,
}

/// Builds the page's data. Also returns a note for each parameter without statistics.
pub(crate) fn data(subject: &Subject<'_>) -> (Value, Vec<String>) {
    let Subject { title, index, excerpts, editor, choice, timed, errors, other } = subject;
    let mut tables = Tables::new(choice.clone());
    let unfolded = Unfolded::new(index);
    let beside = other.as_ref().map(|other| (other, Unfolded::new(&other.side.index)));
    let order = match &beside {
        None => Order::alone(&unfolded),
        Some((other, places)) => Order::of_both(&unfolded, places, &other.found.partners),
    };
    let times = timed.as_ref().map(|timed| unfolded.times(&timed.attributed));
    if let Some(other) = other {
        tables.others = changed_files(excerpts, other);
    }
    let makers = Makers::new(index);
    let mut nodes = Vec::with_capacity(order.rows.len());
    for shown in &order.rows {
        let entry = match (shown, &beside) {
            (Shown::Other(place), Some((Other { side, .. }, unfolded))) => {
                tables.is_other = true;
                let row = |place: usize| order.other[place];
                let side = Located { index: &side.index, makers: &side.makers, unfolded };
                side.entry(*place, &row, &mut tables)
            }
            (Shown::Own(place) | Shown::Other(place), _) => {
                tables.is_other = false;
                let row = |place: usize| order.own.get(place).copied();
                let side = Located { index, makers: &makers, unfolded: &unfolded };
                let mut entry = side.entry(*place, &row, &mut tables);
                if let Some(times) = &times {
                    let Time { median, ns } = times[*place];
                    entry.extend([json!(median), json!(ns)]);
                }
                entry
            }
        };
        nodes.push(Value::Array(entry));
    }
    tables.is_other = false;
    let profile = timed.as_ref().map(|timed| profile(timed, &mut tables));
    let errors = errors.as_ref().map(|errors| errors.data(&mut tables));
    let (parameters, missing) = parameters(index, &mut |text| tables.string(text));
    let against =
        beside.as_ref().map(|(other, places)| other.data(&order, &unfolded, places, title));
    let data = json!({
        "title": title,
        "facts": facts(index),
        "editor": editor.address,
        "files": tables.files(excerpts, other.as_ref(), editor),
        "frames": tables.frames.iter().collect::<Vec<_>>(),
        "stacks": tables.stacks.iter().collect::<Vec<_>>(),
        "origins": tables.origins.iter().collect::<Vec<_>>(),
        "strings": tables.strings.iter().collect::<Vec<_>>(),
        "nodes": nodes,
        "parameters": parameters,
        "profile": profile,
        "errors": errors,
        "against": against,
    });
    (data, missing)
}

/// A model with its positions.
struct Located<'a, 'm> {
    index: &'a Index<'m>,
    makers: &'a Makers<'m>,
    unfolded: &'a Unfolded,
}

impl Located<'_, '_> {
    /// Builds the entry of the node at a position. `row` maps a position to its row.
    fn entry(
        &self,
        place: usize,
        row: &dyn Fn(usize) -> Option<usize>,
        tables: &mut Tables,
    ) -> Vec<Value> {
        let index = self.index;
        let place = &self.unfolded.places[place];
        let node = &index.nodes[place.node];
        let proto = node.proto;
        let row = |place: Option<usize>| place.and_then(row).map_or(json!(-1), |row| json!(row));
        let own = index.origins_of(place.node, &place.chain);
        let scope = match own.first() {
            Some(origin) if !origin.scope.is_empty() => origin.scope.clone(),
            _ if !place.chain.is_empty() => Cow::Borrowed(""),
            _ => index.scope(place.node),
        };
        let origins = own.iter().flat_map(Origin::possible);
        let origins: Vec<usize> = origins.map(|origin| tables.origin(origin)).collect();
        let inputs = proto.input.iter().map(|name| {
            let maker = row(self.unfolded.maker(index, self.makers, place, name));
            json!([maker, tables.string(name), tables.string(&index.type_of(node.body, name))])
        });
        let inputs: Vec<Value> = inputs.collect();
        let outputs = proto.output.iter().filter(|name| !name.is_empty()).map(|name| {
            json!([tables.string(name), tables.string(&index.type_of(node.body, name))])
        });
        let outputs: Vec<Value> = outputs.collect();
        vec![
            json!(tables.string(&proto.name)),
            json!(tables.string(&node.op())),
            json!(tables.string(&scope)),
            row(place.owner),
            json!(inputs),
            json!(outputs),
            json!(origins),
            json!(tables.string(&attributes_text(proto))),
        ]
    }
}

/// Returns the files whose text differs in the other model.
fn changed_files(excerpts: &Excerpts<'_>, other: &Other<'_>) -> rustc_hash::FxHashSet<String> {
    let index = &other.side.index;
    let origins = (0..index.nodes.len()).flat_map(|node| index.origins(node));
    let mut files: rustc_hash::FxHashSet<String> = Default::default();
    for origin in origins {
        let frames = origin.possible().flat_map(|origin| origin.stack.iter().chain(&origin.site));
        files.extend(frames.filter(|frame| !frame.file.is_empty()).map(|f| f.file.to_owned()));
    }
    files.retain(|file| match (excerpts.text(file), other.excerpts.text(file)) {
        (Ok(own), Ok(theirs)) => own != theirs,
        (Err(_), Ok(_)) => true,
        _ => false,
    });
    files
}

/// Builds the times by line and by stack, and their sums. All are in nanoseconds: the median of one
/// run, and the total over all runs.
fn profile(timed: &Timed<'_>, tables: &mut Tables) -> Value {
    let pair = |time: Time| json!([time.median, time.ns]);
    let mut lines: Vec<_> = timed.shares.lines.iter().collect();
    lines.sort_unstable();
    let lines: Vec<Value> = lines
        .iter()
        .map(|(site, time)| {
            let file = tables.file(site.file, site.function, true);
            json!([file, site.line, time.median, time.ns])
        })
        .collect();
    // The path of each line of a library, innermost first.
    let mut library: Vec<_> = timed.shares.below.values().flatten().collect();
    library.sort_unstable();
    let library: Vec<Value> = library
        .iter()
        .map(|(path, time)| {
            let frames = path.iter().rev();
            let frames: Vec<_> = frames
                .map(|site| json!([tables.file(site.file, site.function, false), site.line]))
                .collect();
            json!([frames, time.median, time.ns])
        })
        .collect();
    let flames: Vec<Vec<Value>> = timed
        .shares
        .stacks
        .iter()
        .map(|stacks| {
            let mut stacks: Vec<_> = stacks.iter().collect();
            stacks.sort_unstable();
            let entry = |(stack, time): &(&Vec<String>, &Time)| {
                let frames = stack.iter().map(|frame| tables.string(frame));
                json!([frames.collect::<Vec<_>>(), time.median, time.ns])
            };
            stacks.iter().map(entry).collect()
        })
        .collect();
    json!({
        "runs": timed.profile.runs,
        "wall": timed.profile.wall,
        "total": pair(timed.profile.total()),
        "unattributed": pair(timed.shares.lost.values().copied().sum()),
        "lines": lines,
        "library": library,
        "flames": flames,
    })
}

/// Returns the facts in the header above the graph.
fn facts(index: &Index<'_>) -> Vec<String> {
    let opsets = index.model.proto.opset_import.iter().map(opset_text);
    let mut facts = vec![count(index.nodes.len(), "node")];
    facts.extend(opsets);
    for (word, values) in [("in", &index.graph.input), ("out", &index.graph.output)] {
        for value in values {
            let ty = value.r#type.as_ref().map_or("?".to_owned(), type_text);
            facts.push(format!("{word} {}: {ty}", value.name));
        }
    }
    facts
}
