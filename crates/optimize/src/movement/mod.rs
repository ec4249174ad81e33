//! Data movement: operators that move elements without computing anything, described by their
//! effect on axes.
//!
//! - [`Chain`]s of transposes and reshapes become a plan of [`Movement`]s. [`Atoms`] find the cheapest one.
//! - [`mod@push`] moves a permutation, or the removal of unit axes, through an operator, as the column
//!   `axes` of the operator table says. An [`AxisMap`] describes such a movement.
//! - [`cost`] compares alternatives.
//!
//! Rewrites decide about a single node and its neighbours. The layout pass decides about all nodes
//! between convolutions at once.

mod atoms;
mod axis_map;
mod chain;
pub(crate) mod cost;
mod push;

pub(crate) use self::atoms::{Atoms, Layout};
pub(crate) use self::axis_map::AxisMap;
pub(crate) use self::chain::{Chain, Movement, emit, reshaped, transposed, unit_axes};
pub(crate) use self::push::{Change, Pushed, push, set_attr};
