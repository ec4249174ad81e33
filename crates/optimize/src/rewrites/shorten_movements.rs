//! A chain of `Reshape`, `Transpose`, `Squeeze` and `Unsqueeze` → the shortest equivalent chain: no
//! node, a `Reshape`, a `Transpose`, or both.

use std::rc::Rc;

use onnx::operators::Operator;
use onnx::{Graph, NodeId, ValueId};
use rustc_hash::FxHashMap;
use tensor::Dim;

use crate::movement::{Atoms, Chain, Step, cost, emit, least_cost};
use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "shorten_movements", roots: Roots::With(Operator::is_movement), try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let y = m.result()?;
    let whole = Chain::to(m, y);
    // If an intermediate value has other consumers, the shortest chain may start there.
    for skipped in 0..whole.nodes.len() {
        let graph = m.graph();
        let nodes = whole.nodes[skipped..].to_vec();
        let source = graph.node(nodes[0]).input(0).ok_or("an operand is left out")?;
        let chain = Chain { source, nodes };
        let is_constant = graph.tensor(source).is_some();
        let now = chain.cost(graph, true);
        // Every data movement has at least this cost.
        if now <= least_cost(is_constant) && m.ty(source).shape != m.ty(y).shape {
            continue;
        }
        let Some(plan) = shortest(m, &chain) else { continue };
        if cost(&plan, is_constant) < now {
            return Ok(vec![emit(m, source, &plan, &chain.nodes)?]);
        }
    }
    Err("the movements are already as short as possible".into())
}

/// The cached plans. The layers of a model share them.
#[derive(Debug, Default)]
pub(crate) struct Shortened(FxHashMap<Movements, Option<Rc<[Step]>>>);

/// The key of a cached plan: everything that it depends on.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Movements {
    from: Vec<Dim>,
    /// The permutation, for a `Transpose`, and the shape of each result.
    moves: Vec<(Option<Vec<i64>>, Vec<Dim>)>,
}

impl Movements {
    fn of(graph: &Graph, chain: &Chain) -> Self {
        let moved = |id: &NodeId| {
            let node = graph.node(*id);
            let perm = || node.ints("perm").map(<[i64]>::to_vec).unwrap_or_default();
            let shapes = node.outputs.iter().flat_map(|value| graph.ty(*value).shape.clone());
            (node.is("Transpose").then(perm), shapes.collect())
        };
        let from = graph.ty(chain.source).shape.clone();
        Self { from, moves: chain.nodes.iter().map(moved).collect() }
    }
}

/// Returns the cheapest plan that is equivalent to a chain, or `None` if the chain cannot be
/// analysed.
fn shortest(m: &mut Match<'_>, chain: &Chain) -> Option<Rc<[Step]>> {
    let movements = Movements::of(m.graph(), chain);
    if let Some(known) = m.memory().shortened.0.get(&movements) {
        return known.clone();
    }
    let plan = planned(m.graph(), chain).map(Rc::from);
    m.memory().shortened.0.insert(movements, plan.clone());
    plan
}

fn planned(graph: &Graph, chain: &Chain) -> Option<Vec<Step>> {
    let mut atoms = Atoms::default();
    let from = atoms.add(&graph.ty(chain.source).shape).ok()?;
    let to = atoms.view(atoms.layout(from).clone());
    atoms.follow(to, graph, &chain.nodes).ok()?;
    atoms.plan(atoms.layout(from), atoms.layout(to))
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn unit_axes_do_not_count() {
        rewrites_to(
            &REWRITE,
            "g (float[2,T,8,64] x) => (float[2,8,T,64] y) {
                a = Constant <value_ints = [2, 0, 8, 1, 64]> ()
                r = Reshape (x, a)
                t = Transpose <perm = [0, 2, 1, 3, 4]> (r)
                b = Constant <value_ints = [2, 8, -1, 64]> ()
                y = Reshape (t, b)
            }",
            "g (float[2,T,8,64] x) => (float[2,8,T,64] y) {
                y = Transpose <perm = [0, 2, 1, 3]> (x)
            }",
        );
        rewrites_to(
            &REWRITE,
            "g (float[B,1,3,T] x) => (float[B,3,T,1] y) {
                y = Transpose <perm = [0, 2, 3, 1]> (x)
            }",
            "g (float[B,1,3,T] x) => (float[B,3,T,1] y) {
                s = Constant <value_ints = [0, 3, -1, 1]> ()
                y = Reshape (x, s)
            }",
        );
    }

    #[test]
    fn blocks_move_as_one_axis() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3,20] x) => (float[4,5,6] y) {
                a = Constant <value_ints = [2, 3, 4, 5]> ()
                r = Reshape (x, a)
                t = Transpose <perm = [2, 3, 0, 1]> (r)
                b = Constant <value_ints = [4, 5, 6]> ()
                y = Reshape (t, b)
            }",
            "g (float[2,3,20] x) => (float[4,5,6] y) {
                v0 = Transpose <perm = [2, 0, 1]> (x)
                b = Constant <value_ints = [4, 5, 6]> ()
                y = Reshape (v0, b)
            }",
        );
    }

    #[test]
    fn several_symbolic_axes_are_unsqueezed() {
        rewrites_to(
            &REWRITE,
            "g (float[B,T,5] x) => (float[1,B,1,T,5] y) {
                a = Constant <value_ints = [2]> ()
                u = Unsqueeze (x, a)
                t = Transpose <perm = [2, 0, 1, 3]> (u)
                b = Constant <value_ints = [2]> ()
                y = Unsqueeze (t, b)
            }",
            "g (float[B,T,5] x) => (float[1,B,1,T,5] y) {
                c = Constant <value_ints = [0, 2]> ()
                y = Unsqueeze (x, c)
            }",
        );
    }

    #[test]
    fn real_permutations_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[B,T,512] x) => (float[B,8,T,64] y) {
                a = Constant <value_ints = [0, 0, 8, 64]> ()
                r = Reshape (x, a)
                y = Transpose <perm = [0, 2, 1, 3]> (r)
            }",
        );
        stays(
            &REWRITE,
            "g (float[6,4] x) => (float[6,4] y) {
                a = Constant <value_ints = [4, 6]> ()
                r = Reshape (x, a)
                y = Transpose (r)
            }",
        );
    }

    #[test]
    fn chains_may_start_at_shared_intermediate_values() {
        stays(
            &REWRITE,
            "g (float[2,3,4] x) => (float[3,2,4] y, float[3,8] z) {
                y = Transpose <perm = [1, 0, 2]> (x)
                a = Constant <value_ints = [3, 8]> ()
                z = Reshape (y, a)
            }",
        );
    }
}
