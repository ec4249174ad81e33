//! Attribution of nodes that ran as part of others.
//!
//! A profile names one node per kernel. A node of the model without a kernel of its own was fused
//! with a neighbour, unless the runtime removed it. The operators of the kernels determine which
//! neighbours can contain it. If there are several, the node is attributed to each of them.

use onnx::operators;
use onnx_file::proto::NodeProto;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Target;
use super::read::Kernel;
use crate::model::{
    BIASED, Chain, Index, LAYOUTS, MERGED, Makers, RESHAPES, fused_operators, plain_operator,
};

/// The maximum number of nodes visited from one node.
const MOST: usize = 64;

/// The operators that onnxruntime extends with the nodes that follow them.
const EXTENDED: [&str; 4] = ["Conv", "ConvTranspose", "Gemm", "MatMul"];

/// The operators that are folded into the weights of a product or a convolution.
const FOLDED: [&str; 5] = ["Add", "BatchNormalization", "Div", "Mul", "Sub"];

/// Returns `true` if the kernel of a product or a convolution may include a subsequent node with
/// the operator `op`.
fn is_extended_by(kernel: &Kernel, op: &str) -> bool {
    let is_activated = kernel.op.contains("Fused") || kernel.name.ends_with("_nchwc");
    let follower = operators::find(op);
    let is_activation = is_activated && follower.is_elementwise() && !follower.broadcasts();
    match plain(kernel) {
        "MatMul" => kernel.op != "MatMul" && matches!(op, "Mul" | "Div"),
        // One that has replaced a product and a bias adds nothing else.
        "Gemm" if kernel.name.ends_with(BIASED) => op == "BatchNormalization",
        "Gemm" if kernel.op == "Gemm" => matches!(op, "Add" | "BatchNormalization"),
        own if EXTENDED.contains(&own) => FOLDED.contains(&op) || is_activation,
        // A convolution that replaced another operator has no weights to fold into.
        _ => EXTENDED.contains(&plain_operator(&kernel.op)) && (op == "Add" || is_activation),
    }
}

/// The runtime's operators whose kernels have generated names, with the operators that each may
/// have replaced.
const NAMELESS: [(&str, &[&str]); 8] = [
    ("BiasGelu", &["Gelu", "Erf"]),
    ("FastGelu", &["Gelu", "Tanh", "Erf"]),
    ("Gelu", &["Gelu", "Erf"]),
    ("HardSigmoid", &["HardSwish"]),
    ("Mul", &["HardSwish"]),
    ("BiasSoftmax", &["Softmax"]),
    ("SkipLayerNormalization", &["LayerNormalization"]),
    ("SkipSimplifiedLayerNormalization", &["RMSNormalization", "SimplifiedLayerNormalization"]),
];

/// The end of the name of a `Split` that replaced several nodes. It starts with the name of one of
/// them. onnxruntime creates a `Squeeze` without a name for each `Gather` first, and then the
/// `Split`.
const SPLIT: &str = "/GatherSliceToSplitFusion";

/// The maximum number of nodes that a split may have replaced.
const MOST_PARTS: usize = 1024;

