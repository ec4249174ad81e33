//! Calls to the functions of a model, and the names that onnxruntime gives to inlined bodies.

use rustc_hash::{FxHashMap, FxHashSet};

use super::renamed::{from_inlined, inlined_prefix};
use super::{BodyKind, Index, Nesting};
use crate::limits::{CALL_DEPTH, CHAINS, INLINED_CALLS, INLINED_NODES};

/// The call nodes that lead to a function, innermost first. The last one is a node of the main
/// graph.
pub(crate) type Chain = Vec<usize>;

/// Domain, name and overload of a function or an operator.
type Identity<'m> = (&'m str, &'m str, &'m str);

/// The calls to a model's functions.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// The nodes that call a function, by its body.
    callers: FxHashMap<usize, Vec<usize>>,
    /// The body of the function that a node calls.
    called: FxHashMap<usize, usize>,
    /// The minimum number of calls from the main graph to each function, by its body.
    depths: FxHashMap<usize, usize>,
    /// The calls that onnxruntime inlines, by the prefix of the inlined nodes' names.
    inlined: FxHashMap<String, Vec<Chain>>,
}

impl Calls {
    pub(super) fn new(index: &Index<'_>) -> Self {
        let bodies = index.bodies.iter().enumerate().filter_map(|(at, body)| match body.kind {
            BodyKind::Function(f) => {
                Some(((f.domain.as_str(), f.name.as_str(), f.overload.as_str()), at))
            }
            _ => None,
        });
        let functions: FxHashMap<Identity<'_>, usize> = bodies.collect();
        let mut calls = Self::default();
        if functions.is_empty() {
            return calls;
        }
        for (position, node) in index.nodes.iter().enumerate() {
            let proto = node.proto;
            let identity = (proto.domain.as_str(), proto.op_type.as_str(), proto.overload.as_str());
            if let Some(&body) = functions.get(&identity) {
                calls.callers.entry(body).or_default().push(position);
                calls.called.insert(position, body);
            }
        }
        calls.depths = calls.depths(index);
        calls.inlined = Inliner::new(index, &calls).run();
        calls
    }

    /// Returns the depths of all functions that are reachable from the main graph.
    fn depths(&self, index: &Index<'_>) -> FxHashMap<usize, usize> {
        let mut inside: FxHashMap<Option<usize>, Vec<usize>> = FxHashMap::default();
        for (&call, &body) in &self.called {
            inside.entry(index.function_body(call)).or_default().push(body);
        }
        let mut depths = FxHashMap::default();
        let mut level = vec![None];
        for depth in 1.. {
            let bodies = level.iter().flat_map(|outer| inside.get(outer).into_iter().flatten());
            let mut known: Vec<usize> = Vec::new();
            for body in bodies {
                if !depths.contains_key(body) {
                    depths.insert(*body, depth);
                    known.push(*body);
                }
            }
            if known.is_empty() {
                break;
            }
            level = known.into_iter().map(Some).collect();
        }
        depths
    }

    /// Returns the body of the function that a node calls.
    pub(crate) fn called(&self, node: usize) -> Option<usize> {
        self.called.get(&node).copied()
    }

    /// Returns the loop or branch around a node that is reached through `chain`, and the chain of
    /// that loop or branch.
    pub(crate) fn around<'c>(
        &self,
        index: &Index<'_>,
        mut node: usize,
        mut chain: &'c [usize],
    ) -> Option<(usize, &'c [usize])> {
        loop {
            if let Some(owner) = index.owner(node) {
                return Some((owner, chain));
            }
            let (&call, outer) = chain.split_first()?;
            (node, chain) = (call, outer);
        }
    }

    /// Returns all nodes that call the same function as `call`.
    pub(super) fn beside(&self, call: usize) -> &[usize] {
        let callers = self.called(call).and_then(|body| self.callers.get(&body));
        callers.map_or(&[], Vec::as_slice)
    }

    /// Returns up to [`CHAINS`] call chains from the main graph to a node, each at most
    /// [`CALL_DEPTH`] calls long. A node of the main graph has one empty chain.
    pub(crate) fn chains(&self, index: &Index<'_>, node: usize) -> Vec<Chain> {
        let mut found = Vec::new();
        self.extend(index, node, &mut Vec::new(), &mut found);
        found
    }

    fn extend(&self, index: &Index<'_>, node: usize, chain: &mut Chain, found: &mut Vec<Chain>) {
        let Some(body) = index.function_body(node) else { return found.push(chain.clone()) };
        for &call in self.callers.get(&body).into_iter().flatten() {
            if found.len() >= CHAINS {
                return;
            }
            let depth = match index.function_body(call) {
                None => Some(0),
                Some(outer) => self.depths.get(&outer).copied(),
            };
            // Every call that is followed leads to the main graph, so the number of chains bounds
            // the number of steps.
            if depth.is_some_and(|depth| chain.len() + depth < CALL_DEPTH) {
                chain.push(call);
                self.extend(index, call, chain, found);
                chain.pop();
            }
        }
    }

    /// Returns the call chains by which `node` was inlined under the name `name`. Returns all
    /// chains of the node if the name does not identify one.
    pub(crate) fn of_name(&self, index: &Index<'_>, node: usize, name: &str) -> Vec<Chain> {
        let all = || self.chains(index, node);
        let Some(inlined) = from_inlined(name) else { return all() };
        let own = index.nodes[node].proto.name.as_str();
        let Some(end) = inlined.find(&format!("_{own}")) else { return all() };
        let body = index.function_body(node);
        let fits = |chains: &&Vec<Chain>| {
            let called = |chain: &Chain| chain.first().and_then(|call| self.called(*call));
            body.is_some() && chains.iter().all(|chain| called(chain) == body)
        };
        self.inlined.get(&inlined[..end]).filter(fits).cloned().unwrap_or_else(all)
    }
}

