//! Other spellings of operators, for targets that do not accept the usual one or are slow with it, one
//! file each.

mod backwards;
mod counted_loops;
mod distinct_sorts;
mod float_comparisons;
mod half_gemm;
mod nan_tests;
mod norm_biases;
mod padded_updates;
mod raised_expand;
mod raised_scalars;
mod raised_weights;
mod scans;
mod separate_biases;
mod single_updates;
mod stacked_rows;
mod uneven_padding;
mod wide_layers;

pub(super) use backwards::{BACKWARD_LAYERS, BACKWARD_SLICES};
pub(super) use counted_loops::{COUNTED_LOOPS, PLAIN_LOOPS};
pub(super) use distinct_sorts::DISTINCT_SORTS;
pub(super) use float_comparisons::FLOAT_COMPARISONS;
pub(super) use half_gemm::HALF_GEMM;
pub(super) use nan_tests::NAN_TESTS;
pub(super) use norm_biases::NORM_BIASES;
pub(super) use padded_updates::PADDED_UPDATES;
pub(super) use raised_expand::RAISED_EXPAND;
pub(super) use raised_scalars::RAISED_SCALARS;
pub(super) use raised_weights::RAISED_WEIGHTS;
pub(super) use scans::SCANS;
pub(crate) use scans::loop_for_scan;
pub(super) use separate_biases::SEPARATE_BIASES;
pub(super) use single_updates::SINGLE_UPDATES;
pub(super) use stacked_rows::STACKED_ROWS;
pub(super) use uneven_padding::UNEVEN_PADDING;
pub(super) use wide_layers::WIDE_LAYERS;

#[cfg(test)]
pub(super) mod testing {
    use onnx::{check_types, text};
    use provenance::Origins;

    use crate::legalize::{Error, avoid_bugs};
    use crate::testing::graph;
    use crate::{Forms, Target};

    /// Returns the text of a model after its spelling was adapted to a target.
    pub(in crate::targets) fn spelled(model: &str, target: &str) -> Result<String, Error> {
        let mut origins = Origins::default();
        let mut graph = graph(model, &mut origins);
        let target = Target::find(target).unwrap();
        avoid_bugs(&mut graph, &mut origins, 18, target, &Forms::auto(18))?;
        check_types(&graph, 18).unwrap();
        Ok(text::print(&graph))
    }
}
