//! The axes of values, traced through transposes, reshapes and products, and the cheapest movement from
//! one order of axes to another.
//!
//! An axis is a list of atoms, outermost first: an axis of 512 that is later split into 8 and 64
//! consists of two atoms from the start. A unit axis has no atoms. In these terms, a `Transpose`
//! permutes lists and a `Reshape` regroups them, so the effect of a chain follows from the layouts
//! at its ends.

use onnx::{Graph, NodeId, ValueId};
use tensor::Dim;

use super::{AxisMap, Movement};
use crate::Skip;

/// The axes of a value, each a list of atoms.
pub(crate) type Layout = Vec<Vec<usize>>;

/// Atoms, and the values whose axes consist of them.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Atoms {
    sizes: Vec<Dim>,
    views: Vec<Layout>,
}

impl Atoms {
    /// Adds a value with its own axes. Rejects empty values, whose layout is meaningless.
    pub(crate) fn add(&mut self, shape: &[Dim]) -> Result<usize, Skip> {
        Skip::when(shape.contains(&Dim::Known(0)), "an axis is empty")?;
        let layout = shape.iter().map(|dim| self.axis(dim)).collect();
        Ok(self.view(layout))
    }

    fn axis(&mut self, size: &Dim) -> Vec<usize> {
        if *size == Dim::Known(1) {
            return Vec::new();
        }
        self.sizes.push(size.clone());
        vec![self.sizes.len() - 1]
    }

    /// Adds a value whose axes consist of existing atoms.
    pub(crate) fn view(&mut self, layout: Layout) -> usize {
        self.views.push(layout);
        self.views.len() - 1
    }

    /// Returns the current axes of a value.
    pub(crate) fn layout(&self, view: usize) -> &Layout {
        &self.views[view]
    }

    pub(crate) fn shape(&self, layout: &[Vec<usize>]) -> Vec<Dim> {
        layout.iter().map(|axis| self.size(axis)).collect()
    }

    /// Returns the size of an axis.
    pub(crate) fn size(&self, axis: &[usize]) -> Dim {
        axis.iter().fold(Dim::Known(1), |n, atom| n * self.sizes[*atom].clone())
    }

    /// Returns the atoms of a value that `nodes` move, and its views before and after.
    pub(crate) fn moved(
        graph: &Graph,
        value: ValueId,
        nodes: &[NodeId],
    ) -> Result<(Self, usize, usize), Skip> {
        let mut atoms = Self::default();
        let from = atoms.add(&graph.ty(value).shape)?;
        let to = atoms.view(atoms.layout(from).clone());
        atoms.follow(to, graph, nodes)?;
        Ok((atoms, from, to))
    }

    /// Applies the data movement of a chain to `view`.
    pub(crate) fn follow(
        &mut self,
        view: usize,
        graph: &Graph,
        nodes: &[NodeId],
    ) -> Result<(), Skip> {
        for id in nodes {
            let node = graph.node(*id);
            let [result] = *node.outputs else { return Err("a movement has one result".into()) };
            if node.is("Transpose") {
                let order = AxisMap::of(graph, node).ok_or("the order of axes is not known")?;
                self.views[view] = order.apply(&self.views[view]);
            } else if node.is("Expand") {
                self.expand(view, &graph.ty(result).shape.clone())?;
            } else {
                self.reshape(view, &graph.ty(result).shape.clone())?;
            }
        }
        Ok(())
    }

    /// Adds an atom to `view` for each axis that is repeated.
    fn expand(&mut self, view: usize, to: &[Dim]) -> Result<(), Skip> {
        let added = to.len().checked_sub(self.views[view].len()).ok_or("an axis is missing")?;
        self.views[view].splice(0..0, vec![Vec::new(); added]);
        for (axis, size) in to.iter().enumerate() {
            if self.views[view][axis].is_empty() {
                self.views[view][axis] = self.axis(size);
            } else if self.size(&self.views[view][axis]) != *size {
                return Err("an axis may be repeated or not".into());
            }
        }
        Ok(())
    }

