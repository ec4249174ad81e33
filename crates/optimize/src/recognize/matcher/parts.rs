//! Matches parts of the last axis, and their interleaving.

use onnx::{Attr, NodeId, ValueId, fold};
use tensor::Dim;

use super::{Bound, Goal, Search};
use crate::recognize::parts::{self, Part, Run};
use crate::recognize::pattern::{Name, Pattern};
use crate::recognize::placement::Placement;

impl<'p> Search<'p, '_> {
    /// Matches a part of the last axis of a value that matches `of`. Nested parts compose into one
    /// part of the outermost value.
    pub(super) fn part(
        &mut self,
        part: Part,
        of: &'p Pattern,
        whole: Option<Name>,
        goal: &Goal<'p>,
    ) -> bool {
        let graph = self.graph;
        let mut nodes = Vec::new();
        let (mut value, mut placement) = (goal.value, goal.placement.clone());
        let mut run = None;
        while let Some(id) = graph.producer(value) {
            let node = graph.node(id);
            if !self.is_here(node) || !node.op.domain.is_empty() {
                break;
            }
            if let Some((source, inner)) = parts::taken(graph, node, value) {
                nodes.push(id);
                let taken = run.map_or(inner, |run: Run| run.within(inner));
                (value, run) = (source, Some(taken));
                if self.is_part(part, of, whole, taken, (value, &placement, &nodes), goal) {
                    return true;
                }
            } else if run.is_none()
                && let Some((pairs, index, from)) = self.of_pairs(id)
                && whole.is_none()
            {
                let expected = [Part::Even, Part::Odd].get(index);
                let placement = placement.with_axis();
                nodes.extend([id, from]);
                let goal = Goal { pattern: of, value: pairs, placement, ..goal.clone() };
                return expected == Some(&part) && self.pursue(goal, &nodes, None);
            } else if run.is_none()
                && let Some((id, source, behind)) = self.behind(value, &placement)
                && ends_alike(&graph.ty(source).shape, &graph.ty(value).shape)
            {
                nodes.push(id);
                (value, placement) = (source, behind);
            } else {
                break;
            }
        }
        false
    }

    fn is_part(
        &mut self,
        part: Part,
        of: &'p Pattern,
        whole: Option<Name>,
        run: Run,
        (value, placement, nodes): (ValueId, &Placement, &[NodeId]),
        goal: &Goal<'p>,
    ) -> bool {
        let size = self.graph.ty(value).shape.last().and_then(Dim::as_known);
        let Some((size, count)) = size.and_then(|size| Some((size, part.whole(run, size)?))) else {
            return false;
        };
        let bound = match whole {
            None if count == size => None,
            Some(name) if count < size => match self.get(name) {
                None => Some((name, Bound::Attr(Attr::Int(count)))),
                Some(Bound::Attr(Attr::Int(known))) if *known == count => None,
                Some(_) => return false,
            },
            _ => return false,
        };
        let goal = Goal { pattern: of, value, placement: placement.clone(), ..goal.clone() };
        self.pursue(goal, nodes, bound)
    }

    /// For a node that drops the last axis after a selection from pairs, returns the pairs, the
    /// selected index and the node that selected it.
    fn of_pairs(&self, id: NodeId) -> Option<(ValueId, usize, NodeId)> {
        let graph = self.graph;
        let node = graph.node(id);
        let ([result], single) = (&*node.outputs, node.input(0)?) else { return None };
        let shape = |value| graph.ty(value).shape.as_slice();
        let (last, others) = shape(single).split_last()?;
        let drops = matches!(node.op.name, "Reshape" | "Squeeze")
            && *last == Dim::Known(1)
            && others == shape(*result);
        let from = graph.producer(single).filter(|_| drops)?;
        let (pairs, run) = parts::taken(graph, graph.node(from), single)?;
        let is_pair = shape(pairs).last() == Some(&Dim::Known(2));
        let is_here = self.is_here(graph.node(from));
        Some((pairs, usize::try_from(run.start).ok()?, from)).filter(|_| is_pair && is_here)
    }

    /// Matches `[…, n, 1]` and `[…, n, 1]` → `[…, n, 2]` → `[…, 2·n]`.
    pub(super) fn interleaved(&mut self, parts: &'p [Pattern; 2], goal: &Goal<'p>) -> bool {
        let graph = self.graph;
        let chain = || {
            let (joined, reshape) = self.producer(goal.value, &["Reshape"])?;
            let pairs = reshape.input(0)?;
            let (stacked, concat) = self.producer(pairs, &["Concat"])?;
            let [Some(a), Some(b)] = *concat.inputs.as_slice() else { return None };
            let shape = |value| graph.ty(value).shape.as_slice();
            let (two, front) = shape(pairs).split_last()?;
            let (n, others) = front.split_last()?;
            let (whole, same) = shape(goal.value).split_last()?;
            let axis = fold::axis(concat.int("axis", 0), front.len() + 1);
            let fits = axis == Ok(front.len())
                && [a, b].iter().all(|v| shape(*v).last() == Some(&Dim::Known(1)))
                && *two == Dim::Known(2)
                && others == same
                && *whole == n.clone() * two.clone();
            fits.then_some(([joined, stacked], [a, b]))
        };
        let Some((nodes, values)) = chain() else { return false };
        let placement = goal.placement.with_axis();
        self.attempt(|search| {
            search.nodes.extend(nodes.map(|id| (id, goal.word)));
            let mut next = goal.next;
            for (pattern, value) in parts.iter().zip(values).rev() {
                let placement = placement.clone();
                next = search.push(Goal { pattern, value, placement, next, ..goal.clone() });
            }
            search.solve(next)
        })
    }
}

/// Returns `true` if the last axes are equal, or `to` has a unit axis after it.
fn ends_alike(from: &[Dim], to: &[Dim]) -> bool {
    match to {
        [.., last, one] if *one == Dim::Known(1) => from.last() == Some(last),
        _ => from.last() == to.last(),
    }
}
