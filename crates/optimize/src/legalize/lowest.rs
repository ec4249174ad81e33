//! The lowest opset at which a finished graph is valid, means the same and runs on the same kernels.

use onnx::schema::{self, Binding, Schema};
use onnx::{Graph, Node};

use crate::Target;

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

/// Returns the lowest opset from `floor` to `opset` at which a node can remain unchanged.
fn needed_by(graph: &Graph, node: &Node, opset: i64, floor: i64, target: Target) -> i64 {
    let versions = schema::versions(&node.op);
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

    use super::{CHANGED, lowest_opset};
    use crate::Target;
    use crate::testing::graph;
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