    /// Regroups the atoms of `view`, and splits them where the new axes are finer.
    fn reshape(&mut self, view: usize, to: &[Dim]) -> Result<(), Skip> {
        const OVERLAP: Skip = Skip::Because("axes are cut in a way that is not followed");
        let mut rest: std::collections::VecDeque<_> =
            self.views[view].iter().flatten().copied().collect();
        let mut axes = Layout::new();
        while let Some(size) = to.get(axes.len()) {
            if *size == Dim::Known(1) {
                axes.push(Vec::new());
                continue;
            }
            let atom = *rest.front().ok_or(OVERLAP)?;
            let mut product = Dim::Known(1);
            let several = to[axes.len()..].iter().position(|dim| {
                product = product.clone() * dim.clone();
                product == self.sizes[atom]
            });
            if let Some(last) = several {
                rest.pop_front();
                let parts = &to[axes.len()..=axes.len() + last];
                axes.extend(self.split(atom, parts));
                continue;
            }
            let mut merged = Vec::new();
            while self.size(&merged) != *size {
                let atom = rest.pop_front().ok_or(OVERLAP)?;
                let Some((part, other)) = self.part(&merged, atom, size) else {
                    merged.push(atom);
                    continue;
                };
                // The axis consists of the end of one atom and the beginning of the next.
                let parts = self.split(atom, &[part, other]).concat();
                merged.extend(parts.first());
                parts.get(1).into_iter().for_each(|other| rest.push_front(*other));
            }
            axes.push(merged);
        }
        if !rest.is_empty() {
            return Err(OVERLAP);
        }
        self.views[view] = axes;
        Ok(())
    }

    /// Splits `atom` into the part that an axis of `size` still needs after `merged`, and the
    /// remainder.
    fn part(&self, merged: &[usize], atom: usize, size: &Dim) -> Option<(Dim, Dim)> {
        let (has, size) = (self.size(merged).as_known()?, size.as_known()?);
        let whole = self.sizes[atom].as_known()?;
        let needed = size.checked_div(has).filter(|needed| needed * has == size && *needed > 1)?;
        let fits = needed < whole && whole % needed == 0;
        fits.then(|| (Dim::Known(needed), Dim::Known(whole / needed)))
    }

    /// Splits an atom in every view. Returns one axis per part.
    fn split(&mut self, atom: usize, parts: &[Dim]) -> Layout {
        let is_one = |part: &&Dim| **part == Dim::Known(1);
        if parts.iter().filter(|part| !is_one(part)).count() == 1 {
            let one = |part: &Dim| if is_one(&part) { Vec::new() } else { vec![atom] };
            return parts.iter().map(one).collect();
        }
        let axes: Layout = parts.iter().map(|part| self.axis(part)).collect();
        let fine = axes.concat();
        for axis in self.views.iter_mut().flatten() {
            if let Some(at) = axis.iter().position(|other| *other == atom) {
                axis.splice(at..=at, fine.iter().copied());
            }
        }
        axes
    }

    /// Identifies an axis of one view with an axis of another, atom by atom.
    pub(crate) fn unify(&mut self, a: (usize, usize), b: (usize, usize)) -> Result<(), Skip> {
        const DIFFER: Skip = Skip::Because("axes that belong together are cut differently");
        loop {
            let (x, y) = (&self.views[a.0][a.1], &self.views[b.0][b.1]);
            let mut pairs = x.iter().zip(y);
            let Some(at) = pairs.position(|(x, y)| x != y) else {
                return if x.len() == y.len() { Ok(()) } else { Err(DIFFER) };
            };
            let (from_x, from_y) = (x[at], y[at]);
            let parts = |atom: usize, other: &[usize]| {
                let of = |n: usize| other[at..=at + n].iter().map(|a| self.sizes[*a].clone());
                let size = &self.sizes[atom];
                let is_whole = |n: &usize| of(*n).fold(Dim::Known(1), |a, b| a * b) == *size;
                Some(of((0..other.len() - at).find(is_whole)?).collect::<Vec<_>>())
            };
            if self.sizes[from_x] == self.sizes[from_y] {
                for atom in self.views.iter_mut().flatten().flatten() {
                    if *atom == from_y {
                        *atom = from_x;
                    }
                }
            } else if let Some(parts) = parts(from_x, y) {
                self.split(from_x, &parts);
            } else if let Some(parts) = parts(from_y, x) {
                self.split(from_y, &parts);
            } else {
                return Err(DIFFER);
            }
        }
    }

