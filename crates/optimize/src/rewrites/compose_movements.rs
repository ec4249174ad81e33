//! A chain of `Reshape`, `Flatten`, `Transpose`, `Squeeze` and `Unsqueeze` → the cheapest equivalent
//! chain: no node, a `Reshape` to a constant shape, a `Transpose`, or both.

use std::rc::Rc;

use onnx::operators::Operator;
use onnx::{Graph, NodeId, ValueId};
use rustc_hash::FxHashMap;
use tensor::Dim;

use crate::movement::{Atoms, Chain, Movement, cost, emit};
use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "compose_movements", roots: Roots::With(Operator::is_movement), try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (y, kind) = (m.result()?, m.root().operator().axes);
    let whole = Chain::to(m, y);
    // Starts with the root and its producer, so that transposes meet before reshapes are planned.
    for skipped in (0..whole.nodes.len()).rev() {
        let graph = m.graph();
        let nodes = whole.nodes[skipped..].to_vec();
        let source = graph.node(nodes[0]).input(0).ok_or("an operand is left out")?;
        let chain = Chain { source, nodes };
        let is_constant = graph.tensor(source).is_some();
        let now = chain.cost(graph, true);
        // Every data movement has at least this cost.
        if now <= cost::least(is_constant) && m.ty(source).shape != m.ty(y).shape {
            continue;
        }
        let Some(plan) = cheapest(m, &chain) else { continue };
        if cost::of_plan(&plan, is_constant) < now {
            let graph = m.graph();
            let is_one_kind = chain.nodes.iter().all(|id| graph.node(*id).operator().axes == kind);
            let old = if is_one_kind { &[] } else { &chain.nodes[..] };
            return Ok(vec![emit(m, source, &plan, old)?]);
        }
    }
    Err("no equivalent chain is cheaper".into())
}

/// The cached plans. The layers of a model share them.
#[derive(Debug, Default)]
pub(crate) struct Composed(FxHashMap<Movements, Option<Rc<[Movement]>>>);

/// The key of a cached plan: everything that it depends on.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Movements {
    from: Vec<Dim>,
    /// The permutation, for a `Transpose`, and the shape of the result.
    moves: Vec<(Option<Vec<i64>>, Vec<Dim>)>,
}

impl Movements {
    fn of(graph: &Graph, chain: &Chain) -> Self {
        let moved = |id: &NodeId| {
            let node = graph.node(*id);
            let perm = || node.ints("perm").map(<[i64]>::to_vec).unwrap_or_default();
            let shape = node.outputs.first().map(|value| graph.ty(*value).shape.clone());
            (node.is("Transpose").then(perm), shape.unwrap_or_default())
        };
        let from = graph.ty(chain.source).shape.clone();
        Self { from, moves: chain.nodes.iter().map(moved).collect() }
    }
}

/// Returns the cheapest plan that is equivalent to a chain, or `None` if the chain cannot be
/// analysed.
fn cheapest(m: &mut Match<'_>, chain: &Chain) -> Option<Rc<[Movement]>> {
    let movements = Movements::of(m.graph(), chain);
    if let Some(known) = m.memory().composed.0.get(&movements) {
        return known.clone();
    }
    let plan = planned(m.graph(), chain).map(Rc::from);
    m.memory().composed.0.insert(movements, plan.clone());
    plan
}

