//! Matches a spelling against the graph.
//!
//! The matcher handles variations that spellings do not mention: the order of commutative operands,
//! constants rounded to their type, `x - c` for `x + -c` and `x / c` for `x · 1/c`, added and
//! removed unit axes, explicit broadcasts, and casts to other floats and back.

mod look;
mod parts;

pub(crate) use look::Seen;
pub(super) use look::{expected, may_be, seen};

use onnx::operators::{Axes, Operator, Trait};
use onnx::{Attr, BlockId, Graph, NodeId, ValueId};
use smallvec::SmallVec;
use tensor::division::product;
use tensor::{DType, Dim};

use super::pattern::{Attribute, Name, Node, Pattern, Spelling, respelled};
use super::placement::Placement;
use super::upstream;

/// The binding of a name.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    /// A value and the placement of its axes.
    Value(ValueId, Placement),
    /// A number.
    Number(f64),
    /// The axes that a reduction reduces, in order, and the shape that they refer to.
    Axes(SmallVec<[usize; 4]>, Vec<Dim>),
    /// An attribute.
    Attr(Attr),
}

impl Bound {
    /// Returns the number of elements that a reduction of these axes combines.
    pub(super) fn count(&self) -> Option<Dim> {
        let Self::Axes(axes, shape) = self else { return None };
        let dims: Vec<Dim> = axes.iter().filter_map(|axis| shape.get(*axis)).cloned().collect();
        Some(product(&dims))
    }
}

/// A successful match.
#[derive(Debug)]
pub(super) struct Finding {
    /// The bindings of the names. Later entries override earlier ones.
    pub(super) bound: Vec<(Name, Bound)>,
    /// The matched nodes, including the root, each with the word that it belongs to.
    pub(super) nodes: Vec<(NodeId, &'static str)>,
}

/// The form of a constant: unchanged, negated or inverted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Written {
    Plain,
    Negated,
    Inverted,
}

/// A pattern that is still to be matched.
#[derive(Clone, Debug)]
struct Goal<'p> {
    pattern: &'p Pattern,
    value: ValueId,
    placement: Placement,
    written: Written,
    word: &'static str,
    next: Option<usize>,
}

/// The maximum number of steps of a search. Spellings are small, so a longer search will not
/// succeed.
const STEPS: u32 = 4096;

/// The smallest float from which a 64-bit float cannot represent every integer.
const MOST_INTEGER: f64 = 9_007_199_254_740_992.0;

/// Matches `spelling` at `root`.
pub(super) fn find(graph: &Graph, root: NodeId, spelling: &Spelling) -> Option<Finding> {
    find_given(graph, root, spelling, Vec::new(), Some(graph.node(root).block()))
}

/// Matches `spelling` at `root`, with some names already bound. All nodes must belong to `block`, if
/// it is given.
pub(super) fn find_given(
    graph: &Graph,
    root: NodeId,
    spelling: &Spelling,
    bound: Vec<(Name, Bound)>,
    block: Option<BlockId>,
) -> Option<Finding> {
    let [value] = *graph.node(root).outputs else { return None };
    let placement = Placement::identity(graph.ty(value).rank())?;
    let pattern = &Pattern::Node(spelling.pattern.clone());
    let goal = Goal { pattern, value, placement, written: Written::Plain, word: "", next: None };
    let mut search = Search { graph, block, bound, nodes: Vec::new(), goals: Vec::new(), steps: 0 };
    search.pursue(goal, &[], None).then_some(Finding { bound: search.bound, nodes: search.nodes })
}

/// Returns `true` if the matcher may look through `node`.
fn is_transparent(node: &onnx::Node) -> bool {
    node.is_reshape() || matches!(node.op.name, "Cast" | "Expand" | "Identity")
}