    /// Unifies the axes of the operands of a `MatMul`, and adds the result.
    pub(crate) fn product(&mut self, a: usize, b: usize) -> Result<usize, Skip> {
        let ranks = [a, b].map(|view| self.views[view].len().checked_sub(2));
        let [Some(last_a), Some(last_b)] = ranks else {
            return Err("an operand is a vector".into());
        };
        self.unify((a, last_a + 1), (b, last_b))?;
        let mut batch = Vec::new();
        for from_end in (1..=last_a.max(last_b)).rev() {
            let (i, j) = (last_a.checked_sub(from_end), last_b.checked_sub(from_end));
            let is_one = |view: usize, axis: usize| self.views[view][axis].is_empty();
            let (i, j) = (i.filter(|i| !is_one(a, *i)), j.filter(|j| !is_one(b, *j)));
            if let (Some(i), Some(j)) = (i, j) {
                self.unify((a, i), (b, j))?;
            }
            batch.push((i, j));
        }
        let axis = |(i, j): &(Option<usize>, Option<usize>)| match (i, j) {
            (Some(i), _) => self.views[a][*i].clone(),
            (None, Some(j)) => self.views[b][*j].clone(),
            (None, None) => Vec::new(),
        };
        let mut result: Layout = batch.iter().map(axis).collect();
        result.push(self.views[a][last_a].clone());
        result.push(self.views[b][last_b + 1].clone());
        Ok(self.view(result))
    }

    /// Returns the cheapest data movement from one layout to another with the same atoms.
    pub(crate) fn plan(&self, from: &Layout, to: &Layout) -> Option<Vec<Movement>> {
        if from == to {
            return Some(Vec::new());
        }
        if from.concat() == to.concat()
            && let Some(step) = self.reshaped(from, to)
        {
            return Some(vec![step]);
        }
        self.transposed_first(from, to)
            .or_else(|| self.reshaped_first(from, to))
            .or_else(|| self.reshaped_twice(from, to))
    }

    fn reshaped(&self, from: &Layout, to: &Layout) -> Option<Movement> {
        Movement::reshape(&self.shape(from), &self.shape(to))
    }

    /// Plans a `Transpose`, followed by a `Reshape` if necessary.
    fn transposed_first(&self, from: &Layout, to: &Layout) -> Option<Vec<Movement>> {
        let flat = to.concat();
        let is_unit = |axis: &usize| from[*axis].is_empty();
        let mut order = Vec::new();
        for axis in (0..from.len()).filter(|axis| !is_unit(axis)) {
            order.push((start_of(&from[axis], &flat)?, axis));
        }
        order.sort_unstable();
        let moved: Vec<usize> = order.into_iter().map(|(_, axis)| axis).collect();
        let mut units = (0..from.len()).filter(is_unit);
        let whole = moved.iter().map(|axis| &from[*axis]);
        if from.len() == to.len() && whole.eq(to.iter().filter(|axis| !axis.is_empty())) {
            let mut moved = moved.into_iter();
            let next =
                |axis: &Vec<usize>| if axis.is_empty() { units.next() } else { moved.next() };
            let perm: Option<Vec<_>> = to.iter().map(next).collect();
            return Some(vec![Movement::Transpose(AxisMap::permutation(perm?))]);
        }
        // Leading unit axes stay in front, because runtimes move single axes fast.
        let first = from.iter().take_while(|axis| axis.is_empty()).count();
        let behind = units.filter(|axis| *axis >= first);
        let perm: Vec<usize> = (0..first).chain(moved).chain(behind).collect();
        let between = perm.iter().map(|axis| from[*axis].clone()).collect();
        Some(vec![Movement::Transpose(AxisMap::permutation(perm)), self.reshaped(&between, to)?])
    }

