//! Maps nodes of an optimised model to the exported nodes that a runtime fused into them.
//!
//! A fused node has the results of the last node it replaced and the operands of the first ones, so
//! it represents every node in between. If a runtime replaced nodes by several others, values that
//! the exported model lacks connect the new nodes. The names of these nodes identify the exported
//! values. Where they do not, the nodes jointly represent everything between the known values
//! around them.

use std::cell::Cell;

use provenance::{Source, SourceMap};
use rustc_hash::{FxHashMap, FxHashSet};

use super::introduced::{
    Value, introduced, is_layout, named, operator, plain_operator, reshaped_products,
};
use super::lookup::Lookup;
use super::renamed::{call_of, is_inlined};

/// The maximum number of exported nodes listed for one node of an optimised model.
const MOST: usize = 64;

/// The maximum number of nodes visited per node of the model. A model that fits its map needs few.
/// One that does not must still terminate quickly.
const FUEL: usize = 64;

/// A node of a model that a runtime may have optimised.
#[derive(Clone, Copy, Debug)]
pub struct OptimizedNode<'m> {
    /// The node's name.
    pub name: &'m str,
    /// The node's operator, without the domain.
    pub op: &'m str,
    /// The graph or function that contains the node, within which value names are unique.
    pub body: usize,
    /// The names of the node's operands.
    pub inputs: &'m [String],
    /// The names of the node's results.
    pub outputs: &'m [String],
}

impl<'m> OptimizedNode<'m> {
    /// Returns the node's operands.
    pub(super) fn operands(&self) -> impl DoubleEndedIterator<Item = Value<'m>> + use<'m> {
        let body = self.body;
        self.inputs.iter().filter(|name| !name.is_empty()).map(move |name| (body, name.as_str()))
    }

    /// Returns the node's results.
    pub(super) fn results(&self) -> impl DoubleEndedIterator<Item = Value<'m>> + use<'m> {
        let body = self.body;
        self.outputs.iter().filter(|name| !name.is_empty()).map(move |name| (body, name.as_str()))
    }
}

/// The nodes of an optimised model, resolved against the map of the exported one.
#[derive(Debug)]
pub struct Fused<'m> {
    map: &'m SourceMap,
    nodes: Vec<OptimizedNode<'m>>,
    /// The exported nodes that compute values which the runtime introduced.
    introduced: FxHashMap<Value<'m>, usize>,
    /// The exported nodes whose results survive, each with the last optimised node that computes
    /// them. They belong to no other node.
    computed: FxHashMap<usize, usize>,
    /// The nodes connected by values of unknown origin, each with its group.
    groups: FxHashMap<usize, Vec<usize>>,
    /// The nodes that only reshape an operand or the result of a product, each with the product.
    reshaped: FxHashMap<usize, usize>,
    /// The calls that a runtime inlined.
    calls: FxHashMap<Inlined<'m>, Option<Call<'m>>>,
    /// The bodies that contain inlined calls of one name.
    bodies: FxHashMap<(&'m str, &'m str), Vec<usize>>,
    spent: Cell<usize>,
}

/// The exported nodes that a node represents.
#[derive(Default)]
struct Found {
    /// The nodes of the source map; those that compute the node's results come first.
    nodes: Vec<usize>,
    /// The call nodes between the node's operands and its results.
    calls: Vec<usize>,
    /// `true` if the node is one of several that jointly represent these, and nothing tells which.
    is_ambiguous: bool,
}

/// The nodes of one inlined call: their body, and the prefix and suffix that a runtime added to
/// their names.
type Inlined<'m> = (usize, (&'m str, &'m str));

/// The call nodes that lead to a function, innermost first, and the enclosing inlined call.
type Call<'m> = (Vec<usize>, Option<Inlined<'m>>);