/// Reproduces onnxruntime's inlining, which precedes its optimisations. It proceeds in passes; in
/// each graph, it inlines the calls in file order, subgraphs first. An inlined body is appended to
/// the graph, and its own calls are inlined in the next pass. The numbers in the names are counted
/// per graph.
struct Inliner<'a, 'm> {
    index: &'a Index<'m>,
    calls: &'a Calls,
    nesting: Nesting<'m>,
    found: FxHashMap<String, Vec<Chain>>,
    /// The number of inlined calls.
    calls_inlined: usize,
    nodes_inlined: usize,
}

/// A graph during inlining: its calls and subgraphs, in node order.
#[derive(Default)]
struct Graph<'m> {
    calls: Vec<(usize, Chain)>,
    inner: Vec<Graph<'m>>,
    names: FxHashSet<&'m str>,
    next: usize,
}

impl<'a, 'm> Inliner<'a, 'm> {
    fn new(index: &'a Index<'m>, calls: &'a Calls) -> Self {
        let (nesting, found) = (Nesting::new(index), FxHashMap::default());
        Self { index, calls, nesting, found, calls_inlined: 0, nodes_inlined: 0 }
    }

    fn run(mut self) -> FxHashMap<String, Vec<Chain>> {
        let mut main = Graph::default();
        self.add(&mut main, 0, &Vec::new());
        loop {
            match self.round(&mut main) {
                Some(true) => {}
                Some(false) => return self.found,
                // Without all calls, a name could refer to the wrong call.
                None => return FxHashMap::default(),
            }
        }
    }

    /// Adds the nodes of a body to a graph. `chain` leads to the body.
    fn add(&self, graph: &mut Graph<'m>, body: usize, chain: &Chain) {
        for &node in &self.nesting.members[body] {
            if self.calls.called(node).is_some() {
                graph.calls.push((node, chain.clone()));
            }
            for &(_, inner) in self.nesting.inside(node) {
                let mut new = Graph::default();
                self.add(&mut new, inner, chain);
                if !new.calls.is_empty() || !new.inner.is_empty() {
                    graph.inner.push(new);
                }
            }
        }
    }

    /// Inlines all current calls of a graph. Returns `true` if there were any, and `None` if the
    /// limits are exceeded.
    fn round(&mut self, graph: &mut Graph<'m>) -> Option<bool> {
        let mut inlined = false;
        for inner in &mut graph.inner {
            inlined |= self.round(inner)?;
        }
        for (call, outer) in std::mem::take(&mut graph.calls) {
            let Some(body) = self.calls.called(call) else { continue };
            inlined = true;
            self.calls_inlined += 1;
            self.nodes_inlined += self.nesting.sizes[body];
            if self.calls_inlined > INLINED_CALLS
                || self.nodes_inlined > INLINED_NODES
                || outer.len() >= CALL_DEPTH
            {
                return None;
            }
            let name = self.index.nodes[call].proto.op_type.as_str();
            let mut number = None;
            if !graph.names.insert(name) {
                number = Some(graph.next);
                graph.next += 1;
            }
            let prefix = inlined_prefix(name, number);
            let chain: Chain = std::iter::once(call).chain(outer).collect();
            self.add(graph, body, &chain);
            self.found.entry(prefix).or_default().push(chain);
        }
        Some(inlined)
    }
}

