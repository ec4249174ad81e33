//! The passes, one file each.

pub(crate) mod carry_known_values;
pub(crate) mod common_subexpressions;
pub(crate) mod drop_loop_state;
pub(crate) mod eliminate_dead_nodes;
pub(crate) mod hoist_invariants;
pub(crate) mod inline_known_branches;
pub(crate) mod layout;
pub(crate) mod merge_duplicate_constants;
pub(crate) mod scan_backwards;
