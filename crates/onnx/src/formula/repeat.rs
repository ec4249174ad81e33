//! Loops in formulas.

use std::panic::Location;

use crate::attrs;

use super::Num;

/// Repeats `body` as long as it says so, and at most `limit` times.
///
/// It is given the number of the round, from 0, and what it returned in the round before, at first
/// `start`; it returns a condition without axes and the next values, whose types do not change. There
/// is at least one round.
#[track_caller]
pub fn repeat<'f, const N: usize>(
    limit: u32,
    start: [Num<'f>; N],
    body: impl FnOnce(Num<'f>, [Num<'f>; N]) -> (Num<'f>, [Num<'f>; N]),
) -> [Num<'f>; N] {
    let at = Location::caller();
    let Some(Num { sheet, .. }) = start.first().copied() else { return start };
    let ids = start.map(|num| num.id);
    let round = sheet.open(&ids);
    let mut inputs = round.inputs.iter().map(|id| Num { sheet, id: *id });
    let (Some(number), Some(condition)) = (inputs.next(), inputs.next()) else { return start };
    let carry = start.map(|num| inputs.next().unwrap_or(num));
    let (go_on, next) = body(number, carry);
    let results: Vec<_> = [go_on].iter().chain(&next).map(|num| num.id).collect();
    sheet.close(&round, &results);

    let first = [number.constant(f64::from(limit)).id, condition.constant(1.0).id];
    let operands = [&first[..], &ids].concat();
    let results = sheet.emit("Loop", &operands, attrs! { body: round.block }, N, at);
    let mut results = results.into_iter().map(|id| Num { sheet, id });
    start.map(|num| results.next().unwrap_or(num))
}
