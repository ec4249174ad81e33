//! A `MatMul` with data movement before and after it → the equivalent arrangement with the least
//! data movement. Operands may be swapped, rows may keep several axes, and a permutation that is
//! undone later is avoided.
//!
//! A product is defined by its axes. Batch axes occur in both operands and the result, rows and
//! columns occur in one operand and the result, and summed axes do not occur in the result. All
//! arrangements compute the same sums, although a runtime may add them in another order.
//!
//! A batch axis along which an operand is repeated, such as the heads that share keys and values,
//! does not occur in that operand: it is an axis of rows or columns.

use std::rc::Rc;

use onnx::{NodeId, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::movement::{Atoms, Chain, Layout, Movement, cost, emit};
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite::with("arrange_product", |op| op.is_movement() || op.name == "MatMul", try_at);

/// The maximum number of unit axes to prepend.
const ONES: usize = 2;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let y = m.result()?;
    Skip::when(is_moved_on(m, y), "the result is moved again later")?;
    let after = Chain::to(m, y);
    let matmul =
        m.producer(after.source, &["MatMul"]).ok_or("the moved value is not a product")?.clone();
    Skip::when(matmul.block() != m.root().block(), "the product is made elsewhere")?;
    let inner = after.nodes.iter().filter_map(|id| m.graph().node(*id).input(0));
    Skip::when(!inner.clone().all(|value| m.is_used_once(value)), "the product has other readers")?;
    let [Some(a), Some(b)] = *matmul.inputs else { return Err("an operand is left out".into()) };
    let operands = [Chain::with_repeats(m, a), Chain::with_repeats(m, b)];
    if after.nodes.is_empty() && operands.iter().all(|chain| chain.nodes.is_empty()) {
        return Err("nothing moves".into());
    }
    let product = Product::read(m, &operands, &after.nodes)?;

    let graph = m.graph();
    let are_constant = [0, 1].map(|i| graph.tensor(operands[i].source).is_some());
    let now = operands.each_ref().map(|chain| chain.cost(graph, false)).iter().sum::<u64>()
        + after.cost(graph, true);
    let plan = m
        .memory
        .arranged
        .cheapest(Question { product, are_constant, now })
        .ok_or("the product is already arranged as well as possible")?;

    let mut inputs = Vec::new();
    for (side, steps) in [(plan.left, &plan.of_left), (1 - plan.left, &plan.of_right)] {
        let chain = &operands[side];
        inputs.push(Some(emit(m, chain.source, steps, &chain.nodes)?));
    }
    let result = m.like(&matmul, inputs)?;
    Ok(vec![emit(m, result, &plan.after, &after.nodes)?])
}

/// Returns `true` if the only consumer of `value` is another data movement, which is the root to
/// rewrite instead.
fn is_moved_on(m: &Match<'_>, value: ValueId) -> bool {
    let Some((reader, 0)) = m.graph().value(value).only_consumer() else { return false };
    let reader = m.graph().node(reader);
    reader.is_movement() && reader.block() == m.root().block()
}

/// The key of a cached plan: everything that the choice of an arrangement depends on.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Question {
    product: Product,
    are_constant: [bool; 2],
    /// The cost of the current data movement.
    now: u64,
}

/// The cached plans. The layers of a model share them.
#[derive(Debug, Default)]
pub(crate) struct Arranged(FxHashMap<Question, Option<Rc<Plan>>>);

impl Arranged {
    fn cheapest(&mut self, question: Question) -> Option<Rc<Plan>> {
        let answer = |q: &Question| q.product.cheapest(q.are_constant, q.now).map(Rc::new);
        self.0.entry(question).or_insert_with_key(answer).clone()
    }
}

/// A product, as the axes of its operands before all data movement, and of its result after it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Product {
    atoms: Atoms,
    operands: [Layout; 2],
    result: Layout,
}

/// An arrangement: the index of the left operand, and the axes of both operands and the result.
struct Arrangement {
    left: usize,
    of_left: Layout,
    of_right: Layout,
    of_result: Layout,
    /// The cost of treating rows as a batch, which splits one large product into small ones.
    spread: u64,
}

/// The data movement that an arrangement requires.
#[derive(Debug)]
struct Plan {
    left: usize,
    of_left: Vec<Movement>,
    of_right: Vec<Movement>,
    after: Vec<Movement>,
}