impl<'m> Fused<'m> {
    /// Resolves all nodes of a model, given in its order.
    pub fn new(map: &'m SourceMap, nodes: Vec<OptimizedNode<'m>>) -> Self {
        let introduced = introduced(map, &nodes);
        let groups = groups(map, &nodes, &introduced);
        let mut computed = FxHashMap::default();
        for (position, node) in nodes.iter().enumerate() {
            // Nodes of a function may occur several times.
            for name in node.outputs.iter().filter(|name| !is_inlined(name)) {
                computed.extend(map.find(name).map(|exported| (exported, position)));
            }
        }
        let calls = calls(map, &nodes, &groups);
        let mut bodies: FxHashMap<(&str, &str), Vec<usize>> = FxHashMap::default();
        for (body, name) in calls.keys() {
            bodies.entry(*name).or_default().push(*body);
        }
        let (reshaped, spent) = (reshaped_products(map, &nodes), Cell::new(0));
        Self { map, nodes, introduced, computed, groups, reshaped, calls, bodies, spent }
    }

    /// Returns the sources of a node, and `true` if only one of them is right and it is unknown which.
    /// The sources of the exported node with the same operator or name come first.
    pub fn possible_sources(&self, node: usize) -> (Vec<Source<'m>>, bool) {
        let node = self.represented(node);
        let found = self.found(node);
        let sources = |exported: &usize| {
            self.map.sources(*exported, &self.calls_of(node, *exported, &found.calls))
        };
        (found.nodes.iter().flat_map(sources).collect(), found.is_ambiguous)
    }

