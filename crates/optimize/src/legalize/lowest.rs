//! The lowest opset at which a finished graph is valid, means the same and runs on the same kernels.

use onnx::schema::{Binding, Schema};
use onnx::{Graph, Node, NodeId};
use provenance::Origins;
use tensor::DType;

use super::{Error, Legalizer, equivalents};
use crate::{Form, Forms, Target};

/// Operators whose meaning changed at a version, although a node may be valid before it. The
/// comments describe the new meaning.
const CHANGED: &[(&str, i64)] = &[
    // Infinity becomes the largest number of an 8-bit float without infinities, instead of NaN.
    ("Cast", 24),
    // The axis is an operand, with another default.
    ("DFT", 20),
    // Each channel has a scale and a bias, instead of each group.
    ("GroupNormalization", 21),
];

/// Returns the lowest opset from the target's lowest to `opset` at which the graph is valid,
/// means the same and runs on the same kernels. The graph is finished for `opset`, and none of its
/// nodes has to change.
pub fn lowest_opset(graph: &Graph, opset: i64, target: Target) -> i64 {
    let floor = target.lowest_opset.min(opset);
    let nodes = graph.all_nodes().into_iter().map(|id| graph.node(id));
    let needed = nodes.map(|node| needed_by(graph, node, opset, floor, target)).max();
    let needed = needed.unwrap_or(floor);
    (needed..opset).find(|lower| onnx::check_types(graph, *lower).is_ok()).unwrap_or(opset)
}

/// Replaces operators by equivalents that the target fuses when it loads a model: those that `opset` lacks,
/// and the others if the model then has a lower opset. Runs after the clean-ups, which could change the
/// equivalents.
pub fn replace_fused(
    graph: &mut Graph,
    origins: &mut Origins,
    opset: i64,
    target: Target,
    forms: Option<&Forms>,
) -> Result<(), Error> {
    let is_lacking = |graph: &Graph, id| is_fused_later(graph.node(id), opset, target);
    let nodes = graph.all_nodes();
    let mut chosen: Vec<_> = nodes.iter().copied().filter(|id| is_lacking(graph, *id)).collect();
    if let Some(forms) = forms.filter(|_| chosen.is_empty()) {
        chosen = lowering(graph, nodes, opset, target, forms);
    }
    let mut work = Legalizer::new(graph, origins, opset, target);
    for id in chosen {
        let name = work.graph().node(id).op.name;
        let Some(equivalent) = equivalents::for_opset(name) else { continue };
        work.try_replace(id, equivalent)?;
    }
    Ok(())
}

/// Returns `true` if `opset` lacks the operator of a node, and the target fuses its equivalent.
pub(super) fn is_fused_later(node: &Node, opset: i64, target: Target) -> bool {
    node.op.domain.is_empty()
        && target.fused_on_load.contains(&node.op.name)
        && node.schema(opset).is_none()
}

/// Returns the nodes whose equivalents give the model a lower opset.
fn lowering(
    graph: &Graph,
    nodes: Vec<NodeId>,
    opset: i64,
    target: Target,
    forms: &Forms,
) -> Vec<NodeId> {
    let (mut fused, others): (Vec<_>, Vec<_>) =
        nodes.into_iter().partition(|id| is_fused_again(graph, *id, target, forms));
    if fused.is_empty() {
        return fused;
    }
    let floor = target.lowest_opset.min(opset);
    let needed =
        others.into_iter().map(|id| needed_by(graph, graph.node(id), opset, floor, target));
    let needed = needed.max().unwrap_or(floor);
    if fused.iter().any(|id| graph.node(*id).schema(needed).is_some()) {
        fused.clear();
    }
    fused
}

/// Returns `true` if the target replaces the equivalent of a node by one node. It does so in float32, over
/// the last axis, with a stored scale.
fn is_fused_again(graph: &Graph, id: NodeId, target: Target, forms: &Forms) -> bool {
    let node = graph.node(id);
    let name = node.op.name;
    let is_listed = node.op.domain.is_empty() && target.fused_on_load.contains(&name);
    let (Some(x), Some(scale)) = (node.input(0), node.input(1)) else { return false };
    let (ty, axis) = (graph.ty(x), node.int("axis", -1));
    // The runtime computes what two norms of one value share once, and then fuses neither.
    let is_shared = graph.value(x).consumers().any(|other| {
        other != id && graph.node(other).op == node.op && graph.node(other).input(0) == Some(x)
    });
    is_listed
        && forms.of(name) == Form::Auto
        && ty.dtype == DType::F32
        && ty.rank() > 1
        && !is_shared
        && (axis == -1 || axis + 1 == ty.rank() as i64)
        && graph.tensor(scale).is_some_and(|scale| scale.shape().len() == 1)
}

