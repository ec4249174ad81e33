//! `Loop` with a known number of iterations → `Scan` over the numbers of the iterations, for targets without loops.

use onnx::{Graph, NodeId, Op, ValueId, attrs};
use std::panic::Location;
use tensor::{DType, Tensor};

use crate::Roots;
use crate::legalize::{Error, Legalizer, made_by};
use crate::loops::Loop;
use crate::targets::Bug;

pub(in crate::targets) static COUNTED_LOOPS: Bug =
    Bug { name: "counted_loops", roots: Roots::Named(&["Loop"]), avoid };

/// Targets that ignore the condition of a loop, and do not stack results.
pub(in crate::targets) static PLAIN_LOOPS: Bug =
    Bug { name: "plain_loops", roots: Roots::Named(&["Loop"]), avoid: avoid_unless_plain };

/// The largest number of iterations, which are stored.
const LONGEST: i64 = 1 << 20;

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let Some(found) = Loop::at(work.graph(), id) else { return Ok(()) };
    let node = work.graph().node(id).clone();
    let Some(count) = iterations(work.graph(), &found) else {
        let dtype = node.outputs.first().map_or(DType::Bool, |v| work.graph().ty(*v).dtype);
        let reason = "it has no loops, except those with a fixed number of iterations";
        return Err(work.unsupported(id, dtype, reason));
    };
    let block = work.graph().block(found.body);
    let (mut inputs, mut outputs) = (block.inputs.clone(), block.outputs().to_vec());
    let mut initial = node.inputs[2..].to_vec();
    let is_read = work.graph().value(inputs[0]).is_used();
    // Scans whose elements are not read are not accepted either.
    let counter = if is_read { None } else { Counter::of(work.graph(), &found) };
    let always = work.edit.graph_mut().intern_constant(Tensor::bools(&[], &[true]));
    work.edit.replace_uses(inputs[1], always);
    outputs.remove(0);
    let mut element = inputs[0];
    if let Some(counter) = &counter {
        element = inputs[2 + counter.position];
        inputs.remove(2 + counter.position);
        outputs.remove(counter.position);
        initial.remove(counter.position);
    }
    inputs.drain(..2);
    inputs.push(element);
    work.edit.graph_mut().set_outputs(found.body, &outputs);
    work.edit.set_inputs(found.body, inputs);
    if let Some(counter) = &counter {
        work.edit.remove_dead(counter.advance);
    }
    // The body moves to the new node.
    work.edit.attrs_mut(id).clear();
    let b = &mut work.builder(id);
    let numbers = match &counter {
        Some(counter) => {
            #[expect(clippy::cast_possible_truncation, reason = "the cast restores the bits")]
            let numbers: Vec<i64> = (0..count).map(|n| counter.at(n) as i64).collect();
            let numbers = b.i64s(&numbers);
            b.cast(numbers, counter.dtype)?
        }
        None => b.i64s(&(0..count).collect::<Vec<_>>()),
    };
    initial.push(Some(numbers));
    let attrs = attrs! { body: found.body, num_scan_inputs: 1 };
    let made = node.outputs.len() - usize::from(counter.is_some());
    let mut results = b.emit(Op::onnx("Scan"), initial, attrs, made, Location::caller())?;
    if let Some(counter) = &counter {
        let last = b.int(counter.dtype, counter.at(count))?;
        results.insert(counter.position, last);
    }
    Ok(work.substitute(id, &results)?)
}

/// A carried scalar that grows by a constant in each iteration.
struct Counter {
    /// The index among the carried values.
    position: usize,
    /// The node that computes the next value.
    advance: NodeId,
    initial: i64,
    step: i64,
    dtype: DType,
    /// The smallest and the largest value of the type.
    range: (i128, i128),
}

impl Counter {
    /// Returns a counter of a loop.
    fn of(graph: &Graph, found: &Loop) -> Option<Self> {
        let scalar = |value: ValueId| match *graph.constant(value)?.to_i64s()? {
            [number] if graph.ty(value).shape.is_empty() => Some(number),
            _ => None,
        };
        found.state(graph).iter().enumerate().find_map(|(position, carried)| {
            let dtype = graph.ty(carried.inside).dtype;
            let (range, initial) = (dtype.int_range()?, scalar(carried.initial)?);
            let advance = graph.producer(carried.next)?;
            let next = graph.node(advance);
            let step = match (next.input(0)?, next.input(1)?) {
                (x, step) | (step, x) if next.is("Add") && x == carried.inside => scalar(step)?,
                _ => return None,
            };
            Some(Self { position, advance, initial, step, dtype, range })
        })
    }

    /// Returns the value at the start of an iteration, which wraps around.
    fn at(&self, iteration: i64) -> i128 {
        let (initial, step) = (i128::from(self.initial), i128::from(self.step));
        let value = initial + step * i128::from(iteration);
        let (low, high) = self.range;
        (value - low).rem_euclid(high - low + 1) + low
    }
}

