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

#[cfg(test)]
mod tests {
    use onnx_file::proto::{GraphProto, ModelProto, TensorProto, ValueInfoProto};

    use super::super::{Profile, Time, attribute};
    use super::*;
    use crate::model::Model;

    fn kernel(op: &str, name: &str) -> Kernel {
        Kernel {
            name: name.to_owned(),
            op: op.to_owned(),
            position: None,
            provider: String::new(),
            inside: None,
            feeder: None,
            calls: 1,
            time: Time::default(),
        }
    }

    /// Returns a model with a node `/y` for each line `y = Op(a, b)`. Names in capitals are
    /// weights, and names with an exclamation mark are outputs.
    fn model(text: &str) -> Model {
        let mut graph = GraphProto::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (result, call) = line.split_once(" = ").unwrap();
            let (op, operands) = call.strip_suffix(')').unwrap().split_once('(').unwrap();
            let name = result.trim_end_matches('!').to_owned();
            if result.ends_with('!') {
                graph.output.push(ValueInfoProto { name: name.clone(), ..Default::default() });
            }
            let input: Vec<String> = operands.split(", ").map(str::to_owned).collect();
            let is_weight = |name: &&String| name.starts_with(char::is_uppercase);
            let weights = input.iter().filter(is_weight).cloned();
            graph
                .initializer
                .extend(weights.map(|name| TensorProto { name, ..Default::default() }));
            graph.node.push(NodeProto {
                name: format!("/{name}"),
                op_type: op.to_owned(),
                input,
                output: vec![name],
                ..Default::default()
            });
        }
        let proto = ModelProto { graph: Some(graph), ..Default::default() };
        Model { path: None, proto, map: None, map_path: None, remarks: vec![] }
    }

    /// Returns the results of the nodes that each kernel ran. A kernel is `Op name`, followed by
    /// the position of the kernel that feeds it.
    fn ran(text: &str, kernels: &[&str]) -> Vec<String> {
        let kernels = kernels.iter().enumerate().map(|(position, text)| {
            let words: Vec<&str> = text.split(' ').collect();
            let feeder = words.get(2).map(|feeder| feeder.parse().unwrap());
            Kernel { position: Some(position), feeder, ..kernel(words[0], words[1]) }
        });
        attributed(text, kernels.collect())
    }

    fn attributed(text: &str, kernels: Vec<Kernel>) -> Vec<String> {
        let model = model(text);
        let index = Index::new(&model);
        let profile = Profile { runs: 1, wall: 0, kernels };
        let name = |node: &usize| index.nodes[*node].proto.output[0].clone();
        let text = |target: &Target| match target {
            Target::Node(node, _, also) => {
                std::iter::once(node).chain(also).map(name).collect::<Vec<_>>().join(" ")
            }
            Target::Exported(_) | Target::Unknown => "?".to_owned(),
        };
        attribute(&index, &profile).iter().map(|(_, target)| text(target)).collect()
    }

    #[test]
    fn kernels_of_products_and_convolutions_include_what_they_support() {
        for (op, name, follower, expected) in [
            ("Conv", "/c", "Add", true),
            ("Conv", "/c", "Mul", true),
            ("Conv", "/c", "Relu", false),
            ("Conv", "/c_nchwc", "Relu", true),
            ("FusedConv", "/c", "Relu", true),
            ("FusedConv", "/c", "Div", true),
            ("FusedConv", "/c", "Pow", false),
            ("FusedConv", "/c", "Softmax", false),
            ("Conv", "/c", "Transpose", false),
            ("FusedMatMul", "/m", "Mul", true),
            ("FusedMatMul", "/m", "Add", false),
            ("MatMul", "/m", "Mul", false),
            ("Gemm", "/m/MatMulAddFusion", "BatchNormalization", true),
            ("Gemm", "/m/MatMulAddFusion", "Add", false),
            ("Gemm", "/g", "Add", true),
            ("Gemm", "/g", "Mul", false),
            ("FusedGemm", "/g", "Mul", true),
            ("Relu", "/r", "Mul", false),
            ("Relu", "/r", "Add", false),
            // Convolutions in place of other operators.
            ("Conv", "/b_bn_nchwc", "Add", true),
            ("Conv", "/b_bn_nchwc", "Relu", true),
            ("Conv", "/b_bn_nchwc", "Mul", false),
            ("Conv", "/m_mul_nchwc", "Mul", false),
        ] {
            let found = is_extended_by(&kernel(op, name), follower);
            assert_eq!(found, expected, "{op} {name} with {follower}");
        }
    }

    #[test]
    fn a_product_includes_the_bias_that_its_name_mentions() {
        let biased = ["Gemm /a/MatMulAddFusion"];
        assert_eq!(ran("a = MatMul(x, W)\nb! = Add(a, B)", &biased), ["a b"]);
        assert_eq!(ran("a = MatMul(x, W)\nb! = Mul(a, B)", &biased), ["a"]);
        assert_eq!(ran("a = MatMul(x, W)\nb! = Add(a, B)", &["MatMul /a"]), ["a"]);
        let both = ["Gemm /a/MatMulAddFusion", "Add /b"];
        assert_eq!(ran("a = MatMul(x, W)\nb! = Add(a, B)", &both), ["a", "b"]);
    }

    #[test]
    fn a_kernel_named_after_its_result_reaches_back_to_its_operator() {
        let text = "
            e = Exp(z)
            c = Conv(x, W)
            d = Add(c, e)
            r! = Relu(d)";
        assert_eq!(ran(text, &["FusedConv /r"]), ["r c d"], "without the other operand");
        let two = "
            b = Conv(x, W)
            c = Conv(b, W)
            r! = Relu(c)";
        assert_eq!(ran(two, &["FusedConv /r"]), ["r"], "it may be either");
        assert_eq!(ran("c = Conv(x, W)\nr! = Relu(c)", &["Conv /c", "FusedConv /r"])[1], "r");
    }

    #[test]
    fn a_fused_operator_includes_only_its_parts() {
        let text = "
            h = Mul(x, S)
            m = Mul(h, T)
            s = Sigmoid(m)
            y! = Mul(h, s)";
        assert_eq!(ran(text, &["QuickGelu /y/QuickGeluFusion/"]), ["y m s"]);
    }

    #[test]
    fn what_follows_a_kernel_is_a_part_of_it_if_the_kernel_supports_it() {
        let text = "
            c = Conv(x, W)
            m = Mul(c, S)
            a! = Add(m, B)";
        assert_eq!(ran(text, &["Conv /c"]), ["c m a"]);
        let activated = "
            c = Conv(x, W)
            r = Relu(c)
            t! = Transpose(r)";
        assert_eq!(ran(activated, &["Conv /c_nchwc"]), ["c r"]);
        assert_eq!(ran(activated, &["Conv /c"]), ["c"]);
        // A kernel of any other operator may include anything.
        assert_eq!(ran("n = Add(x, B)\nk! = Exp(n)", &["Magic /n"]), ["n k"]);
        assert_eq!(ran("n = Add(x, B)\nk! = Exp(n)", &["Add /n"]), ["n"]);
    }

    #[test]
    fn a_result_with_other_consumers_was_computed() {
        let text = "
            c = Conv(x, W)
            r! = Relu(c)
            z! = Neg(c)";
        assert_eq!(ran(text, &["FusedConv /c", "Neg /z"]), ["c", "z"]);
        assert_eq!(ran("c! = Conv(x, W)\nr! = Relu(c)", &["FusedConv /c"]), ["c"], "an output");
    }

    #[test]
    fn products_scale_and_transpose_their_operands() {
        let text = "
            t = Transpose(x)
            s = Mul(t, S)
            m! = MatMul(s, W)";
        assert_eq!(ran(text, &["FusedMatMul /m"]), ["m t s"]);
        assert_eq!(ran(text, &["MatMul /m"]), ["m"]);
        assert_eq!(ran(text, &["Transpose /t", "FusedMatMul /m"]), ["t", "m s"]);
        let other = "
            e = Exp(x)
            s = Mul(e, S)
            m! = MatMul(s, W)";
        assert_eq!(ran(other, &["FusedMatMul /m"]), ["m s"], "exponentials are no scales");
        let constant = "
            w = Mul(S, T)
            m! = MatMul(x, w)";
        assert_eq!(ran(constant, &["FusedMatMul /m"]), ["m"], "folded before the model ran");
    }

    #[test]
    fn what_precedes_a_kernel_is_a_part_of_it_unless_it_is_a_convolution() {
        assert_eq!(ran("e = Exp(x)\nn! = Add(e, B)", &["Magic /n"]), ["n e"]);
        assert_eq!(ran("e = Exp(x)\nc! = Conv(e, W)", &["FusedConv /c"]), ["c"]);
        assert_eq!(ran("e = Exp(x)\nn! = Add(e, B)", &["Add /n"]), ["n"]);
    }

    #[test]
    fn kernels_with_generated_names_are_found_by_order() {
        let text = "
            m = MatMul(x, W)
            a = Add(m, B)
            g = Gelu(a)
            k = Exp(g)
            h = Gelu(k)
            n! = Neg(h)";
        let kernels = ["MatMul /m", "BiasGelu q", "Exp /k", "BiasGelu r", "Neg /n"];
        assert_eq!(ran(text, &kernels), ["m", "g a", "k", "h", "n"]);
        let other = ["MatMul /m", "Magic q", "Exp /k", "Gelu /h", "Neg /n"];
        assert_eq!(ran(text, &other)[1], "?", "nothing is known about its operator");
    }

    const PARTS: &str = "
        h = MatMul(x, W)
        a! = Gather(h, I)
        b! = Gather(h, J)
        c! = Gather(h, K)
        e! = Exp(h)";

    #[test]
    fn a_split_and_its_squeezes_ran_all_parts() {
        let kernels = [
            "MatMul /h",
            "Squeeze s",
            "Squeeze t",
            "Split /a/GatherSliceToSplitFusion",
            "Gather /c",
        ];
        assert_eq!(ran(PARTS, &kernels), ["h", "a b", "a b", "a b", "c"]);
    }

    #[test]
    fn a_squeeze_belongs_to_a_split_that_follows_without_a_gap() {
        let kernels = ["MatMul /h", "Squeeze s", "Cast x", "Split /a/GatherSliceToSplitFusion"];
        assert_eq!(ran(PARTS, &kernels), ["h", "?", "?", "a b c"]);
        let positions = [0, 1, 3, 4];
        let names = ["/h", "s", "t", "/a/GatherSliceToSplitFusion"];
        let ops = ["MatMul", "Squeeze", "Squeeze", "Split"];
        let kernels =
            (0..4).map(|at| Kernel { position: Some(positions[at]), ..kernel(ops[at], names[at]) });
        assert_eq!(attributed(PARTS, kernels.collect()), ["h", "?", "a b c", "a b c"]);
    }

    #[test]
    fn reshapes_around_a_product_belong_to_it() {
        let text = "
            a = MatMul(x, W)
            b = Add(a, B)
            r! = Reshape(b, S)";
        let kernels = [
            "Reshape gemm_input_reshape_1",
            "Gemm /a/MatMulAddFusion 0",
            "Reshape gemm_output_reshape_1 1",
            "Cast other 1",
        ];
        assert_eq!(ran(text, &kernels), ["a b", "a b", "a b", "?"]);
        let merged = ["Gemm /a/MatMulAddFusion", "Reshape gemm_output_reshape_1_new_reshape 0"];
        assert_eq!(ran(text, &merged), ["a b", "r"], "merged with a reshape of the model");
        let own = [merged[0], merged[1], "Reshape /r"];
        assert_eq!(ran(text, &own), ["a b", "a b", "r"], "which has a kernel of its own");
        let other = text.replace("Reshape", "Expand");
        assert_eq!(ran(&other, &merged), ["a b", "a b"]);
    }

    #[test]
    fn a_change_of_layout_converts_the_last_result() {
        let text = "c = Conv(x, W)\nr! = Relu(c)";
        let kernels = ["Conv /c_nchwc", "ReorderOutput o 0", "Cast p 0"];
        assert_eq!(ran(text, &kernels), ["c r", "r", "?"]);
        assert_eq!(ran(text, &["ReorderOutput /r", "Conv /c_nchwc 0"]), ["r", "c"]);
    }
}
