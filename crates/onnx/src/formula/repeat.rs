//! Loops in formulas.

use std::panic::Location;

use crate::attrs;

use super::Num;

/// Repeats `body` while its condition holds, and at most `limit` times.
///
/// The body takes the index of the iteration, from 0, and the values that it returned in the
/// previous iteration, initially `start`. It returns a scalar condition and the next values, whose
/// types do not change. At least one iteration runs.
#[track_caller]
pub fn repeat<'f, const N: usize>(
    limit: u32,
    start: [Num<'f>; N],
    body: impl FnOnce(Num<'f>, [Num<'f>; N]) -> (Num<'f>, [Num<'f>; N]),
) -> [Num<'f>; N] {
    let at = Location::caller();
    let Some(Num { sheet, .. }) = start.first().copied() else { return start };
    let ids = start.map(|num| num.id);
    let inner = sheet.open(&ids);
    let mut inputs = inner.inputs.iter().map(|id| Num { sheet, id: *id });
    let (Some(number), Some(condition)) = (inputs.next(), inputs.next()) else { return start };
    let carry = start.map(|num| inputs.next().unwrap_or(num));
    let (go_on, next) = body(number, carry);
    let results: Vec<_> = [go_on].iter().chain(&next).map(|num| num.id).collect();
    sheet.close(&inner, &results);

    let first = [number.constant(f64::from(limit)).id, condition.constant(1.0).id];
    let operands = [&first[..], &ids].concat();
    let results = sheet.emit("Loop", &operands, attrs! { body: inner.block }, N, at);
    let mut results = results.into_iter().map(|id| Num { sheet, id });
    start.map(|num| results.next().unwrap_or(num))
}

#[cfg(test)]
mod tests {
    use provenance::{Origins, Stage};

    use super::repeat;
    use crate::formula::formulas;
    use crate::text::{parse, print};
    use crate::{Editor, Graph, verify};

    #[test]
    fn a_loop_is_inserted_before_a_node() {
        let mut origins = Origins::default();
        let text = "g (float[N] x) => (float[N] y) { y = Neg (x) }";
        let mut graph = parse(text, &mut origins).unwrap();
        let root = graph.nodes_of(Graph::MAIN).next().unwrap();
        let mut editor = Editor::new(&mut graph, &mut origins, Stage::Rewrite);
        let mark = editor.mark();
        let x = editor.graph().node(root).inputs[0].unwrap();
        let with = formulas(&mut editor.builder("test", root), [x], |[x]| {
            repeat(8, [x], |_, [x]| {
                let next = x * 0.5;
                (next.abs().greater(1.0).any(), [next])
            })
        });
        let with = with.unwrap();
        let fresh = editor.added_since(mark);
        editor.replace("test", root, &with, &fresh).unwrap();
        drop(editor);
        verify(&graph, None).unwrap();
        let text = print(&graph);
        assert!(text.contains("y = Loop (v0, v1, x) <body: graph = body ("), "{text}");
    }
}