/// Returns the lowest opset from `floor` to `opset` at which a node can remain unchanged.
fn needed_by(graph: &Graph, node: &Node, opset: i64, floor: i64, target: Target) -> i64 {
    let versions = node.versions();
    let Some(current) = versions.iter().position(|s| s.since <= opset && opset <= s.until) else {
        return floor;
    };
    let newest = &versions[current];
    let changed = CHANGED.iter().find(|(op, since)| node.is(op) && *since <= opset);
    let changed = changed.map_or(0, |(_, since)| *since);
    let older = versions[..current].iter().rev();
    let same = older.take_while(|older| {
        let lowest = older.since.max(floor);
        older.until >= floor
            && older.since >= changed
            && onnx::is_valid_at(node, lowest)
            && runs_alike(graph, node, (newest, older), target)
    });
    same.last().unwrap_or(newest).since.max(floor)
}

/// Returns `true` if an older version of a node's operator has the node's element types and all
/// kernels for them that the newest has.
fn runs_alike(
    graph: &Graph,
    node: &Node,
    (newest, older): (&'static Schema, &'static Schema),
    target: Target,
) -> bool {
    let (Ok(now), Ok(then)) = (Binding::new(newest, graph, node), Binding::new(older, graph, node))
    else {
        return false;
    };
    let Some(kernels) = target.kernels else { return then.is_allowed(older) };
    let has = |right| {
        let mut rows = kernels.rows(older, &node.attrs);
        rows.any(|row| row.right == right && then.fits(row.types()))
    };
    let mut rows = kernels.rows(newest, &node.attrs).filter(|row| now.fits(row.types()));
    let leaves = target
        .on_device
        .is_some_and(|device| device.run(newest, node, &now) && !device.run(older, node, &then));
    then.is_allowed(older) && !leaves && rows.all(|row| has(row.right))
}

#[cfg(test)]
mod tests {
    use provenance::Origins;

    use super::{CHANGED, lowest_opset, replace_fused};
    use crate::testing::graph;
    use crate::{Forms, Target};
    use onnx::schema::versions;
    use onnx::{Op, text};

    #[track_caller]
    fn lowest(text: &str) -> i64 {
        let graph = graph(text, &mut Origins::default());
        onnx::verify(&graph, Some(23)).unwrap();
        let lowest = lowest_opset(&graph, 23, Target::default());
        onnx::verify(&graph, Some(lowest))
            .unwrap_or_else(|e| panic!("{e}: {}", text::print(&graph)));
        lowest
    }

    #[test]
    fn changes_are_versions() {
        for (op, since) in CHANGED {
            let is_version = versions(&Op::onnx(op)).iter().any(|s| s.since == *since);
            assert!(is_version, "{op}");
        }
    }

