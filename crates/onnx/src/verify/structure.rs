//! Checks that definitions precede uses, that use lists are correct, and that names of functions
//! are unique.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{control_flow, label, signature, value_label};
use crate::{BlockId, Error, Graph, NodeId, Op, Producer, Result, Use, ValueId};

/// A walk over every block once, outer before inner, with nodes in order.
struct Walk<'g> {
    graph: &'g Graph,
    opset: Option<i64>,
    /// The body of each function.
    functions: FxHashMap<Op, BlockId>,
    /// Flags, by value, for the values that may be read at the current position.
    visible: Vec<bool>,
    /// The number of reads seen, by value.
    reads: Vec<u32>,
    /// Flags, by value, for the values that were seen at all.
    live: Vec<bool>,
    blocks: FxHashSet<BlockId>,
    /// Flags, by node, for the nodes that were seen.
    nodes: Vec<bool>,
}

pub(super) fn check(graph: &Graph, opset: Option<i64>) -> Result<()> {
    let count = graph.value_count();
    let mut functions = FxHashMap::default();
    for function in &graph.functions {
        if functions.insert(function.op, function.body).is_some() {
            return Err(Error::Graph(format!("two functions are named `{}`", function.op.name)));
        }
    }
    let mut walk = Walk {
        graph,
        opset,
        functions,
        visible: vec![false; count],
        reads: vec![0; count],
        live: vec![false; count],
        blocks: FxHashSet::default(),
        nodes: vec![false; graph.node_count()],
    };
    walk.block(Graph::MAIN, "the main graph")?;
    for function in &graph.functions {
        walk.block(function.body, &format!("function `{}`", function.op.name))?;
    }
    walk.uses()
}

impl Walk<'_> {
    /// Checks a block and its nested blocks. `place` describes the block in messages.
    fn block(&mut self, block: BlockId, place: &str) -> Result<()> {
        let graph = self.graph;
        if !self.blocks.insert(block) {
            return Err(Error::Graph(format!("the block of {place} is also used elsewhere")));
        }
        let mut defined = Vec::new();
        for &input in &graph.block(block).inputs {
            if !matches!(graph.value(input).producer(), Producer::Input(b) if *b == block) {
                let value = value_label(graph, input);
                return Err(Error::Graph(format!("{value} is listed as an input of {place}")));
            }
            self.define(input, &mut defined)?;
        }
        for id in graph.nodes_of(block) {
            self.node(id, block, &mut defined)?;
        }
        for &output in graph.block(block).outputs() {
            self.read(output).map_err(|what| Error::Graph(format!("{place} returns {what}")))?;
        }
        for value in defined {
            self.visible[value.index()] = false;
        }
        Ok(())
    }

    fn node(&mut self, id: NodeId, block: BlockId, defined: &mut Vec<ValueId>) -> Result<()> {
        let graph = self.graph;
        let node = graph.node(id);
        let complain = |what: String| Error::Graph(format!("{} {what}", label(id, node)));
        let seen = std::mem::replace(&mut self.nodes[id.index()], true);
        if node.block() != block || seen {
            return Err(complain("is listed in a block that it does not belong to".to_owned()));
        }
        for input in node.inputs.iter().flatten() {
            self.read(*input).map_err(|what| complain(format!("reads {what}")))?;
        }
        match self.functions.get(&node.op) {
            Some(body) => control_flow::check_call(graph, id, *body)?,
            None => signature::check(graph, id, self.opset)?,
        }
        control_flow::check(graph, id)?;
        for inner in node.blocks() {
            self.block(inner, &format!("a subgraph of {}", label(id, node)))?;
        }
        for (i, &output) in node.outputs.iter().enumerate() {
            let producer = graph.value(output).producer();
            if !matches!(producer, Producer::Node(n, at) if (*n, *at) == (id, i)) {
                let value = value_label(graph, output);
                return Err(complain(format!("does not produce its result {i}, {value}")));
            }
            self.define(output, defined)?;
        }
        Ok(())
    }

    fn define(&mut self, value: ValueId, defined: &mut Vec<ValueId>) -> Result<()> {
        if std::mem::replace(&mut self.live[value.index()], true) {
            let value = value_label(self.graph, value);
            return Err(Error::Graph(format!("{value} is defined twice")));
        }
        self.visible[value.index()] = true;
        defined.push(value);
        Ok(())
    }

    /// Counts a read of `value`. Fails with a reason if it cannot be read here.
    fn read(&mut self, value: ValueId) -> std::result::Result<(), String> {
        self.reads[value.index()] += 1;
        let reason = match self.graph.value(value).producer() {
            Producer::Constant(_) | Producer::Parameter(_) => {
                self.live[value.index()] = true;
                return Ok(());
            }
            _ if self.visible[value.index()] => return Ok(()),
            Producer::Removed => "which was removed",
            _ => "which is not defined earlier in this block or an enclosing one",
        };
        Err(format!("{}, {reason}", value_label(self.graph, value)))
    }

    /// Checks that use lists contain every read of a live value, and nothing else.
    fn uses(&self) -> Result<()> {
        let graph = self.graph;
        for id in graph.value_ids().filter(|id| self.live[id.index()]) {
            let mut listed = 0;
            for place in graph.value(id).uses() {
                let (read, live) = match place {
                    Use::Operand(node, i) => {
                        (graph.get(node).and_then(|n| n.input(i)), self.nodes[node.index()])
                    }
                    Use::Output(block, i) => {
                        let outputs = graph.block(block).outputs();
                        (outputs.get(i).copied(), self.blocks.contains(&block))
                    }
                };
                if read != Some(id) {
                    let value = value_label(graph, id);
                    return Err(Error::Graph(format!("{value} is not read at {place:?}")));
                }
                listed += u32::from(live);
            }
            if listed != self.reads[id.index()] {
                let (value, reads) = (value_label(graph, id), self.reads[id.index()]);
                return Err(Error::Graph(format!(
                    "{value} is read {reads} times, but has {listed} uses"
                )));
            }
        }
        Ok(())
    }
}