    /// Returns the first source of a node.
    pub fn own_source(&self, node: usize) -> Option<Source<'m>> {
        let node = self.represented(node);
        let found = self.found(node);
        let exported = *found.nodes.first()?;
        self.map.own_source(exported, &self.calls_of(node, exported, &found.calls))
    }

    /// Returns the known calls that lead to `exported`, a node that `node` represents. `fused` are
    /// call nodes that `node` also represents.
    fn calls_of(&self, node: usize, exported: usize, fused: &[usize]) -> Vec<usize> {
        let known = |calls: &[usize], exported| {
            let direct = calls.iter().position(|call| self.map.is_called_by(exported, *call));
            direct.map_or_else(Vec::new, |at| calls[at..].to_vec())
        };
        // Nodes that were fused with a node may belong to its callers.
        let own = known(&self.calls(node), exported);
        let mut direct = fused.iter().filter(|call| self.map.is_called_by(exported, **call));
        match (direct.next(), direct.next()) {
            (Some(&call), None) if own.is_empty() => {
                let group = self.group(node).into_iter().map(|node| self.nodes[node]);
                let names = group.flat_map(|node| node.results().chain(node.operands()));
                let around = names.filter_map(|(body, name)| self.call((body, call_of(name)?)));
                let around = around.map(|inlined| known(&self.through(inlined), call));
                let around = around.into_iter().find(|calls| !calls.is_empty());
                std::iter::once(call).chain(around.into_iter().flatten()).collect()
            }
            _ => own,
        }
    }

    /// Returns the module of a node of a function, starting with the function's name.
    pub fn body_scope(&self, node: usize) -> Option<&'m str> {
        self.map.scope(*self.exported(node).first()?)
    }

    /// Returns the nodes of the source map that called the functions which a node was inlined from,
    /// innermost first.
    fn calls(&self, node: usize) -> Vec<usize> {
        let own = self.nodes.get(node).and_then(inlined).and_then(|own| self.call(own));
        own.map(|own| self.through(own)).unwrap_or_default()
    }

    /// Returns an inlined call and the calls that enclose it.
    fn through(&self, call: &Call<'m>) -> Vec<usize> {
        let (mut found, mut outer) = (call.0.clone(), call.1);
        while let Some(call) = outer.and_then(|outer| self.call(outer)) {
            found.extend(&call.0);
            outer = call.1.filter(|_| found.len() < MOST);
        }
        found
    }

    /// Returns an inlined call. The nodes of an inlined loop or branch belong to the enclosing
    /// call, which is in another body.
    fn call(&self, inlined: Inlined<'m>) -> Option<&Call<'m>> {
        match self.calls.get(&inlined) {
            Some(known) => known.as_ref(),
            None => match self.bodies.get(&inlined.1)?[..] {
                [body] => self.calls.get(&(body, inlined.1))?.as_ref(),
                _ => None,
            },
        }
    }

    /// Returns the nodes of the source map that a node represents, in the order of
    /// [`Fused::possible_sources`].
    pub fn exported(&self, node: usize) -> Vec<usize> {
        self.found(self.represented(node)).nodes
    }

    /// Returns the node whose sources `node` has: a product for its reshapes, or else itself.
    fn represented(&self, node: usize) -> usize {
        self.reshaped.get(&node).copied().unwrap_or(node)
    }

    fn found(&self, node: usize) -> Found {
        let Some(optimized) = self.nodes.get(node) else { return Found::default() };
        let own = optimized.results().find_map(|value| self.position(value));
        if own.is_some_and(|own| self.map.node_name(own) == Some(optimized.name)) {
            return Found { nodes: own.into_iter().collect(), ..Found::default() };
        }
        let inlined = self.map.find_inlined(optimized.name);
        let spent = self.spent.get();
        let mut found = Found::default();
        if spent < FUEL * self.nodes.len() {
            found.nodes = self.between(node);
            self.spent.set(spent + found.nodes.len());
            let is_known = self.put_first(node, &mut found.nodes) || own.or(inlined).is_some();
            found.is_ambiguous = !is_known && self.groups.contains_key(&node);
            if found.is_ambiguous && is_layout(optimized) {
                found.nodes.extend(optimized.operands().filter_map(|value| self.position(value)));
            }
            found.nodes.truncate(MOST);
            found.calls = found.nodes.clone();
            found.calls.retain(|node| self.map.is_call(*node));
        }
        if let Some(inlined) = inlined {
            // The result may be known as that of the call, whose line is a different one.
            found.nodes.retain(|node| *node != inlined && !self.map.is_call(*node));
            found.nodes.insert(0, inlined);
        }
        if found.nodes.is_empty() {
            found.nodes.extend(own.or_else(|| self.map.find(optimized.name)));
        }
        found
    }

    /// Returns `node` and the nodes that the runtime created together with it.
    fn group(&self, node: usize) -> Vec<usize> {
        self.groups.get(&node).cloned().unwrap_or_else(|| vec![node])
    }

    /// Returns the exported node that computes a value.
    fn position(&self, value: Value<'_>) -> Option<usize> {
        self.map.find(value.1).or_else(|| self.introduced.get(&value).copied())
    }

    /// Moves the most informative exported node to the front: the only one with the node's
    /// operator, or else the one with its name. If there is none, those with the node's operator
    /// move there, and the result is `false`.
    fn put_first(&self, node: usize, exported: &mut [usize]) -> bool {
        let optimized = &self.nodes[node];
        let op = plain_operator(optimized.op);
        let group = self.group(node);
        let is_only =
            group.iter().filter(|other| plain_operator(self.nodes[**other].op) == op).count() == 1;
        let is_alike =
            |exported| self.map.node_name(exported).is_some_and(|name| operator(name) == op);
        let mut alike = (0..exported.len()).filter(|at| is_alike(exported[*at]));
        let first = match (alike.next(), alike.next()) {
            (Some(only), None) if is_only => Some(only),
            _ => named(self.map, optimized)
                .and_then(|named| exported.iter().position(|other| *other == named)),
        };
        match first {
            Some(first) => exported[..=first].rotate_right(1),
            None => exported.sort_by_key(|other| !is_alike(*other)),
        }
        first.is_some()
    }

    fn between(&self, node: usize) -> Vec<usize> {
        let group = self.group(node);
        let nodes = || group.iter().map(|node| &self.nodes[*node]);
        let made: Vec<Value<'_>> = nodes().rev().flat_map(OptimizedNode::results).collect();
        let inside: FxHashSet<&Value<'_>> = made.iter().collect();
        let read = nodes().flat_map(OptimizedNode::operands);
        let read: Vec<Value<'_>> = read.filter(|value| !inside.contains(value)).collect();
        let position = |value: &Value<'_>| self.position(*value);
        let own_results = self.nodes[node].results().map(|value| self.position(value));
        let own_results: Option<Vec<usize>> = own_results.collect();
        // A node whose results are all known has no part in those of the others in its group.
        let results: Vec<usize> = own_results
            .filter(|results| !results.is_empty())
            .unwrap_or_else(|| made.iter().filter_map(position).collect());
        let operands: FxHashSet<usize> = read.iter().filter_map(position).collect();
        // A node that only changes the layout of a value represents the producer of the value.
        let results_alone = results.iter().all(|result| operands.contains(result));
        let is_known =
            |value: &Value<'_>| self.map.has_value(value.1) || self.introduced.contains_key(value);
        // Without a known operand there is no boundary, and everything upstream would be included.
        if results_alone || !read.iter().any(is_known) {
            return distinct(results);
        }
        let is_outside = |exported: usize| {
            operands.contains(&exported)
                || self.computed.get(&exported).is_some_and(|other| !group.contains(other))
        };
        self.map.between(results, is_outside)
    }
}

