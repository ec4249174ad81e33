//! The nodes of a model in execution order: each function call is followed by the function's nodes.

use rustc_hash::FxHashMap;

use crate::limits::{CALL_DEPTH, UNFOLDED_NODES};
use crate::model::{Chain, Index, Makers, Nesting};
use crate::profile::{Attributed, Target, Time};

/// A node in one of the calls to the function that contains it.
#[derive(Debug)]
pub(super) struct NodeInCall {
    pub(super) node: usize,
    /// The position of the node that contains this one: a loop, a branch or a call.
    pub(super) owner: Option<usize>,
    /// The calls that lead to the node, innermost first.
    pub(super) chain: Chain,
    /// The position of the innermost call.
    call: Option<usize>,
}

/// All nodes in execution order. Nested nodes follow the node that contains them.
#[derive(Debug)]
pub(super) struct Unfolded {
    pub(super) places: Vec<NodeInCall>,
    /// Positions by node and by the position of the call.
    by_call: FxHashMap<(usize, Option<usize>), usize>,
    /// Positions by node and by the calls that lead to it.
    by_chain: FxHashMap<(usize, Chain), usize>,
}

impl Unfolded {
    pub(super) fn new(index: &Index<'_>) -> Self {
        let (by_call, by_chain) = (FxHashMap::default(), FxHashMap::default());
        let mut unfolded = Self { places: Vec::new(), by_call, by_chain };
        unfolded.add(index, &Nesting::new(index), 0, None, &Chain::new(), None);
        unfolded
    }

    /// Adds the nodes of a body.
    fn add(
        &mut self,
        index: &Index<'_>,
        nesting: &Nesting<'_>,
        body: usize,
        owner: Option<usize>,
        chain: &Chain,
        call: Option<usize>,
    ) {
        for &node in &nesting.members[body] {
            let place = self.places.len();
            self.by_call.insert((node, call), place);
            self.by_chain.insert((node, chain.clone()), place);
            self.places.push(NodeInCall { node, owner, chain: chain.clone(), call });
            for &(_, inner) in nesting.inside(node) {
                self.add(index, nesting, inner, Some(place), chain, call);
            }
            if let Some(function) = index.calls().called(node)
                && self.places.len() + nesting.sizes[function] <= UNFOLDED_NODES
                && chain.len() < CALL_DEPTH
                && !chain.contains(&node)
            {
                let chain = std::iter::once(node).chain(chain.iter().copied()).collect();
                self.add(index, nesting, function, Some(place), &chain, Some(place));
            }
        }
    }

    /// Returns the position of a node that is reached through the calls `chain`.
    pub(super) fn at(&self, node: usize, chain: &Chain) -> Option<usize> {
        self.by_chain.get(&(node, chain.clone())).copied()
    }

    /// Returns the position of the node that computes the value `name`, as visible to the node at
    /// `place`. The operands of a function are resolved in its caller.
    pub(super) fn maker<'u>(
        &'u self,
        index: &Index<'u>,
        makers: &Makers<'_>,
        mut place: &'u NodeInCall,
        mut name: &'u str,
    ) -> Option<usize> {
        loop {
            let body = index.nodes[place.node].body;
            if let Some(node) = makers.find(index, body, name) {
                return self.by_call.get(&(node, place.call)).copied();
            }
            let function = index.function(place.node)?;
            let at = function.input.iter().position(|input| input == name)?;
            place = &self.places[place.call?];
            name = index.nodes[place.node].proto.input.get(at)?;
        }
    }

    /// Returns the time by position. If a kernel may have run in several calls, each gets an equal
    /// share.
    pub(super) fn times(&self, attributed: &Attributed<'_>) -> Vec<Time> {
        let chains = self.places.iter().enumerate();
        let by_chain: FxHashMap<(usize, &[usize]), usize> =
            chains.map(|(at, place)| ((place.node, place.chain.as_slice()), at)).collect();
        let mut times = vec![Time::default(); self.places.len()];
        for (kernel, target) in attributed {
            let Target::Node(node, chains, _) = target else { continue };
            for (chain, part) in chains.iter().zip(kernel.time.split(chains.len())) {
                // The time of nodes inside a closed call counts for the call.
                let closed =
                    || chain.iter().enumerate().map(|(at, call)| (*call, &chain[at + 1..]));
                let whole = std::iter::once((*node, chain.as_slice())).chain(closed());
                let place = whole.filter_map(|key| by_chain.get(&key)).next();
                if let Some(time) = place.and_then(|place| times.get_mut(*place)) {
                    *time += part;
                }
            }
        }
        times
    }
}