/// Adds to each target the nodes that ran as part of its kernel.
pub(super) fn fuse(index: &Index<'_>, kernels: &mut [(&Kernel, Target)]) {
    let mut regions = Regions::new(index, kernels);
    for (at, (kernel, target)) in kernels.iter().enumerate() {
        if let Target::Node(node, ..) = target {
            regions.claim_core(at, *node, kernel);
            regions.claim_bias(at, *node, kernel);
        }
    }
    regions.claim_parts(kernels);
    for (at, split) in squeezed(kernels) {
        let Target::Node(node, ..) = kernels[split].1 else { continue };
        let parts = regions.parts(node).iter().copied();
        let mut parts = parts.filter(|part| regions.proto(*part).op_type == "Gather");
        let Some(first) = parts.next() else { continue };
        kernels[at].1 = Target::Node(first, Vec::new(), parts.collect());
    }
    let nameless: Vec<(usize, Vec<usize>)> = kernels
        .iter()
        .enumerate()
        .filter(|(_, (_, target))| *target == Target::Unknown)
        .map(|(at, (kernel, _))| (at, regions.replaced_by(at, kernel)))
        .collect();
    for (at, nodes) in nameless {
        let Some((&first, others)) = nodes.split_first() else { continue };
        kernels[at].1 = Target::Node(first, Vec::new(), others.to_vec());
        for node in nodes {
            regions.owners.entry(node).or_default().push(at);
        }
    }
    for (node, owners) in regions.neighbours(kernels) {
        for at in owners {
            if let (_, Target::Node(own, _, also)) = &mut kernels[at]
                && *own != node
                && !also.contains(&node)
            {
                also.push(node);
            }
        }
    }
    for (at, product) in reshaped(kernels) {
        let merged =
            regions.reshape_after(product).filter(|_| kernels[at].0.name.ends_with(MERGED));
        kernels[at].1 = match merged {
            Some(reshape) => Target::Node(reshape, Vec::new(), Vec::new()),
            None => kernels[product].1.clone(),
        };
    }
    for at in 0..kernels.len() {
        let (kernel, target) = &kernels[at];
        if LAYOUTS.contains(&kernel.op.as_str())
            && *target == Target::Unknown
            && let Some(feeder) = kernel.feeder
            && let Target::Node(node, chains, also) = &kernels[feeder].1
        {
            // It converts the result of the last node that the kernel ran.
            let last = also.iter().copied().max().map_or(*node, |last| last.max(*node));
            kernels[at].1 = Target::Node(last, chains.clone(), Vec::new());
        }
    }
}

/// Returns the kernels of unknown reshapes, each with the kernel of its product.
fn reshaped(kernels: &[(&Kernel, Target)]) -> Vec<(usize, usize)> {
    let is_product = |at: &usize| kernels[*at].0.name.ends_with(BIASED);
    let products = (0..kernels.len()).filter(is_product);
    let fed = products.filter_map(|at| Some((kernels[at].0.feeder?, at)));
    let fed: FxHashMap<usize, usize> = fed.collect();
    let product = |(at, (kernel, target)): (usize, &(&Kernel, Target))| {
        let [before, after] = RESHAPES.map(|name| kernel.name.starts_with(name));
        let product = match *target == Target::Unknown && (before || after) {
            true if before => fed.get(&at).copied(),
            true => kernel.feeder.filter(is_product),
            false => None,
        };
        Some((at, product?))
    };
    kernels.iter().enumerate().filter_map(product).collect()
}

/// Returns the kernels of unknown squeezes, each with the kernel of its split.
fn squeezed(kernels: &[(&Kernel, Target)]) -> Vec<(usize, usize)> {
    let mut ordered: Vec<usize> = (0..kernels.len()).collect();
    ordered.retain(|at| kernels[*at].0.position.is_some());
    ordered.sort_by_key(|at| (kernels[*at].0.inside, kernels[*at].0.position));
    let mut found = Vec::new();
    let mut waiting: Vec<usize> = Vec::new();
    for at in ordered {
        let (kernel, target) = &kernels[at];
        let is_next = waiting.last().is_none_or(|last| {
            let last = kernels[*last].0;
            last.inside == kernel.inside && last.position.map(|n| n + 1) == kernel.position
        });
        if !is_next {
            waiting.clear();
        }
        if kernel.op == "Squeeze" && *target == Target::Unknown {
            waiting.push(at);
            continue;
        }
        if kernel.name.ends_with(SPLIT) {
            found.extend(waiting.iter().map(|squeeze| (*squeeze, at)));
        }
        waiting.clear();
    }
    found
}