impl Product {
    fn read(m: &Match<'_>, operands: &[Chain; 2], after: &[NodeId]) -> Result<Self, Skip> {
        let mut atoms = Atoms::default();
        let mut views = [(0, 0); 2];
        for (chain, view) in operands.iter().zip(&mut views) {
            let source = atoms.add(&m.ty(chain.source).shape)?;
            let moved = atoms.view(atoms.layout(source).clone());
            atoms.follow(moved, m.graph(), &chain.nodes)?;
            *view = (source, moved);
        }
        let [(source_a, a), (source_b, b)] = views;
        let result = atoms.product(a, b)?;
        atoms.follow(result, m.graph(), after)?;
        let operands = [source_a, source_b].map(|view| atoms.layout(view).clone());
        let result = atoms.layout(result).clone();
        let [a, b, y] = [&operands[0], &operands[1], &result].map(|layout| layout.concat());
        let repeated = |atom: &usize| a.contains(atom) != b.contains(atom) && !y.contains(atom);
        Skip::when(a.iter().chain(&b).any(repeated), "a summed axis is repeated")?;
        if !y.iter().all(|atom| a.contains(atom) || b.contains(atom)) {
            return Err("both operands are repeated along the same axis".into());
        }
        Ok(Self { atoms, operands, result })
    }

    /// Returns the cheapest plan for the product if it costs less than `now`. Among equal costs,
    /// the plan with the fewest axes wins.
    fn cheapest(&self, are_constant: [bool; 2], now: u64) -> Option<Plan> {
        let mut limit = (now, 0);
        let mut best = None;
        for arrangement in [0, 1].into_iter().flat_map(|left| self.with_left(left)) {
            if let Some((cost, plan)) = self.plan(&arrangement, are_constant, limit) {
                (limit, best) = (cost, Some(plan));
            }
        }
        best
    }

    /// Returns the data movement of an arrangement, if its cost and its number of axes are below
    /// `limit`.
    ///
    /// A lower bound of the cost rules out most arrangements before their data movement is planned.
    fn plan(
        &self,
        arrangement: &Arrangement,
        are_constant: [bool; 2],
        limit: (u64, usize),
    ) -> Option<((u64, usize), Plan)> {
        let Arrangement { left, of_left, of_right, of_result, spread } = arrangement;
        let (left, right) = (*left, 1 - *left);
        let ends = [
            (&self.operands[left], of_left, are_constant[left]),
            (&self.operands[right], of_right, are_constant[right]),
            (of_result, &self.result, false),
        ];
        let axes = of_left.len() + of_right.len();
        let least = ends.iter().map(|(from, to, is_constant)| match from == to {
            true => 0,
            false => cost::least(*is_constant),
        });
        let mut cost_so_far = spread + least.clone().sum::<u64>();
        let mut plans = Vec::with_capacity(ends.len());
        for ((from, to, is_constant), least) in ends.into_iter().zip(least) {
            if (cost_so_far, axes) >= limit {
                return None;
            }
            let steps = self.atoms.plan(from, to)?;
            cost_so_far = cost_so_far - least + cost::of_plan(&steps, is_constant);
            plans.push(steps);
        }
        let [of_left, of_right, after] = plans.try_into().ok()?;
        let cost = (cost_so_far, axes);
        (cost < limit).then_some((cost, Plan { left, of_left, of_right, after }))
    }