struct Search<'p, 'g> {
    graph: &'g Graph,
    /// The block that all nodes belong to, if that matters.
    block: Option<BlockId>,
    bound: Vec<(Name, Bound)>,
    nodes: Vec<(NodeId, &'static str)>,
    goals: Vec<Goal<'p>>,
    steps: u32,
}

impl<'p, 'g> Search<'p, 'g> {
    /// Runs `attempt`, and restores the state of the search if it fails.
    fn attempt(&mut self, attempt: impl FnOnce(&mut Self) -> bool) -> bool {
        let (bound, nodes, goals) = (self.bound.len(), self.nodes.len(), self.goals.len());
        let found = attempt(self);
        if !found {
            self.bound.truncate(bound);
            self.nodes.truncate(nodes);
            self.goals.truncate(goals);
        }
        found
    }

    /// Returns `true` if `node` may be part of a match.
    fn is_here(&self, node: &onnx::Node) -> bool {
        self.block.is_none_or(|block| block == node.block())
    }

    /// Returns the producer of `value`, if it may be part of a match and is one of `ops`.
    fn producer(&self, value: ValueId, ops: &[&str]) -> Option<(NodeId, &'g onnx::Node)> {
        let id = self.graph.producer(value)?;
        let node = self.graph.node(id);
        (self.is_here(node) && ops.iter().any(|op| node.is(op))).then_some((id, node))
    }

    fn push(&mut self, goal: Goal<'p>) -> Option<usize> {
        self.goals.push(goal);
        Some(self.goals.len() - 1)
    }

    /// Solves `goal`, which was reached through `nodes`, and all goals after it.
    fn pursue(&mut self, goal: Goal<'p>, nodes: &[NodeId], bound: Option<(Name, Bound)>) -> bool {
        self.attempt(|search| {
            search.bound.extend(bound);
            search.nodes.extend(nodes.iter().map(|id| (*id, goal.word)));
            let at = search.push(goal);
            search.solve(at)
        })
    }

    /// Adds a binding and solves the goals after `goal`.
    fn bind(&mut self, bound: Option<(Name, Bound)>, goal: &Goal<'p>) -> bool {
        self.attempt(|search| {
            search.bound.extend(bound);
            search.solve(goal.next)
        })
    }

    /// Solves the goal at `at` and all goals after it.
    fn solve(&mut self, at: Option<usize>) -> bool {
        let Some(at) = at else { return true };
        self.steps += 1;
        if self.steps > STEPS {
            return false;
        }
        let goal = self.goals[at].clone();
        let plain = goal.written == Written::Plain;
        match goal.pattern {
            Pattern::Value(name) => plain && self.value(*name, &goal),
            Pattern::Optional(_) => false,
            Pattern::Number(_) | Pattern::Hole(_) | Pattern::Count(_) => self.constant(&goal),
            Pattern::Spread(inner) => plain && self.spread(inner, &goal),
            Pattern::Part(part, of, whole) => plain && self.part(*part, of, *whole, &goal),
            Pattern::Moved(inner) => plain && self.moved(inner, &goal),
            Pattern::Interleaved(parts) => plain && self.interleaved(parts, &goal),
            Pattern::Node(node) => plain && self.node(node, &goal),
            Pattern::Word(word, patterns) => patterns
                .iter()
                .any(|pattern| self.pursue(Goal { pattern, word, ..goal.clone() }, &[], None)),
        }
    }

    fn get(&self, name: Name) -> Option<&Bound> {
        self.bound.iter().rev().find(|(known, _)| *known == name).map(|(_, bound)| bound)
    }

    fn value(&mut self, name: Name, goal: &Goal<'p>) -> bool {
        let placement = match self.get(name) {
            None => Some(goal.placement.clone()),
            Some(Bound::Value(value, placement)) if *value == goal.value => {
                placement.unified(&goal.placement, &self.graph.ty(*value).shape)
            }
            Some(Bound::Value(..)) => None,
            Some(_) => return false,
        };
        match placement {
            Some(placement) => self.bind(Some((name, Bound::Value(goal.value, placement))), goal),
            None => self.through(goal),
        }
    }