/// The nodes of a model, and the kernels that ran them.
struct Regions<'i, 'm> {
    index: &'i Index<'m>,
    /// For each node, its producers in the same body.
    reads: Vec<Vec<usize>>,
    /// For each node, its producers in the same body that have no other consumer. Results with
    /// other consumers must have been computed separately.
    reads_alone: Vec<Vec<usize>>,
    /// For each node, its consumers in the same body.
    read_by: Vec<Vec<usize>>,
    /// The kernels of each node.
    owners: FxHashMap<usize, Vec<usize>>,
    /// Nodes without a kernel that depend on the inputs of the model, in bodies that ran.
    silent: FxHashSet<usize>,
    /// The nodes that a split replaced, by their body and their first operand.
    parts: FxHashMap<(usize, &'m str), Vec<usize>>,
}

impl<'i, 'm> Regions<'i, 'm> {
    fn new(index: &'i Index<'m>, kernels: &[(&Kernel, Target)]) -> Self {
        let makers = Makers::new(index);
        let mut reads: Vec<Vec<usize>> = vec![Vec::new(); index.nodes.len()];
        let mut read_by = reads.clone();
        let mut varies = vec![false; index.nodes.len()];
        for (position, node) in index.nodes.iter().enumerate() {
            for name in node.proto.input.iter().filter(|name| !name.is_empty()) {
                let maker = makers.find(index, node.body, name);
                let is_constant = index.tensor(node.body, name).is_some();
                varies[position] |= maker.map_or(!is_constant, |maker| varies[maker]);
                let same_body = |maker: &usize| index.nodes[*maker].body == node.body;
                if let Some(maker) = maker.filter(same_body) {
                    reads[position].push(maker);
                    if read_by[maker].last() != Some(&position) {
                        read_by[maker].push(position);
                    }
                }
            }
        }
        let results: FxHashSet<&str> =
            index.graph.output.iter().map(|output| output.name.as_str()).collect();
        let is_read_once = |maker: &usize| {
            read_by[*maker].len() == 1
                && index.nodes[*maker].proto.output.iter().all(|name| !results.contains(&**name))
        };
        let alone = |read: &Vec<usize>| read.iter().copied().filter(is_read_once).collect();
        let reads_alone = reads.iter().map(alone).collect();
        let mut owners: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for (at, (_, target)) in kernels.iter().enumerate() {
            if let Target::Node(node, ..) = target {
                owners.entry(*node).or_default().push(at);
            }
        }
        let ran: FxHashSet<usize> = owners.keys().map(|node| index.nodes[*node].body).collect();
        let is_silent = |node: &usize| {
            varies[*node]
                && ran.contains(&index.nodes[*node].body)
                && !owners.contains_key(node)
                && index.calls().called(*node).is_none()
        };
        let silent = (0..index.nodes.len()).filter(is_silent).collect();
        let parts = FxHashMap::default();
        Self { index, reads, reads_alone, read_by, owners, silent, parts }
    }

    fn proto(&self, node: usize) -> &'m NodeProto {
        self.index.nodes[node].proto
    }

    /// Assigns to each split the nodes that it replaced.
    fn claim_parts(&mut self, kernels: &[(&Kernel, Target)]) {
        let mut splits: FxHashMap<(usize, &str), usize> = FxHashMap::default();
        for (at, (kernel, target)) in kernels.iter().enumerate() {
            if let Target::Node(node, ..) = target
                && kernel.name.ends_with(SPLIT)
            {
                let key = (self.index.nodes[*node].body, operand(self.proto(*node)));
                self.parts.insert(key, vec![*node]);
                splits.insert(key, at);
            }
        }
        for node in 0..self.index.nodes.len() {
            let proto = self.proto(node);
            let key = (self.index.nodes[node].body, operand(proto));
            if self.silent.contains(&node)
                && matches!(proto.op_type.as_str(), "Gather" | "Slice")
                && let (Some(parts), Some(at)) = (self.parts.get_mut(&key), splits.get(&key))
            {
                parts.push(node);
                self.owners.entry(node).or_default().push(*at);
            }
        }
    }

    /// Returns the nodes that take parts of the value that `node` takes a part of, if one kernel may
    /// have replaced them all.
    fn parts(&self, node: usize) -> &[usize] {
        let parts = self.parts.get(&(self.index.nodes[node].body, operand(self.proto(node))));
        parts.filter(|parts| parts.len() <= MOST_PARTS).map_or(&[], Vec::as_slice)
    }

