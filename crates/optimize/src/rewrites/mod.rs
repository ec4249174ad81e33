//! The rewrites, one file each.

mod activate_groups;
mod add_mask;
mod arrange_product;
mod bias_before_split;
mod bits_with_constant_exponent;
mod cast_before_reshape;
mod center_variance;
pub(crate) mod channels;
mod compose_casts;
mod compose_concats;
mod compose_movements;
mod conv_bias;
mod conv_padding;
mod cumulative_product;
mod cut_triangles;
mod drop_batch_of_one;
mod drop_choice_of_truth;
mod drop_counting_from_the_end;
mod drop_known_guard;
mod drop_neutral_operand;
mod drop_no_op;
mod drop_operand_broadcast;
mod drop_unused_padding;
mod expand_after_movement;
mod floored_modulo;
mod fold_batch_norm;
mod fold_constants;
mod fold_parameters;
mod gather_constant_indices;
mod gather_from_reversed;
mod gather_from_the_end;
mod gather_single_slice;
mod hoist_transposes;
mod keep_reduced_axes;
mod masked;
mod masked_scores;
mod matmul_add_to_gemm;
mod merge_before_transpose;
mod move_blocks;
mod narrow_gather_indices;
mod normalize_groups;
mod pad_with_one_number;
mod padding;
mod pool_average;
mod reduce_after_movement;
mod repeat_pixels;
mod resize_nearest;
mod resize_pixels;
mod reverse_twice;
pub(crate) mod round_once;
mod shrink_constant_operand;
mod simplify_truth;
mod sink_unit_axes;
mod skip_normalization;
mod take_from_concat;
pub(crate) mod write_into_buffers;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::Rewrite;
use crate::recognize::{batch_norm, resample};
use crate::runner::Rules;

pub(crate) use arrange_product::Arranged;
pub(crate) use fold_constants::Folded;
pub(crate) use masked_scores::Scores;

/// A group of rewrites that are applied together until none of them matches.
///
/// `pipeline.rs` schedules the phases among the passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// Removes and shortens nodes. Results stay the same bit for bit.
    Simplify,
    /// Evaluates constants whose last bits may differ from a runtime's.
    Evaluate,
    /// Lets products read their operands without moving them first.
    ArrangeProducts,
    /// Recognises products with interpolation weights as `Resize`.
    Resample,
    /// Replaces several operators by one.
    Fuse,
    /// Fuses operators around convolutions, after the layout pass.
    FuseConvolutions,
    /// Chooses forms that nothing can be moved through: masks that are not `Where`, lookups that are not `Slice`.
    Settle,
    /// Computes parameters from parameters, after all patterns that need the original ones.
    FoldParameters,
}

impl Phase {
    /// The name that errors mention.
    fn name(self) -> &'static str {
        match self {
            Phase::Simplify => "simplify",
            Phase::Evaluate => "evaluate",
            Phase::ArrangeProducts => "arrange products",
            Phase::Resample => "resample",
            Phase::Fuse => "fuse",
            Phase::FuseConvolutions => "fuse convolutions",
            Phase::Settle => "settle",
            Phase::FoldParameters => "fold parameters",
        }
    }

    /// Returns the rewrites of this phase; `None` if there are none.
    pub(crate) fn rules(self) -> Option<&'static Rules<'static, Rewrite>> {
        static RULES: LazyLock<FxHashMap<Phase, Rules<'static, Rewrite>>> = LazyLock::new(|| {
            let mut phases: FxHashMap<Phase, Vec<&Rewrite>> = FxHashMap::default();
            for (phase, rewrite) in REWRITES {
                phases.entry(*phase).or_default().push(rewrite);
            }
            let rules = |(phase, rewrites): (Phase, _)| (phase, Rules::new(phase.name(), rewrites));
            phases.into_iter().map(rules).collect()
        });
        RULES.get(&self)
    }
}

