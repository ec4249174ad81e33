//! Values that are known before the model runs.

use tensor::Tensor;

use super::{Exactness, Operation, evaluate};
use crate::{Graph, Producer, ValueId};

/// The largest number of elements that are evaluated.
const LARGEST: usize = 4096;
/// The largest number of nodes that are followed.
const STEPS: u32 = 64;

/// Returns `value` as a tensor, if it is small and follows from constants alone.
pub fn known(graph: &Graph, value: ValueId) -> Option<Tensor> {
    find(graph, value, &mut { STEPS })
}

/// Returns the elements of `value` before they are expanded or reshaped, if they are known. Each of
/// them occurs in `value` at least once.
pub fn elements(graph: &Graph, mut value: ValueId) -> Option<Tensor> {
    while let Some(node) = graph.producer(value).map(|id| graph.node(id)) {
        if !["Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze"].iter().any(|op| node.is(op)) {
            return known(graph, value);
        }
        value = node.input(0)?;
    }
    graph.tensor(value).cloned()
}

fn find(graph: &Graph, value: ValueId, steps: &mut u32) -> Option<Tensor> {
    let ty = graph.ty(value);
    let sizes = ty.shape.iter().map(|size| usize::try_from(size.as_known()?).ok());
    let shape = sizes.collect::<Option<Vec<usize>>>()?;
    if shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size))? > LARGEST {
        return None;
    }
    let node = match graph.value(value).producer() {
        Producer::Constant(tensor) | Producer::Parameter(tensor) => return Some(tensor.clone()),
        Producer::Node(node, 0) => graph.node(*node),
        _ => return None,
    };
    if !node.operator().folds() {
        return None;
    }
    *steps = steps.checked_sub(1)?;
    let mut inputs = Vec::new();
    for input in &node.inputs {
        inputs.push(match input {
            Some(input) => Some(find(graph, *input, steps)?),
            None => None,
        });
    }
    let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
    let exactness = Exactness::EachBit;
    let dtype = ty.dtype;
    evaluate(&Operation { node, inputs: &inputs, dtype, shape: &shape, result: 0, exactness }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse;
    use provenance::Origins;

    /// Returns the first result of a graph, if it is known.
    fn first(text: &str, find: fn(&Graph, ValueId) -> Option<Tensor>) -> Option<Vec<i64>> {
        let graph = parse(text, &mut Origins::default()).unwrap();
        let value = graph.block(Graph::MAIN).outputs()[0];
        find(&graph, value)?.to_i64s()
    }

    #[test]
    fn what_follows_from_constants_is_known() {
        let wrapped = "g () => (int32[2,1] y) {
            i = Constant <value = int32[2] {-1, 3}> () z = Constant <value = int32 {0}> ()
            n = Constant <value = int32 {10}> () a = Constant <value_ints = [1]> ()
            below = Less (i, z) added = Add (i, n) chosen = Where (below, added, i)
            y = Unsqueeze (chosen, a) }";
        assert_eq!(first(wrapped, known), Some(vec![9, 3]));
        assert_eq!(first(wrapped, elements), Some(vec![9, 3]));
    }

    /// Returns the elements that a slice takes, counted one by one. Unlike in Python, a slice that
    /// reads backwards from before the first element takes that element.
    fn slice(size: i64, start: i64, end: i64, step: i64) -> Vec<i64> {
        let from_front = |at: i64| if at < 0 { at + size } else { at };
        let (mut at, end) = (from_front(start), from_front(end));
        let mut taken = Vec::new();
        if step > 0 {
            at = at.max(0);
            while at < end.min(size) {
                taken.push(at);
                at += step;
            }
        } else {
            at = at.clamp(0, size - 1);
            while at > end.max(-1) {
                taken.push(at);
                at += step;
            }
        }
        taken
    }

    #[test]
    fn slices_take_the_elements_that_they_name() {
        let size = 4;
        for (start, end) in (-6..=6).flat_map(|start| (-6..=6).map(move |end| (start, end))) {
            for step in [1, 2, 3, -1, -2, -5] {
                let expected = slice(size, start, end, step);
                let text = format!(
                    "g () => (int64[{}] y) {{
                        c = Constant <value_ints = [0, 1, 2, 3]> ()
                        b = Constant <value_ints = [{start}]> ()
                        e = Constant <value_ints = [{end}]> ()
                        a = Constant <value_ints = [-1]> ()
                        s = Constant <value_ints = [{step}]> ()
                        y = Slice (c, b, e, a, s) }}",
                    expected.len()
                );
                let found = first(&text, known);
                // An empty result need not be computed.
                assert!(
                    found.as_ref() == Some(&expected) || (found.is_none() && expected.is_empty()),
                    "{start}:{end}:{step} {found:?}"
                );
            }
        }
    }

    #[test]
    fn inputs_and_what_wraps_around_are_not() {
        for text in [
            "g (int32[2] x) => (int32[2] y) { y = Neg (x) }",
            "g () => (int8 y) { a = Constant <value = int8 {127}> () y = Add (a, a) }",
        ] {
            assert_eq!(first(text, known), None);
            assert_eq!(first(text, elements), None);
        }
    }

    #[test]
    fn elements_do_not_need_a_shape() {
        let text = "g (float[B] x) => (int32[B] y) {
            c = Constant <value = int32 {7}> () s = Shape (x) y = Expand (c, s) }";
        assert_eq!(first(text, known), None);
        assert_eq!(first(text, elements), Some(vec![7]));
    }
}