#[cfg(test)]
mod tests {
    use onnx_file::proto::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto};

    use super::super::Model;
    use super::*;

    fn node(op: &str, name: &str) -> NodeProto {
        NodeProto { op_type: op.to_owned(), name: name.to_owned(), ..NodeProto::default() }
    }

    fn within(op: &str, name: &str, body: Vec<NodeProto>) -> NodeProto {
        let graph = GraphProto { node: body, ..GraphProto::default() };
        let body = AttributeProto {
            name: "body".to_owned(),
            g: Some(Box::new(graph)),
            ..AttributeProto::default()
        };
        NodeProto { attribute: vec![body], ..node(op, name) }
    }

    fn function(name: &str, node: Vec<NodeProto>) -> FunctionProto {
        FunctionProto { name: name.to_owned(), node, ..FunctionProto::default() }
    }

    /// `F` is called in a loop and in the main graph, and calls `G`. Nothing calls `H`.
    fn model() -> Model {
        let main = vec![within("Loop", "/Loop", vec![node("F", "/inner")]), node("F", "/outer")];
        let functions = vec![
            function("F", vec![node("G", "/F/call"), node("Sin", "/F/sin")]),
            function("G", vec![node("Cos", "/G/cos")]),
            function("H", vec![node("G", "/H/call"), node("H", "/H/again")]),
        ];
        let graph = Some(GraphProto { node: main, ..GraphProto::default() });
        let proto = ModelProto { graph, functions, ..ModelProto::default() };
        Model { path: None, proto, map: None, map_path: None, remarks: vec![] }
    }

    fn names(index: &Index<'_>, chains: &[Chain]) -> Vec<String> {
        let name = |call: &usize| index.nodes[*call].proto.name.as_str();
        chains.iter().map(|chain| chain.iter().map(name).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn chains_lead_from_the_main_graph() {
        let model = model();
        let index = Index::new(&model);
        let chains = |name: &str| {
            let node = index.named(name).unwrap();
            names(&index, &index.calls().chains(&index, node))
        };
        assert_eq!(chains("/outer"), [""]);
        assert_eq!(chains("/F/sin"), ["/inner", "/outer"]);
        assert_eq!(chains("/G/cos"), ["/F/call /inner", "/F/call /outer"], "nothing calls `H`");
        assert_eq!(chains("/H/call"), [""; 0]);
        let call = index.named("/F/call").unwrap();
        assert_eq!(index.calls().beside(call).len(), 2);
    }

    #[test]
    fn a_loop_is_around_the_nodes_of_functions_that_it_calls() {
        let model = model();
        let index = Index::new(&model);
        let node = |name: &str| index.named(name).unwrap();
        let around = |name: &str, chain: &[&str]| {
            let chain: Vec<usize> = chain.iter().map(|name| node(name)).collect();
            index
                .calls()
                .around(&index, node(name), &chain)
                .map(|(node, outer)| (node, outer.len()))
        };
        assert_eq!(around("/inner", &[]), Some((node("/Loop"), 0)));
        assert_eq!(around("/G/cos", &["/F/call", "/inner"]), Some((node("/Loop"), 0)));
        assert_eq!(around("/G/cos", &["/F/call", "/outer"]), None);
    }

    /// onnxruntime inlines subgraphs first, and counts the calls of each graph.
    #[test]
    fn inlined_names_identify_calls() {
        let model = model();
        let index = Index::new(&model);
        let calls = |node: &str, name: &str| {
            names(&index, &index.calls().of_name(&index, index.named(node).unwrap(), name))
        };
        assert_eq!(calls("/F/sin", "/F/sin"), ["/inner", "/outer"]);
        assert_eq!(calls("/F/sin", "_inlfunc_F_/F/sin"), ["/inner", "/outer"], "one in each graph");
        assert_eq!(calls("/G/cos", "_inlfunc_G_/G/cos"), ["/F/call /inner", "/F/call /outer"]);
        let twice = vec![node("F", "/first"), node("F", "/second")];
        let graph = Some(GraphProto { node: twice, ..GraphProto::default() });
        let functions = vec![function("F", vec![node("Sin", "/F/sin")])];
        let proto = ModelProto { graph, functions, ..ModelProto::default() };
        let model = Model { path: None, proto, map: None, map_path: None, remarks: vec![] };
        let index = Index::new(&model);
        let calls = |name: &str| {
            names(&index, &index.calls().of_name(&index, index.named("/F/sin").unwrap(), name))
        };
        assert_eq!(calls("_inlfunc_F_/F/sin"), ["/first"]);
        assert_eq!(calls("_inlfunc_F_token_0_/F/sin"), ["/second"]);
        assert_eq!(calls("_inlfunc_F_token_7_/F/sin"), ["/first", "/second"], "not a call");
        assert_eq!(calls("_inlfunc_F_/F/cos"), ["/first", "/second"], "not the node");
    }
}
