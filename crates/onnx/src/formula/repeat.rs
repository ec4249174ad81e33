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