    #[test]
    fn old_operators_need_nothing_new() {
        let pool = "g (float[1,2,4,4] x) => (float[1,2,2,2] z) {
            y = Sin (x) z = MaxPool <kernel_shape = [3, 3]> (y) }";
        assert_eq!(lowest(pool), 18);
    }

    #[test]
    fn newer_operators_need_theirs() {
        assert_eq!(lowest("g (float[2] x) => (float[2] y) { y = Gelu (x) }"), 20);
        let norm = "g (float[2,4] x, float[4] s) => (float[2,4] y) { y = RMSNormalization (x, s) }";
        assert_eq!(lowest(norm), 23);
    }

    const NORM: &str = "g (float[2,4] x) => (float[2,4] y) <float[4] s = {1.0, 2.0, 3.0, 4.0}> {
        z = RMSNormalization <axis = -1> (x, s) y = Sin (z) }";

    /// Returns the operators of a model for a target after [`replace_fused`].
    fn replaced(text: &str, opset: i64, target: Target, forms: Option<&Forms>) -> String {
        let mut origins = Origins::default();
        let mut graph = graph(text, &mut origins);
        replace_fused(&mut graph, &mut origins, opset, target, forms).unwrap();
        onnx::verify(&graph, Some(lowest_opset(&graph, opset, target))).unwrap();
        let nodes = graph.all_nodes().into_iter().map(|id| graph.node(id).op.name);
        nodes.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn norms_that_are_fused_again_need_no_new_opset() {
        let replaced = |text, target| replaced(text, 23, target, Some(&Forms::auto(23)));
        let spelled = "Pow ReduceMean Add Sqrt Div Mul Sin";
        assert_eq!(replaced(NORM, Target::default()), spelled);
        assert_eq!(replaced(NORM, Target::any()), "RMSNormalization Sin");
    }

    #[test]
    fn norms_stay_if_the_opset_would_not_be_lower() {
        let stays = |text: &str, forms: &Forms| {
            let found = replaced(text, 23, Target::default(), Some(forms));
            assert!(found.contains("RMSNormalization"), "{found}");
        };
        let auto = Forms::auto(23);
        stays(NORM, &Forms::parse("RMSNormalization=native", 23).unwrap());
        // It is not fused in half precision, over two axes or with a computed scale.
        stays(&NORM.replace("float", "float16"), &auto);
        let two = NORM.replace("[2,4]", "[3,2,4]").replace("-1", "-2").replace("[4]", "[2,4]");
        stays(&two.replace("4.0}", "4.0, 1.0, 2.0, 3.0, 4.0}"), &auto);
        stays(&NORM.replace("z =", "t = Cos (s) z =").replace("(x, s)", "(x, t)"), &auto);
        // Nor if it is that of a vector, or shares its value with another norm.
        stays(&NORM.replace("[2,4]", "[4]"), &auto);
        let other = "w = RMSNormalization <axis = -1> (x, s) y = Add (z, w)";
        stays(&NORM.replace("y = Sin (z)", other), &auto);
        let newer = "w = Swish (z) y = Sin (w)";
        let newer = NORM.replace("y = Sin (z)", newer);
        let found = replaced(&newer, 24, Target::default(), Some(&Forms::auto(24)));
        assert!(found.contains("RMSNormalization"), "{found}");
    }

    #[test]
    fn opsets_without_a_norm_get_its_equivalent() {
        let spelled = "Pow ReduceMean Add Sqrt Div Mul Sin";
        assert_eq!(replaced(NORM, 18, Target::default(), None), spelled);
        let half = replaced(&NORM.replace("float", "float16"), 18, Target::default(), None);
        assert_eq!(half, "Cast Cast Pow ReduceMean Add Sqrt Div Mul Cast Sin");
        assert_eq!(replaced(NORM, 23, Target::default(), None), "RMSNormalization Sin");
    }

    #[test]
    fn newer_types_need_theirs() {
        let int4 = "g (int4[2] x) => (float[2] y) { y = Cast <to = 1> (x) }";
        assert_eq!(lowest(int4), 21);
        let float8 = "g (float8e4m3fn[2] x) => (float[2] y) { y = Cast <to = 1> (x) }";
        assert_eq!(lowest(float8), 19);
        let flags = "g (bool[2] x) => (bool y) { y = ReduceMax <keepdims = 0> (x) }";
        assert_eq!(lowest(flags), 20);
    }

    #[test]
    fn operators_keep_their_meaning() {
        let norm = "g (float[1,4,2] x, float[4] s, float[4] b) => (float[1,4,2] y) {
            y = GroupNormalization <num_groups = 2> (x, s, b) }";
        assert_eq!(lowest(norm), 21);
        let dft = "g (float[1,4,2] x) => (float[1,4,2] y) { y = DFT (x) }";
        assert_eq!(lowest(dft), 20);
    }

    #[test]
    fn attributes_need_theirs() {
        let pool = "g (float[1,1,6] x) => (float[1,1,4] y) {
            y = AveragePool <kernel_shape = [2], dilations = [2]> (x) }";
        assert_eq!(lowest(pool), 19);
        let pad = "g (float[4] x) => (float[6] y) <int64[2] p = {1, 1}> { y = Pad <mode = \"wrap\"> (x, p) }";
        assert_eq!(lowest(pad), 19);
    }
}