/// Removes duplicate positions.
fn distinct(positions: Vec<usize>) -> Vec<usize> {
    let mut seen = FxHashSet::default();
    positions.into_iter().filter(|position| seen.insert(*position)).collect()
}

/// Returns the inlined call that a node belongs to.
fn inlined<'m>(node: &OptimizedNode<'m>) -> Option<Inlined<'m>> {
    Some((node.body, call_of(node.name)?))
}

/// Finds the inlined calls of a model by the names of their results and operands, which inlining
/// preserves. Ambiguous calls map to `None`.
fn calls<'m>(
    map: &SourceMap,
    nodes: &[OptimizedNode<'m>],
    groups: &FxHashMap<usize, Vec<usize>>,
) -> FxHashMap<Inlined<'m>, Option<Call<'m>>> {
    let mut found: FxHashMap<Inlined<'m>, Option<Call<'m>>> = FxHashMap::default();
    let mut add = |own: Inlined<'m>, call: Call<'m>| {
        let known = found.entry(own).or_insert_with(|| Some(call.clone()));
        if known.as_ref() != Some(&call) {
            *known = None;
        }
    };
    for (position, node) in nodes.iter().enumerate() {
        for (_, name) in node.results() {
            let Some(call) = map.find(name).filter(|call| map.is_call(*call)) else { continue };
            let outer = call_of(name).map(|call| (node.body, call));
            // The result may be that of a node that the runtime added.
            let group = groups.get(&position).map_or(&[][..], Vec::as_slice);
            let members = std::iter::once(node).chain(group.iter().map(|other| &nodes[*other]));
            for member in members {
                let (Some(own), Some(exported)) = (inlined(member), map.find_inlined(member.name))
                else {
                    continue;
                };
                let Some(path) = path(map, call, exported) else { continue };
                for (caller, calls) in callers(map, member, &path) {
                    add((node.body, caller), (calls, outer));
                }
                if outer != Some(own) {
                    add(own, (path, outer));
                }
            }
        }
    }
    found
}

/// Returns the inlined calls that a node's operands belong to, with the nodes of `path` that lead
/// to them. The caller computes the operands of a call or passes them on.
fn callers<'m>(
    map: &SourceMap,
    node: &OptimizedNode<'m>,
    path: &[usize],
) -> Vec<((&'m str, &'m str), Vec<usize>)> {
    let mut found = Vec::new();
    for name in node.inputs {
        let Some(caller) = call_of(name).filter(|caller| Some(*caller) != call_of(node.name))
        else {
            continue;
        };
        let Some(exported) = map.find(name) else { continue };
        let direct = (1..path.len()).find(|at| map.is_called_by(exported, path[*at]));
        found.extend(direct.map(|at| (caller, path[at..].to_vec())));
    }
    found
}

