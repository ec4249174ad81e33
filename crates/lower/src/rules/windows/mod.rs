//! Convolutions, pooling and other sliding windows.

pub(crate) mod conv_general_dilated;
pub(crate) mod reduce_window;
pub(crate) mod reduce_window_max;
pub(crate) mod reduce_window_min;
pub(crate) mod reduce_window_sum;
pub(crate) mod same_padding;
pub(crate) mod select_and_gather_add;
pub(crate) mod select_and_scatter_add;
pub(crate) mod shifted_slices;
pub(crate) mod window;
