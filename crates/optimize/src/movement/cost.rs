//! The cost of data movement. The unit is the time to move one element.

use tensor::Dim;

use super::{AxisMap, Movement};

/// The cost of a node that moves elements, in addition to the elements.
pub(crate) const NODE: u64 = 1000;
/// The cost of a node that moves no elements.
pub(crate) const RENAME: u64 = 300;
/// The cost of an `Expand`, which writes more elements than it reads.
pub(super) const REPEAT: u64 = 2 * NODE;
/// The assumed size of a symbolic dimension.
const UNKNOWN: u64 = 16;

/// Returns the number of elements, with an assumed size for symbolic dimensions.
pub(crate) fn elements(shape: &[Dim]) -> u64 {
    let size = |n: i64| u64::try_from(n).unwrap_or(0);
    let sizes = shape.iter().map(|dim| dim.as_known().map_or(UNKNOWN, size));
    sizes.fold(1, u64::saturating_mul)
}

/// Returns the cost of transposing a value of this shape.
pub(crate) fn of_transpose(shape: &[Dim], order: &AxisMap) -> u64 {
    if order.only_renames(shape) { RENAME } else { elements(shape).saturating_add(NODE) }
}

/// Returns the cost of a node of a chain, without the elements, which all chains have in common. Data
/// movement of constants happens only once.
pub(super) fn of_node(is_transpose: bool, is_constant: bool) -> u64 {
    match (is_transpose, is_constant) {
        (true, false) => NODE,
        (false, false) => RENAME,
        (true, true) => NODE / 5,
        (false, true) => RENAME / 3,
    }
}

/// Returns the minimum cost of any data movement.
pub(crate) fn least(is_constant: bool) -> u64 {
    of_node(false, is_constant)
}

/// Returns the cost of a plan.
pub(crate) fn of_plan(steps: &[Movement], is_constant: bool) -> u64 {
    let of = |step: &Movement| of_node(matches!(step, Movement::Transpose(_)), is_constant);
    steps.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_movement_costs_less_than_a_reshape() {
        let reshape = [Movement::Reshape(vec![Dim::Known(6)], vec![Dim::Known(2), Dim::Known(3)])];
        for is_constant in [false, true] {
            assert_eq!(least(is_constant), of_plan(&reshape, is_constant));
            assert!(least(is_constant) < of_node(true, is_constant));
        }
        assert!(of_node(true, true) < of_node(true, false));
        assert!(of_node(false, true) < of_node(false, false));
    }
}