fn avoid_unless_plain(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let Some(found) = Loop::at(work.graph(), id) else { return Ok(()) };
    let stacks = work.graph().node(id).outputs.len() > found.carried;
    if is_unconditional(work.graph(), &found) && !stacks { Ok(()) } else { avoid(work, id) }
}

/// Returns the number of iterations of a loop whose condition always holds.
fn iterations(graph: &Graph, found: &Loop) -> Option<i64> {
    let count = graph.constant(graph.node(found.id).input(0)?)?.to_i64s()?;
    let [count] = *count.as_slice() else { return None };
    let is_stored = (0..=LONGEST).contains(&count);
    (is_stored && is_unconditional(graph, found)).then_some(count)
}

/// Returns `true` if the number of iterations alone ends the loop.
fn is_unconditional(graph: &Graph, found: &Loop) -> bool {
    let node = graph.node(found.id);
    let holds = |value: ValueId| graph.facts().truth(value) == Some(true);
    let block = graph.block(found.body);
    let (given, Some(&next)) = (block.inputs[1], block.outputs().first()) else { return false };
    let is_passed_on =
        made_by(graph, next, "Identity").is_some_and(|node| node.input(0) == Some(given));
    let goes_on = next == given || is_passed_on || holds(next);
    goes_on && node.input(0).is_some() && node.input(1).is_none_or(holds)
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    fn counted(goes_on: &str, target: &str) -> Result<String, crate::legalize::Error> {
        let text = format!(
            "g (float[B] x) => (float[B] y) {{
                n = Constant <value = int64 {{4}}> ()
                yes = Constant <value = bool {{1}}> ()
                y = Loop <body = b (int64 i, bool c, float[B] s) => (bool d, float[B] t) {{
                    f = Cast <to = 1> (i)
                    t = Add (s, f)
                    z = ReduceSum <keepdims = 0> (t)
                    d = {goes_on}
                }}> (n, yes, x)
            }}"
        );
        spelled(&text, target)
    }

    #[test]
    fn a_fixed_number_of_iterations_is_scanned() {
        let text = counted("Identity (c)", "tract").unwrap();
        assert!(text.contains("Scan") && !text.contains("Loop"), "{text}");
        assert!(counted("Identity (c)", "onnxruntime").unwrap().contains("Loop"));
    }

    #[test]
    fn a_counter_is_scanned_in_place_of_numbers_that_nothing_reads() {
        let text = "g (float[B] x) => (float[B] y) {
            n = Constant <value = int64 {4}> ()
            yes = Constant <value = bool {1}> ()
            five = Constant <value = int32 {5}> ()
            k, y = Loop <body = b (int64 i, bool c, int32 j, float[B] s) => (bool d, int32 l, float[B] t) {
                one = Constant <value = int32 {1}> ()
                f = Cast <to = 1> (j)
                t = Add (s, f)
                l = Add (j, one)
                d = Identity (c)
            }> (n, yes, five, x)
        }";
        let scanned = spelled(text, "tract").unwrap();
        assert!(scanned.contains("[5, 6, 7, 8]"), "{scanned}");
        assert!(!scanned.contains("Loop") && !scanned.contains("int32 j,"), "{scanned}");
        let powers = spelled(&text.replace("Add (j, one)", "Mul (j, one)"), "tract").unwrap();
        assert!(!powers.contains("[5, 6, 7, 8]") && powers.contains("int32 j,"), "{powers}");
    }

    #[test]
    fn a_counter_wraps_around() {
        let text = "g (float[B] x) => (uint32 k, float[B] y) {
            n = Constant <value = int64 {3}> ()
            yes = Constant <value = bool {1}> ()
            five = Constant <value = uint32 {5}> ()
            k, y = Loop <body = b (int64 i, bool c, uint32 j, float[B] s) => (bool d, uint32 l, float[B] t) {
                step = Constant <value = uint32 {2654435769}> ()
                f = Cast <to = 1> (j)
                t = Add (s, f)
                l = Add (j, step)
                d = Identity (c)
            }> (n, yes, five, x)
        }";
        let scanned = spelled(text, "tract").unwrap();
        assert!(scanned.contains("[5, 2654435774, 1013904247]"), "{scanned}");
        assert!(scanned.contains("3668340016"), "{scanned}");
        let large = text.replace("uint32", "uint64").replace("{5}", "{18446744073709551614}");
        assert!(!spelled(&large, "tract").unwrap().contains("Loop"));
        let large = text.replace("uint32", "int64").replace("2654435769", "9223372036854775807");
        assert!(spelled(&large, "tract").unwrap().contains("-9223372036854775804"));
    }

    #[test]
    fn a_loop_that_stacks_nothing_stays() {
        assert!(counted("Identity (c)", "iree").unwrap().contains("Loop"));
        assert!(counted("Less (z, f)", "iree").is_err());
    }

    #[test]
    fn a_conditional_loop_is_an_error() {
        let error = counted("Less (z, f)", "tract").unwrap_err();
        let message = "tract cannot compute `Loop` on f32: it has no loops, except those with a fixed number of iterations";
        assert_eq!(error.to_string(), message);
    }
}
