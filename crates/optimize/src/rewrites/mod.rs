//! The rewrites, one file each.

mod add_mask;
mod arrange_product;
pub(crate) mod batch_norm;
mod bias_before_split;
mod bits_with_constant_exponent;
mod cast_before_reshape;
mod channels;
mod compose_casts;
mod compose_concats;
pub(crate) mod compose_reshapes;
pub(crate) mod compose_transposes;
mod constant_reshape_target;
mod conv_bias;
mod conv_padding;
mod cut_triangles;
mod drop_batch_of_one;
mod drop_choice_of_truth;
mod drop_constant_where;
mod drop_counting_from_the_end;
mod drop_known_guard;
mod drop_neutral_operand;
mod drop_no_op;
mod drop_operand_broadcast;
mod drop_unused_padding;
mod expand_what_is_moved;
mod floored_modulo;
mod fold_constants;
mod fold_parameters;
mod gather_from_reversed;
mod gather_from_the_end;
mod gather_known_places;
mod gather_one_place;
mod gather_single_slice;
mod hoist_transposes;
mod join_transposes;
mod keep_reduced_axes;
mod masked;
mod masked_scores;
mod matmul_add_to_gemm;
mod merge_before_transpose;
mod move_blocks;
mod pad_with_one_number;
mod pool_average;
mod reduce_what_is_moved;
mod repeat_pixels;
mod resize_nearest;
mod resize_pixels;
mod reverse_twice;
mod shorten_movements;
mod shrink_constant_operand;
mod simplify_truth;
mod sink_unit_axes;
mod take_from_concat;
mod write_into_buffers;

use crate::Rewrite;
use crate::recognize::resample::weights;

pub(crate) use arrange_product::Arranged;
pub(crate) use fold_constants::Folded;
pub(crate) use masked_scores::Scores;
pub(crate) use shorten_movements::Shortened;

/// Clean-ups: rewrites that make the graph smaller without fusing operators.
pub(crate) static CLEAN_UP: &[&Rewrite] = &[
    &fold_constants::REWRITE,
    &drop_no_op::REWRITE,
    &drop_choice_of_truth::REWRITE,
    &drop_constant_where::REWRITE,
    &drop_known_guard::REWRITE,
    &drop_neutral_operand::REWRITE,
    &bits_with_constant_exponent::REWRITE,
    &simplify_truth::REWRITE,
    &floored_modulo::REWRITE,
    &compose_casts::REWRITE,
    &compose_concats::REWRITE,
    &cast_before_reshape::REWRITE,
    &keep_reduced_axes::REWRITE,
    &compose_reshapes::REWRITE,
    &constant_reshape_target::REWRITE,
    &compose_transposes::REWRITE,
    &shorten_movements::REWRITE,
    &shrink_constant_operand::REWRITE,
    &drop_operand_broadcast::REWRITE,
    &expand_what_is_moved::REWRITE,
    &join_transposes::REWRITE,
    &reduce_what_is_moved::REWRITE,
    &hoist_transposes::REWRITE,
    &sink_unit_axes::REWRITE,
    &take_from_concat::REWRITE,
    &gather_known_places::REWRITE,
    &gather_one_place::REWRITE,
    &gather_from_the_end::REWRITE,
    &gather_from_reversed::REWRITE,
    &reverse_twice::REWRITE,
    &drop_counting_from_the_end::REWRITE,
    &drop_unused_padding::REWRITE,
];

/// Rewrites that fold constants whose last bits may differ from those of a runtime.
pub(crate) static COMPUTE: &[&Rewrite] = &[&fold_constants::ROUNDED];

/// Rewrites that let products read their operands in the existing layout.
pub(crate) static ARRANGE: &[&Rewrite] = &[&arrange_product::REWRITE, &bias_before_split::REWRITE];

/// Rewrites that fuse several operators into one.
pub(crate) static FUSE: &[&Rewrite] = &[
    &move_blocks::DEPTH_TO_SPACE,
    &move_blocks::SPACE_TO_DEPTH,
    &merge_before_transpose::REWRITE,
    &pad_with_one_number::REWRITE,
    &write_into_buffers::REWRITE,
    &repeat_pixels::REWRITE,
    &resize_nearest::REWRITE,
    &weights::REWRITE,
    &matmul_add_to_gemm::REWRITE,
];

/// Rewrites to shorter or faster forms that other rewrites cannot move any more: masks that are not
/// selections, lookups that are not slices.
pub(crate) static SETTLE: &[&Rewrite] = &[
    &add_mask::REWRITE,
    &cut_triangles::REWRITE,
    &gather_single_slice::REWRITE,
    &resize_pixels::REWRITE,
];

/// Rewrites that are named after an operator of pure data movement.
pub(crate) static MOVED: &[&Rewrite] = &[
    &cut_triangles::REWRITE,
    &move_blocks::DEPTH_TO_SPACE,
    &move_blocks::SPACE_TO_DEPTH,
    &write_into_buffers::REWRITE,
];

/// Rewrites that fuse operators around convolutions, once their layout is settled.
pub(crate) static CONVOLVE: &[&Rewrite] =
    &[&conv_bias::REWRITE, &conv_padding::REWRITE, &batch_norm::REWRITE, &pool_average::REWRITE];

/// Rewrites of parameters. They run after all patterns that depend on the names of parameters.
pub(crate) static PARAMETERS: &[&Rewrite] =
    &[&fold_parameters::REWRITE, &drop_batch_of_one::REWRITE];
