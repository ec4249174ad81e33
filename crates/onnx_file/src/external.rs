//! Moves tensors out of a model's message into a file beside it.

use crate::proto::{
    DataLocation, GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto,
};
use crate::tensor_proto::Contents;
use crate::{Error, LARGE, Result};
use rustc_hash::FxHashMap;
use tensor::MemoryLocation;

/// The alignment of tensors in bytes, so that they can be mapped into memory.
const ALIGNMENT: u64 = 4096;

/// Contents to be written to the data file at `offset`.
pub(crate) struct Placed {
    pub(crate) offset: u64,
    pub(crate) data: Contents,
}

/// Returns `model` with its large tensors referring to the file `location`, and the contents of
/// that file.
///
/// Only initializers and the values of `Constant` nodes are moved, because runtimes expect the
/// tensors of other attributes in the model itself.
pub(crate) fn move_out(model: &ModelProto, location: &str) -> Result<(ModelProto, Vec<Placed>)> {
    let (mut models, placed) = move_out_of_all([model], location)?;
    Ok((models.pop().unwrap_or_default(), placed))
}

/// Makes the large tensors of several models refer to one file. Shared tensors are stored once: the
/// same array, or equal arrays with the same name.
pub(crate) fn move_out_of_all<'a>(
    models: impl IntoIterator<Item = &'a ModelProto>,
    location: &str,
) -> Result<(Vec<ModelProto>, Vec<Placed>)> {
    let mut mover = Mover {
        location,
        end: 0,
        placed: Vec::new(),
        by_place: FxHashMap::default(),
        by_name: FxHashMap::default(),
        foreign: None,
    };
    let moved: Vec<ModelProto> = models.into_iter().map(|model| mover.model(model)).collect();
    match mover.foreign {
        Some(name) if !mover.placed.is_empty() => Err(Error::graph(format!(
            "`{name}` refers to `{location}`, which other tensors would overwrite"
        ))),
        _ => Ok((moved, mover.placed)),
    }
}

struct Mover<'a> {
    location: &'a str,
    end: u64,
    placed: Vec<Placed>,
    /// The indices of the placed contents by their location in memory.
    by_place: FxHashMap<MemoryLocation, usize>,
    /// The indices of the placed contents of initializers by name.
    by_name: FxHashMap<String, Vec<usize>>,
    /// The name of a tensor that already refers to a file called `location`.
    foreign: Option<String>,
}

impl Mover<'_> {
    fn model(&mut self, model: &ModelProto) -> ModelProto {
        let mut model = model.clone();
        if let Some(graph) = &mut model.graph {
            self.graph(graph);
        }
        for function in &mut model.functions {
            self.nodes(&mut function.node);
        }
        model
    }

    fn graph(&mut self, graph: &mut GraphProto) {
        for tensor in &mut graph.initializer {
            self.tensor(tensor);
        }
        self.nodes(&mut graph.node);
    }

    fn nodes(&mut self, nodes: &mut [NodeProto]) {
        for node in nodes {
            let constant = node.op_type == "Constant" && node.domain.is_empty();
            for attribute in &mut node.attribute {
                if let Some(tensor) = attribute.t.as_mut().filter(|_| constant) {
                    self.tensor(tensor);
                }
                let graphs = attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs);
                graphs.for_each(|graph| self.graph(graph));
            }
        }
    }

    fn tensor(&mut self, tensor: &mut TensorProto) {
        if tensor.data_location() == DataLocation::External {
            if location(tensor).is_some_and(|l| same_file(l, self.location)) {
                self.foreign.get_or_insert_with(|| tensor.name.clone());
            }
            return;
        }
        let Some(data) = tensor.take_contents(LARGE) else { return };
        let length = data.len() as u64;
        let offset = self.place(&tensor.name, data);
        let entries = [
            ("location", self.location.to_owned()),
            ("offset", offset.to_string()),
            ("length", length.to_string()),
        ];
        let entry = |(key, value): (&str, _)| StringStringEntryProto { key: key.to_owned(), value };
        tensor.external_data = entries.into_iter().map(entry).collect();
        tensor.set_data_location(DataLocation::External);
    }

    /// Returns the offset of the contents of a tensor in the file, and places them there if they
    /// are new.
    fn place(&mut self, name: &str, data: Contents) -> u64 {
        let place = data.place();
        let mut named = self.by_name.get(name).into_iter().flatten().copied();
        let known = self.by_place.get(&place).copied();
        let known = known.or_else(|| named.find(|at| self.placed[*at].data.equals(&data)));
        if let Some(at) = known {
            return self.placed[at].offset;
        }
        let offset = self.end.next_multiple_of(ALIGNMENT);
        self.end = offset + data.len() as u64;
        self.by_place.insert(place, self.placed.len());
        self.by_name.entry(name.to_owned()).or_default().push(self.placed.len());
        self.placed.push(Placed { offset, data });
        offset
    }
}

fn location(tensor: &TensorProto) -> Option<&str> {
    tensor.external_data.iter().find(|e| e.key == "location").map(|e| e.value.as_str())
}

/// Returns `true` if `location`, relative to the model's folder, is the file `name`.
pub(crate) fn same_file(location: &str, name: &str) -> bool {
    location.trim_start_matches("./") == name
}