    /// Returns the nodes that are reachable from `start` through silent nodes along `edges`.
    fn reached(&self, start: usize, edges: &[Vec<usize>]) -> Vec<usize> {
        let mut found = vec![start];
        let mut at = 0;
        while at < found.len() && found.len() < MOST {
            for &next in &edges[found[at]] {
                if !found.contains(&next) {
                    found.push(next);
                }
            }
            at += 1;
            while found.get(at).is_some_and(|node| !self.silent.contains(node)) {
                at += 1;
            }
        }
        found.remove(0);
        found
    }

    /// Assigns to a kernel that is named after its result the nodes up to the one with its
    /// operator.
    fn claim_core(&mut self, at: usize, node: usize, kernel: &Kernel) {
        let op = plain(kernel);
        if self.proto(node).op_type == op {
            return;
        }
        let upstream = self.reached(node, &self.reads);
        let core: Vec<usize> = if let Some(parts) = fused_operators(op) {
            // The operand of the fused operator is read several times, unlike values inside of it.
            let is_part = |other: &usize| {
                self.silent.contains(other)
                    && self.read_by[*other].len() == 1
                    && parts.contains(&self.proto(*other).op_type.as_str())
            };
            upstream.into_iter().filter(is_part).collect()
        } else {
            let is_first =
                |other: &&usize| self.silent.contains(other) && self.proto(**other).op_type == op;
            let mut first = upstream.iter().filter(is_first);
            let (Some(&first), None) = (first.next(), first.next()) else { return };
            let after = self.reached(first, &self.read_by);
            let is_core = |other: &usize| {
                (*other == first || after.contains(other)) && self.silent.contains(other)
            };
            upstream.iter().copied().filter(is_core).collect()
        };
        for other in core {
            self.owners.entry(other).or_default().push(at);
        }
    }

    /// Assigns to a kernel the addition of a bias that its name mentions.
    fn claim_bias(&mut self, at: usize, node: usize, kernel: &Kernel) {
        if let [bias] = self.read_by[node][..]
            && kernel.name.ends_with(BIASED)
            && self.silent.contains(&bias)
            && self.proto(bias).op_type == "Add"
        {
            self.owners.entry(bias).or_default().push(at);
        }
    }

    /// Returns the reshape that reads the result of the product that a kernel ran, if it has no kernel
    /// of its own.
    fn reshape_after(&self, product: usize) -> Option<usize> {
        let ran = self.owners.iter().filter(|(_, owners)| owners.contains(&product));
        let last = ran.map(|(node, _)| *node).max()?;
        let [next] = self.read_by[last][..] else { return None };
        (self.silent.contains(&next) && self.proto(next).op_type == "Reshape").then_some(next)
    }

    /// Returns the silent nodes that a kernel with a generated name may have replaced. They have a
    /// matching operator, and are neither downstream of a later kernel nor upstream of an earlier
    /// one.
    fn replaced_by(&self, at: usize, kernel: &Kernel) -> Vec<usize> {
        let Some((_, ops)) = NAMELESS.iter().find(|(op, _)| *op == kernel.op) else {
            return Vec::new();
        };
        let ran = |nodes: &[usize], is_out_of_order: &dyn Fn(usize) -> bool| {
            let owners = nodes.iter().filter_map(|node| self.owners.get(node)).flatten();
            owners.copied().any(is_out_of_order)
        };
        let fits = |node: &usize| {
            let op = self.proto(*node).op_type.as_str();
            ops.contains(&op)
                && !self.owners.contains_key(node)
                && !ran(&self.reached(*node, &self.reads), &|other| other > at)
                && !ran(&self.reached(*node, &self.read_by), &|other| other < at)
        };
        let mut found: Vec<usize> = self.silent.iter().copied().filter(fits).collect();
        found.sort_unstable();
        found
    }