fn planned(graph: &Graph, chain: &Chain) -> Option<Vec<Movement>> {
    if chain.nodes.iter().all(|id| graph.node(*id).is_reshape()) {
        let result = graph.node(*chain.nodes.last()?).outputs.first()?;
        let (from, to) = (&graph.ty(chain.source).shape, &graph.ty(*result).shape);
        return if from == to {
            Some(Vec::new())
        } else {
            Some(vec![Movement::reshape(from, to)?])
        };
    }
    let (atoms, from, to) = Atoms::moved(graph, chain.source, &chain.nodes).ok()?;
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

    #[test]
    fn chains_become_one_reshape() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3,4] x) => (float[1,4,6] y) {
                a = Constant <value_ints = [6, 4]> ()
                s = Reshape (x, a)
                b = Constant <value_ints = [4, 6]> ()
                t = Reshape (s, b)
                c = Constant <value_ints = [0]> ()
                y = Unsqueeze (t, c)
            }",
            "g (float[2,3,4] x) => (float[1,4,6] y) {
                c = Constant <value_ints = [1, 4, 6]> ()
                y = Reshape (x, c)
            }",
        );
    }

    #[test]
    fn reshapes_that_cancel_are_dropped() {
        rewrites_to(
            &REWRITE,
            "g (float[B,T,6] x) => (float[B,T,6] y) {
                a = Constant <value_ints = [0, 0, 2, 3]> ()
                s = Reshape (x, a)
                b = Constant <value_ints = [0, 0, 6]> ()
                t = Reshape (s, b)
                y = Exp (t)
            }",
            "g (float[B,T,6] x) => (float[B,T,6] y) {
                y = Exp (x)
            }",
        );
    }

    #[test]
    fn one_axis_may_be_inferred() {
        rewrites_to(
            &REWRITE,
            "g (float[B,T,6] x) => (float[B,\"2*T\",3] y) {
                a = Constant <value_ints = [0, 0, 2, 3]> ()
                s = Reshape (x, a)
                b = Constant <value_ints = [0, -1, 3]> ()
                y = Reshape (s, b)
            }",
            "g (float[B,T,6] x) => (float[B,\"2*T\",3] y) {
                c = Constant <value_ints = [0, -1, 3]> ()
                y = Reshape (x, c)
            }",
        );
    }

    #[test]
    fn no_axis_is_inferred_if_another_may_be_empty() {
        stays(
            &REWRITE,
            "g (float[\"B - 1\",T,6] x) => (float[\"B - 1\",\"2*T\",3] y) {
                a = Constant <value_ints = [0, 0, 2, 3]> ()
                s = Reshape (x, a)
                b = Constant <value_ints = [0, -1, 3]> ()
                y = Reshape (s, b)
            }",
        );
    }

    #[test]
    fn two_symbolic_axes_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[1,B,T,6] x) => (float[B,T,2,3] y) {
                a = Constant <value_ints = [0]> ()
                s = Squeeze (x, a)
                b = Constant <value_ints = [0, 0, 2, 3]> ()
                y = Reshape (s, b)
            }",
        );
    }

    #[test]
    fn an_empty_axis_is_a_number() {
        rewrites_to(
            &REWRITE,
            "g (float[0,3] x) => (float[1,3,0] y) {
                a = Constant <value_ints = [3, 0]> ()
                s = Reshape <allowzero = 1> (x, a)
                b = Constant <value_ints = [0]> ()
                y = Unsqueeze (s, b)
            }",
            "g (float[0,3] x) => (float[1,3,0] y) {
                c = Constant <value_ints = [1, 3, 0]> ()
                y = Reshape <allowzero = 1> (x, c)
            }",
        );
    }

    #[test]
    fn permutations_compose() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3,B] x) => (float[3,B,2] y) {
                t = Transpose <perm = [2, 0, 1]> (x)
                y = Transpose <perm = [2, 0, 1]> (t)
            }",
            "g (float[2,3,B] x) => (float[3,B,2] y) {
                y = Transpose <perm = [1, 2, 0]> (x)
            }",
        );
    }

    #[test]
    fn opposites_cancel() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3] x) => (float[2,3] y) {
                t = Transpose (x)
                u = Transpose <perm = [1, 0]> (t)
                y = Exp (u)
            }",
            "g (float[2,3] x) => (float[2,3] y) {
                y = Exp (x)
            }",
        );
    }

    #[test]
    fn an_inner_transpose_with_other_consumers_remains() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3] x) => (float[2,3] y, float[3,2] z) {
                z = Transpose (x)
                y = Transpose (z)
            }",
            "g (float[2,3] x) => (float[2,3] y, float[3,2] z) {
                z = Transpose (x)
                y = Identity (x)
            }",
        );
    }

    #[test]
    fn unchanged_axes_are_copied() {
        rewrites_to(
            &REWRITE,
            "g (float[B,T,6] x) => (float[B,T,2,3] y) {
                b = Shape <start = 0, end = 2> (x)
                a = Constant <value_ints = [2, 3]> ()
                s = Concat <axis = 0> (b, a)
                y = Reshape <allowzero = 1> (x, s)
            }",
            "g (float[B,T,6] x) => (float[B,T,2,3] y) {
                c = Constant <value_ints = [0, 0, 2, 3]> ()
                y = Reshape (x, c)
            }",
        );
    }

    #[test]
    fn one_axis_is_inferred_by_the_runtime() {
        rewrites_to(
            &REWRITE,
            "g (float[B,T,6] x) => (float[\"B*T\",6] y) {
                b = Shape <start = 0, end = 1> (x)
                t = Shape <start = 1, end = 2> (x)
                n = Mul (b, t)
                a = Constant <value_ints = [6]> ()
                s = Concat <axis = 0> (n, a)
                y = Reshape <allowzero = 1> (x, s)
            }",
            "g (float[B,T,6] x) => (float[\"B*T\",6] y) {
                c = Constant <value_ints = [-1, 6]> ()
                y = Reshape (x, c)
            }",
        );
    }

    #[test]
    fn parameters_are_constant() {
        stays(
            &REWRITE,
            "g (float[1] x) => (float y) <int64[0] w = {}> {
                y = Reshape (x, w)
            }",
        );
    }

    #[test]
    fn computed_targets_of_two_symbolic_axes_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[B,T,6] x) => (float[T,B,6] y) {
                b = Shape <start = 0, end = 1> (x)
                t = Shape <start = 1, end = 2> (x)
                a = Constant <value_ints = [6]> ()
                s = Concat <axis = 0> (t, b, a)
                y = Reshape <allowzero = 1> (x, s)
            }",
        );
    }
}