    /// Returns the arrangements with a given operand on the left.
    fn with_left(&self, left: usize) -> Vec<Arrangement> {
        let (l, r) = (&self.operands[left], &self.operands[1 - left]);
        let (has_l, has_r, has_y) = (l.concat(), r.concat(), self.result.concat());
        let is_row = |atom: &usize| !has_r.contains(atom);
        let is_column = |atom: &usize| !has_l.contains(atom);
        let wanted = only(&has_y, is_column);
        let mut shapes = Vec::new();
        for order in self.orders(left, &has_l, &has_r, &has_y) {
            let columns = only(&order, is_column);
            let rest = only(&order, |atom| !is_column(atom));
            let after_batch = rest.iter().rposition(|atom| !is_row(atom)).map_or(0, |i| i + 1);
            for cuts in [&self.result, l] {
                let mut lead = groups(&rest[..after_batch], cuts, is_row);
                // A plain matrix on the right accepts rows in any number of axes.
                let mut rows = match after_batch {
                    0 => groups(&rest, cuts, is_row),
                    _ => vec![rest[after_batch..].to_vec()],
                };
                let last = rows.pop().unwrap_or_default();
                lead.append(&mut rows);
                shapes.push((lead, last, columns.clone()));
            }
        }
        // The layouts of the result and the operands as they are, including unit axes.
        if let [lead @ .., rows, columns] = self.result.as_slice() {
            shapes.push((lead.to_vec(), rows.clone(), columns.clone()));
        }
        if let [lead @ .., rows, _] = l.as_slice() {
            shapes.push((lead.to_vec(), rows.clone(), wanted.clone()));
        }
        if let [lead @ .., _, columns] = r.as_slice() {
            shapes.push((lead.to_vec(), only(&has_y, is_row), columns.clone()));
        }

        let summed = |of: &[usize]| only(of, |atom| !has_y.contains(atom));
        let mut sums = vec![summed(&has_l), summed(&has_r)];
        sums.dedup();
        let mut found = Vec::new();
        let mut seen = FxHashSet::default();
        for shape in shapes {
            if !seen.insert(shape.clone()) {
                continue;
            }
            let (lead, rows, columns) = shape;
            let mut all = [lead.concat(), rows.clone(), columns.clone()].concat();
            all.sort_unstable();
            let mut expected = has_y.clone();
            expected.sort_unstable();
            let is_pure = |axis: &Vec<usize>| axis.iter().all(is_row) || !axis.iter().any(is_row);
            let fits = lead.iter().all(is_pure) && rows.iter().all(is_row);
            if all != expected || !fits || !columns.iter().all(is_column) {
                continue;
            }
            let is_plain = lead.iter().flatten().all(is_row);
            let among_batch = only(&lead.concat(), |atom| !is_plain && is_row(atom));
            let spread = self.spread(&among_batch, &rows);
            // Leading unit axes may save a Reshape.
            for ones in 0..=ONES {
                let lead = [vec![Vec::new(); ones], lead.clone()].concat();
                let batch = lead.iter().map(|axis| only(axis, |atom| !is_row(atom)));
                let batch: Layout = batch.collect();
                let front = batch.iter().take_while(|axis| axis.is_empty()).count();
                for (sum, skipped) in sums.iter().flat_map(|sum| (0..=front).map(move |n| (sum, n)))
                {
                    found.push(Arrangement {
                        left,
                        of_left: joined(&lead, &rows, sum),
                        of_right: joined(&batch[skipped..], sum, &columns),
                        of_result: joined(&lead, &rows, &columns),
                        spread,
                    });
                }
            }
        }
        found
    }

    /// Returns the cost of a batch of products: a few products with many rows are as good as one,
    /// many products with few rows are not.
    fn spread(&self, among_batch: &[usize], rows: &[usize]) -> u64 {
        let size = |axis: &[usize]| self.atoms.shape(&[axis.to_vec()])[0].as_known();
        match (size(among_batch), size(rows)) {
            (Some(1), _) => 0,
            (Some(products), Some(rows)) if products > rows => 3 * cost::NODE,
            (None, _) => 3 * cost::NODE,
            _ => cost::least(true),
        }
    }

    /// Returns the candidate orders of the result's axes, with columns last: the order of the
    /// result or of an operand, optionally with the batch first.
    fn orders(&self, left: usize, l: &[usize], r: &[usize], y: &[usize]) -> Vec<Vec<usize>> {
        let of = |side: usize| only(&self.operands[side].concat(), |atom| y.contains(atom));
        let mut orders = Vec::new();
        for by in [y.to_vec(), of(left), of(1 - left)] {
            // An operand lacks the axes that only the other one has. They follow in the order of
            // the result.
            let by: Vec<usize> =
                by.iter().chain(y.iter().filter(|atom| !by.contains(atom))).copied().collect();
            let columns = |atom: &usize| !l.contains(atom);
            let rows = |atom: &usize| !r.contains(atom);
            orders.push([only(&by, |atom| !columns(atom)), only(&by, columns)].concat());
            let batch = only(&by, |atom| !columns(atom) && !rows(atom));
            orders.push([batch, only(&by, rows), only(&by, columns)].concat());
        }
        orders.sort_unstable();
        orders.dedup();
        orders
    }
}