    /// Returns the silent nodes, each with the kernels that may contain it.
    fn neighbours(&self, kernels: &[(&Kernel, Target)]) -> Vec<(usize, Vec<usize>)> {
        let mut found = Vec::new();
        for &node in &self.silent {
            if let Some(owners) = self.owners.get(&node) {
                found.push((node, owners.clone()));
                continue;
            }
            let owners = |nodes: Vec<usize>| -> Vec<(usize, usize)> {
                let owned =
                    nodes.into_iter().filter_map(|node| Some((node, self.owners.get(&node)?)));
                owned.flat_map(|(node, owners)| owners.iter().map(move |at| (node, *at))).collect()
            };
            let before =
                owners(self.reached(node, &self.reads_alone)).into_iter().filter(|(owned, at)| {
                    let kernel = kernels[*at].0;
                    let is_extended = self.extends(node, *owned, kernel);
                    is_extended || self.is_fused(*owned, kernel)
                });
            // The kernel that contains the node ran after those that compute its other operands. An inlined
            // function has one such kernel per call.
            let mut latest: FxHashMap<(Option<usize>, &[usize]), usize> = FxHashMap::default();
            for (_, at) in before {
                if let (kernel, Target::Node(_, chains, _)) = &kernels[at] {
                    let last = latest.entry((kernel.inside, call(chains))).or_default();
                    *last = at.max(*last);
                }
            }
            let after =
                owners(self.reached(node, &self.read_by)).into_iter().filter(|(owned, at)| {
                    let kernel = kernels[*at].0;
                    match plain(kernel) {
                        // The scale of an operand.
                        "MatMul" => kernel.op != "MatMul" && self.scales(node, *owned),
                        own => self.is_fused(*owned, kernel) && !EXTENDED.contains(&own),
                    }
                });
            let mut all: Vec<usize> = latest.into_values().chain(after.map(|(_, at)| at)).collect();
            all.sort_unstable();
            all.dedup();
            found.push((node, all));
        }
        found.sort_unstable();
        found
    }

    /// Returns `true` if `node` and all nodes between it and `owned` may be part of the kernel of
    /// `owned`.
    fn extends(&self, node: usize, owned: usize, kernel: &Kernel) -> bool {
        let is_inside = |node: usize| is_extended_by(kernel, &self.proto(node).op_type);
        let mut between = vec![node];
        between.retain(|node| is_inside(*node));
        let mut at = 0;
        while at < between.len() && between.len() < MOST {
            for &read in &self.reads_alone[between[at]] {
                if read == owned {
                    return true;
                }
                if self.silent.contains(&read) && is_inside(read) && !between.contains(&read) {
                    between.push(read);
                }
            }
            at += 1;
        }
        false
    }

    /// Returns `true` if `node` scales or transposes an operand of `owned`, alone or with others.
    fn scales(&self, node: usize, owned: usize) -> bool {
        let is_scale = |node: usize| {
            let op = self.proto(node).op_type.as_str();
            matches!(op, "Mul" | "Div" | "Transpose") && self.silent.contains(&node)
        };
        let mut at = node;
        for _ in 0..MOST {
            let ([next], true) = (&self.read_by[at][..], is_scale(at)) else { return false };
            at = *next;
            if at == owned {
                return true;
            }
        }
        false
    }

    /// Returns `true` if a kernel's operator differs from its node's, and the kernel may contain
    /// arbitrary other nodes.
    fn is_fused(&self, node: usize, kernel: &Kernel) -> bool {
        self.proto(node).op_type != kernel.op
            && !kernel.name.ends_with(BIASED)
            && !EXTENDED.contains(&kernel.op.as_str())
            && fused_operators(&kernel.op).is_none()
    }
}

/// Returns the calls by which a kernel's node was inlined.
fn call(chains: &[Chain]) -> &[usize] {
    chains.first().map_or(&[], Vec::as_slice)
}

/// Returns the first operand of a node.
fn operand(node: &NodeProto) -> &str {
    node.input.first().map(String::as_str).unwrap_or_default()
}

/// Returns the model's operator for a kernel.
fn plain(kernel: &Kernel) -> &str {
    match kernel.name.as_str() {
        name if name.ends_with("_bn_nchwc") => "BatchNormalization",
        name if name.ends_with("_mul_nchwc") => "Mul",
        _ => plain_operator(&kernel.op),
    }
}
