//! The rewrites, one file each.

mod batch_norm;
mod bits_with_constant_exponent;
mod cast_before_reshape;
mod channels;
mod compose_casts;
mod compose_reshapes;
mod compose_transposes;
mod constant_reshape_target;
mod conv_bias;
mod drop_constant_where;
mod drop_neutral_operand;
mod drop_no_op;
mod drop_operand_broadcast;
mod fold_constants;
mod fold_parameters;
mod join_transposes;
mod keep_reduced_axes;
mod matmul_add_to_gemm;
mod pool_average;
mod product_over_nothing;

use crate::Rewrite;

/// What makes the graph smaller and leaves its operators what they are.
pub(crate) static CLEAN_UP: &[&Rewrite] = &[
    &fold_constants::REWRITE,
    &drop_no_op::REWRITE,
    &drop_constant_where::REWRITE,
    &drop_neutral_operand::REWRITE,
    &product_over_nothing::REWRITE,
    &bits_with_constant_exponent::REWRITE,
    &compose_casts::REWRITE,
    &cast_before_reshape::REWRITE,
    &keep_reduced_axes::REWRITE,
    &compose_reshapes::REWRITE,
    &constant_reshape_target::REWRITE,
    &compose_transposes::REWRITE,
    &drop_operand_broadcast::REWRITE,
    &join_transposes::REWRITE,
];

/// What makes one operator of several.
pub(crate) static FUSE: &[&Rewrite] = &[&matmul_add_to_gemm::REWRITE];

/// What makes one operator of several around convolutions, once they have their layout.
pub(crate) static CONVOLVE: &[&Rewrite] =
    &[&conv_bias::REWRITE, &batch_norm::REWRITE, &pool_average::REWRITE];

/// What is done to parameters once everything is found that people look for by their names.
pub(crate) static PARAMETERS: &[&Rewrite] = &[&fold_parameters::REWRITE];