/// All rewrites. Within a phase, the first one that matches a node is applied.
///
/// A rewrite with the name of an operator emits that operator, whose form users can choose.
pub(crate) static REWRITES: &[(Phase, &Rewrite)] = &[
    (Phase::Simplify, &fold_constants::REWRITE),
    (Phase::Simplify, &drop_no_op::REWRITE),
    (Phase::Simplify, &drop_choice_of_truth::REWRITE),
    (Phase::Simplify, &drop_known_guard::REWRITE),
    (Phase::Simplify, &drop_neutral_operand::REWRITE),
    (Phase::Simplify, &bits_with_constant_exponent::REWRITE),
    (Phase::Simplify, &simplify_truth::REWRITE),
    (Phase::Simplify, &floored_modulo::REWRITE),
    (Phase::Simplify, &compose_casts::REWRITE),
    (Phase::Simplify, &compose_concats::REWRITE),
    (Phase::Simplify, &cast_before_reshape::REWRITE),
    (Phase::Simplify, &keep_reduced_axes::REWRITE),
    (Phase::Simplify, &compose_movements::REWRITE),
    (Phase::Simplify, &drop_operand_broadcast::REWRITE),
    (Phase::Simplify, &shrink_constant_operand::REWRITE),
    (Phase::Simplify, &expand_after_movement::REWRITE),
    (Phase::Simplify, &reduce_after_movement::REWRITE),
    (Phase::Simplify, &hoist_transposes::REWRITE),
    (Phase::Simplify, &sink_unit_axes::REWRITE),
    (Phase::Simplify, &take_from_concat::REWRITE),
    (Phase::Simplify, &gather_constant_indices::REWRITE),
    (Phase::Simplify, &narrow_gather_indices::REWRITE),
    (Phase::Simplify, &gather_from_the_end::REWRITE),
    (Phase::Simplify, &gather_from_reversed::REWRITE),
    (Phase::Simplify, &reverse_twice::REWRITE),
    (Phase::Simplify, &drop_counting_from_the_end::REWRITE),
    (Phase::Simplify, &drop_unused_padding::REWRITE),
    (Phase::Evaluate, &fold_constants::ROUNDED),
    (Phase::ArrangeProducts, &arrange_product::REWRITE),
    (Phase::ArrangeProducts, &bias_before_split::REWRITE),
    (Phase::Resample, &resample::REWRITE),
    (Phase::Fuse, &move_blocks::DEPTH_TO_SPACE),
    (Phase::Fuse, &move_blocks::SPACE_TO_DEPTH),
    (Phase::Fuse, &merge_before_transpose::REWRITE),
    (Phase::Fuse, &pad_with_one_number::REWRITE),
    (Phase::Fuse, &write_into_buffers::REWRITE),
    (Phase::Fuse, &center_variance::REWRITE),
    (Phase::Fuse, &cumulative_product::REWRITE),
    (Phase::Fuse, &repeat_pixels::REWRITE),
    (Phase::Fuse, &resize_nearest::REWRITE),
    (Phase::Fuse, &resample::weights::REWRITE),
    (Phase::Fuse, &matmul_add_to_gemm::REWRITE),
    (Phase::Fuse, &round_once::REWRITE),
    (Phase::FuseConvolutions, &conv_bias::REWRITE),
    (Phase::FuseConvolutions, &conv_padding::REWRITE),
    (Phase::FuseConvolutions, &batch_norm::REWRITE),
    (Phase::FuseConvolutions, &round_once::REWRITE),
    (Phase::FuseConvolutions, &pool_average::REWRITE),
    (Phase::Settle, &add_mask::REWRITE),
    (Phase::Settle, &normalize_groups::REWRITE),
    (Phase::Settle, &round_once::REWRITE),
    (Phase::Settle, &activate_groups::REWRITE),
    (Phase::Settle, &cut_triangles::REWRITE),
    (Phase::Settle, &gather_single_slice::REWRITE),
    (Phase::Settle, &resize_pixels::REWRITE),
    (Phase::Settle, &skip_normalization::REWRITE),
    (Phase::FoldParameters, &fold_parameters::REWRITE),
    (Phase::FoldParameters, &fold_batch_norm::REWRITE),
    (Phase::FoldParameters, &drop_batch_of_one::REWRITE),
];
