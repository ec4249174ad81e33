//! Data movement: operators that move, repeat or create elements without arithmetic.

pub(crate) mod broadcast_in_dim;
pub(crate) mod concatenate;
pub(crate) mod dim_as_value;
pub(crate) mod empty;
pub(crate) mod iota;
pub(crate) mod pad;
pub(crate) mod reshape;
pub(crate) mod rev;
pub(crate) mod slice;
pub(crate) mod split;
pub(crate) mod squeeze;
pub(crate) mod stack;
pub(crate) mod tile;
pub(crate) mod transpose;
