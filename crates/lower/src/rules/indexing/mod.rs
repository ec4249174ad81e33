//! Reading and writing at computed positions.

pub(crate) mod dynamic_slice;
pub(crate) mod dynamic_update_slice;
pub(crate) mod gather;
pub(crate) mod indices;
pub(crate) mod scatter;
mod slices;
