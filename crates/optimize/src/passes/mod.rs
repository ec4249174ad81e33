//! The passes, one file each.

pub(crate) mod common_subexpressions;
pub(crate) mod eliminate_dead_nodes;
pub(crate) mod layout;
pub(crate) mod merge_duplicate_constants;
pub(crate) mod reshape_parameters;