    /// Matches a constant, possibly reshaped.
    fn constant(&mut self, goal: &Goal<'p>) -> bool {
        let is_plain = goal.written == Written::Plain;
        let number = self.number(goal.value, goal.written);
        let bound = number.and_then(|(number, dtype)| match goal.pattern {
            // The maximum of a number and `-0.0` may be `-0.0`.
            Pattern::Number(0.0) if number == 0.0 && is_plain => {
                number.is_sign_positive().then_some(None)
            }
            Pattern::Number(wanted) => is_close(number, *wanted, dtype).then_some(None),
            Pattern::Hole(name) => match self.get(*name) {
                None => Some(Some((*name, Bound::Number(number)))),
                Some(Bound::Number(known)) => is_close(number, *known, dtype).then_some(None),
                Some(_) => None,
            },
            Pattern::Count(axes) => {
                let count = self.get(*axes)?.count()?.as_known()?;
                #[expect(clippy::cast_precision_loss, reason = "the model also counts in floats")]
                is_close(number, count as f64, dtype).then_some(None)
            }
            _ => None,
        });
        if let Some(bound) = bound {
            return self.bind(bound, goal);
        }
        if let Pattern::Count(axes) = goal.pattern
            && is_plain
            && self.get(*axes).and_then(Bound::count).is_some_and(|n| self.is_size(goal.value, &n))
        {
            return self.solve(goal.next);
        }
        self.through(goal)
    }

    /// Returns `true` if `value` is the size `count` as a number of any type.
    fn is_size(&self, value: ValueId, count: &Dim) -> bool {
        let mut sources = upstream(self.graph, value, |node| node.is("Cast"));
        let content = sources.find_map(|source| self.graph.content(source));
        content.is_some_and(|content| content == std::slice::from_ref(count))
    }

    /// Returns the number that all elements of the constant `value` share. Parameters may change,
    /// so they do not count as constants.
    fn number(&self, value: ValueId, written: Written) -> Option<(f64, DType)> {
        let tensor = self.graph.constant(value)?;
        let number = tensor.splat()?;
        if tensor.dtype().is_integer() && number.abs() >= MOST_INTEGER {
            return None;
        }
        let number = match written {
            Written::Plain => number,
            Written::Negated => -number,
            Written::Inverted => number.recip(),
        };
        Some((number, tensor.dtype()))
    }

    /// Matches the goal behind a node that only adds or removes unit axes, broadcasts or rounds.
    fn through(&mut self, goal: &Goal<'p>) -> bool {
        let Some((id, source, placement)) = self.behind(goal.value, &goal.placement) else {
            return false;
        };
        self.pursue(Goal { value: source, placement, ..goal.clone() }, &[id], None)
    }

    fn behind(
        &self,
        value: ValueId,
        placement: &Placement,
    ) -> Option<(NodeId, ValueId, Placement)> {
        let id = self.graph.producer(value)?;
        let node = self.graph.node(id);
        if !self.is_here(node) {
            return None;
        }
        let source = node.input(0)?;
        let (from, to) = (&self.graph.ty(source).shape, &self.graph.ty(value).shape);
        let placement = match node.op.name {
            _ if !node.op.domain.is_empty() => None,
            _ if node.is_reshape() => placement.reshaped(from, to),
            "Expand" if from.len() <= to.len() => placement.operand(from.len()),
            "Identity" => Some(placement.clone()),
            "Cast" if [source, value].iter().all(|v| is_small(self.graph.ty(*v).dtype)) => {
                Some(placement.clone())
            }
            _ => None,
        };
        Some((id, source, placement?))
    }

    /// Matches `inner` behind transposes and reshapes, looking through as few of them as possible.
    fn moved(&mut self, inner: &'p Pattern, goal: &Goal<'p>) -> bool {
        let (mut value, mut placement) = (goal.value, goal.placement.clone());
        let mut nodes = Vec::new();
        loop {
            let goal = Goal { pattern: inner, value, placement, ..goal.clone() };
            if self.pursue(goal, &nodes, None) {
                return true;
            }
            let next = self.graph.producer(value).filter(|id| {
                let node = self.graph.node(*id);
                node.is_movement() && self.is_here(node)
            });
            let source = next.and_then(|id| Some((id, self.graph.node(id).input(0)?)));
            let Some((id, source)) = source else { return false };
            nodes.push(id);
            (value, placement) = (source, Placement::unknown(self.graph.ty(source).rank()));
        }
    }