/// Returns the calls between the node `call` and the node `member` that computes its result. The
/// result of a function may be that of a function it calls.
fn path(map: &SourceMap, call: usize, member: usize) -> Option<Vec<usize>> {
    let mut path = vec![call];
    while path.len() < MOST {
        match path.first().and_then(|call| map.result_of_call(*call)) {
            Some(result) if result != member && map.is_call(result) => path.insert(0, result),
            _ => break,
        }
    }
    path.first().is_some_and(|innermost| map.is_called_by(member, *innermost)).then_some(path)
}

/// Maps each node that belongs to a group of several to its group.
fn groups(
    map: &SourceMap,
    nodes: &[OptimizedNode<'_>],
    introduced: &FxHashMap<Value<'_>, usize>,
) -> FxHashMap<usize, Vec<usize>> {
    let mut leaders: Vec<usize> = (0..nodes.len()).collect();
    let mut makers: FxHashMap<Value<'_>, usize> = FxHashMap::default();
    for (position, node) in nodes.iter().enumerate() {
        for operand in node.operands() {
            if let Some(&maker) = makers.get(&operand) {
                let (own, other) = (leader(&mut leaders, position), leader(&mut leaders, maker));
                leaders[own] = other;
            }
        }
        for result in node.results() {
            if !map.has_value(result.1) && !introduced.contains_key(&result) {
                makers.insert(result, position);
            }
        }
    }
    let mut groups: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for position in 0..nodes.len() {
        groups.entry(leader(&mut leaders, position)).or_default().push(position);
    }
    let several = groups.into_values().filter(|group| (2..=MOST).contains(&group.len()));
    several.flat_map(|group| group.clone().into_iter().map(move |n| (n, group.clone()))).collect()
}

/// Returns the representative of the set that contains `position`, and shortens the path to it.
fn leader(leaders: &mut [usize], mut position: usize) -> usize {
    while leaders[position] != position {
        leaders[position] = leaders[leaders[position]];
        position = leaders[position];
    }
    position
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use provenance::{Emitter, MapNode, Origins, Sources, Stacks, Stage};

    use super::*;

    /// Returns a map of these nodes: the name, the nodes whose results it reads, and the name of its result.
    fn map(nodes: &[(&'static str, &[usize], &'static str)]) -> SourceMap {
        let mut origins = Origins::default();
        let emitter = Emitter { name: "sin", stage: Stage::Lower, at: Location::caller().into() };
        let origin = origins.origin(None, Origins::ROOT, emitter);
        let node = |(name, inputs, output): &(&'static str, &[usize], &'static str)| MapNode {
            name: (*name).into(),
            origin,
            inputs: inputs.to_vec(),
            outputs: vec![output],
        };
        let nodes: Vec<_> = nodes.iter().map(node).collect();
        let sources = Sources { text: None, library: None, embed: false, edited: &[] };
        SourceMap::build(&["x"], &nodes, &origins, &Stacks::default(), None, sources)
    }

    /// Returns the nodes that a fused node with these inputs and this output stands for.
    fn fused(map: &SourceMap, inputs: &[&str], output: &str) -> Vec<usize> {
        let inputs: Vec<String> = inputs.iter().map(|name| (*name).to_owned()).collect();
        let outputs = [output.to_owned()];
        let node = OptimizedNode {
            name: "fused",
            op: "Fused",
            body: 0,
            inputs: &inputs,
            outputs: &outputs,
        };
        Fused::new(map, vec![node]).exported(0)
    }

    #[test]
    fn a_fused_node_stands_for_everything_between_its_inputs_and_outputs() {
        let map = map(&[("/Sin", &[], "/Sin_output_0"), ("/Cos", &[0], "y")]);
        let between = |inputs: &[&str], output| fused(&map, inputs, output);
        assert_eq!(between(&[], "y"), [1]);
        assert_eq!(between(&["/Sin_output_0"], "y"), [1]);
        assert_eq!(between(&["x"], "y"), [1, 0], "up to the model's own input");
        assert_eq!(between(&["/Sin"], "/Cos"), [1], "results by the names of their nodes");
        assert_eq!(between(&["?"], "y"), [1], "an unknown input is not a boundary");
    }

    #[test]
    fn a_fused_chain_and_a_fused_diamond_are_followed_to_the_end() {
        let nodes: [(&str, &[usize], &str); 4] =
            [("/A", &[], "a"), ("/B", &[0], "b"), ("/C", &[0, 1], "c"), ("/D", &[2], "y")];
        let map = map(&nodes);
        assert_eq!(fused(&map, &["x"], "y"), [3, 2, 0, 1], "each node once");
        assert_eq!(fused(&map, &["a"], "y"), [3, 2, 1]);
        assert_eq!(fused(&map, &["b", "a"], "y"), [3, 2]);
        assert_eq!(fused(&map, &["a"], "b"), [1]);
    }

    /// Returns the exported nodes of each node of an optimised model, with a question mark if only
    /// one of them is right. A line is `result = /name(operands)` in the exported model and
    /// `result = Op name(operands)` in the optimised one.
    fn represented(exported: &str, optimised: &str) -> Vec<String> {
        let parts = |line: &str| -> Option<[String; 3]> {
            let (result, call) = line.trim().split_once(" = ")?;
            let (name, operands) = call.strip_suffix(')')?.split_once('(')?;
            Some([result, name, operands].map(str::to_owned))
        };
        let lines: Vec<[&'static str; 3]> = exported
            .lines()
            .filter_map(parts)
            .map(|line| line.map(|part| -> &'static str { part.leak() }))
            .collect();
        let position = |operand: &str| lines.iter().position(|[result, ..]| *result == operand);
        let read = lines.iter().map(|[.., operands]| operands.split(", ").filter_map(position));
        let read: Vec<Vec<usize>> = read.map(Iterator::collect).collect();
        let nodes: Vec<(&'static str, &[usize], &'static str)> = lines
            .iter()
            .zip(&read)
            .map(|([result, name, _], read)| (*name, &**read, *result))
            .collect();
        let map = map(&nodes);
        let optimised = optimised.lines().filter_map(parts).map(|[result, name, operands]| {
            let (op, name) = name.split_once(' ').unwrap_or((&name, ""));
            let operands: Vec<String> = operands.split(", ").map(str::to_owned).collect();
            (op.to_owned(), name.to_owned(), operands, [result])
        });
        let optimised: Vec<_> = optimised.collect();
        let nodes = optimised.iter().map(|(op, name, inputs, outputs)| OptimizedNode {
            name,
            op,
            body: 0,
            inputs,
            outputs,
        });
        let fused = Fused::new(&map, nodes.collect());
        let text = |node| {
            let names = fused.exported(node).into_iter().filter_map(|node| map.node_name(node));
            let names = names.collect::<Vec<_>>().join(" ");
            if fused.possible_sources(node).1 { format!("? {names}") } else { names }
        };
        (0..optimised.len()).map(text).collect()
    }

    const BLOCKED: &str = "
        a = /Conv(x)
        b = /Relu(a)
        c = /Conv_1(b)
        y = /Relu_1(c)";

    #[test]
    fn nodes_in_a_blocked_layout_are_known_by_their_names() {
        let optimised = "
            r0 = ReorderInput ReorderInput(x)
            r1 = Conv /Conv_nchwc(r0)
            r2 = Conv /Conv_1_nchwc(r1)
            y = ReorderOutput ReorderOutput(r2)";
        assert_eq!(
            represented(BLOCKED, optimised),
            ["? /Relu /Conv", "/Conv /Relu", "/Conv_1 /Relu_1", "/Relu_1"]
        );
        let after_results = "
            r0 = ReorderInput ReorderInput(x)
            r1 = Conv /Relu_nchwc(r0)
            r2 = Conv /Relu_1_nchwc(r1)
            y = ReorderOutput ReorderOutput(r2)";
        assert_eq!(
            represented(BLOCKED, after_results),
            ["? /Relu /Conv", "/Conv /Relu", "/Conv_1 /Relu_1", "/Relu_1"]
        );
        let alone = "
            r1 = Conv /Conv_nchwc(x)
            r2 = Relu /Relu(r1)
            r3 = Conv /Conv_1_nchwc(r2)
            y = Relu /Relu_1(r3)";
        assert_eq!(represented(BLOCKED, alone), ["/Conv", "/Relu", "/Conv_1", "/Relu_1"]);
    }

    #[test]
    fn nodes_without_names_are_known_by_their_structure() {
        let exported = "
            a = /MatMul(x)
            b = /Exp(a)
            c = /MatMul_1(b)
            d = /Exp_1(c)
            y = /Add(d, a)";
        let renamed = "
            v1 = MatMul(x, w)
            v2 = Exp(v1)
            v3 = MatMul(v2, w)
            v4 = Exp(v3)
            y = Add(v4, v1)";
        assert_eq!(
            represented(exported, renamed),
            ["/MatMul", "/Exp", "/MatMul_1", "/Exp_1", "/Add"]
        );
        let fused = "
            v1 = MatMul(x, w)
            v2 = Exp(v1)
            v3 = Magic(v2, w)
            y = Add(v3, v1)";
        assert_eq!(
            represented(exported, fused),
            ["/MatMul", "/Exp", "? /Add /Exp_1 /MatMul_1", "/Add /Exp_1 /MatMul_1"]
        );
    }

    const PARALLEL: &str = "
        a = /MatMul(x)
        b = /MatMul_1(x)
        c = /MatMul_2(x)
        y = /Concat(a, b, c)";

    #[test]
    fn equal_computations_are_known_by_their_order_if_all_are_there() {
        let all = "
            v1 = MatMul(x, w)
            v2 = MatMul(x, w)
            v3 = MatMul(x, w)
            y = Concat(v1, v2, v3)";
        assert_eq!(represented(PARALLEL, all), ["/MatMul", "/MatMul_1", "/MatMul_2", "/Concat"]);
        let some = "
            v1 = MatMul(x, w)
            v3 = MatMul(x, w)
            y = Concat(v1, v3)";
        assert_eq!(
            represented(PARALLEL, some),
            [
                "? /MatMul /MatMul_1 /MatMul_2 /Concat",
                "? /MatMul /MatMul_1 /MatMul_2 /Concat",
                "/Concat /MatMul /MatMul_1 /MatMul_2"
            ]
        );
        let named = "
            a = MatMul /MatMul(x, w)
            v2 = MatMul(x, w)
            v3 = MatMul(x, w)
            y = Concat(a, v2, v3)";
        assert_eq!(represented(PARALLEL, named), ["/MatMul", "/MatMul_1", "/MatMul_2", "/Concat"]);
    }

    #[test]
    fn layouts_between_nodes_without_names_are_followed() {
        let all = "
            v1 = Conv(x, w)
            v2 = ReorderInput(v1)
            v3 = Relu(v2)
            v4 = Conv(v3, w)
            v5 = ReorderOutput(v4)
            y = Relu(v5)";
        assert_eq!(
            represented(BLOCKED, all),
            ["/Conv", "/Conv", "/Relu", "/Conv_1", "/Conv_1", "/Relu_1"]
        );
        let fewer = "
            v1 = Conv(x, w)
            v2 = ReorderInput(v1)
            v3 = Conv(v2, w)
            y = Relu(v3)";
        assert_eq!(
            represented(BLOCKED, fewer),
            [
                "/Conv",
                "? /Relu_1 /Conv_1 /Relu /Conv",
                "/Conv_1 /Relu_1 /Relu",
                "/Relu_1 /Relu /Conv_1"
            ]
        );
    }

    #[test]
    fn a_fused_activation_reads_what_its_parts_read() {
        let exported = "
            a = /Conv(x)
            m = /Mul(a)
            s = /Sigmoid(m)
            g = /Mul_1(a, s)
            y = /Conv_1(g)";
        let optimised = "
            r1 = Conv /Conv_nchwc(x)
            r2 = QuickGelu /Mul_1/QuickGeluFusion/(r1)
            y = Conv /Conv_1_nchwc(r2)";
        assert_eq!(represented(exported, optimised), ["/Conv", "/Mul_1 /Sigmoid /Mul", "/Conv_1"]);
    }

    #[test]
    fn reshapes_of_a_product_represent_it() {
        let exported = "
            a = /MatMul(x)
            b = /Add(a)
            r = /Reshape(b)
            y = /Exp(r)";
        let optimised = "
            g0 = Reshape gemm_input_reshape(x, s)
            g1 = Gemm /MatMul/MatMulAddFusion(g0, w)
            b = Reshape gemm_output_reshape(g1, s)
            r = Reshape /Reshape(b, s)
            y = Exp /Exp(r)";
        assert_eq!(
            represented(exported, optimised),
            ["/MatMul /Add", "/MatMul /Add", "/MatMul /Add", "/Reshape", "/Exp"]
        );
        let merged = "
            g0 = Reshape gemm_input_reshape(x, s)
            g1 = Gemm /MatMul/MatMulAddFusion(g0, w)
            r = Reshape gemm_output_reshape_token_1_new_reshape(g1, s)
            y = Exp /Exp(r)";
        assert_eq!(
            represented(exported, merged),
            ["/MatMul /Add", "/MatMul /Add", "/Reshape", "/Exp"]
        );
        let unknown = "
            g0 = Reshape gemm_input_reshape(x, s)
            g1 = Gemm /MatMul/MatMulAddFusion(g0, w)
            r1 = Reshape gemm_output_reshape_token_1_new_reshape(g1, s)
            y = Exp /Exp(r1)";
        assert_eq!(
            represented(exported, unknown),
            ["/MatMul /Reshape /Add", "/MatMul /Reshape /Add", "/MatMul /Reshape /Add", "/Exp"]
        );
    }

    #[test]
    fn a_change_of_layout_may_replace_a_transpose() {
        let exported = "
            a = /Conv(x)
            t = /Transpose(a)
            y = /Exp(t)";
        let optimised = "
            r1 = Conv /Conv_nchwc(x)
            t = ReorderOutput ReorderOutput(r1)
            y = Exp /Exp(t)";
        assert_eq!(represented(exported, optimised), ["/Conv", "/Transpose", "/Exp"]);
    }

    #[test]
    fn nodes_that_several_others_replaced_are_ambiguous() {
        let exported = "
            a = /Relu(x)
            b = /Exp(a)
            c = /Tanh(b)
            y = /Neg(c)";
        let replaced = "
            a = Relu /Relu(x)
            n1 = Part(a)
            n2 = Exp(n1)
            n3 = Part(n2)
            c = Part(n3)
            y = Neg /Neg(c)";
        assert_eq!(
            represented(exported, replaced),
            ["/Relu", "? /Tanh /Exp", "/Exp /Tanh", "? /Tanh /Exp", "/Tanh /Exp", "/Neg"]
        );
        let named = "
            a = Relu /Relu(x)
            n1 = Part /Tanh(a)
            c = Part other(n1)
            y = Neg /Neg(c)";
        assert_eq!(represented(exported, named), ["/Relu", "/Tanh /Exp", "/Tanh /Exp", "/Neg"]);
    }
}