fn only(atoms: &[usize], keep: impl Fn(&usize) -> bool) -> Vec<usize> {
    atoms.iter().copied().filter(keep).collect()
}

fn joined(lead: &[Vec<usize>], a: &[usize], b: &[usize]) -> Layout {
    [lead, &[a.to_vec(), b.to_vec()]].concat()
}

/// Groups atoms into axes. A new axis starts where `cuts` has a boundary, and between rows and
/// other atoms.
fn groups(atoms: &[usize], cuts: &Layout, is_row: impl Fn(&usize) -> bool) -> Layout {
    let mut groups = Layout::new();
    for atom in atoms {
        let follows = |last: &usize| {
            let mut axes = cuts.iter().flat_map(|axis| axis.windows(2));
            is_row(last) == is_row(atom) && axes.any(|pair| pair == [*last, *atom])
        };
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(follows) => group.push(*atom),
            _ => groups.push(vec![*atom]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use tensor::Dim;

    use super::{Atoms, Product, REWRITE, cost, groups};
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn rows_keep_several_axes() {
        rewrites_to(
            &REWRITE,
            "g (float[B,T,6] x, float[6,5] w) => (float[B,T,5] y) {
                a = Constant <value_ints = [-1, 6]> ()
                r = Reshape (x, a)
                p = MatMul (r, w)
                s = Shape <start = 0, end = 2> (x)
                n = Constant <value_ints = [5]> ()
                t = Concat <axis = 0> (s, n)
                y = Reshape (p, t)
            }",
            "g (float[B,T,6] x, float[6,5] w) => (float[B,T,5] y) {
                y = MatMul (x, w)
            }",
        );
    }

    #[test]
    fn operands_are_swapped() {
        rewrites_to(
            &REWRITE,
            "g (float[B,3] x) => (float[B,2] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}> {
                t = Transpose (x)
                p = MatMul (w, t)
                y = Transpose (p)
            }",
            "g (float[B,3] x) => (float[B,2] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}> {
                v0 = Transpose <perm = [1, 0]> (w)
                y = MatMul (x, v0)
            }",
        );
    }

    #[test]
    fn a_matrix_of_probabilities_does_not_move() {
        rewrites_to(
            &REWRITE,
            "g (float[B,8,T,T] p, float[B,T,8,64] v) => (float[B,T,512] y) {
                l = Transpose <perm = [0, 2, 3, 1]> (v)
                r = Transpose <perm = [0, 1, 3, 2]> (p)
                o = MatMul (l, r)
                t = Transpose <perm = [0, 3, 1, 2]> (o)
                a = Constant <value_ints = [0, 0, 512]> ()
                y = Reshape (t, a)
            }",
            "g (float[B,8,T,T] p, float[B,T,8,64] v) => (float[B,T,512] y) {
                v0 = Transpose <perm = [0, 2, 1, 3]> (v)
                v1 = MatMul (p, v0)
                v2 = Transpose <perm = [0, 2, 1, 3]> (v1)
                a = Constant <value_ints = [0, 0, 512]> ()
                y = Reshape (v2, a)
            }",
        );
    }

    #[test]
    fn groups_of_queries_are_a_batch() {
        rewrites_to(
            &REWRITE,
            "g (float[2,16,6,8] q, float[2,16,3,8] k) => (float[2,2,3,16,16] y) {
                a = Constant <value_ints = [2, 16, 3, 2, 8]> ()
                r = Reshape (q, a)
                t = Transpose <perm = [0, 2, 1, 3, 4]> (r)
                b = Constant <value_ints = [2, 3, 32, 8]> ()
                l = Reshape (t, b)
                u = Transpose <perm = [0, 2, 3, 1]> (k)
                s = MatMul (l, u)
                c = Constant <value_ints = [2, 3, 16, 2, 16]> ()
                f = Reshape (s, c)
                y = Transpose <perm = [3, 0, 1, 2, 4]> (f)
            }",
            "g (float[2,16,6,8] q, float[2,16,3,8] k) => (float[2,2,3,16,16] y) {
                a = Constant <value_ints = [2, 16, 3, 2, 8]> ()
                v1 = Reshape (q, a)
                v2 = Transpose <perm = [3, 0, 2, 1, 4]> (v1)
                v3 = Transpose <perm = [0, 2, 3, 1]> (k)
                y = MatMul (v2, v3)
            }",
        );
    }

    #[test]
    fn heads_that_share_keys_are_rows() {
        rewrites_to(
            &REWRITE,
            "g (float[B,6,T,8] q, float[B,3,8,S] k) => (float[B,6,T,S] y) {
                one = Constant <value_ints = [2]> ()
                u = Unsqueeze (k, one)
                n = Constant <value_ints = [1, 1, 2, 1, 1]> ()
                e = Expand (u, n)
                a = Constant <value_ints = [0, 6, 8, -1]> ()
                r = Reshape (e, a)
                y = MatMul (q, r)
            }",
            "g (float[B,6,T,8] q, float[B,3,8,S] k) => (float[B,6,T,S] y) {
                v0 = Constant <value_ints = [0, 3, -1, 8]> ()
                v1 = Reshape (q, v0)
                v2 = MatMul (v1, k)
                v3 = Constant <value_ints = [0, 6, -1, 0]> ()
                y = Reshape (v2, v3)
            }",
        );
    }

    #[test]
    fn good_arrangements_are_unchanged() {
        for text in [
            // Repeats along an axis that both operands lack, and along a summed one.
            "g (float[1,T,8] x, float[1,8,S] k) => (float[6,T,S] y) {
                n = Constant <value_ints = [6, 1, 1]> ()
                a = Expand (x, n)
                b = Expand (k, n)
                y = MatMul (a, b)
            }",
            "g (float[T,1] x, float[8,S] k) => (float[T,S] y) {
                n = Constant <value_ints = [1, 8]> ()
                a = Expand (x, n)
                y = MatMul (a, k)
            }",
            "g (float[B,T,6] x, float[6,5] w) => (float[B,T,5] y) { y = MatMul (x, w) }",
            "g (float[5,6] x, float[5,7] w) => (float[6,7] y) {
                t = Transpose (x)
                y = MatMul (t, w)
            }",
            // Sums over an axis that the operands split differently.
            "g (float[6,4] x, float[6,7] w) => (float[4,7] y) {
                a = Constant <value_ints = [4, 6]> ()
                r = Reshape (x, a)
                y = MatMul (r, w)
            }",
            "g (float[6] x, float[6,7] w) => (float[7] y) { y = MatMul (x, w) }",
        ] {
            stays(&REWRITE, text);
        }
    }

    #[test]
    fn many_small_products_cost_more_than_a_few_large_ones() {
        let mut atoms = Atoms::default();
        let sizes = [Dim::Known(4), Dim::Known(8), Dim::Known(4), Dim::var("B")];
        let view = atoms.add(&sizes).unwrap();
        let [four, eight, other, symbolic] =
            [0, 1, 2, 3].map(|axis| atoms.layout(view)[axis].clone());
        let empty = || [Vec::new(), Vec::new()];
        let product = Product { atoms, operands: empty(), result: Vec::new() };
        let spread = |batch: &[usize], rows: &[usize]| product.spread(batch, rows);
        assert_eq!(spread(&[], &eight), 0);
        assert!(spread(&four, &eight) > 0);
        assert_eq!(spread(&four, &other), spread(&four, &eight));
        assert_eq!(spread(&four, &symbolic), spread(&four, &eight));
        assert!(spread(&eight, &four) > cost::NODE);
        assert_eq!(spread(&symbolic, &eight), spread(&eight, &four));
    }

    #[test]
    fn axes_end_at_cuts_and_between_rows_and_others() {
        let cuts = vec![vec![0, 1], vec![2]];
        assert_eq!(groups(&[0, 1, 2], &cuts, |_| true), [vec![0, 1], vec![2]]);
        assert_eq!(groups(&[1, 0, 2], &cuts, |_| true), [[1], [0], [2]]);
        assert_eq!(groups(&[0, 1, 2], &cuts, |atom| *atom == 0), [[0], [1], [2]]);
        assert_eq!(groups(&[0, 1], &cuts, |atom| *atom == 2), [[0, 1]]);
    }
}
