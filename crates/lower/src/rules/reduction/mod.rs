//! Reductions, running reductions and ordering along an axis.

pub(crate) mod arg_extremum;
pub(crate) mod collective;
pub(crate) mod cumulative;
pub(crate) mod monoid;
pub(crate) mod reduce;
pub(crate) mod sort;
pub(crate) mod top_k;