    /// Matches `[N, G] → [N, G, 1] → [N, G, K] → [N, 1, …, 1, G·K]`.
    fn spread(&mut self, inner: &'p Pattern, goal: &Goal<'p>) -> bool {
        let step = |value, ops: &[&str]| {
            let (id, node) = self.producer(value, ops)?;
            Some((id, node.input(0)?))
        };
        let chain = || {
            let (joined, expanded) = step(goal.value, &["Reshape"])?;
            let (repeated, single) = step(expanded, &["Expand"])?;
            let (added, source) = step(single, &["Reshape", "Unsqueeze"])?;
            let shape = |value| self.graph.ty(value).shape.as_slice();
            let [n, g] = shape(source) else { return None };
            let one = Dim::Known(1);
            let [first, second, k] = shape(expanded) else { return None };
            let (front, back) = shape(goal.value).split_first()?;
            let (channels, ones) = back.split_last()?;
            let fits = shape(single) == [n.clone(), g.clone(), one.clone()]
                && (first, second, front) == (n, g, n)
                && ones.iter().all(|dim| *dim == one)
                && *channels == product(&[g.clone(), k.clone()]);
            fits.then_some(([joined, repeated, added], source))
        };
        let Some((nodes, source)) = chain() else { return false };
        let placement = Placement::unknown(2);
        let goal = Goal { pattern: inner, value: source, placement, ..goal.clone() };
        self.pursue(goal, &nodes, None)
    }

    /// Matches a node of the pattern against the producer of the value.
    fn node(&mut self, pattern: &'p Node, goal: &Goal<'p>) -> bool {
        let graph = self.graph;
        let Some(id) = graph.producer(goal.value) else { return false };
        let node = graph.node(id);
        if !self.is_here(node) || !node.op.domain.is_empty() || node.outputs.len() != 1 {
            return false;
        }
        let found = match node.op.name {
            op if op != pattern.op => {
                let last = if matches!(pattern.op, "Add" | "Sub") {
                    Written::Negated
                } else {
                    Written::Inverted
                };
                respelled(pattern.op) == Some(op)
                    && pattern.ends_in_constant()
                    && self.operands(pattern, id, last, goal)
            }
            _ if reduces(node.operator()) => self.reduction(pattern, id, goal),
            _ => self.operands(pattern, id, Written::Plain, goal),
        };
        found || self.through(goal)
    }

    /// Matches the operands, in either order if the operator is commutative. `last` is the form of
    /// the second operand: `x - c` may be written as `x + -c`.
    fn operands(&mut self, pattern: &'p Node, id: NodeId, last: Written, goal: &Goal<'p>) -> bool {
        let node = self.graph.node(id);
        let inputs = node.inputs.iter().copied().collect::<Option<SmallVec<[_; 4]>>>();
        let Some(mut inputs) = inputs.filter(|inputs| inputs.len() == pattern.args.len()) else {
            return false;
        };
        let both = matches!(*inputs, [a, b] if a != b) && node.operator().has(Trait::Commutative);
        (0..1 + usize::from(both)).any(|order| {
            if order == 1 {
                inputs.swap(0, 1);
            }
            self.attempt(|search| {
                search.attributes(pattern, id) && search.arguments(pattern, id, &inputs, last, goal)
            })
        })
    }

    /// Pushes the arguments as the next goals and solves them.
    fn arguments(
        &mut self,
        pattern: &'p Node,
        id: NodeId,
        inputs: &[ValueId],
        last: Written,
        goal: &Goal<'p>,
    ) -> bool {
        self.nodes.push((id, goal.word));
        let mut next = goal.next;
        for (index, (pattern, &value)) in pattern.args.iter().zip(inputs).enumerate().rev() {
            let rank = self.graph.ty(value).rank();
            let placement = match self.graph.node(id).op.name {
                "MatMul" => Some(Placement::unknown(rank)),
                _ => goal.placement.operand(rank),
            };
            let Some(placement) = placement else { return false };
            let written = if index == 1 { last } else { Written::Plain };
            next = self.push(Goal { pattern, value, placement, written, next, ..*goal });
        }
        self.solve(next)
    }

