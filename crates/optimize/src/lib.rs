//! Optimisation: rewrites and passes on the graph; `legalize` adapts it to a target.

pub mod legalize;