    /// Plans a `Reshape`, followed by a `Transpose`.
    pub(crate) fn reshaped_first(&self, from: &Layout, to: &Layout) -> Option<Vec<Movement>> {
        let flat = from.concat();
        let mut order = Vec::new();
        let mut last = 0;
        for (index, axis) in to.iter().enumerate() {
            if !axis.is_empty() {
                last = start_of(axis, &flat)?;
            }
            order.push((last, index));
        }
        order.sort_unstable();
        let between: Layout = order.iter().map(|(_, index)| to[*index].clone()).collect();
        let from_where = |index| order.iter().position(|(_, i)| *i == index);
        let perm: Option<Vec<_>> = (0..to.len()).map(from_where).collect();
        Some(vec![self.reshaped(from, &between)?, Movement::Transpose(AxisMap::permutation(perm?))])
    }

    fn reshaped_twice(&self, from: &Layout, to: &Layout) -> Option<Vec<Movement>> {
        let (before, after) = (from.concat(), to.concat());
        let mut blocks = Layout::new();
        for atom in &before {
            let follows = |block: &Vec<usize>| {
                let at = after.iter().position(|other| Some(other) == block.last());
                at.and_then(|at| after.get(at + 1)) == Some(atom)
            };
            match blocks.last_mut().filter(|block| follows(block)) {
                Some(block) => block.push(*atom),
                None => blocks.push(vec![*atom]),
            }
        }
        let place = |block: &Vec<usize>| after.iter().position(|atom| Some(atom) == block.first());
        let mut perm: Vec<usize> = (0..blocks.len()).collect();
        perm.sort_by_key(|block| place(&blocks[*block]));
        let moved: Layout = perm.iter().map(|block| blocks[*block].clone()).collect();
        Some(vec![
            self.reshaped(from, &blocks)?,
            Movement::Transpose(AxisMap::permutation(perm)),
            self.reshaped(&moved, to)?,
        ])
    }
}

/// Returns the position of an axis whose atoms are adjacent in `atoms`.
fn start_of(axis: &[usize], atoms: &[usize]) -> Option<usize> {
    let start = atoms.iter().position(|atom| Some(atom) == axis.first())?;
    (atoms.get(start..start + axis.len())? == axis).then_some(start)
}

#[cfg(test)]
mod tests {
    use provenance::Origins;

    use super::*;
    use crate::testing::graph;

    /// Atoms are split where an axis ends, if their parts have whole sizes.
    #[test]
    fn axes_may_end_within_an_axis_of_a_multiple_size() {
        for (shape, fits) in [
            ("24", true),
            ("12, 2", true),
            ("2, 12", true),
            ("3, 8", true),
            ("2, 3, 2, 2", true),
            ("1, 24, 1", true),
            ("8, 3", false),
            ("4, 6", false),
        ] {
            let text = format!(
                "g (float[6,4] x) => (float[{shape}] y) {{
                    s = Constant <value_ints = [{shape}]> () y = Reshape (x, s) }}"
            );
            let graph = graph(&text, &mut Origins::default());
            let nodes = graph.all_nodes();
            let x = graph.node(nodes[0]).input(0).unwrap();
            assert_eq!(Atoms::moved(&graph, x, &nodes).is_ok(), fits, "{shape}");
        }
    }
}
