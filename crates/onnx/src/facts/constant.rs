//! Constants: values that follow from constants alone.

use rustc_hash::FxHashMap;
use tensor::Tensor;

use super::Facts;
use crate::fold::{Exactness, Operation, evaluate};
use crate::{Node, Producer, ValueId};

/// The largest number of elements of a value that is evaluated exactly.
const ELEMENTS: usize = 4096;

impl Facts<'_> {
    /// Returns the elements of `value`, bit for bit, if there are few and they follow from constants alone.
    pub fn constant(&self, value: ValueId) -> Option<Tensor> {
        let shape = self.sizes(value, ELEMENTS)?;
        let node = match self.graph.value(value).producer() {
            Producer::Constant(tensor) | Producer::Parameter(tensor) => {
                return Some(tensor.clone());
            }
            Producer::Node(id, 0) => self.graph.node(*id),
            _ => return None,
        };
        if !node.operator().folds() {
            return None;
        }
        self.answer(
            |answers| &mut answers.constants,
            &value,
            || self.evaluate(node, value, &shape, Exactness::EachBit, |x| self.constant(x)),
        )?
    }

    /// Returns the elements of `value`, but for rounding, if there are no more than `most` and they follow from
    /// constants other than parameters.
    pub fn approximate(&self, value: ValueId, most: usize) -> Option<Tensor> {
        // Large tensors are not kept.
        self.approximated(value, most, &mut FxHashMap::default())
    }

    fn approximated(
        &self,
        value: ValueId,
        most: usize,
        known: &mut FxHashMap<ValueId, Option<Tensor>>,
    ) -> Option<Tensor> {
        if let Some(tensor) = self.stored(value) {
            return Some(tensor.clone());
        }
        if let Some(found) = known.get(&value) {
            return found.clone();
        }
        let shape = self.sizes(value, most)?;
        let node = self.node(value).filter(|_| known.len() < super::STEPS as usize)?;
        known.insert(value, None);
        let found = self.evaluate(node, value, &shape, Exactness::Rounded, |x| {
            self.approximated(x, most, known)
        });
        known.insert(value, found.clone());
        found
    }

    fn evaluate(
        &self,
        node: &Node,
        value: ValueId,
        shape: &[usize],
        exactness: Exactness,
        mut operand: impl FnMut(ValueId) -> Option<Tensor>,
    ) -> Option<Tensor> {
        if !node.operator().folds() {
            return None;
        }
        let mut inputs = Vec::new();
        for input in &node.inputs {
            inputs.push(match input {
                Some(input) => Some(operand(*input)?),
                None => None,
            });
        }
        let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
        let dtype = self.graph.ty(value).dtype;
        evaluate(&Operation { node, inputs: &inputs, dtype, shape, result: 0, exactness }).ok()
    }

    /// Returns the shape of `value`, if all sizes are known and there are no more than `most` elements.
    fn sizes(&self, value: ValueId, most: usize) -> Option<Vec<usize>> {
        let sizes = self.shape(value).iter().map(|size| usize::try_from(size.as_known()?).ok());
        let sizes = sizes.collect::<Option<Vec<usize>>>()?;
        let count = sizes.iter().try_fold(1usize, |n, size| n.checked_mul(*size))?;
        (count <= most).then_some(sizes)
    }

    /// Returns the elements that `value` is made of, each of them once or more: those of a constant that is then
    /// repeated or reshaped.
    pub fn elements(&self, mut value: ValueId) -> Option<Tensor> {
        while let Some(node) = self.graph.producer(value).map(|id| self.graph.node(id)) {
            if !(node.is_reshape() || node.is("Expand") || node.is("Identity")) {
                return self.constant(value);
            }
            value = node.input(0)?;
        }
        self.graph.tensor(value).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Graph;
    use crate::text::parse;
    use provenance::Origins;

    type Find = fn(&Facts<'_>, ValueId) -> Option<Tensor>;
    const KNOWN: [Find; 2] =
        [|facts, value| facts.constant(value), |facts, value| facts.elements(value)];

    /// Returns the elements that `find` finds of the first result of a graph.
    fn first(text: &str, find: Find) -> Option<Vec<i64>> {
        let graph = parse(text, &mut Origins::default()).unwrap();
        let value = graph.block(Graph::MAIN).outputs()[0];
        find(&graph.facts(), value)?.to_i64s()
    }

    #[test]
    fn constants_are_propagated() {
        let wrapped = "g () => (int32[2,1] y) {
            i = Constant <value = int32[2] {-1, 3}> () z = Constant <value = int32 {0}> ()
            n = Constant <value = int32 {10}> () a = Constant <value_ints = [1]> ()
            below = Less (i, z) added = Add (i, n) chosen = Where (below, added, i)
            y = Unsqueeze (chosen, a) }";
        assert_eq!(KNOWN.map(|find| first(wrapped, find)), [Some(vec![9, 3]), Some(vec![9, 3])]);
    }

    /// Returns the elements that a slice takes, one by one. Unlike in Python, a slice that reads backwards from before
    /// the first element takes that.
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
                let found = first(&text, KNOWN[0]);
                // What has no elements need not be computed.
                assert!(
                    found.as_ref() == Some(&expected) || (found.is_none() && expected.is_empty()),
                    "{start}:{end}:{step} {found:?}"
                );
            }
        }
    }

    #[test]
    fn inputs_and_overflow_are_not_constant() {
        for text in [
            "g (int32[2] x) => (int32[2] y) { y = Neg (x) }",
            "g () => (int8 y) { a = Constant <value = int8 {127}> () y = Add (a, a) }",
        ] {
            assert_eq!(KNOWN.map(|find| first(text, find)), [None, None]);
        }
    }

    #[test]
    fn large_values_are_not_evaluated() {
        for (count, is_known) in [(ELEMENTS, true), (ELEMENTS + 1, false)] {
            let text = format!(
                "g () => (int32[{count}] y) {{
                    c = Constant <value = int32 {{7}}> () s = Constant <value_ints = [{count}]> ()
                    y = Expand (c, s) }}"
            );
            assert_eq!(first(&text, KNOWN[0]).is_some(), is_known, "{count}");
        }
    }

    #[test]
    fn elements_do_not_need_a_shape() {
        let text = "g (float[B] x) => (int32[B] y) {
            c = Constant <value = int32 {7}> () s = Shape (x) y = Expand (c, s) }";
        assert_eq!(KNOWN.map(|find| first(text, find)), [None, Some(vec![7])]);
    }
}