    /// Returns `true` if the attributes of the node are exactly those of the pattern.
    fn attributes(&mut self, pattern: &Node, id: NodeId) -> bool {
        let node = self.graph.node(id);
        if node.attrs.iter().any(|(name, _)| !pattern.attrs.iter().any(|(known, _)| known == name))
        {
            return false;
        }
        let dtype = self.graph.ty(node.outputs[0]).dtype;
        pattern.attrs.iter().all(|(name, wanted)| {
            let attr = node.attr(name);
            match wanted {
                // The attribute is a rounded constant, because it was a constant before the
                // operator was recognised.
                Attribute::Is(Attr::Float(wanted)) => {
                    matches!(attr, Some(Attr::Float(number))
                        if is_close(f64::from(*number), f64::from(*wanted), dtype))
                }
                Attribute::Is(wanted) => attr == Some(wanted),
                Attribute::Hole(hole) => match (attr, self.get(*hole)) {
                    (Some(attr), None) => {
                        self.bound.push((*hole, Bound::Attr(attr.clone())));
                        true
                    }
                    (Some(attr), Some(Bound::Attr(known))) => attr == known,
                    _ => false,
                },
            }
        })
    }

    fn reduction(&mut self, pattern: &'p Node, id: NodeId, goal: &Goal<'p>) -> bool {
        let node = self.graph.node(id);
        let [operand, Pattern::Hole(name)] = pattern.args.as_slice() else { return false };
        let Some(x) = node.input(0) else { return false };
        let shape = &self.graph.ty(x).shape;
        let axes = self.graph.facts().reduced_axes(node).filter(|axes| !axes.is_empty());
        let Some(axes) = axes.map(SmallVec::<[usize; 4]>::from_vec) else { return false };
        let keep = node.int("keepdims", 1) != 0;
        let Some(placement) = goal.placement.reduced(shape.len(), &axes, keep) else {
            return false;
        };
        let shape = shape.clone();
        match self.get(*name) {
            None => {}
            Some(Bound::Axes(known, whole)) if *known == axes && *whole == shape => {}
            Some(_) => return false,
        }
        let goal = Goal { pattern: operand, value: x, placement, ..*goal };
        self.pursue(goal, &[id], Some((*name, Bound::Axes(axes, shape))))
    }
}

/// Returns `true` for the floats that frameworks cast back and forth: small ones, and the type in
/// which sums are computed.
fn is_small(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16 | DType::F32)
}

/// Returns `true` if the operator is a reduction whose axes may be an operand.
fn reduces(operator: &Operator) -> bool {
    operator.axes == Axes::Reduce
}

/// Returns `true` if a constant of type `dtype` is `wanted`, rounded to that type. Numbers that the
/// type represents exactly are not rounded. Inverses are rounded once more.
fn is_close(number: f64, wanted: f64, dtype: DType) -> bool {
    let Some(digits) = digits(dtype) else { return number == wanted };
    let epsilon = 2f64.powi(1 - digits);
    let tolerance = if has_digits(wanted, digits) { 0.49 * epsilon } else { 2.0 * epsilon };
    number == wanted || (number - wanted).abs() <= tolerance * wanted.abs()
}

/// Returns the number of binary digits of a float type.
pub(super) fn digits(dtype: DType) -> Option<i32> {
    match dtype {
        DType::F64 => Some(53),
        DType::F32 => Some(24),
        DType::F16 => Some(11),
        DType::BF16 => Some(8),
        _ => None,
    }
}

/// Returns `true` if a number has at most this many binary digits.
fn has_digits(number: f64, digits: i32) -> bool {
    // The bits of an `f64` that a type with fewer digits lacks.
    let lacking = 53 - digits;
    number.to_bits() & ((1 << lacking) - 1) == 0
}

#[cfg(test)]
mod tests {
    use super::has_digits;

    #[test]
    fn digits_of_numbers_are_counted() {
        let number = 1.0 + 2f64.powi(-23);
        assert!(has_digits(number, 24));
        assert!(!has_digits(number, 23));
        assert!(has_digits(1.0 + f64::EPSILON, 53));
    }
}
